//! The tables of a database file, for tests that look at them or damage them.

use std::{fs, path::Path};

const PAGE: usize = 4096;
/// Bytes of a page in the file: with its checksum and its number.
const STORED: usize = PAGE + 8;
const SLOTS: [usize; 2] = [8192, 12288];
const PAGES: usize = 16384;
/// Bytes of redb's header in a slot; its sequence number follows.
const HEADER: usize = 512;

/// Opens the tables of a database. The file becomes a redb file without pages of ours, as older versions wrote it; an
/// engine that opens it for writing makes pages of it again.
pub(crate) fn open_tables(path: &Path) -> redb::Database {
    let bytes = fs::read(path).unwrap();
    if !bytes.starts_with(b"redb") {
        let number = |slot: usize| u64::from_le_bytes(*bytes[slot + HEADER..].first_chunk().unwrap());
        let newest = SLOTS.into_iter().max_by_key(|&slot| number(slot)).unwrap();
        let mut plain = bytes[newest..newest + HEADER].to_vec();
        plain.resize(PAGE, 0);
        bytes[PAGES..].chunks_exact(STORED).for_each(|page| plain.extend_from_slice(&page[..PAGE]));
        fs::write(path, plain).unwrap();
    }
    redb::Database::open(path).unwrap()
}

//! The description at the beginning of a page file, and the kinds of files.

use std::io;

use redb::StorageBackend;
use uuid::Uuid;

use super::seal::{KEY_CHECK, Seal, Sealer};

/// Bytes of a page as redb sees it.
pub(super) const PAGE: usize = 4096;
/// Bytes of redb's header that are kept. redb 4 uses 320; the rest of its page 0 is zero.
pub(super) const HEADER: usize = 512;

/// Positions of the two descriptions. redb locks bytes of the first, which no process may then read on Windows; nothing
/// locks the second.
pub(super) const DESCRIPTIONS: [u64; 2] = [0, 4096];
/// Positions of the two slots of redb's header.
pub(super) const SLOTS: [u64; 2] = [8192, 12288];
/// Position of page 1.
const PAGES: u64 = 16384;

/// Returns the length for redb of a file with this length. A page that is not there as a whole does not count.
pub(super) fn logical_len(physical: u64, trailer: usize) -> u64 {
    match physical.checked_sub(PAGES) {
        Some(pages) => (1 + pages / (PAGE + trailer) as u64) * PAGE as u64,
        None => 0,
    }
}

/// Returns the length of the file that has this length for redb, a multiple of [`PAGE`].
pub(super) fn physical_len(logical: u64, trailer: usize) -> u64 {
    match logical / PAGE as u64 {
        0 => SLOTS[0],
        pages => position(pages, trailer),
    }
}

/// Returns the position of a page, from 1.
pub(super) fn position(page: u64, trailer: usize) -> u64 {
    PAGES + (page - 1) * (PAGE + trailer) as u64
}

const MAGIC: [u8; 16] = *b"mnemon database\n";
/// The version of the layout of page files.
const VERSION: u32 = 1;
const REDB_MAGIC: [u8; 9] = *b"redb\x1A\x0A\xA9\x0D\x0A";

const VERSION_AT: usize = 16;
const SEAL_AT: usize = 20;
const FILE_ID_AT: usize = 24;
const KEY_CHECK_AT: usize = 40;
const CHECKSUM_AT: usize = KEY_CHECK_AT + KEY_CHECK;
const END: usize = CHECKSUM_AT + 4;
/// A whole sector, so that a write of it is not torn.
const BLOCK: usize = 512;

/// Bytes at the beginning of a file that [`kind`] needs.
pub(in crate::store) const KIND_BYTES: usize = DESCRIPTIONS[1] as usize + BLOCK;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store) enum FileKind {
    /// No bytes.
    Empty,
    /// A page file. Its description may still be damaged.
    Pages,
    /// A redb file without pages of ours.
    Redb,
    Other,
}

/// Tells the kind of a file from its first [`KIND_BYTES`] bytes, or from all of a shorter file.
pub(in crate::store) fn kind(first: &[u8]) -> FileKind {
    let begins = |at: u64, magic: &[u8]| first.get(at as usize..).is_some_and(|bytes| bytes.starts_with(magic));
    if first.is_empty() {
        FileKind::Empty
    } else if DESCRIPTIONS.iter().any(|&at| begins(at, &MAGIC)) {
        FileKind::Pages
    } else if begins(0, &REDB_MAGIC) {
        FileKind::Redb
    } else {
        FileKind::Other
    }
}

/// The reason why a page file was not opened.
#[derive(Debug, thiserror::Error)]
pub(in crate::store) enum OpenPagesError {
    #[error("it is not a page file")]
    NotPages,
    #[error("it is of a newer version of mnemon (version {0} of its pages)")]
    NewerVersion(u32),
    #[error("both copies of its description are damaged")]
    Damaged,
    #[error("it is encrypted")]
    KeyNeeded,
    #[error("it is not encrypted")]
    NotEncrypted,
    #[error("it is encrypted with another key")]
    WrongKey,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Writes both descriptions of a new file.
pub(super) fn write(inner: &dyn StorageBackend, seal: &Seal) -> io::Result<Sealer> {
    // Unique, which is all that it is for.
    let file_id = Uuid::now_v7().into_bytes();
    let sealer = Sealer::new(seal, file_id);
    let mut block = [0; BLOCK];
    block[..VERSION_AT].copy_from_slice(&MAGIC);
    block[VERSION_AT..SEAL_AT].copy_from_slice(&VERSION.to_le_bytes());
    block[SEAL_AT..FILE_ID_AT].copy_from_slice(&seal.number().to_le_bytes());
    block[FILE_ID_AT..KEY_CHECK_AT].copy_from_slice(&file_id);
    block[KEY_CHECK_AT..CHECKSUM_AT].copy_from_slice(&sealer.key_check()?);
    let checksum = crc32fast::hash(&block[..CHECKSUM_AT]);
    block[CHECKSUM_AT..END].copy_from_slice(&checksum.to_le_bytes());
    inner.set_len(0)?;
    inner.set_len(SLOTS[0])?;
    for at in DESCRIPTIONS {
        inner.write(at, &block)?;
    }
    Ok(sealer)
}

/// Reads the first description that is sound, and checks the key.
pub(super) fn read(inner: &dyn StorageBackend, seal: &Seal) -> Result<Sealer, OpenPagesError> {
    let length = inner.len()?;
    let mut block = [0; BLOCK];
    let mut problem = OpenPagesError::NotPages;
    for at in DESCRIPTIONS.into_iter().filter(|at| at + BLOCK as u64 <= length) {
        match inner.read(at, &mut block) {
            Ok(()) if is_sound(&block) => return check(&block, seal),
            Ok(()) if block.starts_with(&MAGIC) => problem = OpenPagesError::Damaged,
            Ok(()) => {}
            Err(error) => problem = error.into(),
        }
    }
    Err(problem)
}

fn is_sound(block: &[u8; BLOCK]) -> bool {
    block.starts_with(&MAGIC) && number(block, CHECKSUM_AT) == crc32fast::hash(&block[..CHECKSUM_AT])
}

fn check(block: &[u8; BLOCK], seal: &Seal) -> Result<Sealer, OpenPagesError> {
    let version = number(block, VERSION_AT);
    if version != VERSION {
        return Err(OpenPagesError::NewerVersion(version));
    }
    match (number(block, SEAL_AT), seal.number()) {
        (found, given) if found == given => {}
        (Seal::CHECKSUM, _) => return Err(OpenPagesError::NotEncrypted),
        (_, Seal::CHECKSUM) => return Err(OpenPagesError::KeyNeeded),
        _ => return Err(OpenPagesError::NewerVersion(version)),
    }
    let file_id = block[FILE_ID_AT..KEY_CHECK_AT].try_into().expect("the range has the length of an id");
    let sealer = Sealer::new(seal, file_id);
    if sealer.accepts(&block[KEY_CHECK_AT..CHECKSUM_AT]) { Ok(sealer) } else { Err(OpenPagesError::WrongKey) }
}

fn number(block: &[u8; BLOCK], at: usize) -> u32 {
    u32::from_le_bytes(*block[at..].first_chunk().expect("the block has room for a number"))
}

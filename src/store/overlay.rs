//! A view of a database file whose writes stay in memory: a file that may not be written can be repaired, upgraded and
//! checked in it, and its bytes do not change.

use std::{
    collections::{HashMap, hash_map::Entry},
    fs::File,
    io,
    ops::Bound,
    path::Path,
};

use parking_lot::RwLock;
use redb::{BackendError, DatabaseError, StorageBackend, backends::FileBackend};

use crate::error::impl_debug;

/// Bytes of a page of the overlay.
const PAGE: u64 = 4096;

/// A file that is only read, under the pages that were written.
///
/// It holds shared locks where redb asks for exclusive ones. Any number of overlays and readers may have the file open,
/// and no writer may: none of the file's pages can change under the overlay.
pub(super) struct Overlay {
    file: FileBackend,
    written: RwLock<Written>,
}

impl_debug!(Overlay { file });

struct Written {
    /// The length of the database.
    len: u64,
    /// The bytes at the beginning of the file that are still part of the database.
    from_file: u64,
    /// Written pages by their number.
    pages: HashMap<u64, Box<[u8; PAGE as usize]>>,
}

impl Overlay {
    /// Opens a file for reading.
    pub(super) fn open(path: &Path) -> Result<Self, DatabaseError> {
        let file = FileBackend::new(File::open(path)?)?;
        let len = file.len()?;
        Ok(Overlay { file, written: RwLock::new(Written { len, from_file: len, pages: HashMap::new() }) })
    }

    /// Reads bytes of the file. Bytes after its end are zero.
    fn read_file(&self, from_file: u64, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let stored = from_file.saturating_sub(offset).min(out.len() as u64) as usize;
        let (stored, beyond) = out.split_at_mut(stored);
        beyond.fill(0);
        if stored.is_empty() { Ok(()) } else { self.file.read(offset, stored) }
    }
}

/// Splits a range of bytes at the borders of pages: the number of each page, the offset in it, and the length.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + len as u64;
    (offset / PAGE..end.div_ceil(PAGE)).map(move |page| {
        let begin = offset.max(page * PAGE);
        (page, (begin - page * PAGE) as usize, (end.min((page + 1) * PAGE) - begin) as usize)
    })
}

impl StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.written.read().len)
    }

    fn read(&self, offset: u64, mut out: &mut [u8]) -> io::Result<()> {
        let written = self.written.read();
        if offset + out.len() as u64 > written.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (page, begin, len) in pieces(offset, out.len()) {
            let (piece, rest) = out.split_at_mut(len);
            match written.pages.get(&page) {
                Some(bytes) => piece.copy_from_slice(&bytes[begin..begin + len]),
                None => self.read_file(written.from_file, page * PAGE + begin as u64, piece)?,
            }
            out = rest;
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut written = self.written.write();
        written.len = len;
        written.from_file = written.from_file.min(len);
        written.pages.retain(|page, _| page * PAGE < len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, mut data: &[u8]) -> io::Result<()> {
        let Written { from_file, pages, .. } = &mut *self.written.write();
        for (page, begin, len) in pieces(offset, data.len()) {
            let bytes = match pages.entry(page) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let mut bytes = Box::new([0; PAGE as usize]);
                    self.read_file(*from_file, page * PAGE, &mut bytes[..])?;
                    entry.insert(bytes)
                }
            };
            bytes[begin..begin + len].copy_from_slice(&data[..len]);
            data = &data[len..];
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

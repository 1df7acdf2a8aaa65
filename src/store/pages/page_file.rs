//! The storage backend that proves its pages.

use std::{io, ops::Bound, sync::Arc};

use redb::{BackendError, StorageBackend};

use super::{
    description::{self, HEADER, OpenPagesError, PAGE, logical_len, physical_len, position},
    seal::{Seal, Sealer},
    slots::Slots,
    state::{DamagedPage, PageState, damaged},
};
use crate::error::impl_debug;

/// A file of pages with trailers, for redb, over a storage backend that has the bytes of the file.
///
/// redb reads and writes whole pages, except in the first 512 bytes, where its header is; other ranges are refused.
/// Several pages are read or written in one call of the backend below, and a read fails as a whole if a page of it does
/// not verify.
pub(in crate::store) struct PageFile {
    inner: Box<dyn StorageBackend>,
    sealer: Sealer,
    slots: Slots,
    state: Arc<PageState>,
    takes_locks: bool,
}

impl_debug!(PageFile { inner, state });

impl PageFile {
    /// Makes `inner` an empty page file. redb syncs it when it creates its database.
    pub(in crate::store) fn create(inner: Box<dyn StorageBackend>, seal: &Seal) -> io::Result<Self> {
        let sealer = description::write(&*inner, seal)?;
        Ok(Self::new(inner, sealer))
    }

    /// Opens a page file.
    pub(in crate::store) fn open(inner: Box<dyn StorageBackend>, seal: &Seal) -> Result<Self, OpenPagesError> {
        let sealer = description::read(&*inner, seal)?;
        Ok(Self::new(inner, sealer))
    }

    fn new(inner: Box<dyn StorageBackend>, sealer: Sealer) -> Self {
        PageFile { inner, sealer, slots: Slots::default(), state: Arc::default(), takes_locks: true }
    }

    /// Takes no locks, and claims that a writer is alive. This is for reading beside a failed handle of this process,
    /// which holds the locks and writes no more: redb would otherwise want to repair the file first.
    pub(in crate::store) fn without_locks(self) -> Self {
        PageFile { takes_locks: false, ..self }
    }

    pub(in crate::store) fn state(&self) -> Arc<PageState> {
        Arc::clone(&self.state)
    }

    /// Reads every page, and names those that do not verify. Pages of zeros, which were never written or lost whole,
    /// are left out.
    pub(in crate::store) fn damaged_pages(&self) -> io::Result<Vec<String>> {
        let trailer = self.sealer.trailer();
        let (mut sealed, mut bytes) = (vec![0; PAGE + trailer], vec![0; PAGE]);
        let mut damaged = Vec::new();
        for page in 1..self.len()? / PAGE as u64 {
            self.inner.read(position(page, trailer), &mut sealed)?;
            if let Err(reason) = self.sealer.open(page, &sealed, &mut bytes)
                && sealed.iter().any(|byte| *byte != 0)
            {
                damaged.push(DamagedPage { page, reason }.to_string());
            }
        }
        Ok(damaged)
    }

    fn read_pages(&self, first: u64, out: &mut [u8]) -> io::Result<()> {
        let trailer = self.sealer.trailer();
        let mut sealed = vec![0; out.len() / PAGE * (PAGE + trailer)];
        self.inner.read(position(first, trailer), &mut sealed)?;
        for (page, (sealed, bytes)) in
            (first..).zip(sealed.chunks_exact(PAGE + trailer).zip(out.chunks_exact_mut(PAGE)))
        {
            self.sealer.open(page, sealed, bytes).map_err(|reason| damaged(DamagedPage { page, reason }))?;
        }
        Ok(())
    }

    fn write_pages(&self, first: u64, data: &[u8]) -> io::Result<()> {
        let trailer = self.sealer.trailer();
        let mut sealed = vec![0; data.len() / PAGE * (PAGE + trailer)];
        for (page, (sealed, bytes)) in
            (first..).zip(sealed.chunks_exact_mut(PAGE + trailer).zip(data.chunks_exact(PAGE)))
        {
            self.sealer.seal(page, bytes, sealed)?;
        }
        self.inner.write(position(first, trailer), &sealed)?;
        if self.state.is_step(sealed.len()) { self.inner.sync_data() } else { Ok(()) }
    }

    fn read_header(&self, at: usize, out: &mut [u8]) -> io::Result<()> {
        if self.len()? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let header = self.slots.read(&*self.inner, &self.sealer)?;
        let kept = HEADER.saturating_sub(at).min(out.len());
        let (kept, beyond) = out.split_at_mut(kept);
        kept.copy_from_slice(&header[HEADER.min(at)..][..kept.len()]);
        beyond.fill(0);
        Ok(())
    }

    /// Runs an operation on the pages of a range, and keeps its first error.
    fn with_range<T>(
        &self,
        operation: &str,
        offset: u64,
        len: usize,
        run: impl FnOnce(u64, usize) -> io::Result<T>,
    ) -> io::Result<T> {
        let (page, at) = (offset / PAGE as u64, (offset % PAGE as u64) as usize);
        let is_whole = at == 0 && len.is_multiple_of(PAGE);
        let in_header = page == 0 && at + len <= PAGE;
        let result = if in_header || page > 0 && is_whole { run(page, at) } else { Err(not_whole(offset, len)) };
        self.state.note(result, || format!("{operation} page {page}"))
    }
}

fn not_whole(offset: u64, len: usize) -> io::Error {
    let range = format!("{len} bytes at {offset} are not whole pages of {PAGE} bytes");
    io::Error::new(io::ErrorKind::InvalidInput, range)
}

impl StorageBackend for PageFile {
    fn len(&self) -> io::Result<u64> {
        let len = self.state.note(self.inner.len(), || "reading the length of the file".into())?;
        Ok(logical_len(len, self.sealer.trailer()))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.with_range("reading", offset, out.len(), |page, at| match page {
            0 => self.read_header(at, out),
            _ => self.read_pages(page, out).or_else(|error| {
                let is_damaged = error.get_ref().is_some_and(|inner| inner.is::<DamagedPage>());
                if !is_damaged || !self.state.is_repairing() {
                    return Err(error);
                }
                // An empty leaf of redb's trees.
                out.fill(0);
                out[0] = 1;
                Ok(())
            }),
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let trailer = self.sealer.trailer();
        let resized = if len.is_multiple_of(PAGE as u64) {
            self.inner.set_len(physical_len(len, trailer))
        } else {
            Err(not_whole(0, len as usize))
        };
        if len == 0 {
            self.slots.clear();
        }
        self.state.note(resized, || "changing the length of the file".into())
    }

    fn sync_data(&self) -> io::Result<()> {
        let synced = self.slots.sync(&*self.inner, &self.sealer, self.state.syncs());
        self.state.note(synced, || "syncing the file".into())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with_range("writing", offset, data.len(), |page, at| match page {
            0 if at + data.len() <= HEADER => self.slots.write(&*self.inner, &self.sealer, &self.state, at, data),
            0 => Err(not_whole(offset, data.len())),
            _ => self.write_pages(page, data),
        })
    }

    fn close(&self) -> io::Result<()> {
        self.state.note(self.inner.close(), || "closing the file".into())
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        if self.takes_locks { self.inner.try_lock_range(start, end) } else { Ok(true) }
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        if self.takes_locks { self.inner.try_lock_shared_range(start, end) } else { Ok(true) }
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        if self.takes_locks { self.inner.lock_range(start, end) } else { Ok(()) }
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        if self.takes_locks { self.inner.lock_shared_range(start, end) } else { Ok(()) }
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        if self.takes_locks { self.inner.unlock_range(start, end) } else { Ok(()) }
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        if self.takes_locks {
            return self.inner.query_lock_range(start, end);
        }
        // redb asks for a single byte to learn of a live writer, and for a range to learn of a process that locks by
        // another protocol.
        Ok(matches!((start, end), (Bound::Included(start), Bound::Included(end)) if start == end))
    }
}

/// The storage backend of a plain redb file. It keeps the first error, as [`PageFile`](super::PageFile) does.
pub(in crate::store) struct PlainFile {
    inner: Box<dyn StorageBackend>,
    state: Arc<PageState>,
}

impl_debug!(PlainFile { inner, state });

impl PlainFile {
    pub(in crate::store) fn new(inner: Box<dyn StorageBackend>) -> Self {
        PlainFile { inner, state: Arc::default() }
    }

    pub(in crate::store) fn state(&self) -> Arc<PageState> {
        Arc::clone(&self.state)
    }
}

impl StorageBackend for PlainFile {
    fn len(&self) -> io::Result<u64> {
        self.state.note(self.inner.len(), || "reading the length of the file".into())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.state.note(self.inner.read(offset, out), || format!("reading {} bytes at {offset}", out.len()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.state.note(self.inner.set_len(len), || "changing the length of the file".into())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.state.note(self.inner.sync_data(), || "syncing the file".into())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.state.note(self.inner.write(offset, data), || format!("writing {} bytes at {offset}", data.len()))
    }

    fn close(&self) -> io::Result<()> {
        self.state.note(self.inner.close(), || "closing the file".into())
    }

    // The locks of a database that no other process may open.
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.inner.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.query_lock_range(start, end)
    }
}

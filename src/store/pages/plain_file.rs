//! A redb file without pages of ours, as mnemon wrote it up to version 0.2.

use std::{io, ops::Bound, sync::Arc};

use redb::{BackendError, StorageBackend};

use super::state::PageState;
use crate::error::impl_debug;

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

//! A file whose calls go through a plan.

use std::{
    io,
    ops::Bound,
    path::{Path, PathBuf},
    sync::Arc,
};

use redb::{BackendError, StorageBackend, backends::FileBackend};

use super::{
    images::Event,
    plan::{Call, Plan},
};

#[derive(Debug)]
pub(crate) struct Faulty {
    path: PathBuf,
    file: FileBackend,
    /// `None`: nothing fails.
    plan: Option<Arc<Plan>>,
}

impl Faulty {
    pub(super) fn new(path: &Path, file: FileBackend, plan: Option<Arc<Plan>>) -> Self {
        if let Some(plan) = &plan {
            plan.with_log(path, |log| log.start(&std::fs::read(path).unwrap_or_default()));
        }
        Faulty { path: path.to_path_buf(), file, plan }
    }

    fn called(&self, call: Call) -> io::Result<()> {
        self.plan.as_ref().map_or(Ok(()), |plan| plan.called(call))
    }

    fn log(&self, event: impl FnOnce() -> Event) {
        if let Some(plan) = &self.plan {
            plan.with_log(&self.path, |log| log.events.push(event()));
        }
    }
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.called(Call::Read)?;
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.called(Call::Truncate)?;
        self.file.set_len(len)?;
        self.log(|| Event::Len(len));
        Ok(())
    }

    /// Does not sync: the page cache survives the test, and the log knows what was synced.
    fn sync_data(&self) -> io::Result<()> {
        self.called(Call::Sync)?;
        self.log(|| Event::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.called(Call::Write)?;
        self.file.write(offset, data)?;
        self.log(|| Event::Write(offset, data.to_vec()));
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

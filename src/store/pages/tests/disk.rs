//! A disk in memory that remembers what was not synced.

use std::{io, ops::Bound, sync::Arc};

use parking_lot::Mutex;
use redb::{BackendError, StorageBackend};

/// A file on a disk. Clones are the same file.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk(Arc<Mutex<Contents>>);

#[derive(Clone, Debug, Default)]
struct Contents {
    bytes: Vec<u8>,
    /// The bytes at the last sync, with every change of the length since.
    synced: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
    failing: bool,
    /// The disk before each sync, if it is recorded.
    before_syncs: Option<Vec<Disk>>,
}

impl Disk {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Disk(Arc::new(Mutex::new(Contents { synced: bytes.clone(), bytes, ..Contents::default() })))
    }

    /// The bytes after the process is killed.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.lock().bytes.clone()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.0.lock().bytes);
    }

    /// Number of writes since the last sync.
    pub(super) fn unsynced(&self) -> usize {
        self.0.lock().unsynced.len()
    }

    /// The bytes after a power failure, of which `kept` says what is left of each write since the last sync.
    pub(super) fn after_power_failure(&self, mut kept: impl FnMut(usize, &[u8]) -> std::ops::Range<usize>) -> Vec<u8> {
        let contents = self.0.lock();
        let mut bytes = contents.synced.clone();
        for (i, (at, data)) in contents.unsynced.iter().enumerate() {
            let kept = kept(i, data);
            if at + kept.end <= bytes.len() {
                bytes[at + kept.start..at + kept.end].copy_from_slice(&data[kept]);
            }
        }
        bytes
    }

    /// Runs `change` and returns the disk as it was before each sync in it.
    pub(super) fn before_syncs(&self, change: impl FnOnce()) -> Vec<Disk> {
        self.0.lock().before_syncs = Some(Vec::new());
        change();
        self.0.lock().before_syncs.take().unwrap_or_default()
    }

    /// Makes every operation from now on fail.
    pub(super) fn fail(&self) {
        self.0.lock().failing = true;
    }

    fn contents(&self) -> io::Result<parking_lot::MutexGuard<'_, Contents>> {
        let contents = self.0.lock();
        if contents.failing { Err(io::Error::other("no space left on device")) } else { Ok(contents) }
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.contents()?.bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let contents = self.contents()?;
        let bytes = contents.bytes.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut contents = self.contents()?;
        contents.bytes.resize(len as usize, 0);
        contents.synced.resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut contents = self.contents()?;
        if let Some(mut disks) = contents.before_syncs.take() {
            disks.push(Disk(Arc::new(Mutex::new(contents.clone()))));
            contents.before_syncs = Some(disks);
        }
        contents.synced = contents.bytes.clone();
        contents.unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut contents = self.contents()?;
        let (at, end) = (offset as usize, offset as usize + data.len());
        if end > contents.bytes.len() {
            contents.bytes.resize(end, 0);
            contents.synced.resize(end, 0);
        }
        contents.bytes[at..end].copy_from_slice(data);
        contents.unsynced.push((at, data.to_vec()));
        Ok(())
    }

    // Nobody else has the file.

    fn try_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }

    fn try_lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(true)
    }

    fn lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    fn lock_shared_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    fn unlock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<(), BackendError> {
        Ok(())
    }

    fn query_lock_range(&self, _: Bound<u64>, _: Bound<u64>) -> Result<bool, BackendError> {
        Ok(false)
    }
}

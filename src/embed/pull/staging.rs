//! The folder that a model is fetched into: one call at a time, and what an interrupted one left goes on.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use super::Fault;

/// Locked as long as a call fetches into the folder, by the system: a process that was killed holds nothing.
const LOCK: &str = ".lock";

pub(super) struct Staging {
    path: PathBuf,
    _lock: File,
}

impl Staging {
    /// # Errors
    /// Another call fetches into it, in this process or in another one; it cannot be written.
    pub(super) fn new(path: PathBuf) -> Result<Self, Fault> {
        let failed = |error: io::Error| Fault::caused(format!("{} cannot be written", path.display()), error);
        fs::create_dir_all(&path).map_err(failed)?;
        let lock = File::create(path.join(LOCK)).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => Ok(Staging { path, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(Fault::new(format!(
                "another call is fetching it into {}; try again when that one is done",
                path.display()
            ))),
            Err(TryLockError::Error(error)) => Err(Fault::caused(format!("{}: no lock", path.display()), error)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The model is in its place; what is left over of fetching it does no harm.
    pub(super) fn remove(self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

impl Drop for Staging {
    /// Leaves what the next call can go on with, if there is anything.
    fn drop(&mut self) {
        let is_lock = |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|entry| entry.file_name() == LOCK);
        if self.path.read_dir().is_ok_and(|mut entries| entries.all(is_lock)) {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

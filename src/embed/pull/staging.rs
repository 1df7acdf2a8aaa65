//! The folder that a model is fetched into: one call at a time, and what an interrupted one left goes on.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use same_file::Handle;

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
        let name = path.join(LOCK);
        loop {
            fs::create_dir_all(&path).map_err(failed)?;
            let lock = match File::create(&name) {
                // Another call has just removed the folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                lock => lock.map_err(failed)?,
            };
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(Fault::new(format!(
                        "another call is fetching it into {}; try again when that one is done",
                        path.display()
                    )));
                }
                Err(TryLockError::Error(error)) => {
                    return Err(Fault::caused(format!("{}: no lock", path.display()), error));
                }
            }
            // Or removed it between the two.
            let own = lock.try_clone().and_then(Handle::from_file).map_err(failed)?;
            if Handle::from_path(&name).is_ok_and(|named| named == own) {
                return Ok(Staging { path, _lock: lock });
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The model is in its place; what is left over of fetching it does no harm.
    pub(super) fn remove(mut self) {
        let _ = fs::remove_dir_all(std::mem::take(&mut self.path));
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

//! A folder that files are downloaded into. Only one call at a time uses it, and a call resumes the downloads of an
//! interrupted one.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use crate::{client::http::Failure, lock};

/// Name of the file that is locked while a call downloads into the folder. The operating system releases the lock of a
/// process that was killed.
const LOCK: &str = ".lock";

/// A locked download folder.
pub(super) struct Staging {
    path: PathBuf,
    _lock: File,
}

impl Staging {
    /// Creates the folder if needed, and locks it.
    ///
    /// # Errors
    /// Another call downloads into the folder, in this process or in another one; the folder cannot be written.
    pub(super) fn new(path: PathBuf) -> Result<Self, Failure> {
        let failed =
            |error: io::Error| Failure::lasting(format!("{} cannot be written", path.display())).caused_by(error);
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        loop {
            fs::create_dir_all(&path).map_err(failed)?;
            match lock::open(&path.join(LOCK), &options) {
                Ok(lock) => return Ok(Staging { path, _lock: lock }),
                // Another call has just removed the folder.
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::NotFound => {}
                Err(TryLockError::Error(error)) => return Err(failed(error)),
                Err(TryLockError::WouldBlock) => {
                    return Err(Failure::lasting(format!(
                        "another call is downloading into {}; try again when it has finished",
                        path.display()
                    )));
                }
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folder after its files were installed. A folder that cannot be removed only takes space.
    pub(super) fn remove(mut self) {
        let _ = fs::remove_dir_all(std::mem::take(&mut self.path));
    }
}

impl Drop for Staging {
    /// Removes the folder if it is empty, and keeps partial downloads for the next call.
    fn drop(&mut self) {
        let is_lock = |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|entry| entry.file_name() == LOCK);
        if self.path.read_dir().is_ok_and(|mut entries| entries.all(is_lock)) {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

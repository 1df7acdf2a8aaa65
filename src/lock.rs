//! Locks on files that only one process at a time may have open.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    path::Path,
};

use same_file::Handle;

/// Opens a file and takes an exclusive lock of the operating system, which is released if the process is killed. The
/// locked file has this name when the call returns. From then on only the holder of the lock may remove the file, or
/// rename another file to its name.
///
/// # Errors
/// [`TryLockError::WouldBlock`]: the file is locked by another open handle. [`TryLockError::Error`]: it cannot be
/// opened or locked.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> Result<File, TryLockError> {
    loop {
        let file = options.open(path).map_err(TryLockError::Error)?;
        file.try_lock()?;
        if has_name(&file, path).map_err(TryLockError::Error)? {
            return Ok(file);
        }
    }
}

/// Returns true if the open file is the one that has this name.
pub(crate) fn has_name(file: &File, path: &Path) -> io::Result<bool> {
    Ok(leads_to(path, &Handle::from_file(file.try_clone()?)?))
}

/// Returns true if a path leads to this file. Cost: one system call.
#[cfg(unix)]
pub(crate) fn leads_to(path: &Path, file: &Handle) -> bool {
    use std::os::unix::fs::MetadataExt;
    // A file that is opened to be looked at may be a pipe, which waits for ever.
    std::fs::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (file.dev(), file.ino()))
}

#[cfg(not(unix))]
pub(crate) fn leads_to(path: &Path, file: &Handle) -> bool {
    Handle::from_path(path).is_ok_and(|found| found == *file)
}

/// Returns the process that has locked a file for writing, as far as the system tells. Linux lists the locks of each
/// file that a process of the same user has open.
#[cfg(target_os = "linux")]
pub(crate) fn holder(path: &Path) -> Option<u32> {
    use std::{fs, os::linux::fs::MetadataExt};

    let file = fs::metadata(path).ok()?;
    let process = |process: fs::DirEntry| {
        let id = process.file_name().to_str()?.parse().ok()?;
        let has_locked = |open: fs::DirEntry| {
            let found = fs::metadata(open.path()).ok()?;
            let locks = process.path().join("fdinfo").join(open.file_name());
            let is_file = (found.st_dev(), found.st_ino()) == (file.st_dev(), file.st_ino());
            (is_file && fs::read_to_string(locks).ok()?.contains("WRITE")).then_some(id)
        };
        fs::read_dir(process.path().join("fd")).ok()?.flatten().find_map(has_locked)
    };
    fs::read_dir("/proc").ok()?.flatten().find_map(process)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn holder(_: &Path) -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        sync::atomic::{AtomicUsize, Ordering},
        thread,
    };

    use super::*;

    /// Holds even if the name is given to another file again and again.
    #[test]
    fn a_lock_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut options = File::options();
        options.write(true).create(true).truncate(false);
        let (owners, had) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for number in 0..4 {
                let (path, options, owners, had) = (&path, &options, &owners, &had);
                let new = folder.path().join(format!("new{number}"));
                scope.spawn(move || {
                    for _ in 0..500 {
                        let Ok(file) = open(path, options) else { continue };
                        assert_eq!(owners.fetch_add(1, Ordering::SeqCst), 0, "the lock has one owner");
                        had.fetch_add(1, Ordering::SeqCst);
                        let other = File::create(&new).unwrap();
                        other.lock().unwrap();
                        fs::rename(&new, path).unwrap();
                        drop(file);
                        thread::yield_now();
                        assert_eq!(owners.fetch_sub(1, Ordering::SeqCst), 1);
                        drop(other);
                    }
                });
            }
        });
        assert!(had.load(Ordering::SeqCst) > 1, "{had:?}");
    }
}

//! Files that get their name when they are complete.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::lock;

/// A new file under a temporary name beside its future one. Removed when it is dropped, unless it got its name.
pub(super) struct NewFile<'a> {
    path: &'a Path,
    temporary: PathBuf,
    is_named: bool,
}

impl<'a> NewFile<'a> {
    /// Chooses the temporary name of a file that is to be `path`. The file does not exist yet.
    pub(super) fn beside(path: &'a Path) -> Self {
        static CREATED: AtomicU64 = AtomicU64::new(0);
        let mut name = path.as_os_str().to_owned();
        // No other process or thread uses the same name.
        name.push(format!(".{}-{}.new", std::process::id(), CREATED.fetch_add(1, Ordering::Relaxed)));
        let temporary = PathBuf::from(name);
        // May be left over from a killed process with the same id.
        let _ = fs::remove_file(&temporary);
        NewFile { path, temporary, is_named: false }
    }

    /// The temporary name.
    pub(super) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Gives the file its name, if no other file has it, or an empty one. The name is durable when this returns.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`], and those of the file system.
    pub(super) fn name(self) -> io::Result<()> {
        // A hard link, where the file system has them, does not replace a file that was created meanwhile.
        match fs::hard_link(&self.temporary, self.path) {
            Ok(()) => sync_folder(self.path),
            Err(_) if !self.path.exists() => self.replace(),
            Err(_) => {
                // Under a lock, two processes do not both find it empty.
                let locked = lock::open(self.path, File::options().write(true));
                let is_empty = |file: &File| file.metadata().is_ok_and(|metadata| metadata.len() == 0);
                if !locked.as_ref().is_ok_and(is_empty) {
                    return Err(io::ErrorKind::AlreadyExists.into());
                }
                self.replace()
            }
        }
    }

    /// Gives the file its name, which another file loses. The name is durable when this returns.
    pub(super) fn replace(self) -> io::Result<()> {
        let path = self.path;
        self.rename()?;
        sync_folder(path)
    }

    /// Same as [`NewFile::replace`], but the name is durable only after [`sync_folder`].
    pub(super) fn rename(mut self) -> io::Result<()> {
        fs::rename(&self.temporary, self.path)?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if !self.is_named {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Removes what killed processes left of new files beside this one. The caller has the file open and locked.
pub(super) fn remove_leftovers(path: &Path) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else { return };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let is_leftover = |other: &str| {
        let numbers = other.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')?.strip_suffix(".new"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        numbers.and_then(|numbers| numbers.split_once('-')).is_some_and(|(a, b)| is_number(a) && is_number(b))
    };
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().is_some_and(is_leftover) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Makes the names of a file's folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

//! Files that get their name only when they are complete: new files, and files that replace another one.
//!
//! Owns the temporary names, the modes and owners of files, and the removal of temporary files that killed processes
//! left, or that this process leaves when a signal ends it.
//!
//! Invariant: a temporary file is created and locked by one process, and only unlocked ones are removed by others.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{self, File, Metadata, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use parking_lot::Mutex;

use crate::lock;

/// The most symbolic links that are followed in a row. More are taken for a circle.
const MAX_LINKS: usize = 40;

/// A new file under a temporary name beside its future one. Removed when it is dropped, unless it got its name.
#[derive(Debug)]
pub(crate) struct NewFile {
    path: PathBuf,
    temporary: TemporaryName,
    is_named: bool,
}

/// The temporary name of a file that this process writes, until it is dropped.
#[derive(Debug)]
pub struct TemporaryName(PathBuf);

static TEMPORARY_NAMES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

impl TemporaryName {
    /// Creates the name of a temporary file.
    /// Has the file removed if a signal ends the process.
    pub fn new(path: PathBuf) -> Self {
        TEMPORARY_NAMES.lock().insert(path.clone());
        TemporaryName(path)
    }
}

impl Drop for TemporaryName {
    fn drop(&mut self) {
        TEMPORARY_NAMES.lock().remove(&self.0);
    }
}

/// Removes the files of this process that have temporary names, for a process that is about to end: its threads make no
/// others.
pub fn remove_temporary_files() {
    let names = TEMPORARY_NAMES.lock();
    for name in &*names {
        let _ = fs::remove_file(name);
    }
    std::mem::forget(names);
}

impl NewFile {
    /// Creates an empty file that is to be `path`, or what the symbolic link of this name leads to. Only this user can
    /// read it until [`NewFile::set_access`].
    pub(crate) fn beside(path: &Path) -> io::Result<Self> {
        static CREATED: AtomicU64 = AtomicU64::new(0);
        let path = resolved(path)?;
        let mut options = OpenOptions::new();
        set_private(options.write(true).create_new(true));
        loop {
            let mut temporary = path.as_os_str().to_owned();
            // Two processes may have the same number: in containers that share a folder.
            temporary.push(format!(".{}-{}.new", std::process::id(), CREATED.fetch_add(1, Ordering::Relaxed)));
            let temporary = TemporaryName::new(temporary.into());
            match options.open(&temporary.0) {
                Ok(_) => return Ok(NewFile { path, temporary, is_named: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary.0
    }

    /// Gives the file the mode of another, and its owner and group as far as the system lets this process. A group that
    /// the file could not be given gets no rights from the mode.
    pub(crate) fn set_access(&self, like: &Metadata) -> io::Result<()> {
        set_access(self.temporary(), like).map(drop)
    }

    /// Gives the file its name, if no file has it or only an empty file. The name is durable when this returns.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`], and those of the file system.
    pub(crate) fn name(mut self) -> io::Result<()> {
        // A hard link does not replace a file that was created meanwhile.
        if fs::hard_link(self.temporary(), &self.path).is_ok() {
            return sync_folder(&self.path);
        }
        // An empty file has the name, or the file system has no hard links: an empty file, which one process can
        // create, then stands for the name. Under its lock, two processes do not both replace it.
        let is_mine = File::options().write(true).create_new(true).open(&self.path).is_ok();
        let locked = lock::open(&self.path, File::options().write(true));
        let is_empty = |file: &File| file.metadata().is_ok_and(|metadata| metadata.len() == 0);
        if !locked.as_ref().is_ok_and(is_empty) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let renamed = self.rename();
        if renamed.is_err() && is_mine {
            let _ = fs::remove_file(&self.path);
        }
        renamed.and_then(|()| sync_folder(&self.path))
    }

    /// Gives the file its name in place of another file, which this process has locked. The new file gets the mode, the
    /// owner and the group of the old one. The name is durable only after [`sync_folder`].
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] if the system does not let this process give the file its owner.
    pub(crate) fn replace(&mut self, old: &Metadata) -> io::Result<()> {
        if !set_access(self.temporary(), old)? {
            let reason = "the file belongs to another user or group, which a new file in its place cannot be given; run this as \
                          its owner";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        self.rename()
    }

    fn rename(&mut self) -> io::Result<()> {
        fs::rename(self.temporary(), &self.path)?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_named {
            let _ = fs::remove_file(self.temporary());
        }
    }
}

/// Removes temporary files of this file that killed processes left. `is_free` tries to lock such a file, which another
/// process may still be writing, and returns the holder of the lock if it succeeds.
pub(crate) fn remove_leftovers<L>(path: &Path, is_free: impl Fn(File) -> Option<L>) {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(OsStr::to_str)) else { return };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_leftover = entry.file_name().to_str().is_some_and(|other| is_temporary_name(name, other));
        if !is_leftover || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let opened = File::options().read(true).write(true).open(entry.path());
        // The lock is held until the file is removed: who opens it meanwhile finds that it has no name.
        if let Some(_lock) = opened.ok().and_then(&is_free) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Returns true if `other` is a temporary name of a file of this name. Version 0.2.0 made such names of such names too.
fn is_temporary_name(name: &str, other: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_numbers = |text: &str| text.split_once('-').is_some_and(|(a, b)| is_number(a) && is_number(b));
    let Some(rest) = other.strip_prefix(name).and_then(|rest| rest.strip_prefix('.')?.strip_suffix(".new")) else {
        return false;
    };
    rest.split(".new.").all(is_numbers)
}

/// Follows the symbolic links of a file's name. The file at the end need not exist.
pub(crate) fn resolved(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&path) {
            Ok(target) => path = path.parent().map_or(target.clone(), |folder| folder.join(target)),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links lead from one to the next"))
}

/// Names the kind of a file that exists and is not a regular file, whose opening may wait for ever.
pub(crate) fn irregular(path: &Path) -> Option<&'static str> {
    let kind = fs::metadata(path).ok()?.file_type();
    if kind.is_file() {
        return None;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return Some("a named pipe");
        }
        if kind.is_socket() {
            return Some("a socket");
        }
        if kind.is_char_device() || kind.is_block_device() {
            return Some("a device");
        }
    }
    Some(if kind.is_dir() { "a folder" } else { "no regular file" })
}

/// Makes the names of a file's folder durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// Lets only this user read and write a file that is created.
pub(crate) fn set_private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Gives a file the access of another. Returns false if it could not be given the owner or the group.
#[cfg(unix)]
fn set_access(path: &Path, like: &Metadata) -> io::Result<bool> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
    let mut own = fs::metadata(path)?;
    if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
        // Only the superuser gives files away. A user gives them to groups of which he is a member.
        if chown(path, Some(like.uid()), Some(like.gid())).is_err() {
            let _ = chown(path, None, Some(like.gid()));
        }
        own = fs::metadata(path)?;
    }
    let (same_owner, same_group) = (own.uid() == like.uid(), own.gid() == like.gid());
    let mode = like.mode() & if same_group { 0o777 } else { 0o707 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(same_owner && same_group)
}

#[cfg(not(unix))]
fn set_access(path: &Path, like: &Metadata) -> io::Result<bool> {
    fs::set_permissions(path, like.permissions())?;
    Ok(true)
}

//! The Unix socket of a database's server: where it is, and binding to it.
//!
//! Whoever has the database open may bind: its lock lets one process at a time have it open. The socket is in a folder that
//! only its user can enter, so it needs no tokens.

use std::{
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use sha2::{Digest, Sha256};
use tokio::net::UnixListener;

/// A bound socket. Its file is removed when it is dropped.
pub(super) struct Socket {
    pub(super) listener: UnixListener,
    path: PathBuf,
    /// The device and the number of its file.
    identity: Option<(u64, u64)>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        // After this server closed the database, another may have bound a socket of its own.
        if self.identity.is_some() && identity(&self.path) == self.identity {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Returns the path of the socket for a database. Its folder exists afterwards, and is this user's alone.
///
/// # Errors
/// The folder cannot be made, or others may enter it.
pub fn path(db: &Path) -> anyhow::Result<PathBuf> {
    let folder = match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("mnemon"),
        None => std::env::temp_dir().join(format!("mnemon-{}", user()?)),
    };
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.with_context(|| folder.display().to_string())?;
    let found = std::fs::symlink_metadata(&folder).with_context(|| folder.display().to_string())?;
    ensure!(
        found.is_dir() && found.uid() == user()? && found.permissions().mode() & 0o077 == 0,
        "{} is not a folder of this user alone; remove it, or set XDG_RUNTIME_DIR to another",
        folder.display()
    );
    let hash = Sha256::digest(absolute(db)?.as_os_str().as_encoded_bytes());
    let name: String = hash[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(folder.join(format!("{name}.sock")))
}

pub(super) fn bind(db: &Path) -> anyhow::Result<Option<Socket>> {
    let path = path(db)?;
    // One that is there was left by a server that was killed.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).with_context(|| format!("listening on {}", path.display()))?;
    let identity = identity(&path);
    Ok(Some(Socket { listener, path, identity }))
}

/// The path that all processes have for a database, which need not exist yet.
fn absolute(db: &Path) -> anyhow::Result<PathBuf> {
    if let Ok(path) = db.canonicalize() {
        return Ok(path);
    }
    let name = db.file_name().with_context(|| format!("{} is no file", db.display()))?;
    let folder = db.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(folder.canonicalize().with_context(|| folder.display().to_string())?.join(name))
}

/// The number of this process' user: the owner of what it makes.
fn user() -> anyhow::Result<u32> {
    let probe = tempfile::tempfile().context("making a temporary file")?;
    Ok(probe.metadata()?.uid())
}

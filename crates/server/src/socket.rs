//! The Unix socket of a database's server: `mnemon mcp` connects its client's stdio to MCP over it, and `mnemon hook` sends
//! requests of HTTP. Which of them a client speaks is known by its first byte: a message of MCP is a JSON object.
//!
//! The process that has the database open binds it: the database's lock lets one process at a time have it open. The socket
//! is in a folder that only its user can enter, so it needs no tokens, and its clients are the owner.

use std::{
    io::ErrorKind,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, ensure};
use axum::{Extension, Router};
use futures_util::StreamExt;
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::{UnixListener, UnixStream},
};
use tokio_util::{
    io::{ReaderStream, StreamReader},
    sync::CancellationToken,
    task::TaskTracker,
};

use crate::{
    app::App,
    guard::IsOwner,
    listen::{self, PAUSE},
    mcp,
};

/// A bound socket. Its file is removed when it is dropped.
pub(crate) struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// The device and the number of its file.
    identity: Option<(u64, u64)>,
}

impl Socket {
    /// Serves clients until the server stops, and then the calls that have begun.
    pub(crate) async fn serve(self, app: Arc<App>, router: Router, stop: CancellationToken) {
        let router = router.layer(Extension(IsOwner));
        let connections = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve_client(Arc::clone(&app), router.clone(), stream, stop.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection to the socket was not accepted");
                    app.idle_connections.oust_oldest();
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        drop(self);
        connections.close();
        connections.wait().await;
    }
}

/// Serves a client until it goes, or the server stops. Then nothing more is read from it, and what was read is answered.
async fn serve_client(app: Arc<App>, router: Router, stream: UnixStream, stop: CancellationToken) {
    let _open = app.connected();
    let (reader, writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let first = tokio::select! {
        first = reader.fill_buf() => first.ok().and_then(|bytes| bytes.first().copied()),
        () = stop.cancelled() => None,
    };
    if first.is_some_and(|byte| byte.is_ascii_uppercase()) {
        return listen::serve(tokio::io::join(reader, writer), router, stop, None).await;
    }
    let reader = StreamReader::new(Box::pin(ReaderStream::new(reader).take_until(stop.cancelled_owned())));
    mcp::serve(app, reader, writer).await;
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

/// Returns the path of the socket for a database, and makes its folder, which this user alone can enter.
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

pub(crate) fn bind(db: &Path) -> anyhow::Result<Option<Socket>> {
    let path = path(db)?;
    // A socket that is there was left by a server that was killed.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).with_context(|| format!("listening on {}", path.display()))?;
    let identity = identity(&path);
    Ok(Some(Socket { listener, path, identity }))
}

/// Returns the path by which all processes know a database, which need not exist yet.
fn absolute(db: &Path) -> anyhow::Result<PathBuf> {
    match db.canonicalize() {
        Ok(path) => return Ok(path),
        // A link to a database that is to be made.
        Err(error) if error.kind() == ErrorKind::NotFound && db.is_symlink() => {
            return absolute(&db.with_file_name("").join(db.read_link()?));
        }
        Err(_) => {}
    }
    let name = db.file_name().with_context(|| format!("{} is no file", db.display()))?;
    let folder = db.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(folder.canonicalize().with_context(|| folder.display().to_string())?.join(name))
}

/// Returns the number of this process' user: the owner of the files that it makes.
fn user() -> anyhow::Result<u32> {
    let probe = tempfile::tempfile().context("making a temporary file")?;
    Ok(probe.metadata()?.uid())
}

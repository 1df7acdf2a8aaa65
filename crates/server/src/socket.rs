//! The Unix socket of a database's server: `mnemon mcp` connects its client's stdio to MCP over it, and `mnemon hook` sends
//! requests of HTTP. Which of them a client speaks is known by its first byte: a message of MCP is a JSON object.
//!
//! The server and its clients may have different environments, so they meet at the database itself: a note beside it
//! says where the socket is. A process has the note locked from before it opens the database until after it closed it, so
//! that one server at a time starts, runs or ends. The socket is in a folder that only its user can enter, so it needs no
//! tokens, and its clients are the owner.
//!
//! A server whose database file was moved, removed or replaced gives up its note and its socket: the next client starts
//! another, on the file that has the name now.

use std::{
    fs::{self, File, Metadata, TryLockError},
    io::{ErrorKind, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, anyhow, bail, ensure};
use axum::{Extension, Router};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tempfile::TempPath;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::{UnixListener, UnixStream},
    time::MissedTickBehavior,
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

/// How often a server looks whether its database is in its place. Each connection is a reason to look, too.
const WATCH: Duration = Duration::from_millis(250);

/// The note beside a database, in which clients find the socket of its server. It is locked as long as this lives, and is
/// removed with it.
pub(crate) struct Note {
    file: File,
    path: PathBuf,
    db: PathBuf,
}

/// The contents of the note beside a database.
#[derive(Default, Serialize, Deserialize)]
struct Content {
    process: u32,
    socket: PathBuf,
    /// The device and the number of the database's file.
    file: String,
}

impl Note {
    /// Locks the note of a database, or makes it.
    ///
    /// # Errors
    /// Another server of the database runs, or the note cannot be made.
    pub(crate) fn claim(db: &Path) -> Result<Self, ClaimError> {
        let path = note_path(db)?;
        let name = || path.display().to_string();
        loop {
            if metadata(&path)?.is_some_and(|found| !found.is_file()) {
                return Err(anyhow!("{}: the note of a server is a file, and this is none; remove it", name()).into());
            }
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let file = options.open(&path).with_context(|| {
                let folder = path.parent().unwrap_or(&path).display();
                format!(
                    "a server notes its socket beside the database, and cannot write into the folder {folder}; let its user write there, or \
                     move the database"
                )
            })?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let process = read(file).unwrap_or_default().process;
                    return Err(ClaimError::Taken(anyhow!(
                        "{}: another server of it runs already, the process {process}; use that one, or end it first",
                        db.display()
                    )));
                }
                Err(TryLockError::Error(error)) => return Err(anyhow!(error).context(name()).into()),
            }
            // The server before may have removed it meanwhile.
            let Some(found) = metadata(&path)?.filter(|found| is_same(found, &file)) else { continue };
            if found.uid() != user()? {
                // Nobody has it locked: it was left by a server of another user that was killed.
                fs::remove_file(&path).with_context(name)?;
                continue;
            }
            let note = Note { file, path: path.clone(), db: db.to_owned() };
            if is_private(&found)
                && let Some(left) = note.file.try_clone().ok().and_then(read)
                && metadata(&left.socket).is_ok_and(|found| found.is_some_and(|found| found.file_type().is_socket()))
            {
                // Its server was killed.
                let _ = fs::remove_file(&left.socket);
            }
            note.file.set_permissions(fs::Permissions::from_mode(0o600)).with_context(name)?;
            note.say(PathBuf::new()).with_context(name)?;
            return Ok(note);
        }
    }

    /// Says where the socket is.
    fn say(&self, socket: PathBuf) -> anyhow::Result<()> {
        let file = fs::metadata(&self.db).map(|found| identity(&found)).unwrap_or_default();
        let content = serde_json::to_string(&Content { process: std::process::id(), socket, file })?;
        self.file.set_len(0)?;
        (&self.file).rewind()?;
        Ok((&self.file).write_all(content.as_bytes())?)
    }

    /// Lets another server have its place.
    fn give_up(&self) {
        if metadata(&self.path).is_ok_and(|found| found.is_some_and(|found| is_same(&found, &self.file))) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Why a process is not the server of a database.
pub(crate) enum ClaimError {
    /// Another process is.
    Taken(anyhow::Error),
    /// Its note cannot be made.
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for ClaimError {
    fn from(error: anyhow::Error) -> Self {
        ClaimError::Failed(error)
    }
}

/// Connects to the server of a database. Returns `None` if no server of it listens.
///
/// # Errors
/// The note of the server is not one of this user.
pub async fn connect(db: &Path) -> anyhow::Result<Option<UnixStream>> {
    let Some((socket, owner)) = find(db)? else { return Ok(None) };
    let Ok(stream) = UnixStream::connect(&socket).await else { return Ok(None) };
    let peer = stream.peer_cred().with_context(|| socket.display().to_string())?.uid();
    ensure!(peer == owner, "{} is served by the user {peer}, and the user {owner} noted it", socket.display());
    Ok(Some(stream))
}

/// Returns the socket that is noted beside a database, and the user who noted it.
fn find(db: &Path) -> anyhow::Result<Option<(PathBuf, u32)>> {
    let path = note_path(db)?;
    let (Some(note), Ok(database)) = (metadata(&path)?, fs::metadata(db)) else { return Ok(None) };
    let name = || path.display().to_string();
    let of_owner = note.uid() == database.uid() || note.uid() == user()?;
    ensure!(
        note.is_file() && is_private(&note) && of_owner,
        "{} is no note of a server of this user or of the owner of {}; remove it if no server runs",
        name(),
        db.display()
    );
    let file = match File::open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.with_context(name)?,
    };
    let said = read(file).filter(|content| content.file == identity(&database) && content.socket.is_absolute());
    Ok(said.map(|content| (content.socket, note.uid())))
}

/// Reads a note. Its server may be about to write it.
fn read(mut file: File) -> Option<Content> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    serde_json::from_str(&text).ok()
}

/// Returns what has this name, without following links.
fn metadata(path: &Path) -> anyhow::Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => Ok(Some(found.with_context(|| path.display().to_string())?)),
    }
}

fn is_same(found: &Metadata, file: &File) -> bool {
    file.metadata().is_ok_and(|own| identity(&own) == identity(found))
}

/// Returns true if its owner alone can read and write it.
fn is_private(found: &Metadata) -> bool {
    found.permissions().mode() & 0o077 == 0
}

fn identity(found: &Metadata) -> String {
    format!("{}:{}", found.dev(), found.ino())
}

/// A bound socket. Its file is removed when it is dropped.
pub(crate) struct Socket {
    listener: UnixListener,
    _path: TempPath,
    note: Arc<Note>,
}

impl Socket {
    /// Binds a socket and notes it beside the database.
    pub(crate) fn bind(note: &Arc<Note>) -> anyhow::Result<Self> {
        let (mut bound, mut reasons) = (None, Vec::new());
        for folder in folders()? {
            match bind_in(&folder) {
                Ok(socket) => {
                    bound = Some(socket);
                    break;
                }
                Err(error) => reasons.push(format!("{}: {error:#}", folder.display())),
            }
        }
        let Some((listener, path)) = bound else {
            bail!("{}; set XDG_RUNTIME_DIR to a folder of this user alone, with a short path", reasons.join("; "));
        };
        note.say(path.to_path_buf()).with_context(|| note.path.display().to_string())?;
        Ok(Socket { listener, _path: path, note: Arc::clone(note) })
    }

    /// Serves clients until the server stops, and then the calls that have begun. Returns false if the database's file is
    /// no longer in its place: then nobody finds this server any more, and its clients are let go.
    pub(crate) async fn serve(self, app: Arc<App>, router: Router, stop: CancellationToken) -> bool {
        let router = router.layer(Extension(IsOwner));
        let connections = TaskTracker::new();
        let end = stop.child_token();
        let mut watch = tokio::time::interval(WATCH);
        watch.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_in_place = true;
        while is_in_place {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => Some(accepted),
                _ = watch.tick() => None,
                () = stop.cancelled() => break,
            };
            if let Err(error) = app.engine.check_file() {
                tracing::error!(%error, "clients of this machine are not served any more");
                is_in_place = false;
                continue;
            }
            match accepted {
                Some(Ok((stream, _))) => {
                    connections.spawn(serve_client(Arc::clone(&app), router.clone(), stream, end.clone()));
                }
                Some(Err(error)) => {
                    tracing::warn!(%error, "a connection to the socket was not accepted");
                    app.idle_connections.oust_oldest();
                    tokio::time::sleep(PAUSE).await;
                }
                None => {}
            }
        }
        if !is_in_place {
            self.note.give_up();
        }
        drop(self);
        end.cancel();
        connections.close();
        connections.wait().await;
        is_in_place
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

/// Returns the folders that a socket may be in, the best one first.
fn folders() -> anyhow::Result<Vec<PathBuf>> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let runtime = runtime.map(|folder| PathBuf::from(folder).join("mnemon"));
    Ok(runtime.into_iter().chain([std::env::temp_dir().join(format!("mnemon-{}", user()?))]).collect())
}

/// Binds a socket in a folder that this user alone can enter, and makes the folder.
///
/// # Errors
/// The folder cannot be made, others may enter it, or its path is too long for a socket.
fn bind_in(folder: &Path) -> anyhow::Result<(UnixListener, TempPath)> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    ensure!(found.is_dir() && found.uid() == user()? && is_private(&found), "not a folder of this user alone");
    let mut name = tempfile::Builder::new();
    name.prefix("").suffix(".sock").rand_bytes(12);
    Ok(name.make_in(folder, |path| UnixListener::bind(path))?.into_parts())
}

/// Returns the path of a database's note. All processes know the database by the same path, which need not exist yet.
fn note_path(db: &Path) -> anyhow::Result<PathBuf> {
    let mut path = absolute(db)?.into_os_string();
    path.push(".server");
    Ok(path.into())
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
    let folder = std::env::temp_dir();
    let probe = tempfile::tempfile_in(&folder).with_context(|| format!("making a file in {}", folder.display()))?;
    Ok(probe.metadata()?.uid())
}

//! Histories in a folder.

use std::{
    ffi::OsStr,
    fs::{self, File, TryLockError},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use parking_lot::RwLock;
use sha2::{Digest, Sha256};

use super::{
    HistoryStore, checked,
    lines::{self, Lines, failed},
    transcript::Transcript,
};
use crate::{
    error::{Error, Result},
    ids::check_id,
    message::Message,
};

/// Keeps histories in a folder, one JSON Lines file a session.
///
/// A file is named by the SHA-256 of the session's name; its first line says the name. Each call reads or writes files,
/// and fsyncs what it has written; writes come one after the other. Memory: what a call gives back.
///
/// [`append`](HistoryStore::append) adds lines, also for a message that replaces another: [`set`](HistoryStore::set) makes
/// the file as short as it can be. After a crash within an append, some of its messages may be there, from the first on, each
/// whole; a `set` is there or not.
///
/// One store a folder, guarded by the file `lock` in it; share it by an `Arc`.
///
/// ```
/// use mnemon::{FileHistory, HistoryStore, Message};
/// # let folder = tempfile::tempdir()?;
/// # let folder = folder.path().join("history");
/// let history = FileHistory::open(&folder)?;
/// history.append("../any/name: 🙂", &[Message::user("hello")])?;
/// drop(history);
/// assert_eq!(FileHistory::open(&folder)?.messages("../any/name: 🙂")?[0].text(), "hello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileHistory {
    folder: PathBuf,
    /// Locked as long as it is open.
    lock: File,
    gate: RwLock<()>,
}

impl FileHistory {
    /// Opens a folder, and makes it if there is none.
    ///
    /// # Errors
    /// [`Error::DatabaseLocked`]: it is open already, in whichever process; [`Error::Storage`].
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let given = folder.as_ref();
        // The program may change its working directory.
        let folder = std::path::absolute(given).map_err(|error| failed(given, error))?;
        let lock = make(&folder).and_then(|()| lock(&folder)).map_err(|error| failed(&folder, error))?;
        let Some(lock) = lock else { return Err(Error::DatabaseLocked { path: folder }) };
        let history = FileHistory { folder, lock, gate: RwLock::new(()) };
        history.sweep().map_err(|error| failed(&history.folder, error))?;
        Ok(history)
    }

    /// Takes away what a crash within [`set`](HistoryStore::set) left, and makes the names of files durable that one within
    /// an append may have left in memory.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if is_ours(&path, "new") {
                fs::remove_file(path)?;
            }
        }
        sync_folder(&self.folder)
    }

    fn path(&self, session: &str) -> PathBuf {
        self.folder.join(hash(session)).with_extension("jsonl")
    }

    /// Puts the lines of `messages` at the end of a session's file, or in a new one; or else leaves it as it was.
    fn write(&self, session: &str, messages: &[Message]) -> Result<()> {
        let path = self.path(session);
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = file.map_err(|error| failed(&path, error))?;
        let is_new = header(&path, &file, session)?.is_none();
        let text = text(is_new.then_some(session), messages)?;
        let whole = lines::whole_bytes(&mut file).map_err(|error| failed(&path, error))?;
        let mut put = || {
            file.set_len(whole)?;
            file.seek(SeekFrom::Start(whole))?;
            file.write_all(text.as_bytes())?;
            file.sync_data()?;
            if is_new { sync_folder(&self.folder) } else { Ok(()) }
        };
        put().map_err(|error| {
            // Out of disk, say. If this fails too, the next append cuts off the last line, but no whole ones.
            if let Err(error) = file.set_len(whole) {
                tracing::warn!(path = %path.display(), %error, "a failed append may be there in part");
            }
            failed(&path, error)
        })
    }

    /// Puts a new file in the place of a session's.
    fn replace(&self, session: &str, messages: &[Message]) -> Result<()> {
        let path = self.path(session);
        let new = path.with_extension("new");
        let text = text(Some(session), messages)?;
        let put = || {
            let mut file = File::create(&new)?;
            file.write_all(text.as_bytes())?;
            file.sync_data()?;
            fs::rename(&new, &path)?;
            sync_folder(&self.folder)
        };
        put().map_err(|error| {
            // What is left is taken away when the folder is opened.
            let _ = fs::remove_file(&new);
            failed(&path, error)
        })
    }

    fn remove(&self, session: &str) -> Result<()> {
        let path = self.path(session);
        match fs::remove_file(&path) {
            Ok(()) => sync_folder(&self.folder).map_err(|error| failed(&path, error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(failed(&path, error)),
        }
    }
}

impl Drop for FileHistory {
    fn drop(&mut self) {
        // Closing is not enough: a process that another thread is just starting holds a copy of the file for a moment.
        let _ = self.lock.unlock();
    }
}

impl HistoryStore for FileHistory {
    /// Cost: reads the first two lines of every file.
    fn sessions(&self) -> Result<Vec<String>> {
        let _gate = self.gate.read();
        let mut sessions = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(|error| failed(&self.folder, error))? {
            let path = entry.map_err(|error| failed(&self.folder, error))?.path();
            if !is_ours(&path, "jsonl") {
                continue;
            }
            let file = File::open(&path).map_err(|error| failed(&path, error))?;
            let mut lines = Lines::new(&path, file);
            let Some(session) = lines.session()? else { continue };
            if self.path(&session) != path {
                return Err(misnamed(&lines, &session));
            }
            // A header alone: the first append was cut short.
            if lines.has_next()? {
                sessions.push(session);
            }
        }
        sessions.sort_unstable();
        Ok(sessions)
    }

    fn messages(&self, session: &str) -> Result<Vec<Message>> {
        check_id("session", session)?;
        let _gate = self.gate.read();
        let path = self.path(session);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(&path, error)),
        };
        let Some(mut lines) = header(&path, &file, session)? else { return Ok(Vec::new()) };
        let mut transcript = Transcript::default();
        while let Some(message) = lines.message()? {
            transcript.put(message.in_session(session));
        }
        Ok(transcript.into_messages())
    }

    fn append(&self, session: &str, messages: &[Message]) -> Result<()> {
        let messages = checked(session, messages)?;
        if messages.is_empty() {
            return Ok(());
        }
        let _gate = self.gate.write();
        self.write(session, &messages)
    }

    fn set(&self, session: &str, messages: &[Message]) -> Result<()> {
        let transcript: Transcript = checked(session, messages)?.into_iter().collect();
        let _gate = self.gate.write();
        match transcript.messages() {
            [] => self.remove(session),
            messages => self.replace(session, messages),
        }
    }

    fn delete(&self, session: &str) -> Result<()> {
        check_id("session", session)?;
        let _gate = self.gate.write();
        self.remove(session)
    }
}

/// Makes a folder and those above it, durably.
fn make(folder: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
    fs::create_dir_all(folder)?;
    missing.into_iter().filter_map(Path::parent).try_for_each(sync_folder)
}

/// The lock of a folder, unless another has it.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let file = File::options().write(true).create(true).truncate(false).open(folder.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Makes the names in a folder durable. Windows has no such call, and needs none.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// The lines of a session's file after the header; none if it has no header yet.
fn header<'f>(path: &Path, file: &'f File, session: &str) -> Result<Option<Lines<&'f File>>> {
    let mut lines = Lines::new(path, file);
    match lines.session()? {
        None => Ok(None),
        Some(named) if named == session => Ok(Some(lines)),
        Some(named) => Err(misnamed(&lines, &named)),
    }
}

fn misnamed(lines: &Lines<impl io::Read>, session: &str) -> Error {
    lines.invalid(format!("the session {session:?} does not belong in a file of this name"))
}

/// What is written: the header for this session, if any, and the messages.
fn text(header_of: Option<&str>, messages: &[Message]) -> Result<String> {
    let header = header_of.map(lines::header);
    header.into_iter().chain(messages.iter().map(lines::message_line)).collect()
}

/// Whether a file is named as ours are, so that others in the folder are left alone.
fn is_ours(path: &Path, extension: &str) -> bool {
    let is_hash = |stem: &str| stem.len() == 64 && stem.bytes().all(|byte| byte.is_ascii_hexdigit());
    path.extension() == Some(OsStr::new(extension)) && path.file_stem().and_then(OsStr::to_str).is_some_and(is_hash)
}

fn hash(session: &str) -> String {
    Sha256::digest(session).iter().map(|byte| format!("{byte:02x}")).collect()
}

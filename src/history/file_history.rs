//! The history store in a folder: its lock, and reading, appending and replacing the files of sessions.

use std::{
    ffi::OsStr,
    fs::{self, File, TryLockError},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use parking_lot::{RwLock, RwLockWriteGuard};
use sha2::{Digest, Sha256};

use super::{
    HistoryStore, Transcript, checked_messages,
    session_file::{LineReader, complete_bytes, file_error, header_line, message_line},
};
use crate::{
    error::{Error, Result},
    ids::{check_id, hex},
    lock,
    message::Message,
    new_file::{NewFile, set_private},
};

/// The name of the file in the folder that the store locks.
const LOCK: &str = "lock";

/// A history store in a folder with one JSON Lines file per session.
///
/// The name of a file is the SHA-256 of the session's name, which the first line of the file contains. Every line ends
/// with a checksum, so a damaged line is an [`Error::InvalidHistory`] with its number and never another text. Files that
/// earlier releases wrote without checksums are read too, and the next append rewrites them. Every call reads or writes
/// files, and nothing is cached in memory. A write is synced to disk before the call returns; one write runs at a time.
///
/// [`append`](HistoryStore::append) adds lines to the file, even for a message that replaces another.
/// [`set`](HistoryStore::set) rewrites the file without replaced messages. After a crash during an append, the first
/// few of its messages may be stored, each complete. A `set` is atomic.
///
/// Only one store at a time can have a folder open; the file `lock` in the folder ensures it. Share the store with an
/// `Arc`.
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
    /// The lock file, locked while the store is open.
    lock: File,
    /// Locked for writing while a file is changed.
    access: RwLock<()>,
}

impl FileHistory {
    /// Opens a folder and creates it if it does not exist.
    ///
    /// # Errors
    /// [`Error::DatabaseLocked`] if this or another process has the folder open; [`Error::Storage`].
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let given = folder.as_ref();
        // An absolute path stays valid if the program changes its working directory.
        let folder = std::path::absolute(given).map_err(|error| file_error(given, error))?;
        let lock =
            create_folder(&folder).and_then(|()| lock_folder(&folder)).map_err(|error| file_error(&folder, error))?;
        let Some(lock) = lock else {
            let holder = lock::holder(&folder.join(LOCK));
            return Err(Error::DatabaseLocked { path: folder, holder });
        };
        let history = FileHistory { folder, lock, access: RwLock::new(()) };
        history.clean_up().map_err(|error| file_error(&history.folder, error))?;
        Ok(history)
    }

    /// Removes the temporary files of interrupted [`set`](HistoryStore::set) calls, and syncs the folder in case an
    /// append was interrupted before it did so.
    fn clean_up(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if is_leftover(&path) {
                fs::remove_file(path)?;
            }
        }
        sync_folder(&self.folder)
    }

    /// Begins a change, which runs alone.
    ///
    /// # Errors
    /// [`Error::DatabaseMoved`]: another folder has the name, and perhaps another store.
    fn begin(&self) -> Result<RwLockWriteGuard<'_, ()>> {
        let access = self.access.write();
        match lock::has_name(&self.lock, &self.folder.join(LOCK)) {
            Ok(true) => Ok(access),
            Ok(false) => Err(Error::DatabaseMoved { path: self.folder.clone() }),
            Err(error) => Err(file_error(&self.folder, error)),
        }
    }

    fn path(&self, session: &str) -> PathBuf {
        self.folder.join(hash(session)).with_extension("jsonl")
    }

    /// Appends the lines of `messages` to a session's file, which is created if necessary. On an error the complete
    /// lines of the file are unchanged.
    fn append_lines(&self, session: &str, messages: &[Message]) -> Result<()> {
        let path = self.path(session);
        let file = set_private(File::options().read(true).write(true).create(true).truncate(false)).open(&path);
        let mut file = file.map_err(|error| file_error(&path, error))?;
        let has_checksums = open_session(&path, &file, session)?.map(|lines| lines.has_checksums());
        if has_checksums == Some(false) {
            drop(file);
            let mut transcript = self.transcript(session)?;
            transcript.extend(messages.iter().cloned());
            return self.replace_file(session, transcript.messages());
        }
        let is_new = has_checksums.is_none();
        let text = file_text(is_new.then_some(session), messages)?;
        let complete = complete_bytes(&mut file).map_err(|error| file_error(&path, error))?;
        if complete < file.metadata().map_err(|error| file_error(&path, error))?.len() {
            // The bytes after the last line feed are cut off below. If they are a line with a damaged line feed, reading
            // the file fails instead.
            self.transcript(session)?;
        }
        let mut write = || {
            file.set_len(complete)?;
            file.seek(SeekFrom::Start(complete))?;
            file.write_all(text.as_bytes())?;
            file.sync_data()?;
            if is_new { sync_folder(&self.folder) } else { Ok(()) }
        };
        write().map_err(|error| {
            // The disk may be full. If truncating fails too, complete lines of the failed append stay; the next append
            // removes an incomplete one.
            if let Err(error) = file.set_len(complete) {
                let path = path.display();
                tracing::warn!(%path, %error, "a failed append could not be undone: some of its messages may be stored");
            }
            file_error(&path, error)
        })
    }

    fn transcript(&self, session: &str) -> Result<Transcript> {
        let mut transcript = Transcript::default();
        let path = self.path(session);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(transcript),
            Err(error) => return Err(file_error(&path, error)),
        };
        let Some(mut lines) = open_session(&path, &file, session)? else { return Ok(transcript) };
        while let Some(message) = lines.message()? {
            transcript.put(message.in_session(session));
        }
        Ok(transcript)
    }

    fn replace_file(&self, session: &str, messages: &[Message]) -> Result<()> {
        let path = self.path(session);
        let text = file_text(Some(session), messages)?;
        let write = || {
            let old = fs::metadata(&path).ok();
            let mut new = NewFile::beside(&path)?;
            let mut file = File::options().write(true).open(new.temporary())?;
            file.write_all(text.as_bytes())?;
            file.sync_data()?;
            match &old {
                Some(old) => new.replace(old).and_then(|()| sync_folder(&self.folder)),
                None => new.name(),
            }
        };
        write().map_err(|error| file_error(&path, error))
    }

    fn remove_file(&self, session: &str) -> Result<()> {
        let path = self.path(session);
        match fs::remove_file(&path) {
            Ok(()) => sync_folder(&self.folder).map_err(|error| file_error(&path, error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(file_error(&path, error)),
        }
    }
}

impl Drop for FileHistory {
    fn drop(&mut self) {
        // Closing the file is not enough: a process that another thread is starting holds a copy of the handle for a
        // moment.
        let _ = self.lock.unlock();
    }
}

impl HistoryStore for FileHistory {
    /// Cost: reads the first two lines of every file.
    fn sessions(&self) -> Result<Vec<String>> {
        let _access = self.access.read();
        let mut sessions = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(|error| file_error(&self.folder, error))? {
            let path = entry.map_err(|error| file_error(&self.folder, error))?.path();
            if !is_session_file(&path) {
                continue;
            }
            let file = File::open(&path).map_err(|error| file_error(&path, error))?;
            let mut lines = LineReader::new(&path, file);
            let Some(session) = lines.session()? else { continue };
            if self.path(&session) != path {
                return Err(wrong_file_name(&lines, &session));
            }
            // An interrupted first append leaves a file with only a header.
            if lines.next_line()? {
                sessions.push(session);
            }
        }
        sessions.sort_unstable();
        Ok(sessions)
    }

    fn messages(&self, session: &str) -> Result<Vec<Message>> {
        check_id("session", session)?;
        let _access = self.access.read();
        Ok(self.transcript(session)?.into_messages())
    }

    fn append(&self, session: &str, messages: &[Message]) -> Result<()> {
        let messages = checked_messages(session, messages)?;
        if messages.is_empty() {
            return Ok(());
        }
        let _access = self.begin()?;
        self.append_lines(session, &messages)
    }

    fn set(&self, session: &str, messages: &[Message]) -> Result<()> {
        let transcript: Transcript = checked_messages(session, messages)?.into_iter().collect();
        let _access = self.begin()?;
        match transcript.messages() {
            [] => self.remove_file(session),
            messages => self.replace_file(session, messages),
        }
    }

    fn delete(&self, session: &str) -> Result<()> {
        check_id("session", session)?;
        let _access = self.begin()?;
        self.remove_file(session)
    }
}

/// Creates a folder and its missing parents, and syncs them to disk.
fn create_folder(folder: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|folder| !folder.exists()).collect();
    fs::create_dir_all(folder)?;
    missing.into_iter().filter_map(Path::parent).try_for_each(sync_folder)
}

/// Locks a folder. Returns `None` if it is locked already.
fn lock_folder(folder: &Path) -> io::Result<Option<File>> {
    let file = set_private(File::options().write(true).create(true).truncate(false)).open(folder.join(LOCK))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Syncs the names of the files in a folder to disk. Windows has no such call and needs none.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Returns a reader of a session's file, positioned after the header. Returns `None` if the file has no header yet.
fn open_session<'f>(path: &Path, file: &'f File, session: &str) -> Result<Option<LineReader<&'f File>>> {
    let mut lines = LineReader::new(path, file);
    match lines.session()? {
        None => Ok(None),
        Some(named) if named == session => Ok(Some(lines)),
        Some(named) => Err(wrong_file_name(&lines, &named)),
    }
}

fn wrong_file_name(lines: &LineReader<impl io::Read>, session: &str) -> Error {
    lines.invalid(format!("the session {session:?} does not belong in a file with this name; was the file renamed?"))
}

/// Formats the lines of messages, after the header of a session if `header_of` names one.
fn file_text(header_of: Option<&str>, messages: &[Message]) -> Result<String> {
    let header = header_of.map(header_line);
    header.into_iter().chain(messages.iter().map(message_line)).collect()
}

/// Returns true if the file has the temporary name of a new session file, in the form of this version or of 0.2.0.
fn is_leftover(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).and_then(|name| name.split_once('.'));
    name.is_some_and(|(hash, rest)| {
        is_hash(hash) && (rest == "new" || rest.starts_with("jsonl.") && rest.ends_with(".new"))
    })
}

fn is_hash(stem: &str) -> bool {
    stem.len() == 64 && stem.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Returns true if the file has the name of a session file. The store ignores other files in the folder.
fn is_session_file(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("jsonl")) && path.file_stem().and_then(OsStr::to_str).is_some_and(is_hash)
}

fn hash(session: &str) -> String {
    hex(&Sha256::digest(session))
}

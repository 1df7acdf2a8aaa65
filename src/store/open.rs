//! Opening and creating the file of a database.

use std::{
    fs::{self, File, Metadata, OpenOptions},
    io::{self, Read},
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
};

use redb::{
    Builder, ConcurrencyMode, Database, DatabaseError, ReadOnlyDatabase, StorageBackend, StorageError,
    backends::{FileBackend, InMemoryBackend},
};
use same_file::Handle as FileIdentity;

use super::{
    overlay::Overlay,
    pages::{FileKind, KIND_BYTES, OpenPagesError, PageFile, PageState, PlainFile, Seal, kind},
};
use crate::{
    config::Config,
    error::{Error, Result},
    lock,
    new_file::{self, NewFile},
};

/// A database of redb, and what happened to the pages under it.
pub(super) struct Opened<D> {
    pub(super) database: D,
    pub(super) pages: Arc<PageState>,
    /// The file, if it was locked for writing.
    pub(super) file: Option<FileIdentity>,
}

/// Returns the kind of a file. A file that is missing is empty.
///
/// # Errors
/// [`Error::NotADatabase`] for what is no regular file; [`Error::Storage`].
pub(super) fn file_kind(path: &Path) -> Result<FileKind> {
    let mut first = Vec::new();
    let read = check_regular(path).and_then(|()| File::open(path)?.take(KIND_BYTES as u64).read_to_end(&mut first));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(FileKind::Empty),
        Err(error) => Err(OpenError::from(error).of(path)),
        Ok(_) => Ok(kind(&first)),
    }
}

/// Opens a database for writing, and repairs it if it was not closed.
pub(super) fn for_writing(path: &Path, config: &Config) -> Result<Opened<Database>> {
    let pages = || page_file(path, File::options().read(true).write(true), config);
    while_named(path, || {
        with_mode(config, |mode| match writable(pages()?, builder(config, mode)) {
            // After a crash the last writes may be torn: redb's repair then goes back to the commit before them.
            Err(error) if error.is_damage() => repaired(pages()?, builder(config, mode)).map_err(|_| error),
            opened => opened,
        })
    })
}

/// Opens a database for reading, beside a process that writes.
pub(super) fn for_reading(path: &Path, config: &Config) -> Result<Opened<ReadOnlyDatabase>> {
    let pages = || page_file(path, File::options().read(true), config);
    shared(|mode| readable(pages()?, builder(config, mode))).map_err(|error| error.of(path))
}

/// Opens the last commit of a database for reading, beside a handle of this process that has failed and holds the
/// locks.
pub(super) fn beside(path: &Path, config: &Config) -> Result<Opened<ReadOnlyDatabase>> {
    let pages = page_file(path, File::options().read(true), config).map_err(|error| error.of(path))?;
    readable(pages.without_locks(), builder(config, ConcurrencyMode::SingleWriter)).map_err(|error| error.of(path))
}

/// Opens a database while no process writes to it. What is written stays in memory.
pub(super) fn unchanged(path: &Path, config: &Config) -> Result<Opened<Database>> {
    let builder = || builder(config, ConcurrencyMode::ExclusiveWriter);
    let pages = || Ok(PageFile::open(Box::new(Overlay::open(path)?), &Seal::of(config)?)?);
    let opened = match file_kind(path)? {
        FileKind::Redb => {
            check_no_key(path, config)?;
            let overlay = Overlay::open(path).map_err(|error| OpenError::from(error).of(path))?;
            opened(Arc::default(), || builder().create_with_backend(overlay))
        }
        _ => match pages().and_then(|pages| writable(pages, builder())) {
            Err(error) if error.is_damage() => pages().and_then(|pages| repaired(pages, builder())).map_err(|_| error),
            opened => opened,
        },
    };
    opened.map_err(|error| error.of(path))
}

/// Opens the last commit of a damaged database for reading. A damaged page reads as an empty one.
pub(super) fn leniently(path: &Path, config: &Config) -> Result<Opened<ReadOnlyDatabase>> {
    if let FileKind::Redb = file_kind(path)? {
        let reason = "it was written by an older version of mnemon, whose pages have no checksums";
        return Err(Error::NotADatabase { path: path.to_path_buf(), reason: reason.into() });
    }
    let pages = page_file(path, File::options().read(true), config).map_err(|error| error.of(path))?;
    pages.state().set_repairing(true);
    readable(pages.without_locks(), builder(config, ConcurrencyMode::SingleWriter)).map_err(|error| error.of(path))
}

/// Reads every page of a database, and names the damaged ones.
pub(super) fn damaged_pages(path: &Path, config: &Config) -> Result<Vec<String>> {
    let pages = page_file(path, File::options().read(true), config).map_err(|error| error.of(path))?;
    pages.damaged_pages().map_err(|error| failed(path, error))
}

/// Opens a redb file without pages of ours, as mnemon wrote it up to version 0.2.
pub(super) fn plain(path: &Path, config: &Config) -> Result<Opened<Database>> {
    check_no_key(path, config)?;
    while_named(path, || {
        let file = PlainFile::new(Box::new(open_file(path, File::options().read(true).write(true))?));
        let state = file.state();
        opened(state, || builder(config, ConcurrencyMode::ExclusiveWriter).create_with_backend(file))
    })
}

/// Refuses a key for a redb file without pages of ours: nobody could tell whether the owner of the key wrote it.
fn check_no_key(path: &Path, config: &Config) -> Result<()> {
    if config.cipher()?.is_some() {
        return Err(Error::NotEncrypted { path: path.to_path_buf() });
    }
    Ok(())
}

/// Creates a database, open and locked, in a new file that is to be `path`.
pub(super) fn create(path: &Path, config: &Config) -> Result<(NewFile, Opened<Database>)> {
    remove_leftovers(path);
    loop {
        let new = NewFile::beside(path).map_err(|error| failed(path, error))?;
        let created = with_mode(config, |mode| {
            let file = open_file(new.temporary(), File::options().read(true).write(true))?;
            writable(PageFile::create(Box::new(file), &Seal::of(config)?)?, builder(config, mode))
        });
        match created {
            // Another process that removes leftovers may lock and remove a file which is not locked yet.
            Err(OpenError::Database(DatabaseError::DatabaseAlreadyOpen)) => {}
            _ if !new.temporary().exists() => {}
            created => {
                let mut opened = created.map_err(|error| error.of(path))?;
                opened.file = Some(identity(new.temporary())?);
                return Ok((new, opened));
            }
        }
    }
}

/// Removes what killed processes left of new files beside this one.
pub(super) fn remove_leftovers(path: &Path) {
    new_file::remove_leftovers(path, |file| {
        let file = FileBackend::new(file).ok()?;
        // No range of it is locked by a process that has the database open.
        file.try_lock_range(Bound::Unbounded, Bound::Unbounded).is_ok_and(|locked| locked).then_some(file)
    });
}

/// Returns the file that has a name.
pub(super) fn identity(path: &Path) -> Result<FileIdentity> {
    FileIdentity::from_path(path).map_err(|error| failed(path, error))
}

/// Reads the mode and the owner of a file.
pub(super) fn access(path: &Path) -> Result<Metadata> {
    fs::metadata(path).map_err(|error| failed(path, error))
}

/// Creates a database in memory.
pub(super) fn in_memory(config: &Config) -> Result<Opened<Database>> {
    let builder = builder(config, ConcurrencyMode::ExclusiveWriter);
    let database = builder.create_with_backend(InMemoryBackend::new());
    let database = database.map_err(|error| OpenError::from(error).of(Path::new("a database in memory")))?;
    Ok(Opened { database, pages: Arc::default(), file: None })
}

/// The error of an operation on a file.
pub(super) fn failed(path: &Path, error: io::Error) -> Error {
    OpenError::from(error).of(path)
}

/// Refuses what is no regular file: opening it may wait for ever.
fn check_regular(path: &Path) -> io::Result<()> {
    let refused = |kind| io::Error::new(io::ErrorKind::InvalidData, format!("it is {kind}"));
    new_file::irregular(path).map_or(Ok(()), |kind| Err(refused(kind)))
}

#[cfg(not(test))]
fn open_file(path: &Path, options: &OpenOptions) -> Result<FileBackend, OpenError> {
    Ok(FileBackend::new(options.open(path)?)?)
}

#[cfg(test)]
fn open_file(path: &Path, options: &OpenOptions) -> Result<super::faulty::Faulty, OpenError> {
    Ok(super::faulty::wrap(path, FileBackend::new(options.open(path)?)?))
}

fn page_file(path: &Path, options: &OpenOptions, config: &Config) -> Result<PageFile, OpenError> {
    check_regular(path)?;
    Ok(PageFile::open(Box::new(open_file(path, options)?), &Seal::of(config)?)?)
}

fn writable(pages: PageFile, builder: Builder) -> Result<Opened<Database>, OpenError> {
    opened(pages.state(), || builder.create_with_backend(pages))
}

fn repaired(pages: PageFile, mut builder: Builder) -> Result<Opened<Database>, OpenError> {
    let state = pages.state();
    state.set_repairing(true);
    builder.set_check_integrity_on_open(true);
    let opened = writable(pages, builder);
    state.set_repairing(false);
    opened
}

fn readable(pages: PageFile, builder: Builder) -> Result<Opened<ReadOnlyDatabase>, OpenError> {
    opened(pages.state(), || builder.open_read_only_with_backend(pages))
}

/// Opens a database of redb. The pages know more of an error than redb, and a panic of redb is damage.
fn opened<D>(pages: Arc<PageState>, open: impl FnOnce() -> Result<D, DatabaseError>) -> Result<Opened<D>, OpenError> {
    let error = match caught(open) {
        Ok(Ok(database)) => return Ok(Opened { database, pages, file: None }),
        Ok(Err(error)) => OpenError::from(error),
        Err(panic) => OpenError::Damaged(panic),
    };
    Err(match (pages.first_damage(), pages.first_failure(), error) {
        (Some(page), ..) => OpenError::Damaged(page.to_string()),
        (None, Some(cause), OpenError::Database(DatabaseError::Storage(StorageError::PreviousIo))) => {
            OpenError::Io(io::Error::other(cause))
        }
        (None, _, error) => error,
    })
}

fn builder(config: &Config, mode: ConcurrencyMode) -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(config.cache_bytes).set_concurrency_mode(mode);
    builder
}

/// The systems on which processes can share a file.
const CAN_SHARE: bool = cfg!(any(target_os = "linux", target_vendor = "apple", windows));

/// Opens a database that other processes may read meanwhile, if the configuration says so.
fn with_mode<T>(config: &Config, open: impl Fn(ConcurrencyMode) -> Result<T, OpenError>) -> Result<T, OpenError> {
    if config.other_readers { shared(open) } else { open(ConcurrencyMode::ExclusiveWriter) }
}

/// Opens a database that other processes may read meanwhile, or, where the system or the file system has no locks for
/// that, one that they may not.
fn shared<T>(open: impl Fn(ConcurrencyMode) -> Result<T, OpenError>) -> Result<T, OpenError> {
    if CAN_SHARE {
        match open(ConcurrencyMode::SingleWriter) {
            Err(OpenError::Database(DatabaseError::Storage(StorageError::Unsupported))) => {}
            opened => return opened,
        }
    }
    open(ConcurrencyMode::ExclusiveWriter)
}

/// Opens and locks the file of this name: again, if another file got the name before the lock was taken.
fn while_named<D>(path: &Path, open: impl Fn() -> Result<Opened<D>, OpenError>) -> Result<Opened<D>> {
    loop {
        let before = identity(path)?;
        let mut opened = open().map_err(|error| error.of(path))?;
        if FileIdentity::from_path(path).is_ok_and(|now| now == before) {
            opened.file = Some(before);
            return Ok(opened);
        }
    }
}

/// The reason why a file was not opened.
enum OpenError {
    Pages(OpenPagesError),
    Database(DatabaseError),
    /// A page that was needed is damaged, or pages contradict each other.
    Damaged(String),
    Io(io::Error),
    /// The key could not be read.
    Key(Error),
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        OpenError::Key(error)
    }
}

impl From<OpenPagesError> for OpenError {
    fn from(error: OpenPagesError) -> Self {
        match error {
            OpenPagesError::Io(error) => OpenError::Io(error),
            error => OpenError::Pages(error),
        }
    }
}

impl From<DatabaseError> for OpenError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Storage(StorageError::Io(error)) => OpenError::Io(error),
            error => OpenError::Database(error),
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> Self {
        OpenError::Io(error)
    }
}

impl OpenError {
    fn is_damage(&self) -> bool {
        matches!(self, OpenError::Damaged(_))
    }

    /// The error for the user.
    fn of(self, path: &Path) -> Error {
        let path = path.to_path_buf();
        let not_a_database = |reason: String| Error::NotADatabase { path: path.clone(), reason };
        match self {
            OpenError::Pages(error @ OpenPagesError::NotPages) => not_a_database(error.to_string()),
            OpenError::Pages(OpenPagesError::NewerVersion(found)) => Error::NewerSchema { path, found, supported: 1 },
            OpenError::Pages(OpenPagesError::KeyNeeded) => Error::KeyNeeded { path },
            OpenError::Pages(OpenPagesError::WrongKey) => Error::WrongKey { path },
            OpenError::Pages(OpenPagesError::NotEncrypted) => Error::NotEncrypted { path },
            OpenError::Key(error) => error,
            OpenError::Pages(error @ OpenPagesError::Damaged) => {
                Error::Corrupted { what: format!("{}: {error}", path.display()) }
            }
            OpenError::Pages(error) => not_a_database(error.to_string()),
            OpenError::Damaged(reason) => Error::Corrupted { what: format!("{}: {reason}", path.display()) },
            OpenError::Database(DatabaseError::DatabaseAlreadyOpen) => {
                let holder = lock::holder(&path);
                Error::DatabaseLocked { path, holder }
            }
            OpenError::Database(DatabaseError::Storage(StorageError::Corrupted(reason))) => not_a_database(reason),
            OpenError::Database(DatabaseError::UpgradeRequired(version)) => {
                not_a_database(format!("it has redb's file format {version}"))
            }
            OpenError::Database(DatabaseError::RepairAborted) => {
                let reason = "it was not closed properly, and must be repaired first".to_owned();
                Error::WriteAccessNeeded { path, reason }
            }
            OpenError::Database(other) => Error::Storage(format!("{}: {other}", path.display()).into()),
            OpenError::Io(error) => match error.kind() {
                io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => not_a_database(error.to_string()),
                io::ErrorKind::PermissionDenied => {
                    let advice = "opening it for reading only needs no write permission";
                    Error::Storage(format!("{}: {error}; {advice}", path.display()).into())
                }
                _ => Error::Storage(format!("{}: {error}", path.display()).into()),
            },
        }
    }
}

/// Runs an operation on a database.
///
/// # Errors
/// [`Error::Corrupted`] if it panicked.
pub(crate) fn guarded<T>(run: impl FnOnce() -> Result<T>) -> Result<T> {
    caught(run).unwrap_or_else(|what| Err(Error::Corrupted { what }))
}

/// Runs an operation of redb. The error says that it panicked.
pub(super) fn caught<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let message = (panic.downcast_ref::<&str>().copied())
            .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
            .unwrap_or("no message");
        format!("the store stopped at an impossible state ({message})")
    })
}

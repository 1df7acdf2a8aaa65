//! The database file: opening, transactions, verification and compaction.

use std::{
    fs, io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use redb::{
    Builder, ConcurrencyMode, Database, DatabaseError, ReadTransaction, ReadableDatabase, StorageError,
    backends::InMemoryBackend,
};

use super::{
    codec,
    overlay::Overlay,
    tables::storage,
    transaction::{Snapshot, Transaction},
    upgrade,
    verify::{self, VerifyReport},
    write_tables::WriteTransaction,
};
use crate::{
    config::Config,
    error::{Error, Result},
};

/// An open database.
pub(crate) struct Store {
    /// The snapshot that all readers share until the next commit. A store that is open for reading keeps its first one.
    latest: Mutex<Option<Arc<ReadTransaction>>>,
    /// `None` if the database is open for reading.
    database: Option<Database>,
    path: PathBuf,
    two_phase_commit: bool,
}

impl Store {
    /// Opens a database, upgrading an older schema. If `create`, creates the file if it does not exist.
    ///
    /// # Errors
    /// [`Error::DatabaseNotFound`], [`Error::DatabaseLocked`], [`Error::NotADatabase`], [`Error::NewerSchema`],
    /// [`Error::Storage`], [`Error::Corrupted`]; [`Error::InvalidConfig`] for the path `:memory:`.
    pub(crate) fn open(path: &Path, config: &Config, create: bool) -> Result<Self> {
        check_name(path)?;
        if !is_filled(path) {
            if !create {
                return Err(Error::DatabaseNotFound { path: path.to_path_buf() });
            }
            if !path.exists() {
                create_file(path)?;
            }
        }
        // An empty file counts as a new one.
        let exists = is_filled(path);
        let open = |mode| {
            let builder = builder(config, mode);
            #[cfg(test)]
            if exists {
                return builder.create_with_backend(super::faulty::open(path)?);
            }
            if exists { builder.open(path) } else { builder.create(path) }
        };
        let database = if config.other_readers { shared(open) } else { open(ConcurrencyMode::ExclusiveWriter) };
        Self::prepare(database.map_err(|error| open_error(path, error))?, path, config, exists)
    }

    /// Opens a database for reading. The store shows the database as of this moment. It needs no permission to write,
    /// and another process may have the database open, for writing too.
    ///
    /// # Errors
    /// Those of [`Store::open`]; [`Error::WriteAccessNeeded`] if the file must be repaired or upgraded first.
    pub(crate) fn open_read_only(path: &Path, config: &Config) -> Result<Self> {
        check_name(path)?;
        if !is_filled(path) {
            return Err(Error::DatabaseNotFound { path: path.to_path_buf() });
        }
        let database = shared(|mode| builder(config, mode).open_read_only(path));
        let database = database.map_err(|error| open_error(path, error))?;
        // The snapshot keeps the file open.
        let snapshot = Arc::new(database.begin_read().map_err(storage)?);
        let path = path.to_path_buf();
        match upgrade::version(&snapshot)? {
            Some(codec::SCHEMA) => {}
            Some(old @ 1..codec::SCHEMA) => {
                let reason = format!("it has schema {old} of an older version of mnemon, and must be upgraded first");
                return Err(Error::WriteAccessNeeded { path, reason });
            }
            Some(found) => return Err(Error::NewerSchema { path, found, supported: codec::SCHEMA }),
            None => return Err(foreign(path)),
        }
        let latest = Mutex::new(Some(snapshot));
        Ok(Store { latest, database: None, path, two_phase_commit: false })
    }

    /// Opens a database for reading while no other process writes to it. Repairs and upgrades stay in memory, so the
    /// file does not change and needs no permission to write. No writer can open it meanwhile.
    ///
    /// # Errors
    /// Those of [`Store::open`].
    pub(crate) fn open_unchanged(path: &Path, config: &Config) -> Result<Self> {
        check_name(path)?;
        if !is_filled(path) {
            return Err(Error::DatabaseNotFound { path: path.to_path_buf() });
        }
        let builder = builder(config, ConcurrencyMode::ExclusiveWriter);
        let database = Overlay::open(path).and_then(|overlay| builder.create_with_backend(overlay));
        Self::prepare(database.map_err(|error| open_error(path, error))?, path, config, true)
    }

    /// Creates a database in memory.
    pub(crate) fn in_memory(config: &Config) -> Result<Self> {
        let builder = builder(config, ConcurrencyMode::ExclusiveWriter);
        let database = builder.create_with_backend(InMemoryBackend::new());
        let path = Path::new("a database in memory");
        Self::prepare(database.map_err(|error| open_error(path, error))?, path, config, false)
    }

    /// Creates or upgrades the tables of a database that was just opened.
    fn prepare(database: Database, path: &Path, config: &Config, exists: bool) -> Result<Self> {
        let store = Store {
            latest: Mutex::new(None),
            database: Some(database),
            path: path.to_path_buf(),
            two_phase_commit: config.two_phase_commit,
        };
        let snapshot = store.read()?;
        let is_blank = || -> Result<bool> { Ok(snapshot.tables().list_tables().map_err(storage)?.next().is_none()) };
        match upgrade::version(snapshot.tables())? {
            Some(codec::SCHEMA) => {}
            Some(old @ 1..codec::SCHEMA) => store.write(|transaction| upgrade::upgrade(transaction.tables(), old))?,
            Some(found) => {
                return Err(Error::NewerSchema { path: store.path, found, supported: codec::SCHEMA });
            }
            None if !exists || is_blank()? => store.write(|transaction| upgrade::create(transaction.tables()))?,
            None => return Err(foreign(store.path)),
        }
        Ok(store)
    }

    /// Runs `change` in a write transaction and commits it if `change` succeeds.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if the database is open for reading.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        let database = self.database.as_ref().ok_or_else(|| Error::ReadOnly { path: self.path.clone() })?;
        let mut tables = database.begin_write().map_err(storage)?;
        tables.set_two_phase_commit(self.two_phase_commit);
        let mut transaction = Transaction::new(WriteTransaction::new(tables, None));
        let value = change(&mut transaction)?;
        let committed = transaction.commit();
        // Only now: a reader that came before the commit may have kept a snapshot without it.
        *self.latest.lock() = None;
        committed.map(|()| value)
    }

    /// Returns a consistent view of the last commit. Readers between two commits share one: opening a transaction takes
    /// several system calls while other processes may read.
    pub(crate) fn read(&self) -> Result<Snapshot> {
        let mut latest = self.latest.lock();
        if let (None, Some(database)) = (&*latest, &self.database) {
            *latest = Some(Arc::new(database.begin_read().map_err(storage)?));
        }
        Ok(Snapshot::new(Arc::clone(latest.as_ref().expect("a store that is open for reading has a snapshot"))))
    }

    /// Returns true if the database is open for reading only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.database.is_none()
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks redb's own pages, which is slow, and then every record against the records that it refers to. The pages
    /// of a store that is open for reading are not checked: another process may be writing to the file.
    pub(crate) fn verify(&mut self) -> Result<VerifyReport> {
        let mut intact = true;
        if let Some(database) = &mut self.database {
            // redb checks pages only while there is no snapshot.
            *self.latest.get_mut() = None;
            intact = database.check_integrity().map_err(storage)?;
        }
        let snapshot = self.read()?;
        // redb panics on some damaged pages, which its own check would have found.
        let checked = catch_unwind(AssertUnwindSafe(|| verify::verify(snapshot.tables())));
        let mut report = checked.unwrap_or_else(|_| Err(Error::corrupted("redb cannot read a page of the file")))?;
        report.pages_checked = !self.is_read_only();
        if !intact {
            report.problems.insert(0, "redb found damaged pages in the file".into());
        }
        Ok(report)
    }

    /// Moves pages to the front of the file and returns the free space at its end to the file system.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if the database is open for reading.
    pub(crate) fn compact(&mut self) -> Result<()> {
        *self.latest.get_mut() = None;
        let read_only = || Error::ReadOnly { path: self.path.clone() };
        self.database.as_mut().ok_or_else(read_only)?.compact().map_err(storage).map(drop)
    }
}

/// The systems on which processes can share a file.
const CAN_SHARE: bool = cfg!(any(target_os = "linux", target_vendor = "apple", windows));

fn builder(config: &Config, mode: ConcurrencyMode) -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(config.cache_bytes).set_concurrency_mode(mode);
    builder
}

/// Opens a database that other processes may read meanwhile, or, where the system or the file system has no locks for
/// that, one that they may not.
fn shared<D>(open: impl Fn(ConcurrencyMode) -> Result<D, DatabaseError>) -> Result<D, DatabaseError> {
    if CAN_SHARE {
        match open(ConcurrencyMode::SingleWriter) {
            Err(DatabaseError::Storage(StorageError::Unsupported)) => {}
            opened => return opened,
        }
    }
    open(ConcurrencyMode::ExclusiveWriter)
}

fn is_filled(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
}

/// Refuses the name by which SQLite opens a database in memory.
fn check_name(path: &Path) -> Result<()> {
    if path != Path::new(":memory:") {
        return Ok(());
    }
    let reason = "\":memory:\" is not the path of a file; open a database in memory with `Engine::in_memory`, or write \
                  \"./:memory:\" for a file of this name";
    Err(Error::InvalidConfig { reason: reason.into() })
}

fn foreign(path: PathBuf) -> Error {
    Error::NotADatabase { path, reason: "it is a redb database of another program".into() }
}

/// Creates an empty database under a temporary name, then gives it its own name. redb writes the first pages of a file
/// before its magic number, so a process killed in between would leave a file that cannot be opened.
fn create_file(path: &Path) -> Result<()> {
    let failed = |error: io::Error| Error::Storage(format!("{}: {error}", path.display()).into());
    let mut name = path.as_os_str().to_owned();
    static CREATED: AtomicU64 = AtomicU64::new(0);
    // No other process or thread uses the same name.
    name.push(format!(".{}-{}.new", std::process::id(), CREATED.fetch_add(1, Ordering::Relaxed)));
    let new = PathBuf::from(name);
    // May be left over from a killed process with the same id.
    let _ = fs::remove_file(&new);
    drop(Database::create(&new).map_err(|error| open_error(path, error))?);
    // A hard link, where the file system has them, does not replace a file that another process created meanwhile.
    let linked = match fs::hard_link(&new, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return fs::rename(&new, path).map_err(failed);
        }
        _ => fs::remove_file(&new),
    };
    linked.map_err(failed)
}

fn open_error(path: &Path, error: DatabaseError) -> Error {
    let damaged = |reason: String| Error::NotADatabase { path: path.to_path_buf(), reason };
    match error {
        DatabaseError::DatabaseAlreadyOpen => Error::DatabaseLocked { path: path.to_path_buf() },
        DatabaseError::Storage(StorageError::Corrupted(reason)) => damaged(reason),
        DatabaseError::Storage(StorageError::Io(error))
            if matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof) =>
        {
            damaged(error.to_string())
        }
        DatabaseError::UpgradeRequired(version) => damaged(format!("it has redb's file format {version}")),
        DatabaseError::RepairAborted => {
            let reason = "it was not closed properly, and must be repaired first".to_owned();
            Error::WriteAccessNeeded { path: path.to_path_buf(), reason }
        }
        DatabaseError::Storage(StorageError::Io(error)) if error.kind() == io::ErrorKind::PermissionDenied => {
            Error::Storage(
                format!("{}: {error}; `Engine::open_read_only` needs no write permission", path.display()).into(),
            )
        }
        other => Error::Storage(format!("{}: {other}", path.display()).into()),
    }
}

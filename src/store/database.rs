//! The database file: opening, transactions, verification and compaction.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use redb::{Database, DatabaseError, ReadableDatabase, StorageError};

use super::{
    codec,
    tables::storage,
    transaction::{Snapshot, Transaction},
    upgrade,
    verify::{self, VerifyReport},
};
use crate::{
    config::Config,
    error::{Error, Result},
};

/// An open database.
pub(crate) struct Store {
    database: Database,
    path: PathBuf,
    two_phase_commit: bool,
}

impl Store {
    /// Opens a database, upgrading an older schema. If `create`, creates the file if it does not exist.
    ///
    /// # Errors
    /// [`Error::DatabaseNotFound`], [`Error::DatabaseLocked`], [`Error::NotADatabase`], [`Error::NewerSchema`],
    /// [`Error::Storage`], [`Error::Corrupted`].
    pub(crate) fn open(path: &Path, config: &Config, create: bool) -> Result<Self> {
        let is_filled = || fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0);
        if !is_filled() {
            if !create {
                return Err(Error::DatabaseNotFound { path: path.to_path_buf() });
            }
            if !path.exists() {
                create_file(path)?;
            }
        }
        // An empty file counts as a new one.
        let exists = is_filled();
        let mut builder = Database::builder();
        builder.set_cache_size(config.cache_bytes);
        let database = if exists { builder.open(path) } else { builder.create(path) };
        let store = Store {
            database: database.map_err(|error| open_error(path, error))?,
            path: path.to_path_buf(),
            two_phase_commit: config.two_phase_commit,
        };
        match store.schema()? {
            Some(codec::SCHEMA) => {}
            Some(old @ 1..codec::SCHEMA) => store.write(|transaction| upgrade::upgrade(transaction.tables(), old))?,
            Some(found) => {
                return Err(Error::NewerSchema { path: store.path, found, supported: codec::SCHEMA });
            }
            None if !exists || store.is_blank()? => store.write(|transaction| upgrade::create(transaction.tables()))?,
            None => {
                let reason = "it is a redb database of another program".to_owned();
                return Err(Error::NotADatabase { path: store.path, reason });
            }
        }
        Ok(store)
    }

    /// Runs `change` in a write transaction and commits it if `change` succeeds.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        let mut tables = self.database.begin_write().map_err(storage)?;
        tables.set_two_phase_commit(self.two_phase_commit);
        let mut transaction = Transaction::new(tables);
        let value = change(&mut transaction)?;
        transaction.commit()?;
        Ok(value)
    }

    /// Opens a consistent view of what is committed.
    pub(crate) fn read(&self) -> Result<Snapshot> {
        Ok(Snapshot::new(self.database.begin_read().map_err(storage)?))
    }

    /// The path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks redb's own pages, which is slow, and then every record against the records that it refers to.
    pub(crate) fn verify(&mut self) -> Result<VerifyReport> {
        let intact = self.database.check_integrity().map_err(storage)?;
        let mut report = verify::verify(self.read()?.tables())?;
        if !intact {
            report.problems.insert(0, "redb found damaged pages and repaired them; verify again".into());
        }
        Ok(report)
    }

    /// Moves pages to the front of the file and returns the free space at its end to the file system.
    pub(crate) fn compact(&mut self) -> Result<()> {
        self.database.compact().map_err(storage).map(drop)
    }

    fn schema(&self) -> Result<Option<u32>> {
        upgrade::version(self.read()?.tables())
    }

    fn is_blank(&self) -> Result<bool> {
        let transaction = self.database.begin_read().map_err(storage)?;
        Ok(transaction.list_tables().map_err(storage)?.next().is_none())
    }
}

/// Creates an empty database under a temporary name, then gives it its own name. redb writes the first pages of a file
/// before its magic number, so a process killed in between would leave a file that cannot be opened.
fn create_file(path: &Path) -> Result<()> {
    let failed = |error: std::io::Error| Error::Storage(format!("{}: {error}", path.display()).into());
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
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
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
            if matches!(error.kind(), std::io::ErrorKind::InvalidData | std::io::ErrorKind::UnexpectedEof) =>
        {
            damaged(error.to_string())
        }
        DatabaseError::UpgradeRequired(version) => damaged(format!("it has redb's file format {version}")),
        other => Error::Storage(format!("{}: {other}", path.display()).into()),
    }
}

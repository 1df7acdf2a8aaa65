//! The file: the only place that knows redb.
//!
//! Owns the schema, the transactions and the checks of what is stored. Does not embed, and does not know the index.
//! Invariants: a transaction is in the file as a whole or not at all; a message with text has either vectors or a
//! pending entry in every live generation, unless it is in its session's short-term buffer; exactly one generation
//! serves, one at most is the previous; a row that is free is dead, and nothing leads to it.

mod blocks;
mod checkpoints;
mod codec;
mod edit;
mod free;
mod generations;
mod graph;
mod lexical;
mod messages;
mod precision;
mod read;
mod rows;
mod schema;
mod sessions;
mod vectors;
mod verify;
mod write;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use redb::{Database, DatabaseError, ReadableDatabase, StorageError};

pub(crate) use blocks::{BlockKey, BlockState};
pub use checkpoints::Checkpoint;
pub(crate) use edit::{BufferChange, Effects};
pub(crate) use generations::FIRST;
pub(crate) use lexical::SegmentInfo;
pub(crate) use messages::{PutResult, SessionChange, give_back_id};
pub use read::Sizes;
pub(crate) use read::{Generation, Pass, Pending, Snapshot};
pub(crate) use rows::RowMeta;
pub use schema::GenerationState;
pub(crate) use schema::Place;
pub use sessions::SessionInfo;
pub(crate) use sessions::StoredBatch;
pub(crate) use vectors::{Embedded, NewRows, Removed};
pub use verify::VerifyReport;
pub(crate) use write::Transaction;

use crate::error::{Error, Result};

/// An open database.
pub(crate) struct Store {
    database: Database,
    path: PathBuf,
    two_phase_commit: bool,
}

/// How to open.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    /// Make the file if there is none.
    pub(crate) create: bool,
    pub(crate) cache_bytes: usize,
    pub(crate) two_phase_commit: bool,
}

impl Store {
    pub(crate) fn open(path: &Path, options: Options) -> Result<Self> {
        let is_filled = || fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0);
        if !is_filled() {
            if !options.create {
                return Err(Error::DatabaseNotFound { path: path.to_path_buf() });
            }
            if !path.exists() {
                make(path)?;
            }
        }
        // An empty file is taken for a new one.
        let exists = is_filled();
        let mut builder = Database::builder();
        builder.set_cache_size(options.cache_bytes);
        let database = if exists { builder.open(path) } else { builder.create(path) };
        let store = Store {
            database: database.map_err(|error| open_error(path, error))?,
            path: path.to_path_buf(),
            two_phase_commit: options.two_phase_commit,
        };
        match store.schema()? {
            Some(codec::SCHEMA) => {}
            Some(old @ 1..codec::SCHEMA) => store.write(|transaction| transaction.upgrade(old))?,
            Some(found) => {
                return Err(Error::NewerSchema { path: store.path, found, supported: codec::SCHEMA });
            }
            None if !exists || store.is_blank()? => store.write(|transaction| transaction.create_schema())?,
            None => {
                let reason = "it is a redb file of another program".to_owned();
                return Err(Error::NotADatabase { path: store.path, reason });
            }
        }
        Ok(store)
    }

    /// Runs `change` in one write transaction, and commits it if it succeeds.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        let mut transaction = Transaction::begin(self)?;
        let value = change(&mut transaction)?;
        transaction.commit()?;
        Ok(value)
    }

    /// A consistent view of what is committed.
    pub(crate) fn read(&self) -> Result<Snapshot> {
        Snapshot::begin(&self.database)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks redb's own pages (slow), then every record against every other.
    pub(crate) fn verify(&mut self) -> Result<VerifyReport> {
        let intact = self.database.check_integrity().map_err(storage)?;
        let mut report = verify::verify(&self.read()?)?;
        if !intact {
            report.problems.insert(0, "redb repaired its pages: run verify again".into());
        }
        Ok(report)
    }

    /// Gives free pages back to the file system, where that shortens the file.
    pub(crate) fn compact(&mut self) -> Result<()> {
        self.database.compact().map_err(storage).map(drop)
    }

    fn schema(&self) -> Result<Option<u32>> {
        self.read()?.schema()
    }

    fn is_blank(&self) -> Result<bool> {
        let transaction = self.database.begin_read().map_err(storage)?;
        Ok(transaction.list_tables().map_err(storage)?.next().is_none())
    }
}

/// Makes an empty database, under its name only when it is whole: redb writes a file's first pages before its magic number,
/// and a process killed in between would leave what cannot be opened.
fn make(path: &Path) -> Result<()> {
    let failed = |error: std::io::Error| Error::Storage(format!("{}: {error}", path.display()).into());
    let mut name = path.as_os_str().to_owned();
    static MADE: AtomicU64 = AtomicU64::new(0);
    // Unlike any that another process or thread is making.
    name.push(format!(".{}-{}.new", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed)));
    let new = PathBuf::from(name);
    // Left by a process of this number that was killed.
    let _ = fs::remove_file(&new);
    drop(Database::create(&new).map_err(|error| open_error(path, error))?);
    // A link, where the file system has them: it does not replace what another process has made meanwhile.
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

/// An error of redb's that is not the user's doing.
fn storage(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        redb::Error::Corrupted(what) => Error::Corrupted { what },
        other => Error::Storage(Box::new(other)),
    }
}

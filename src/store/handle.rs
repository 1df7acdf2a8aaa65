//! An open database of redb: transactions, and what becomes of them when the file fails.

use std::{path::Path, sync::Arc};

use parking_lot::{Mutex, RwLock};
use redb::{Database, Durability, ReadTransaction, ReadableDatabase};
use same_file::Handle as FileIdentity;

use super::{
    open::{self, Opened, caught, guarded},
    pages::{PageState, Syncs},
    tables::{ChangeLog, FailedElsewhere, WriteTransaction, storage},
    transaction::{Snapshot, Transaction},
};
use crate::{
    config::Config,
    error::{Error, Result},
    lock,
};

/// How a commit is written.
#[derive(Clone, Copy)]
pub(super) enum Durable {
    /// It is in the file at the end, and on the disk too after one sync or more.
    Now { two_phase: bool, syncs: Syncs },
    /// It is on the disk with the next durable one.
    Later,
}

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome<T> {
    Committed(T),
    /// The transaction was undone, and nobody saw it.
    RolledBack,
}

/// An open database, until its file fails: redb then answers nothing more.
pub(super) struct Handle {
    /// `None` if the database is open for reading, and after closing.
    database: RwLock<Option<Database>>,
    /// The snapshot that all readers share until the next commit. A handle for reading keeps its first one.
    latest: Mutex<Option<Arc<ReadTransaction>>>,
    pages: Arc<PageState>,
    /// The failed handle that keeps the file locked for this one, and the damage on which it failed.
    failed: Option<(Arc<Handle>, String)>,
    /// Whether it created the file, which it has had locked ever since.
    is_new: bool,
    /// The file that it has locked.
    file: Option<FileIdentity>,
}

impl Handle {
    /// A handle that writes. `is_new`: the file got its name while it was open and locked like this.
    pub(super) fn writing(Opened { database, pages, file }: Opened<Database>, is_new: bool) -> Self {
        Handle { database: RwLock::new(Some(database)), latest: Mutex::default(), pages, failed: None, is_new, file }
    }

    /// A handle that shows the last commit.
    pub(super) fn reading(Opened { database, pages, .. }: Opened<redb::ReadOnlyDatabase>) -> Result<Self> {
        // The snapshot keeps the file open.
        let snapshot = Arc::new(database.begin_read().map_err(storage)?);
        let latest = Mutex::new(Some(snapshot));
        Ok(Handle { database: RwLock::default(), latest, pages, failed: None, is_new: false, file: None })
    }

    /// A handle that reads beside one that met a damaged page, which keeps the file locked.
    pub(super) fn beside(handle: &Arc<Handle>, path: &Path, config: &Config) -> Result<Self> {
        let failed = match &handle.failed {
            Some(failed) => failed.clone(),
            None => (Arc::clone(handle), handle.damage().unwrap_or_default()),
        };
        let mut beside = Self::reading(open::beside(path, config)?)?;
        beside.failed = Some(failed);
        Ok(beside)
    }

    /// Returns true if the file that it has locked has this name. It loses it when somebody moves the file.
    pub(super) fn has_name(&self, path: &Path) -> bool {
        match &self.failed {
            Some((locked, _)) => locked.has_name(path),
            None => self.file.as_ref().is_some_and(|file| lock::leads_to(path, file)),
        }
    }

    /// Returns true if this handle created the file, and has had it locked ever since.
    pub(super) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Returns true if the file has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.pages.first_failure().is_some()
    }

    /// Returns the state of the file's pages: what failed, and which page is damaged.
    pub(super) fn pages(&self) -> &PageState {
        &self.pages
    }

    /// The damage that was read first.
    pub(super) fn damage(&self) -> Option<String> {
        self.pages.first_damage().map(|page| page.to_string())
    }

    /// Returns a consistent view of the last commit. Readers between two commits share one: opening a transaction takes
    /// several system calls while other processes may read. `None`: the database was closed, as its file failed or was replaced.
    pub(super) fn read(&self) -> Result<Option<Snapshot>> {
        let database = self.database.read();
        let mut latest = self.latest.lock();
        if let (None, Some(database)) = (&*latest, &*database) {
            *latest = Some(Arc::new(database.begin_read().map_err(|error| self.pages.explain(storage(error)))?));
        }
        Ok(latest.clone().map(Snapshot::new))
    }

    /// Returns true if a snapshot is in use.
    pub(super) fn is_read(&self) -> bool {
        self.latest.lock().as_ref().is_some_and(|latest| Arc::strong_count(latest) > 1)
    }

    /// Runs `change` in a write transaction, and commits it unless `change` fails or undoes it.
    pub(super) fn write<T>(
        &self,
        durable: Durable,
        changes: Option<ChangeLog>,
        keeps_versions: bool,
        change: impl FnOnce(&Transaction) -> Result<Outcome<T>>,
    ) -> Result<Outcome<T>> {
        let database = self.database.read();
        let Some(database) = &*database else {
            // A store that was opened for reading says so before.
            return Err(match &self.failed {
                Some((_, damage)) => {
                    Error::Corrupted { what: format!("{damage}; nothing more can be written to the file") }
                }
                None => Error::Storage(Box::new(FailedElsewhere)),
            });
        };
        let written = guarded(|| {
            let mut tables = database.begin_write().map_err(|error| self.pages.explain(storage(error)))?;
            match durable {
                Durable::Now { two_phase, .. } => tables.set_two_phase_commit(two_phase),
                Durable::Later => tables.set_durability(Durability::None).map_err(storage)?,
            }
            let transaction = Transaction::new(WriteTransaction::new(tables, changes, keeps_versions));
            let outcome = change(&transaction).map_err(|error| self.pages.explain(error))?;
            if let Outcome::RolledBack = outcome {
                return Ok(outcome);
            }
            let switches = self.pages.switches();
            // Set for the commit alone: what is written before the file gets its name, and at its end, is synced.
            self.pages.set_syncs(match durable {
                Durable::Now { syncs, .. } => syncs,
                Durable::Later => Syncs::All,
            });
            let committed = transaction.commit();
            self.pages.set_syncs(Syncs::All);
            let committed = committed.map_err(|error| {
                // Only a commit whose header was written as that of the newest one may be found in the file.
                if self.has_failed() && self.damage().is_none() && self.pages.switches() > switches {
                    return Error::OutcomeUnknown { cause: self.pages.first_failure().unwrap_or_default() };
                }
                self.pages.explain(error)
            });
            committed.map(|()| outcome)
        });
        // Only now: a reader that came before the commit may have kept a snapshot without it.
        *self.latest.lock() = None;
        written
    }

    /// Runs an operation on the whole database, which no snapshot may be open for.
    pub(super) fn exclusively<T>(&self, run: impl FnOnce(&mut Database) -> Result<T>) -> Result<Option<T>> {
        let mut database = self.database.write();
        let Some(database) = &mut *database else { return Ok(None) };
        *self.latest.lock() = None;
        guarded(|| run(database)).map_err(|error| self.pages.explain(error)).map(Some)
    }

    /// Closes the database and unlocks its file. Snapshots of it fail from now on.
    pub(super) fn close(&self) {
        let database = self.database.write().take();
        *self.latest.lock() = None;
        // An error leaves a file that the next opening repairs.
        let _ = caught(|| database.map(Database::close));
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.close();
    }
}

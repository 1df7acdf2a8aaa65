//! Copies of the open database: a backup in another file, or a purge, after which the copy is the database.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::Serialize;

use super::{
    copy,
    database::{Kind, State, Store},
    handle::Handle,
    open::{self, Opened},
    tables::{ChangedKeys, storage},
};
use crate::{
    config::Config,
    error::{Error, Result},
    new_file::sync_folder,
};

/// The number of changed keys that the last step of a purge may copy, while writes wait for it.
const FEW: usize = 1000;
/// The most steps in which a purge follows the changes that are made meanwhile.
const STEPS: usize = 20;
/// How long a purge waits for the reads that began before it.
const READS: Duration = Duration::from_secs(5);

/// The result of a purge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PurgeReport {
    /// Size of the file before, in bytes.
    pub bytes_before: u64,
    /// Size of the file afterwards, in bytes.
    pub bytes_after: u64,
}

impl Store {
    /// Writes the database, as of this moment, to a new file, which these settings open.
    ///
    /// # Errors
    /// [`Error::FileExists`], [`Error::Corrupted`], [`Error::Storage`].
    pub(crate) fn backup(&self, path: &Path, config: &Config) -> Result<()> {
        if path.exists() {
            return Err(Error::FileExists { path: path.to_path_buf() });
        }
        let snapshot = self.read()?;
        let like = match self.kind {
            Kind::InMemory => None,
            _ => Some(open::access(&self.path)?),
        };
        let (new, Opened { mut database, pages, .. }) = open::create(path, config)?;
        pages.set_in_steps(true);
        copy::copy(snapshot.tables(), &database).map_err(|error| pages.explain(error))?;
        drop(snapshot);
        // Reads every page back, not those in memory.
        if !database.check_integrity().map_err(|error| pages.explain(storage(error)))? {
            return Err(Error::Storage(format!("{}: the disk did not keep what was written", path.display()).into()));
        }
        // Gives back the space that the file grew by beforehand.
        database.compact().map_err(|error| pages.explain(storage(error)))?;
        database.close().map_err(|error| pages.explain(storage(error)))?;
        let named = like.map_or(Ok(()), |like| new.set_access(&like)).and_then(|()| new.name());
        named.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::FileExists { path: path.to_path_buf() },
            _ => open::failed(path, error),
        })
    }

    /// Replaces the file by a copy, which has nothing of what was deleted. Reads go on; writes wait for the last, short
    /// step.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::DatabaseMoved`], [`Error::Corrupted`], [`Error::Storage`].
    pub(crate) fn purge(&self) -> Result<PurgeReport> {
        match self.kind {
            Kind::File => {}
            Kind::ReadOnly => return Err(Error::ReadOnly { path: self.path.clone() }),
            Kind::InMemory => return Ok(PurgeReport { bytes_before: 0, bytes_after: 0 }),
        }
        self.check_name()?;
        let _one = self.purging.lock();
        let bytes_before = self.file_bytes()?;
        let copied = self.copy_and_follow();
        *self.changes.lock() = None;
        let old = copied?;
        let waited = std::time::Instant::now();
        while old.is_read() && waited.elapsed() < READS {
            std::thread::sleep(Duration::from_millis(5));
        }
        old.close();
        Ok(PurgeReport { bytes_before, bytes_after: self.file_bytes()? })
    }

    /// Returns the handle of the file that was replaced.
    fn copy_and_follow(&self) -> Result<Arc<Handle>> {
        let log = || Some(Arc::new(Mutex::new(ChangedKeys::new())));
        let access = open::access(&self.path)?;
        let (mut new, mut opened) = open::create(&self.path, &self.config)?;
        let pages = Arc::clone(&opened.pages);
        pages.set_in_steps(true);
        let snapshot = {
            // No write is under way: what the snapshot lacks is noted.
            let mut changes = self.changes.lock();
            *changes = log();
            self.read()?
        };
        let copied = |copied: Result<()>| copied.map_err(|error| pages.explain(error));
        copied(copy::copy(snapshot.tables(), &opened.database))?;
        drop(snapshot);
        // Gives back the space that the file grew by beforehand.
        copied(opened.database.compact().map(drop).map_err(storage))?;
        for _ in 0..STEPS {
            let mut changes = self.changes.lock();
            let changed = std::mem::replace(&mut *changes, log()).map(|log| std::mem::take(&mut *log.lock()));
            let (changed, snapshot) = (changed.unwrap_or_default(), self.read()?);
            if changed.values().map(|keys| keys.len()).sum::<usize>() > FEW {
                drop(changes);
                copied(copy::follow(snapshot.tables(), &opened.database, &changed))?;
                continue;
            }
            copied(copy::follow(snapshot.tables(), &opened.database, &changed))?;
            drop(snapshot);
            let mut state = self.state.write();
            let State::Open(old) = &*state else {
                return Err(Error::Storage("the database's file failed during a purge; purge again".into()));
            };
            let old = Arc::clone(old);
            if old.has_failed() {
                return Err(old.pages().cause());
            }
            if !old.has_name(&self.name) {
                return Err(self.moved());
            }
            pages.set_in_steps(false);
            new.replace(&access).map_err(|error| open::failed(&self.path, error))?;
            *state = State::Open(Arc::new(Handle::writing(opened, false)));
            *changes = None;
            sync_folder(&self.path).map_err(|error| open::failed(&self.path, error))?;
            return Ok(old);
        }
        Err(Error::Storage("the database changed faster than it was copied; purge again when fewer writes run".into()))
    }

    fn file_bytes(&self) -> Result<u64> {
        let metadata = fs::metadata(&self.path);
        metadata.map(|metadata| metadata.len()).map_err(|error| open::failed(&self.path, error))
    }
}

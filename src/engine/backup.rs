//! Backups: consistent copies of the database, while calls go on.

use std::path::PathBuf;

use super::{core::Core, executor::Lane, handle::Engine, writer::Commit};
use crate::{
    error::Result,
    store::{PurgeReport, Transaction},
};

impl Engine {
    /// Writes the database, as of this moment, to a new file, which has no free space and nothing of what was deleted.
    /// Other calls go on meanwhile, also those that write. The file gets its name when it is complete, durable, and
    /// read back page by page. It has the mode of the database's file, and its owner and group as far as the system
    /// allows. Opening it with [`Engine::open`] restores it. Cost: a pass over the file, and as much
    /// disk space as its contents take.
    ///
    /// # Errors
    /// [`Error::FileExists`](crate::Error::FileExists) if there is a file of this name;
    /// [`Error::Corrupted`](crate::Error::Corrupted); [`Error::Storage`](crate::Error::Storage), also for errors of the
    /// new file. None of them leaves a file.
    pub async fn backup(&self, path: impl Into<PathBuf>) -> Result<()> {
        let path = path.into();
        self.core().run(Lane::Long, move |core| core.shared.store.backup(&path, &core.shared.config)).await
    }

    /// Same as [`Engine::backup`], encrypted with another key, or not at all: this is how the key of a database is
    /// changed.
    ///
    /// # Errors
    /// Those of [`Engine::backup`]; [`Error::KeyUnavailable`](crate::Error::KeyUnavailable).
    #[cfg(feature = "encryption")]
    pub async fn backup_with_key(
        &self,
        path: impl Into<PathBuf>,
        key: Option<crate::encryption::EncryptionKey>,
    ) -> Result<()> {
        let path = path.into();
        let work = move |core: &Core| {
            let mut config = core.shared.config.clone();
            config.encryption_key = key;
            core.shared.store.backup(&path, &config)
        };
        self.core().run(Lane::Long, work).await
    }

    /// Replaces the file by a copy of what is left, so that nothing of what was deleted or forgotten is in its bytes
    /// any more. Other calls go on meanwhile; writes wait for the last step, some milliseconds. Readers in other
    /// processes go on showing the old file until they open it again. The new file has the mode, owner and group of the
    /// old one; a symbolic link to it stays one. A file system or a disk may keep old blocks: an
    /// encrypted database protects these too. The purge has an entry in the [audit](Self::audit). Cost: a pass over the
    /// file, and as much disk space as its contents take.
    ///
    /// # Errors
    /// [`Error::ReadOnly`](crate::Error::ReadOnly), [`Error::DatabaseMoved`](crate::Error::DatabaseMoved),
    /// [`Error::Corrupted`](crate::Error::Corrupted), [`Error::Storage`](crate::Error::Storage), also if the system does
    /// not let the process give the new file its owner. After an error the file is as it was.
    pub async fn purge(&self) -> Result<PurgeReport> {
        self.core().run(Lane::Long, purge).await
    }

    /// Removes the database's file if this engine created it and nothing was ever stored in it, and returns whether it
    /// did. Every later call then fails. This undoes the creation of a file by a program that failed before it stored
    /// anything; a file that another process has had open since is never removed.
    ///
    /// # Errors
    /// [`Error::Storage`](crate::Error::Storage): the file could not be removed.
    pub async fn remove_if_unused(&self) -> Result<bool> {
        self.core().run(Lane::Long, |core| core.shared.store.remove_if_unused()).await
    }
}

pub(super) fn purge(core: &Core) -> Result<PurgeReport> {
    // What is forgotten meanwhile may have been copied already.
    let covers = core.shared.store.read()?.audit().entries()?;
    let report = core.shared.store.purge()?;
    if core.shared.replica.is_some() {
        // The audit of a shared database is not of this file.
        return Ok(report);
    }
    let record = move |transaction: &Transaction| transaction.audit().record_purge(covers);
    core.writer.commit(Commit::Grouped, record).wait()?;
    Ok(report)
}

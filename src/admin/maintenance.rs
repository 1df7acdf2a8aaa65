//! Statistics, verification, copies and repair of a closed database.

use std::path::Path;

use serde::Serialize;

use super::DatabaseFile;
#[cfg(feature = "encryption")]
use crate::encryption::EncryptionKey;
use crate::{
    config::{Config, Precision},
    error::{Error, Result},
    forget::Audit,
    ids::{Anchor, ModelIdentity, Namespace},
    lexical::{Language, LanguageOrigin},
    message::ttl_minutes,
    recall::{check_graphs, check_lexical},
    store::{
        self, GenerationState, NamespaceCursor, NamespacePage, PurgeReport, SalvageReport, Snapshot, StorageSizes,
        Store, VerifyReport,
    },
};

/// The contents of a database in numbers.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Size of the file in bytes.
    pub file_bytes: u64,
    /// Bytes of the file by kind of data. The rest is free space, or used by redb itself.
    pub sizes: StorageSizes,
    /// The generations: the serving one, and possibly one that a reindex is building, the previous one, and old ones
    /// being deleted.
    pub generations: Vec<GenerationStats>,
    /// All namespaces, by name.
    pub namespaces: Vec<NamespaceStats>,
}

/// One generation: a complete set of vectors made by one model.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct GenerationStats {
    /// The model that made the vectors.
    pub model: ModelIdentity,
    /// The precision in which the vectors are stored.
    pub precision: Precision,
    /// The state of the generation.
    pub state: GenerationState,
    /// Number of messages that are pending in it.
    pub pending: u64,
}

/// One namespace, with its vectors and pending messages in the serving generation.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct NamespaceStats {
    /// The name of the namespace.
    pub namespace: Namespace,
    /// Number of messages, including those that have expired and are not deleted yet.
    pub messages: u64,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of documents, including those that have expired and are not deleted yet.
    pub documents: u64,
    /// Number of vectors of its messages. A long message has several.
    pub vectors: u64,
    /// Number of messages that wait to be embedded.
    pub pending: u64,
    /// Number of messages in the short-term buffers of its sessions. They are not pending and cannot be recalled yet.
    pub buffered: u64,
    /// The language in which its texts are analysed.
    pub language: Language,
    /// Where the language is from.
    pub language_origin: LanguageOrigin,
    /// The [time to live](crate::Engine::set_ttl) of its messages in minutes, if it has one.
    pub ttl_minutes: Option<f64>,
}

impl DatabaseFile {
    /// Counts the contents of the database, as of this moment; other processes may have it open. The file may be
    /// read-only. Cost: a pass over the keys of its messages.
    ///
    /// # Errors
    /// Those of [`Engine::open_read_only`](crate::Engine::open_read_only), except those of its model and
    /// [`Error::WriteAccessNeeded`]; [`Error::Corrupted`].
    pub fn stats(&self) -> Result<Stats> {
        self.read(|snapshot| count(&self.path, snapshot))
    }

    /// Same as [`Engine::namespaces`](crate::Engine::namespaces) on a database as of this moment; other processes may
    /// have it open. The file may be read-only.
    ///
    /// # Errors
    /// Those of [`Engine::namespaces`](crate::Engine::namespaces) and of [`DatabaseFile::stats`].
    pub fn namespaces(
        &self,
        prefix: Option<&Namespace>,
        after: Option<&NamespaceCursor>,
        limit: usize,
    ) -> Result<NamespacePage> {
        self.read(|snapshot| snapshot.namespaces().page(prefix, after, limit))
    }

    /// Same as [`Engine::audit`](crate::Engine::audit) on a database as of this moment; other processes may have it
    /// open. The file may be read-only.
    ///
    /// # Errors
    /// Those of [`Engine::audit`](crate::Engine::audit) and of [`DatabaseFile::stats`].
    pub fn audit(&self) -> Result<Audit> {
        self.read(|snapshot| snapshot.audit().read(0..u64::MAX))
    }

    /// Returns the model of the serving generation of a database; `None` if nothing was ever stored in it.
    ///
    /// # Errors
    /// Those of [`DatabaseFile::stats`].
    pub fn serving_model(&self) -> Result<Option<ModelIdentity>> {
        let serving = self.read(|snapshot| snapshot.generations().serving())?;
        Ok(serving.map(|generation| generation.identity))
    }

    /// Same as [`Engine::anchor`](crate::Engine::anchor) on a database as of this moment; other processes may have it
    /// open. The file may be read-only.
    ///
    /// # Errors
    /// Those of [`DatabaseFile::stats`].
    pub fn anchor(&self) -> Result<Anchor> {
        self.read(Snapshot::anchor)
    }

    /// Returns true if the database has this commit, as [`Config::anchor`](field@crate::Config::anchor) needs it. Of one that is not among
    /// the last 65,536, the number counts alone.
    ///
    /// # Errors
    /// Those of [`DatabaseFile::stats`].
    pub fn has_commit(&self, commit: Anchor) -> Result<bool> {
        self.read(|snapshot| snapshot.has_commit(commit))
    }

    /// Checks the pages of a database, every record against the records that it refers to, and then its graphs and
    /// lexical indexes. Cost: a pass over the whole file, and memory for one entry per message.
    ///
    /// The file does not change and may be read-only. While another process has it open for writing, its records are
    /// checked as of this moment and its pages are not ([`VerifyReport::pages_checked`]). Otherwise no writer can open
    /// it meanwhile.
    ///
    /// # Errors
    /// Those of [`Engine::open_read_only`](crate::Engine::open_read_only), except those of its model and
    /// [`Error::WriteAccessNeeded`]. Problems inside the database are in the report.
    pub fn verify(&self) -> Result<VerifyReport> {
        match store::guarded(|| self.check()) {
            Err(Error::Corrupted { what }) => Ok(VerifyReport { problems: vec![what], ..VerifyReport::default() }),
            checked => checked,
        }
    }

    /// Returns what this replica of a shared database had and the database lost, in a fail-over or by the restore of a
    /// backup, and what the replica had deleted and is there again: an object of JSON each, with its `namespace`, `table`
    /// and columns, and `lost`, which is `row` or `deletion`. Nothing of it is served or stored again by itself. Entries
    /// stay until something is forgotten in their namespace, or the file is deleted.
    ///
    /// # Errors
    /// Those of [`Engine::open_read_only`](crate::Engine::open_read_only), except those of its model.
    pub fn lost(&self) -> Result<Vec<String>> {
        self.read(|snapshot| snapshot.lost_rows().lines())
    }

    /// Same as [`Engine::backup`](crate::Engine::backup) on a database that no process has open. The new file has the
    /// same key.
    ///
    /// # Errors
    /// Those of [`Engine::backup`](crate::Engine::backup), and those of opening the database for writing.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<()> {
        self.copy(to.as_ref(), &self.config)
    }

    /// Same as [`Engine::backup_with_key`](crate::Engine::backup_with_key) on a database that no process has open.
    /// Feature `encryption`.
    ///
    /// # Errors
    /// Those of [`Engine::backup_with_key`](crate::Engine::backup_with_key), and those of opening the database for
    /// writing.
    #[cfg(feature = "encryption")]
    pub fn backup_with_key(&self, to: impl AsRef<Path>, key: Option<EncryptionKey>) -> Result<()> {
        let mut config = self.config.clone();
        config.encryption_key = key;
        self.copy(to.as_ref(), &config)
    }

    /// Same as [`Engine::purge`](crate::Engine::purge) on a database that no process has open.
    ///
    /// # Errors
    /// Those of [`Engine::purge`](crate::Engine::purge), and those of opening the database for writing.
    pub fn purge(&self) -> Result<PurgeReport> {
        store::guarded(|| {
            let store = Store::open(&self.path, &self.config, false)?;
            let covers = store.read()?.audit().entries()?;
            let report = store.purge()?;
            // The audit of a shared database is not of this file.
            if store.read()?.versions().origin()?.is_none() {
                store.write(|transaction| transaction.audit().record_purge(covers))?;
            }
            Ok(report)
        })
    }

    /// Copies what can still be read of this damaged database into a new one: messages with their sessions, batches and
    /// checkpoints, block states, documents, legal holds, and the audit. Vectors and indexes are made again when the
    /// new database is opened. The damaged file does not change. The new one has the same key, mode and owner.
    ///
    /// If a legal hold cannot be read, all namespaces are held in the new database, and the report says so.
    ///
    /// # Errors
    /// [`Error::FileExists`]; [`Error::DatabaseNotFound`]; [`Error::DatabaseLocked`]; [`Error::NotADatabase`] if
    /// nothing at all can be read; [`Error::Storage`].
    pub fn salvage(&self, new: impl AsRef<Path>) -> Result<SalvageReport> {
        store::guarded(|| store::salvage(&self.path, new.as_ref(), &self.config))
    }

    /// Reads a database without changing its file.
    fn read<T>(&self, read: impl FnOnce(&Snapshot) -> Result<T>) -> Result<T> {
        store::guarded(|| {
            let store = match Store::open_read_only(&self.path, &self.config) {
                Err(Error::WriteAccessNeeded { .. }) => Store::open_unchanged(&self.path, &self.config)?,
                opened => opened?,
            };
            read(&store.read()?)
        })
    }

    fn copy(&self, to: &Path, new_config: &Config) -> Result<()> {
        store::guarded(|| Store::open(&self.path, &self.config, false)?.backup(to, new_config))
    }

    fn check(&self) -> Result<VerifyReport> {
        let mut store = match Store::open_unchanged(&self.path, &self.config) {
            Err(Error::DatabaseLocked { .. }) => Store::open_read_only(&self.path, &self.config)?,
            opened => opened?,
        };
        let mut report = store.verify()?;
        // If pages or rows are damaged, problems of the indexes would only follow from that.
        if report.problems.is_empty() {
            report.problems = check_graphs(&store)?;
            report.problems.extend(check_lexical(&store)?);
        }
        Ok(report)
    }
}

fn count(path: &Path, snapshot: &Snapshot) -> Result<Stats> {
    let serving = snapshot.generations().serving()?.map(|generation| generation.id);
    let namespaces = store::namespace_counts(snapshot, serving)?;
    let file_bytes = std::fs::metadata(path).map_err(|error| Error::Storage(error.into()))?.len();
    Ok(Stats {
        file_bytes,
        sizes: store::sizes(snapshot)?,
        generations: snapshot
            .generations()
            .all()?
            .into_iter()
            .map(|generation| {
                Ok(GenerationStats {
                    pending: snapshot.pending().count(generation.id)?,
                    model: generation.identity,
                    precision: generation.precision,
                    state: generation.state,
                })
            })
            .collect::<Result<_>>()?,
        namespaces: namespaces
            .into_iter()
            .map(|counts| NamespaceStats {
                namespace: counts.namespace,
                messages: counts.messages,
                sessions: counts.sessions,
                documents: counts.documents,
                vectors: counts.vectors,
                pending: counts.pending,
                buffered: counts.buffered,
                language: counts.language.language,
                language_origin: counts.language.origin,
                ttl_minutes: counts.ttl.map(ttl_minutes),
            })
            .collect(),
    })
}

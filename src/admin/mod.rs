//! Administration of a database that no engine has open, as methods of [`DatabaseFile`]: statistics, verification and
//! copies (`maintenance`), conversion to another model (`reindex`), and moving it to a database that several machines
//! share (`share`).
//!
//! Each method opens the file, does one thing, and closes it. What an open engine does to its own file is not here: the
//! methods of [`Engine`](crate::Engine) with the same names do that.
//!
//! Invariant: a method that only reads does not change the file, and works on a file that may not be written.

mod functions;
mod maintenance;
mod reindex;
#[cfg(feature = "postgres")]
mod share;

use std::path::{Path, PathBuf};

use crate::{config::Config, error::impl_debug};

#[cfg(feature = "encryption")]
#[doc(hidden)]
pub use self::functions::backup_with_key;
#[cfg(feature = "postgres")]
#[doc(hidden)]
pub use self::functions::share;
#[doc(hidden)]
pub use self::functions::{
    audit, backup, drop_previous, namespaces, purge, reindex, rollback, salvage, serving_model, stats, verify,
};
pub use self::maintenance::{GenerationStats, NamespaceStats, Stats};
#[cfg(feature = "postgres")]
pub use self::share::{ShareReport, Unshared, unshare};
#[doc(inline)]
pub use crate::{
    engine::reindex::{GateReport, ReindexOptions, ReindexPhase, ReindexProgress, ReindexReport},
    lexical::LanguageOrigin,
    store::{
        GenerationState, NamespaceCursor, NamespaceInfo, NamespacePage, NamespaceTotals, PurgeReport, SalvageReport,
        StorageSizes, TransferReport, VerifyReport,
    },
};

/// The file of a database that no engine has open, with its key if it is encrypted.
///
/// Its methods open the file by themselves: for statistics and verification, for copies, and to convert the database to
/// another model. An [`Engine`](crate::Engine) has methods of the same names for a database that is open.
///
#[cfg_attr(all(feature = "encryption", feature = "bundled-model"), doc = "```")]
#[cfg_attr(not(all(feature = "encryption", feature = "bundled-model")), doc = "```ignore")]
/// # fn main() -> mnemon::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("memory.redb");
/// use mnemon::{Config, DatabaseFile, EncryptionKey, Engine};
/// let key = EncryptionKey::from_bytes([7; 32]);
/// Engine::builder(&path).config(Config::default().encryption_key(key.clone())).open()?;
/// let stats = DatabaseFile::new(&path).encryption_key(key).stats()?;
/// # assert!(stats.namespaces.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DatabaseFile {
    pub(crate) path: PathBuf,
    /// The default settings, with the key.
    pub(crate) config: Config,
}

impl_debug!(DatabaseFile { path });

impl DatabaseFile {
    /// Names the file of a database without encryption.
    pub fn new(path: impl AsRef<Path>) -> Self {
        DatabaseFile { path: path.as_ref().to_path_buf(), config: Config::default() }
    }

    /// Sets the key of an encrypted database. Feature `encryption`.
    #[cfg(feature = "encryption")]
    pub fn encryption_key(mut self, key: crate::encryption::EncryptionKey) -> Self {
        self.config.encryption_key = Some(key);
        self
    }
}

impl<P: AsRef<Path>> From<P> for DatabaseFile {
    fn from(path: P) -> Self {
        DatabaseFile::new(path)
    }
}

impl From<&DatabaseFile> for DatabaseFile {
    fn from(file: &DatabaseFile) -> Self {
        file.clone()
    }
}

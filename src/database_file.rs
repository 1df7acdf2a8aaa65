//! The database that a function opens by itself: its path, and its key if it is encrypted.

use std::path::{Path, PathBuf};

use crate::{config::Config, error::impl_debug};

/// The file of a database, with its key if it is encrypted: the argument of the functions that open a database by
/// themselves, such as [`stats`](crate::stats()) and [`reindex`](crate::reindex()).
///
/// A path alone stands for a database without encryption, so these functions take any path too.
///
#[cfg_attr(all(feature = "encryption", feature = "bundled-model"), doc = "```")]
#[cfg_attr(not(all(feature = "encryption", feature = "bundled-model")), doc = "```ignore")]
/// # fn main() -> mnemon::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("memory.redb");
/// use mnemon::{Config, DatabaseFile, EncryptionKey, Engine};
/// let key = EncryptionKey::from_bytes([7; 32]);
/// Engine::builder(&path).config(Config::default().encryption_key(key.clone())).open()?;
/// let stats = mnemon::stats(DatabaseFile::new(&path).encryption_key(key))?;
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

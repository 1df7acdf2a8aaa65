//! The key of encrypted databases and embedding caches: that of --key-file, or else of $MNEMON_KEY.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use mnemon::{Config, DatabaseFile, EncryptionKey};

const VARIABLE: &str = "MNEMON_KEY";

static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
static KEY: OnceLock<Option<EncryptionKey>> = OnceLock::new();

/// Sets the file of the key, once. It is read when a database is opened.
pub(crate) fn configure(file: Option<PathBuf>) {
    let _ = FILE.set(file);
}

/// Returns the file of the key, if one was given.
#[cfg(feature = "serve")]
pub(crate) fn file() -> Option<&'static Path> {
    FILE.get().and_then(Option::as_deref)
}

/// Returns the key that was given, if one was.
///
/// # Errors
/// The key cannot be read. A variable that is set and empty is no key: a database without encryption would be created.
pub(crate) fn given() -> mnemon::Result<Option<EncryptionKey>> {
    if let Some(read) = KEY.get() {
        // Not from the file again, which may be a pipe.
        return Ok(read.clone());
    }
    let key = match FILE.get() {
        Some(Some(file)) => Some(EncryptionKey::from_file(file)?),
        _ if std::env::var_os(VARIABLE).is_some() => Some(EncryptionKey::from_env(VARIABLE)?),
        _ => None,
    };
    Ok(KEY.get_or_init(|| key).clone())
}

/// Returns a database with the key that was given.
pub(crate) fn database(path: &Path) -> mnemon::Result<DatabaseFile> {
    let database = DatabaseFile::new(path);
    Ok(match given()? {
        Some(key) => database.encryption_key(key),
        None => database,
    })
}

/// Sets the key that was given.
pub(crate) fn set(config: &mut Config) -> mnemon::Result<()> {
    config.encryption_key = given()?;
    Ok(())
}

//! The functions of release 0.2 that are methods of [`DatabaseFile`] now. They go with the next release.

use std::{ops::ControlFlow, path::Path, sync::Arc};

use super::{DatabaseFile, maintenance::Stats};
use crate::{
    embed::Embedder,
    engine::reindex::{ReindexOptions, ReindexProgress, ReindexReport},
    error::Result,
    forget::Audit,
    ids::{ModelIdentity, Namespace},
    store::{NamespaceCursor, NamespacePage, PurgeReport, SalvageReport, VerifyReport},
};

/// Same as [`DatabaseFile::stats`].
///
/// # Errors
/// Those of [`DatabaseFile::stats`].
pub fn stats(database: impl Into<DatabaseFile>) -> Result<Stats> {
    database.into().stats()
}

/// Same as [`DatabaseFile::namespaces`].
///
/// # Errors
/// Those of [`DatabaseFile::namespaces`].
pub fn namespaces(
    database: impl Into<DatabaseFile>,
    prefix: Option<&Namespace>,
    after: Option<&NamespaceCursor>,
    limit: usize,
) -> Result<NamespacePage> {
    database.into().namespaces(prefix, after, limit)
}

/// Same as [`DatabaseFile::audit`].
///
/// # Errors
/// Those of [`DatabaseFile::audit`].
pub fn audit(database: impl Into<DatabaseFile>) -> Result<Audit> {
    database.into().audit()
}

/// Same as [`DatabaseFile::serving_model`].
///
/// # Errors
/// Those of [`DatabaseFile::serving_model`].
pub fn serving_model(database: impl Into<DatabaseFile>) -> Result<Option<ModelIdentity>> {
    database.into().serving_model()
}

/// Same as [`DatabaseFile::verify`].
///
/// # Errors
/// Those of [`DatabaseFile::verify`].
pub fn verify(database: impl Into<DatabaseFile>) -> Result<VerifyReport> {
    database.into().verify()
}

/// Same as [`DatabaseFile::backup`].
///
/// # Errors
/// Those of [`DatabaseFile::backup`].
pub fn backup(database: impl Into<DatabaseFile>, to: impl AsRef<Path>) -> Result<()> {
    database.into().backup(to)
}

/// Same as [`DatabaseFile::backup_with_key`].
///
/// # Errors
/// Those of [`DatabaseFile::backup_with_key`].
#[cfg(feature = "encryption")]
pub fn backup_with_key(
    database: impl Into<DatabaseFile>,
    to: impl AsRef<Path>,
    key: Option<crate::encryption::EncryptionKey>,
) -> Result<()> {
    database.into().backup_with_key(to, key)
}

/// Same as [`DatabaseFile::purge`].
///
/// # Errors
/// Those of [`DatabaseFile::purge`].
pub fn purge(database: impl Into<DatabaseFile>) -> Result<PurgeReport> {
    database.into().purge()
}

/// Same as [`DatabaseFile::salvage`].
///
/// # Errors
/// Those of [`DatabaseFile::salvage`].
pub fn salvage(database: impl Into<DatabaseFile>, new: impl AsRef<Path>) -> Result<SalvageReport> {
    database.into().salvage(new)
}

/// Same as [`DatabaseFile::reindex`].
///
/// # Errors
/// Those of [`DatabaseFile::reindex`].
pub fn reindex(
    database: impl Into<DatabaseFile>,
    embedder: Arc<dyn Embedder>,
    options: ReindexOptions,
    progress: impl FnMut(ReindexProgress) -> ControlFlow<()>,
) -> Result<ReindexReport> {
    database.into().reindex(embedder, options, progress)
}

/// Same as [`DatabaseFile::rollback`].
///
/// # Errors
/// Those of [`DatabaseFile::rollback`].
pub fn rollback(
    database: impl Into<DatabaseFile>,
    embedder: Arc<dyn Embedder>,
    progress: impl FnMut(ReindexProgress) -> ControlFlow<()>,
) -> Result<ReindexReport> {
    database.into().rollback(embedder, progress)
}

/// Same as [`DatabaseFile::drop_previous`].
///
/// # Errors
/// Those of [`DatabaseFile::drop_previous`].
pub fn drop_previous(database: impl Into<DatabaseFile>) -> Result<bool> {
    database.into().drop_previous()
}

/// Same as [`DatabaseFile::share`].
///
/// # Errors
/// Those of [`DatabaseFile::share`].
#[cfg(feature = "postgres")]
pub fn share(database: impl Into<DatabaseFile>, address: &str) -> Result<super::share::ShareReport> {
    database.into().share(address)
}

//! Types that both sources of the catalogue, the hub and PyPI, use.

use std::path::PathBuf;

use serde::Serialize;

/// A model that [`Model::pull`](crate::Model::pull) can fetch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CatalogueEntry {
    /// The name to pull it by.
    pub name: String,
    /// One line about the model.
    pub description: String,
    /// The source: a hub's repository and the graph's file, or a package.
    pub source: String,
    /// Number of components of a vector.
    pub dimension: usize,
}

/// A progress callback of a download: the file's name, the bytes received so far, and the file's size in bytes.
pub(super) type Progress<'p> = &'p mut dyn FnMut(&str, u64, u64);

/// A folder of downloaded files, to be imported.
pub(super) struct Fetched {
    pub(super) folder: PathBuf,
    /// The source of the files, with the version.
    pub(super) source: String,
}

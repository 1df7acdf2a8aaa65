//! Descriptions of models for display, and the list of installed models.

use std::{
    collections::{BTreeSet, HashSet},
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    folder::{self, MANIFEST, ModelKind, Pooling, Quantization, RerankerManifest, invalid},
    model::Model,
};
use crate::error::{Error, Result};

/// The contents of a model's manifest, with the sizes of its files. [`Model`] describes the fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ModelInfo {
    /// The model's name.
    pub name: String,
    /// The folder, or `<bundled>/NAME`.
    pub path: PathBuf,
    /// One line about the model.
    pub description: String,
    /// The source of the model.
    pub source: String,
    /// The licence.
    pub license: String,
    /// Components of a vector.
    pub dimension: usize,
    /// Components of the graph's output, if they are more.
    pub model_dimension: Option<usize>,
    /// The method that combines the vectors of the tokens into one.
    pub pooling: Pooling,
    /// The output of the graph that is read, if it is not the default one.
    pub output: Option<String>,
    /// Maximum tokens of one text, special tokens included.
    pub max_tokens: usize,
    /// Prefix of each query.
    pub query_prefix: String,
    /// Prefix of each document.
    pub document_prefix: String,
    /// The parts of the model that are in 8 bits.
    pub quantization: Quantization,
    /// Whether padding a text changes no bit of its vector.
    pub padding_exact: bool,
    /// Hash of everything that changes a vector: [`ModelIdentity::hash`](crate::ModelIdentity::hash).
    pub hash: String,
    /// The files that the manifest names.
    pub files: Vec<ModelFile>,
}

/// A file of a model folder.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ModelFile {
    /// The file's name.
    pub name: String,
    /// The file's size in bytes.
    pub bytes: u64,
    /// The file's SHA-256 in the manifest, hexadecimal.
    pub sha256: String,
}

impl Model {
    /// Returns the contents of the manifest and the sizes of the files. No file is read.
    ///
    /// # Errors
    /// [`Error::InvalidModel`](crate::Error::InvalidModel): a file is missing.
    pub fn info(&self) -> Result<ModelInfo> {
        let manifest = self.manifest.clone();
        let file = |(name, sha256): (String, String)| Ok(ModelFile { bytes: self.size(&name)?, name, sha256 });
        Ok(ModelInfo {
            name: manifest.name,
            path: self.path(),
            description: manifest.description,
            source: manifest.source,
            license: manifest.license,
            dimension: manifest.dimension,
            model_dimension: manifest.model_dimension,
            pooling: manifest.pooling,
            output: manifest.output,
            max_tokens: manifest.max_tokens,
            query_prefix: manifest.query_prefix,
            document_prefix: manifest.document_prefix,
            quantization: manifest.quantization,
            padding_exact: manifest.padding_exact,
            hash: self.identity().hash.clone(),
            files: manifest.files.into_iter().map(file).collect::<Result<_>>()?,
        })
    }

    /// Lists the models that [`Model::find`] finds by name: the bundled one, then those in the folders that it
    /// searches, in order. Each has its folder, and an error if the model is invalid. Of two models with one name, the
    /// first is found; of two copies of a model, the first is listed.
    pub fn installed() -> Vec<(PathBuf, Result<Model>)> {
        let mut models = Vec::new();
        #[cfg(feature = "bundled-model")]
        models.push((Model::bundled().path(), Ok(Model::bundled())));
        let mut seen = BTreeSet::new();
        for home in Model::homes().filter(|home| seen.insert(home.canonicalize().ok())) {
            let entries = home.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
            let mut folders: Vec<PathBuf> =
                entries.filter(|path| !hidden(path) && path.join(MANIFEST).is_file()).collect();
            folders.sort();
            models.extend(folders.into_iter().map(|folder| (folder.clone(), Model::open(folder))));
        }
        // The same model may be in several folders.
        let mut identities = HashSet::new();
        models.retain(|(_, model)| model.as_ref().map_or(true, |model| identities.insert(model.identity().clone())));
        models
    }

    fn size(&self, file: &str) -> Result<u64> {
        match self.folder() {
            Some(folder) => {
                let metadata = fs::metadata(folder.join(file));
                let gone = |error: std::io::Error| invalid(folder, format!("{file}: {error}"), Some(error.into()));
                Ok(metadata.map_err(gone)?.len())
            }
            None => Ok(self.read(file)?.len() as u64),
        }
    }
}

/// Returns true for a folder that is not searched, such as a model that is still being made.
fn hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

/// The contents of a reranker's manifest, with the sizes of its files. [`CrossEncoder`](crate::CrossEncoder) describes
/// the fields, and runs the reranker.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RerankerInfo {
    /// The reranker's name.
    pub name: String,
    /// The folder.
    pub path: PathBuf,
    /// One line about the reranker.
    pub description: String,
    /// The source of the reranker.
    pub source: String,
    /// The licence.
    pub license: String,
    /// Maximum tokens of a pair, special tokens included.
    pub max_tokens: usize,
    /// The parts of the model that are in 8 bits.
    pub quantization: Quantization,
    /// The files that the manifest names; missing files have 0 bytes.
    pub files: Vec<ModelFile>,
}

impl RerankerInfo {
    /// Reads the manifest of the reranker in a folder, and the sizes of the files. No other file is read.
    ///
    /// # Errors
    /// [`Error::InvalidModel`]: the folder has no manifest of a reranker.
    pub fn read(folder: impl AsRef<Path>) -> Result<Self> {
        let path = folder.as_ref();
        let manifest: RerankerManifest = folder::read_manifest(path, ModelKind::Reranker)?;
        let bytes = |name: &str| fs::metadata(path.join(name)).map_or(0, |metadata| metadata.len());
        let file = |(name, sha256): (String, String)| ModelFile { bytes: bytes(&name), name, sha256 };
        Ok(RerankerInfo {
            name: manifest.name,
            path: path.to_path_buf(),
            description: manifest.description,
            source: manifest.source,
            license: manifest.license,
            max_tokens: manifest.max_tokens,
            quantization: manifest.quantization,
            files: manifest.files.into_iter().map(file).collect(),
        })
    }

    /// Finds a reranker by path or name, in the folders where [`Model::find`] looks for models.
    ///
    /// # Errors
    /// [`Error::ModelNotFound`] with the folders that were tried; those of [`RerankerInfo::read`].
    pub fn find(name: &str) -> Result<Self> {
        let mut looked = vec![PathBuf::from(name)];
        looked.extend(Model::homes().map(|home| home.join(name)));
        match looked.iter().find(|folder| folder.join(MANIFEST).is_file()) {
            Some(folder) => RerankerInfo::read(folder),
            None => Err(Error::ModelNotFound { name: name.to_owned(), looked }),
        }
    }
}

//! What a reranker's folder says of itself.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    Model,
    folder::{self, MANIFEST},
    info::ModelFile,
    manifest::{Kind, Quantization, RerankerManifest},
};
use crate::error::{Error, Result};

/// All that a reranker's manifest says, with the sizes of its files. [`CrossEncoder`](crate::CrossEncoder) says what each field means,
/// and opens it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RerankerInfo {
    /// What it is called.
    pub name: String,
    /// The folder.
    pub path: PathBuf,
    /// One line about it.
    pub description: String,
    /// Where it comes from.
    pub source: String,
    /// Its licence.
    pub license: String,
    /// Tokens of a pair, special ones included.
    pub max_tokens: usize,
    /// What is in 8 bits.
    pub quantization: Quantization,
    /// The files that the manifest names; those that are gone have 0 bytes.
    pub files: Vec<ModelFile>,
}

impl RerankerInfo {
    /// What the manifest of the reranker in a folder says. No other file is read, only sizes are looked up.
    ///
    /// # Errors
    /// [`Error::InvalidModel`]: it has no manifest of a reranker.
    pub fn read(folder: impl AsRef<Path>) -> Result<Self> {
        let path = folder.as_ref();
        let manifest: RerankerManifest = folder::manifest(path, Kind::Reranker)?;
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

    /// The same of this name or path, looked for where [`Model::find`] looks for models.
    ///
    /// # Errors
    /// [`Error::ModelNotFound`] with the places looked in; else as [`RerankerInfo::read`].
    pub fn find(name: &str) -> Result<Self> {
        let mut looked = vec![PathBuf::from(name)];
        looked.extend(Model::homes().map(|home| home.join(name)));
        match looked.iter().find(|folder| folder.join(MANIFEST).is_file()) {
            Some(folder) => RerankerInfo::read(folder),
            None => Err(Error::ModelNotFound { name: name.to_owned(), looked }),
        }
    }
}

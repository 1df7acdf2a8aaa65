//! Descriptions of rerankers for display.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    folder::{self, MANIFEST},
    info::ModelFile,
    manifest::{Kind, Quantization, RerankerManifest},
    model::Model,
};
use crate::error::{Error, Result};

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

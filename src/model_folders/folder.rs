//! Model folders: `manifest.toml`, which describes the model, and the files that are checked against its hashes.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Component, Path},
    str::FromStr,
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use crate::{
    error::{BoxError, Error, Result},
    ids::hex,
};

/// The name of the manifest in a folder.
pub(crate) const MANIFEST: &str = "manifest.toml";

/// The largest `max_tokens`: far more than any model takes, and few enough to fit in memory.
const MAX_TOKENS: usize = 1 << 17;

/// The key `kind`: what a model is for. A manifest without it is an embedder's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ModelKind {
    #[default]
    Embedder,
    Reranker,
}

/// The manifest of an embedder. [`Model`](crate::Model) describes the keys.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) source: String,
    pub(crate) license: String,
    pub(crate) dimension: usize,
    pub(crate) pooling: Pooling,
    /// The output of the graph that is read. Default: the only output, else `sentence_embedding` if `pooling` is none,
    /// else `last_hidden_state`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<String>,
    /// Components of the graph's output, if `dimension` is less: a vector is then the first of them, normalized again
    /// (A. Kusupati et al., "Matryoshka Representation Learning", arXiv 2205.13147).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model_dimension: Option<usize>,
    /// Whether vectors are normalized. Only `true` is supported: the index compares unit vectors.
    pub(crate) normalize: bool,
    /// Maximum tokens of one text, special tokens included.
    pub(crate) max_tokens: usize,
    pub(crate) query_prefix: String,
    pub(crate) document_prefix: String,
    pub(crate) quantization: Quantization,
    /// Whether padding a text changes no bit of its vector, so that texts of any lengths may share a batch. True for
    /// token tables, false for attention.
    #[serde(default)]
    pub(crate) padding_exact: bool,
    /// Maps file names to SHA-256, hexadecimal.
    pub(crate) files: BTreeMap<String, String>,
    /// Maps the files that the graph was built from, such as `model.safetensors`, to SHA-256, hexadecimal; empty if it
    /// was not built. The weights decide whether models are the same, and different tools build different graphs of
    /// them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) made_from: BTreeMap<String, String>,
}

/// The manifest of a reranker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RerankerManifest {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) source: String,
    pub(crate) license: String,
    /// Maximum tokens of a pair, special tokens included.
    pub(crate) max_tokens: usize,
    pub(crate) quantization: Quantization,
    /// Maps file names to SHA-256, hexadecimal.
    pub(crate) files: BTreeMap<String, String>,
}

/// The method that combines the vectors of a text's tokens into the vector of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Pooling {
    /// The mean of all tokens.
    Mean,
    /// The vector of the first token, which is `[CLS]` in a BERT.
    Cls,
    /// The vector of the last token, for models with causal attention.
    LastToken,
    /// No pooling: the graph's output has one row for each text.
    None,
}

impl Pooling {
    const ALL: [Pooling; 4] = [Pooling::Mean, Pooling::Cls, Pooling::LastToken, Pooling::None];
}

impl fmt::Display for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pooling::Mean => "mean",
            Pooling::Cls => "cls",
            Pooling::LastToken => "last_token",
            Pooling::None => "none",
        })
    }
}

impl FromStr for Pooling {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Pooling::ALL.into_iter().find(|pooling| pooling.to_string() == name).ok_or_else(|| Error::InvalidConfig {
            reason: format!("pooling {name:?} is not mean, cls, last_token or none"),
        })
    }
}

/// The parts of a model that are in 8 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Quantization {
    /// No part, or only the weights.
    None,
    /// Weights and activations, with scales stored in the graph.
    Static,
    /// Weights and activations, with scales computed from each batch: a vector depends on the other texts in the batch.
    Dynamic,
}

impl fmt::Display for Quantization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Quantization::None => "none",
            Quantization::Static => "static",
            Quantization::Dynamic => "dynamic",
        })
    }
}

/// Parses the manifest of a model of this kind. Fails with the reason.
pub(crate) fn parse_manifest<M: DeserializeOwned>(text: &str, kind: ModelKind) -> Result<M, String> {
    let mut table: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
    let given = match table.remove("kind") {
        Some(given) => given.try_into().map_err(|error| format!("kind: {error}"))?,
        None => ModelKind::default(),
    };
    match given {
        given if given == kind => table.try_into().map_err(|error| error.to_string()),
        ModelKind::Embedder => Err("kind is not \"reranker\": the model is an embedder, and is opened as one".into()),
        ModelKind::Reranker => {
            Err("kind is \"reranker\": the model is no embedder, and is opened as a reranker".into())
        }
    }
}

impl Manifest {
    /// Returns the reason why a parsed manifest is invalid; `None` if it is valid.
    pub(crate) fn fault(&self) -> Option<String> {
        let fault = if self.name.trim().is_empty() {
            Some("name is empty".to_owned())
        } else if !self.normalize {
            Some("normalize = false is not supported, because vectors are compared by angle".to_owned())
        } else if self.output.as_ref().is_some_and(String::is_empty) {
            Some("output is empty; name an output of the graph, or remove the key".to_owned())
        } else if self.padding_exact && self.quantization == Quantization::Dynamic {
            let conflict = "padding_exact = true contradicts quantization = \"dynamic\"";
            Some(format!("{conflict}: a vector depends on the other texts in the batch"))
        } else {
            None
        };
        fault
            .or_else(|| in_range("dimension", self.dimension, 65_535))
            .or_else(|| in_range("max_tokens", self.max_tokens, MAX_TOKENS))
            .or_else(|| match self.model_dimension {
                Some(model) if model < self.dimension => {
                    Some(format!("dimension {} is larger than model_dimension {model}", self.dimension))
                }
                _ => None,
            })
            .or_else(|| files_fault(&self.files))
            .or_else(|| files_fault(&self.made_from))
            .map(|fault| format!("manifest.toml: {fault}"))
    }

    /// Returns the hash of everything that changes a vector: the settings, and the files that the graph was built from,
    /// or else the model's own files. Names and descriptions do not count.
    pub(crate) fn hash(&self) -> String {
        self.hash_with(if self.made_from.is_empty() { &self.files } else { &self.made_from })
    }

    /// Returns the hash that versions of this crate without `made_from` gave to the model.
    pub(crate) fn hash_of_files(&self) -> String {
        self.hash_with(&self.files)
    }

    fn hash_with(&self, files: &BTreeMap<String, String>) -> String {
        let mut hasher = Sha256::new();
        let facts = format!(
            "{} {:?} {} {:?} {:?} {:?} {files:?}",
            self.dimension, self.pooling, self.max_tokens, self.query_prefix, self.document_prefix, self.quantization,
        );
        hasher.update(facts);
        // Only if they are set, so that the hashes of older manifests stay the same.
        if self.output.is_some() || self.model_dimension.is_some() {
            hasher.update(format!(" {:?} {:?}", self.output, self.model_dimension));
        }
        hex(&hasher.finalize())
    }
}

impl RerankerManifest {
    /// Returns the reason why a parsed manifest is invalid; `None` if it is valid.
    pub(crate) fn fault(&self) -> Option<String> {
        in_range("max_tokens", self.max_tokens, MAX_TOKENS)
            .or_else(|| files_fault(&self.files))
            .map(|fault| format!("manifest.toml: {fault}"))
    }
}

fn in_range(key: &str, value: usize, most: usize) -> Option<String> {
    (!(1..=most).contains(&value)).then(|| format!("{key} {value} is not within 1 to {most}"))
}

fn files_fault(files: &BTreeMap<String, String>) -> Option<String> {
    files.iter().find_map(|(file, hash)| file_fault(file, hash))
}

fn file_fault(file: &str, hash: &str) -> Option<String> {
    if !is_plain(file) {
        return Some(format!(
            "[files] or [made_from] names {file:?}; only names of files in the folder itself are allowed"
        ));
    }
    let is_sha256 = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (!is_sha256).then(|| format!("{hash:?} of {file} is not a sha256 (64 hexadecimal digits)"))
}

/// Returns true if this is the name of a file and nothing more, on any system: no folder, no drive, no way out of the
/// folder.
pub(crate) fn is_plain(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let one = matches!(components.next(), Some(Component::Normal(only)) if only == name) && components.next().is_none();
    one && !name.contains(['/', '\\', ':', '\0'])
}

/// Reads the manifest of a folder that holds a model of this kind.
pub(crate) fn read_manifest<M: DeserializeOwned>(folder: &Path, kind: ModelKind) -> Result<M> {
    let text = fs::read_to_string(folder.join(MANIFEST))
        .map_err(|error| invalid(folder, format!("manifest.toml: {error}"), Some(error.into())))?;
    parse_manifest(&text, kind).map_err(|reason| invalid(folder, format!("manifest.toml: {reason}"), None))
}

/// Checks that these files are in the folder, and that the manifest has their hashes.
pub(crate) fn check(folder: &Path, files: &[&str], hashes: &BTreeMap<String, String>) -> Result<()> {
    for file in files {
        if !hashes.contains_key(*file) {
            return Err(invalid(folder, format!("manifest.toml: [files] does not name {file}"), None));
        }
        if !folder.join(file).is_file() {
            return Err(invalid(folder, format!("{file} is missing"), None));
        }
    }
    Ok(())
}

/// Checks that a file is in the folder, even if its name is a symbolic link.
pub(crate) fn confined(folder: &Path, file: &str) -> Result<()> {
    let real = |path: &Path| {
        path.canonicalize().map_err(|error| invalid(folder, format!("{file}: {error}"), Some(error.into())))
    };
    if real(&folder.join(file))?.starts_with(real(folder)?) {
        return Ok(());
    }
    Err(invalid(folder, format!("{file} is a symbolic link out of the folder; put the file itself there"), None))
}

/// Reads a file, whose presence [`check`] has confirmed, and compares its hash.
pub(crate) fn read(folder: &Path, file: &str, hashes: &BTreeMap<String, String>) -> Result<Vec<u8>> {
    let path = folder.join(file);
    let bytes = fs::read(&path).map_err(|error| invalid(folder, format!("{file}: {error}"), Some(error.into())))?;
    let expected = hashes[file].to_ascii_lowercase();
    let found = hex(&Sha256::digest(&bytes));
    if found != expected {
        return Err(Error::ModelHashMismatch { path, expected, found });
    }
    Ok(bytes)
}

/// Checks the hashes of the files that the manifest names and the caller has not read.
pub(crate) fn check_others(folder: &Path, read_already: &[&str], hashes: &BTreeMap<String, String>) -> Result<()> {
    for file in hashes.keys().filter(|file| !read_already.contains(&file.as_str())) {
        check(folder, &[file], hashes)?;
        read(folder, file, hashes)?;
    }
    Ok(())
}

pub(crate) fn invalid(folder: &Path, reason: impl Into<String>, source: Option<BoxError>) -> Error {
    let reason = reason.into();
    // A reason may quote its source, which would be shown twice.
    let source = source.filter(|source| !reason.contains(&source.to_string()));
    Error::InvalidModel { path: folder.to_path_buf(), reason, source }
}

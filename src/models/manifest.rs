//! `manifest.toml`, the description of a model folder.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use super::file_name::is_plain;
use crate::{error::Error, ids::hex};

/// The largest `max_tokens`: far more than any model takes, and few enough to fit in memory.
const MAX_TOKENS: usize = 1 << 17;

/// The key `kind`: what a model is for. A manifest without it is an embedder's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
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
pub(crate) fn parse<M: DeserializeOwned>(text: &str, kind: Kind) -> Result<M, String> {
    let mut table: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
    let given = match table.remove("kind") {
        Some(given) => given.try_into().map_err(|error| format!("kind: {error}"))?,
        None => Kind::default(),
    };
    match given {
        given if given == kind => table.try_into().map_err(|error| error.to_string()),
        Kind::Embedder => Err("kind is not \"reranker\": the model is an embedder, and is opened as one".into()),
        Kind::Reranker => Err("kind is \"reranker\": the model is no embedder, and is opened as a reranker".into()),
    }
}

impl Manifest {
    /// Returns the reason why a manifest that parses is invalid, if it is.
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
    /// Returns the reason why a manifest that parses is invalid, if it is.
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

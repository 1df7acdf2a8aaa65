//! `manifest.toml`: what a model folder says of itself.

use std::{collections::BTreeMap, fmt, str::FromStr};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use super::folder;
use crate::error::Error;

/// Tokens of one run that a model may take: far more than any does, and few enough to be held in memory.
const MAX_TOKENS: usize = 1 << 17;

/// `kind`: what a model is for. A manifest that does not say is an embedder's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    #[default]
    Embedder,
    Reranker,
}

/// An embedder's. [`Model`](crate::Model) says what each key means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) source: String,
    pub(super) license: String,
    pub(super) dimension: usize,
    pub(super) pooling: Pooling,
    /// The graph's output that is read. If it is not given: `sentence_embedding` where `pooling` is none, else `last_hidden_state`,
    /// and where there is no such output, the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) output: Option<String>,
    /// Components that the graph gives, if `dimension` is less: a vector is then the first of them, made of unit length again
    /// (A. Kusupati et al., "Matryoshka Representation Learning", arXiv 2205.13147).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) model_dimension: Option<usize>,
    /// Only `true` is supported: the index compares unit vectors.
    pub(super) normalize: bool,
    /// Tokens of one run, special tokens included.
    pub(super) max_tokens: usize,
    pub(super) query_prefix: String,
    pub(super) document_prefix: String,
    pub(super) quantization: Quantization,
    /// Padding a text does not change a bit of its vector, so texts of any lengths may share a run.
    /// True of token tables, not of attention.
    #[serde(default)]
    pub(super) padding_exact: bool,
    /// File name to sha256, hexadecimal.
    pub(super) files: BTreeMap<String, String>,
}

/// A reranker's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RerankerManifest {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) source: String,
    pub(super) license: String,
    /// Tokens of a pair, special tokens included.
    pub(super) max_tokens: usize,
    pub(super) quantization: Quantization,
    /// File name to sha256, hexadecimal.
    pub(super) files: BTreeMap<String, String>,
}

/// How the vectors of a text's tokens become the text's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first token's: `[CLS]` in a BERT.
    Cls,
    /// The last token's, as of models that read from left to right.
    LastToken,
    /// The graph does it: its output has a row a text.
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

/// What of a model is in 8 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Quantization {
    /// Nothing, or its weights alone.
    None,
    /// Activations too, with scales that are in the graph.
    Static,
    /// Activations are scaled by the largest value of the run: what a text gives depends on its companions.
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

/// The manifest of a model of this kind, or what is wrong with it.
pub(super) fn parse<M: DeserializeOwned>(text: &str, kind: Kind) -> Result<M, String> {
    let mut table: toml::Table = toml::from_str(text).map_err(|error| error.to_string())?;
    let given = match table.remove("kind") {
        Some(given) => given.try_into().map_err(|error| format!("kind: {error}"))?,
        None => Kind::default(),
    };
    match given {
        given if given == kind => table.try_into().map_err(|error| error.to_string()),
        Kind::Embedder => Err("kind is not \"reranker\"; an embedder is opened by `Model::open`".into()),
        Kind::Reranker => Err("kind is \"reranker\"; it is opened by `CrossEncoder::open`".into()),
    }
}

impl Manifest {
    /// What is wrong with it beyond its form, if anything.
    pub(super) fn fault(&self) -> Option<String> {
        let fault = if self.name.trim().is_empty() {
            Some("name is empty".to_owned())
        } else if !self.normalize {
            Some("normalize = false is not supported, vectors are compared by angle".to_owned())
        } else if self.output.as_ref().is_some_and(String::is_empty) {
            Some("output is empty; name an output of the graph, or leave it out".to_owned())
        } else if self.padding_exact && self.quantization == Quantization::Dynamic {
            let what = "padding_exact cannot hold with quantization = \"dynamic\"";
            Some(format!("{what}: what a text gives depends on what it is run with"))
        } else {
            None
        };
        fault
            .or_else(|| in_range("dimension", self.dimension, 65_535))
            .or_else(|| in_range("max_tokens", self.max_tokens, MAX_TOKENS))
            .or_else(|| match self.model_dimension {
                Some(model) if model < self.dimension => {
                    Some(format!("dimension {} of {model} that the model has", self.dimension))
                }
                _ => None,
            })
            .or_else(|| files_fault(&self.files))
            .map(|fault| format!("manifest.toml: {fault}"))
    }

    /// Hash of all that changes a vector; names and descriptions do not.
    pub(super) fn hash(&self) -> String {
        let mut hasher = Sha256::new();
        let facts = format!(
            "{} {:?} {} {:?} {:?} {:?} {:?}",
            self.dimension,
            self.pooling,
            self.max_tokens,
            self.query_prefix,
            self.document_prefix,
            self.quantization,
            self.files
        );
        hasher.update(facts);
        // Not where they are not given: what older manifests hash to stays.
        if self.output.is_some() || self.model_dimension.is_some() {
            hasher.update(format!(" {:?} {:?}", self.output, self.model_dimension));
        }
        hex(&hasher.finalize())
    }
}

impl RerankerManifest {
    /// What is wrong with it beyond its form, if anything.
    pub(super) fn fault(&self) -> Option<String> {
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
    if !folder::is_plain(file) {
        return Some(format!("[files] names {file:?}; a file's plain name is needed, in the folder itself"));
    }
    let is_sha256 = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (!is_sha256).then(|| format!("[files]: {hash:?} of {file} is no sha256 (64 hexadecimal digits)"))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

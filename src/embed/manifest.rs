//! `manifest.toml`: what a model folder says of itself.

use std::collections::BTreeMap;

use serde::{Deserialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

/// `kind`: what a model is for. A manifest that does not say is an embedder's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    #[default]
    Embedder,
    Reranker,
}

/// An embedder's.
#[derive(Clone, Debug, Deserialize)]
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
    #[serde(default)]
    pub(super) output: Option<String>,
    /// Components that the graph gives, if `dimension` is less: a vector is then the first of them, made of unit length again
    /// (A. Kusupati et al., "Matryoshka Representation Learning", arXiv 2205.13147).
    #[serde(default)]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Pooling {
    Mean,
    Cls,
    LastToken,
    /// The graph does it: its output has a row a text.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Quantization {
    None,
    Static,
    /// Activations are scaled by the largest value of the run: what a text gives depends on its companions.
    Dynamic,
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
        if !self.normalize {
            return Some("manifest.toml: normalize = false is not supported, vectors are compared by angle".into());
        }
        if !(1..=65_535).contains(&self.dimension) {
            return Some(format!("manifest.toml: dimension {} is not within 1 to 65535", self.dimension));
        }
        if let Some(model_dimension) = self.model_dimension
            && model_dimension < self.dimension
        {
            return Some(format!(
                "manifest.toml: dimension {} of {model_dimension} that the model has",
                self.dimension
            ));
        }
        None
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

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

//! The options of an import.

use std::path::PathBuf;

use crate::models::Pooling;

/// Options of [`Model::import`](crate::Model::import) and [`Model::pull`](crate::Model::pull). All are optional:
/// `ImportOptions::default()` uses the metadata of the source folder.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ImportOptions {
    /// The model's name. Default: the destination folder's.
    pub name: Option<String>,
    /// One line about the model. Default: its type and dimension.
    pub description: Option<String>,
    /// The source of the model. Default: the name.
    pub source: Option<String>,
    /// The licence. Default: the one named in README.md, or `unknown`.
    pub license: Option<String>,
    /// The path of the graph in the folder, such as `onnx/model_quantized.onnx`; or `model.safetensors`, to build the
    /// graph from the weights. Default: `model.onnx`, `onnx/model.onnx` or the only graph; if there is none, it is
    /// built.
    pub graph: Option<PathBuf>,
    /// The output of the graph that is read, such as `text_embeds`. Default: `last_hidden_state` if the pooling is
    /// known, else `sentence_embedding`, else the only output.
    pub output: Option<String>,
    /// The method that combines the vectors of the tokens. Required if the folder does not state it.
    pub pooling: Option<Pooling>,
    /// Number of components of a vector: the first of the model's output. Only for models that were trained to be
    /// truncated.
    pub dimension: Option<usize>,
    /// Maximum tokens of one text, special tokens included.
    pub max_tokens: Option<usize>,
    /// Prefix of queries.
    pub query_prefix: Option<String>,
    /// Prefix of documents.
    pub document_prefix: Option<String>,
}

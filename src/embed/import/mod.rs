//! Model folders made of what other tools export.

mod encoder;
mod family;
mod graph;
mod place;
mod read;
mod source;
mod tokenizer;
mod weights;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use sha2::{Digest, Sha256};

#[cfg(feature = "pull")]
pub(super) use self::place::{beside, damaged, place, taken, there};
use self::{place::Made, read::Read, source::Described};
use super::{
    Model, fit,
    folder::{self, MANIFEST, invalid},
    manifest::{Manifest, Pooling, hex},
};
use crate::error::{Error, Result};

/// Tokens of a run where nothing limits them.
const MAX_TOKENS: usize = 512;

/// What [`Model::import`] is told beside the folder. All is optional: `ImportOptions::default()` takes what the folder says.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ImportOptions {
    /// The model's name. Default: the destination folder's.
    pub name: Option<String>,
    /// One line about it. Default: what kind of encoder it is.
    pub description: Option<String>,
    /// Where it comes from. Default: the name.
    pub source: Option<String>,
    /// Its licence. Default: the one that its README.md names, or `unknown`.
    pub license: Option<String>,
    /// The graph, as a path in the folder, such as `onnx/model_quantized.onnx`; or `model.safetensors`, to have one built from the
    /// weights. Default: `model.onnx`, `onnx/model.onnx` or the only one; without any, one is built.
    pub graph: Option<PathBuf>,
    /// The graph's output that is read, such as `text_embeds`. Default: `last_hidden_state` where the pooling is known, or
    /// `sentence_embedding`, or the only one.
    pub output: Option<String>,
    /// How the states of tokens become a vector. Has to be given where the folder does not say.
    pub pooling: Option<Pooling>,
    /// Components of a vector, the first of those that the model gives: for models that were trained for it.
    pub dimension: Option<usize>,
    /// Tokens of a run, special ones included.
    pub max_tokens: Option<usize>,
    /// Put before questions.
    pub query_prefix: Option<String>,
    /// Put before texts that are to be found.
    pub document_prefix: Option<String>,
}

impl Model {
    /// Makes a model folder of a folder that another tool wrote, and opens it.
    ///
    /// Two layouts are read: of optimum (`model.onnx` or `onnx/model.onnx`, the files that it has weights in, `tokenizer.json`,
    /// `config.json`), and of sentence-transformers (`modules.json` with its pooling, prompts and limits; a graph in `onnx/`, or
    /// `model.safetensors` of a BERT, RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT or MPNet, of which a graph is built in f32).
    /// A BERT's `vocab.txt` will do for a tokenizer. What is in 8 bits is told by the graph's operators.
    ///
    /// The destination appears once the model has run, or not at all. If it is there already with the same model, it is opened, and
    /// what is damaged or missing of it is put back.
    ///
    /// Cost: twice the weights in memory while the folder is made; the model is then loaded and run once, which takes about as much. Of
    /// MiniLM, 90 MB of weights, 240 MB at most.
    ///
    /// # Errors
    /// [`Error::InvalidModel`]: what the folder lacks, or has and cannot be; the destination cannot be written, or is there and is
    /// another model. [`Error::InvalidConfig`]: an option is outside its range. [`Error::RuntimeNotFound`].
    pub fn import(source: impl AsRef<Path>, destination: impl AsRef<Path>, options: &ImportOptions) -> Result<Self> {
        let (source, destination) = (source.as_ref(), destination.as_ref());
        let name = name(destination, options)?;
        // Before the work.
        place::there(destination)?;
        place::place(make(source, name, options)?, source, destination)
    }
}

/// The model of a folder that another tool wrote, not yet in its place.
pub(super) fn make(source: &Path, name: String, options: &ImportOptions) -> Result<Made> {
    if !source.is_dir() {
        return Err(invalid(source, "no such folder", None));
    }
    let described = source::describe(source)?;
    let read = read::read(source, &described, options)?;
    let tokenizer = tokenizer::read(&described)?;
    fit::check(source, &read.model, &tokenizer)?;
    let mut manifest = manifest(source, name, &described, &read, options)?;
    let mut files = read.files;
    let clash = files.insert("tokenizer.json".into(), Bytes::from(tokenizer)).is_some() || files.contains_key(MANIFEST);
    if clash {
        return Err(invalid(source, "the graph has weights in a file named as another of the model's", None));
    }
    manifest.files = files.iter().map(|(name, bytes)| (name.clone(), hex(&Sha256::digest(bytes)))).collect();
    match manifest.fault() {
        Some(fault) => Err(invalid(source, fault, None)),
        None => Ok(Made { files, manifest }),
    }
}

/// The name that the model is to have.
pub(super) fn name(destination: &Path, options: &ImportOptions) -> Result<String> {
    let of_folder = || destination.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let name = options.name.clone().unwrap_or_else(of_folder);
    match folder::is_plain(&name) {
        true => Ok(name),
        false => {
            Err(Error::InvalidConfig { reason: format!("a model's name is one that a folder can have, not {name:?}") })
        }
    }
}

fn manifest(
    source: &Path,
    name: String,
    described: &Described,
    read: &Read,
    options: &ImportOptions,
) -> Result<Manifest> {
    let config = &described.config;
    let given = ["hidden_size", "dim", "d_model"].iter().find_map(|key| config.number(key));
    let width = read.width.or(given);
    let dimension = options.dimension.or(described.dimension).or(width);
    let Some(dimension) = dimension else {
        return Err(invalid(
            source,
            "neither the graph nor config.json says how wide a vector is; give a dimension",
            None,
        ));
    };
    let truncated = width.filter(|&width| width > dimension);
    let limit = read.max_tokens.unwrap_or(usize::MAX);
    if let Some(tokens) = options.max_tokens.filter(|&tokens| tokens > limit) {
        let reason = format!("max_tokens is {tokens}, and the model takes {limit}");
        return Err(Error::InvalidConfig { reason });
    }
    let max_tokens = options.max_tokens.or(described.max_tokens).or(read.max_tokens).unwrap_or(MAX_TOKENS);
    let kind = config.text("model_type").unwrap_or("text");
    Ok(Manifest {
        description: options.description.clone().unwrap_or(format!("{kind} encoder, {dimension} dimensions")),
        source: options.source.clone().unwrap_or_else(|| name.clone()),
        license: options.license.clone().or(described.license.clone()).unwrap_or_else(|| "unknown".into()),
        name,
        dimension,
        pooling: read.output.pooling,
        output: read.output.name.clone(),
        model_dimension: truncated,
        normalize: true,
        max_tokens: max_tokens.min(limit),
        query_prefix: options.query_prefix.clone().unwrap_or(described.query_prefix.clone()),
        document_prefix: options.document_prefix.clone().unwrap_or(described.document_prefix.clone()),
        quantization: read::quantization(&read.model),
        padding_exact: false,
        files: BTreeMap::new(),
    })
}

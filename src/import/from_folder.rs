//! Imports model folders that other tools wrote.

use std::{collections::BTreeMap, path::Path};

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::{
    description::{self, Described},
    graph_source::{self, SourceGraph},
    install::{self, PreparedModel},
    options::ImportOptions,
    tokenizer,
};
use crate::{
    error::{Error, Result},
    ids::hex,
    models::{
        Model,
        folder::{MANIFEST, invalid},
        is_plain,
        manifest::Manifest,
    },
    onnx::vocabulary_check,
};

/// Maximum tokens of a text if nothing states the limit.
const MAX_TOKENS: usize = 512;

impl Model {
    /// Makes a model folder from a folder that another tool wrote, and opens it.
    ///
    /// Two layouts are supported: optimum's (`model.onnx` or `onnx/model.onnx`, the files that hold its weights,
    /// `tokenizer.json`, `config.json`), and sentence-transformers' (`modules.json` with its pooling, prompts and
    /// limits; a graph in `onnx/`, or `model.safetensors` of a BERT, RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT or
    /// MPNet, from which a graph is built in f32). Instead of `tokenizer.json`, a BERT's `vocab.txt` is enough. The
    /// quantization is found by the graph's operators.
    ///
    /// The destination is created after the model has run, or not at all. If the destination exists and is the same
    /// model, it is opened, and its damaged or missing files are restored.
    ///
    /// Cost: twice the weights in memory while the folder is made; then the model is loaded and run once, which takes
    /// about as much. For MiniLM, with 90 MB of weights, the peak is 240 MB.
    ///
    /// # Errors
    /// [`Error::InvalidModel`]: the folder lacks a file or has an invalid one; the destination cannot be written, or
    /// exists and is another model. [`Error::InvalidConfig`]: an option is out of range. [`Error::RuntimeNotFound`].
    /// [`Error::ModelHashMismatch`].
    pub fn import(source: impl AsRef<Path>, destination: impl AsRef<Path>, options: &ImportOptions) -> Result<Self> {
        let (source, destination) = (source.as_ref(), destination.as_ref());
        let name = name(destination, options)?;
        // Checked before the expensive part.
        install::existing(destination)?;
        install::install(prepare(source, name, options)?, source, destination)
    }
}

/// Prepares the files and the manifest of a model in memory, without writing them.
pub(super) fn prepare(source: &Path, name: String, options: &ImportOptions) -> Result<PreparedModel> {
    if !source.is_dir() {
        return Err(invalid(source, "no such folder", None));
    }
    let described = description::describe(source)?;
    let graph = graph_source::read(source, &described, options)?;
    let tokenizer = tokenizer::read(&described)?;
    vocabulary_check::check(source, &graph.model, &tokenizer)?;
    let mut manifest = manifest(source, name, &described, &graph, options)?;
    let mut files = graph.files;
    let clash = files.insert("tokenizer.json".into(), Bytes::from(tokenizer)).is_some() || files.contains_key(MANIFEST);
    if clash {
        return Err(invalid(
            source,
            "the graph has weights in a file that has the name of another file of the model; export it with another name",
            None,
        ));
    }
    manifest.files = files.iter().map(|(name, bytes)| (name.clone(), hex(&Sha256::digest(bytes)))).collect();
    match manifest.fault() {
        Some(fault) => Err(invalid(source, fault, None)),
        None => Ok(PreparedModel { files, manifest }),
    }
}

/// Returns the model's name: the option, or the name of the destination folder.
pub(super) fn name(destination: &Path, options: &ImportOptions) -> Result<String> {
    let of_folder = || destination.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let name = options.name.clone().unwrap_or_else(of_folder);
    match is_plain(&name) {
        true => Ok(name),
        false => Err(Error::InvalidConfig {
            reason: format!("the model's name {name:?} cannot be the name of a folder; give another name"),
        }),
    }
}

fn manifest(
    source: &Path,
    name: String,
    described: &Described,
    graph: &SourceGraph,
    options: &ImportOptions,
) -> Result<Manifest> {
    let config = &described.config;
    let given = ["hidden_size", "dim", "d_model"].iter().find_map(|key| config.number(key));
    let width = graph.width.or(given);
    let dimension = options.dimension.or(described.dimension).or(width);
    let Some(dimension) = dimension else {
        return Err(invalid(
            source,
            "neither the graph nor config.json states the number of components of a vector; give a dimension",
            None,
        ));
    };
    let truncated = width.filter(|&width| width > dimension);
    let limit = graph.max_tokens.unwrap_or(usize::MAX);
    if let Some(tokens) = options.max_tokens.filter(|&tokens| tokens > limit) {
        let reason = format!("max_tokens is {tokens}, but the model takes at most {limit}");
        return Err(Error::InvalidConfig { reason });
    }
    let max_tokens = options.max_tokens.or(described.max_tokens).or(graph.max_tokens).unwrap_or(MAX_TOKENS);
    let kind = config.text("model_type").unwrap_or("text");
    Ok(Manifest {
        description: options.description.clone().unwrap_or(format!("{kind} encoder, {dimension} dimensions")),
        source: options.source.clone().unwrap_or_else(|| name.clone()),
        license: options.license.clone().or(described.license.clone()).unwrap_or_else(|| "unknown".into()),
        name,
        dimension,
        pooling: graph.output.pooling,
        output: graph.output.name.clone(),
        model_dimension: truncated,
        normalize: true,
        max_tokens: max_tokens.min(limit),
        query_prefix: options.query_prefix.clone().unwrap_or(described.query_prefix.clone()),
        document_prefix: options.document_prefix.clone().unwrap_or(described.document_prefix.clone()),
        quantization: graph_source::quantization(&graph.model),
        padding_exact: false,
        files: BTreeMap::new(),
        made_from: graph.made_from.clone(),
    })
}

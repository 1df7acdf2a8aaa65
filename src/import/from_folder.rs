//! `Model::import`: makes a model folder from a folder that another tool wrote. Reads or makes its tokenizer, and derives
//! the manifest.

use std::{collections::BTreeMap, fs, path::Path};

use bytes::Bytes;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokenizers::{
    AddedToken, Tokenizer, decoders, models::wordpiece::WordPiece, normalizers::BertNormalizer,
    pre_tokenizers::bert::BertPreTokenizer, processors::template::TemplateProcessing,
};

use super::{
    description::{self, ConfigJson, ImportOptions, ModelDescription},
    graph_source::{self, SourceGraph},
    install::{self, PreparedModel},
};
use crate::{
    error::{BoxError, Error, Result},
    ids::hex,
    model_folders::{
        Model,
        folder::{MANIFEST, Manifest, invalid},
        is_plain,
    },
    onnx::tokenizer::check_vocabulary,
};

/// The maximum number of tokens of a text if neither the folder nor the options state it.
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
    /// The destination is created after the model has run, or not at all. If the destination exists and is the same model,
    /// it is opened, and its damaged or missing files are restored.
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
        let name = model_name(destination, options)?;
        // This check fails before the expensive part begins.
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
    let tokenizer = read_tokenizer(&described)?;
    check_vocabulary(source, &graph.model, &tokenizer)?;
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

/// Returns the name in the options, or else the name of the destination folder.
pub(super) fn model_name(destination: &Path, options: &ImportOptions) -> Result<String> {
    let folder_name = || destination.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let name = options.name.clone().unwrap_or_else(folder_name);
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
    described: &ModelDescription,
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

/// BERT's special tokens, in the order in which `transformers` adds them.
const SPECIAL_TOKENS: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// Reads `tokenizer.json`, or makes it from the `vocab.txt` of a BERT. Returns its contents.
fn read_tokenizer(described: &ModelDescription) -> Result<Vec<u8>> {
    let folder = &described.folder;
    let fault = |source: BoxError| invalid(folder, "tokenizer.json is not a valid tokenizer", Some(source));
    let bytes = match fs::read(folder.join("tokenizer.json")) {
        Ok(bytes) => bytes,
        Err(_) if folder.join("vocab.txt").is_file() => wordpiece_tokenizer(folder)?,
        Err(error) => {
            let remedy = "save it with `AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)`";
            return Err(invalid(folder, format!("tokenizer.json: {error}; {remedy}"), Some(error.into())));
        }
    };
    if !described.lower_case {
        return Ok(bytes);
    }
    // sentence-transformers converts the text to lower case before it is tokenized.
    let mut tokenizer: Value = serde_json::from_slice(&bytes).map_err(|error| fault(error.into()))?;
    let own = tokenizer["normalizer"].take();
    let normalizers: Vec<Value> =
        [json!({"type": "Lowercase"}), own].into_iter().filter(|own| !own.is_null()).collect();
    tokenizer["normalizer"] = json!({"type": "Sequence", "normalizers": normalizers});
    serde_json::to_vec(&tokenizer).map_err(|error| fault(error.into()))
}

/// Makes a WordPiece tokenizer with BERT's rules, equal to that of `BertTokenizerFast` for the same files.
fn wordpiece_tokenizer(folder: &Path) -> Result<Vec<u8>> {
    let fault = |source: BoxError| invalid(folder, "vocab.txt is not a vocabulary of a BERT", Some(source));
    let config: ConfigJson = description::json(folder, "tokenizer_config.json")?.unwrap_or_default();
    let path = folder.join("vocab.txt");
    let words = WordPiece::from_file(&path.to_string_lossy()).unk_token("[UNK]".into()).build().map_err(fault)?;
    let mut tokenizer = Tokenizer::new(words);
    let id = |tokenizer: &Tokenizer, token: &str| {
        tokenizer.token_to_id(token).ok_or_else(|| fault(format!("token {token} is missing").into()))
    };
    let ends = [("[CLS]", id(&tokenizer, "[CLS]")?), ("[SEP]", id(&tokenizer, "[SEP]")?)];
    let or_true = |key: &str| config.flag(key).unwrap_or(true);
    let normalizer = BertNormalizer::new(
        true,
        or_true("tokenize_chinese_chars"),
        config.flag("strip_accents"),
        or_true("do_lower_case"),
    );
    let template = TemplateProcessing::builder()
        .try_single("[CLS] $A [SEP]")
        .map_err(|error| fault(error.into()))?
        .try_pair("[CLS] $A [SEP] $B:1 [SEP]:1")
        .map_err(|error| fault(error.into()))?
        .special_tokens(ends.to_vec())
        .build()
        .map_err(|error| fault(error.into()))?;
    tokenizer.with_normalizer(Some(normalizer)).map_err(fault)?;
    tokenizer.with_pre_tokenizer(Some(BertPreTokenizer)).with_post_processor(Some(template));
    tokenizer.with_decoder(Some(decoders::wordpiece::WordPiece::default()));
    let special = SPECIAL_TOKENS.iter().filter(|token| tokenizer.token_to_id(token).is_some());
    let special: Vec<AddedToken> = special.map(|&token| AddedToken::from(token, true)).collect();
    tokenizer.add_special_tokens(special).map_err(fault)?;
    tokenizer.to_string(false).map(String::into_bytes).map_err(fault)
}

//! The properties of a model that are not in its graph and weights. They come from the folder of another tool
//! (`config.json`, and the files that sentence-transformers adds), and from the caller's options, which take precedence.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    error::{BoxError, Error, Result},
    model_folders::{Pooling, folder::invalid, is_plain},
};

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
    /// The graph's output to read, such as `text_embeds`. Default: `last_hidden_state` if the pooling is known, else
    /// `sentence_embedding`, else the only output.
    pub output: Option<String>,
    /// The method that combines the vectors of the tokens. Required if the folder does not state it.
    pub pooling: Option<Pooling>,
    /// The number of components of a vector, which are the first of the model's output. Only for models that were trained
    /// to be truncated.
    pub dimension: Option<usize>,
    /// The maximum number of tokens of one text, special tokens included.
    pub max_tokens: Option<usize>,
    /// The prefix of queries.
    pub query_prefix: Option<String>,
    /// The prefix of documents.
    pub document_prefix: Option<String>,
}

/// A larger length in `tokenizer_config.json` means "no limit", because tools write 1e30 if the length is unknown.
const MAX_PLAUSIBLE_LENGTH: usize = 1 << 20;

/// The files in which sentence-transformers writes a transformer's limits. Older releases named the file after the model
/// type.
const LIMIT_FILES: [&str; 6] = [
    "sentence_bert_config.json",
    "sentence_roberta_config.json",
    "sentence_distilbert_config.json",
    "sentence_camembert_config.json",
    "sentence_xlm-roberta_config.json",
    "sentence_xlnet_config.json",
];

/// The names of the prompt for documents, in the order in which sentence-transformers looks for them.
const DOCUMENT_PROMPTS: [&str; 3] = ["document", "passage", "corpus"];

/// The values of `config.json`. Tools name some of them differently.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct ConfigJson(Value);

impl ConfigJson {
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.0[key].as_str()
    }

    pub(super) fn float(&self, key: &str) -> Option<f32> {
        self.0[key].as_f64().map(|value| value as f32)
    }

    pub(super) fn number(&self, key: &str) -> Option<usize> {
        usize::try_from(self.0[key].as_u64()?).ok()
    }

    pub(super) fn flag(&self, key: &str) -> Option<bool> {
        self.0[key].as_bool()
    }

    /// Returns true if the value is present and neither null nor false.
    pub(super) fn is_set(&self, key: &str) -> bool {
        !matches!(self.0[key], Value::Null | Value::Bool(false))
    }

    /// Returns true if the model is a sequence classifier, as rerankers are.
    fn is_classifier(&self) -> bool {
        let names = self.0["architectures"].as_array().into_iter().flatten().filter_map(Value::as_str);
        names.into_iter().any(|name| name.ends_with("ForSequenceClassification"))
    }

    /// Returns the value of the first of these keys that is present. It must be within 1 to 1,000,000.
    pub(super) fn size(&self, keys: &[&str]) -> Result<usize, String> {
        let size = keys.iter().find_map(|key| self.number(key));
        let size = size.ok_or_else(|| format!("config.json has no {}", keys[0]))?;
        match size {
            1..=1_000_000 => Ok(size),
            _ => Err(format!("config.json: {} is {size}, not within 1 to 1000000", keys[0])),
        }
    }
}

/// A fully connected layer after the pooling.
pub(super) struct DenseLayer {
    /// The folder with `model.safetensors`, which contains `linear.weight`, and `linear.bias` if the layer has a bias.
    pub(super) folder: PathBuf,
    /// The number of output components.
    pub(super) width: usize,
    pub(super) bias: bool,
    /// Whether the activation is tanh. Otherwise there is none.
    pub(super) tanh: bool,
}

/// The description of a model in a folder: everything except the graph and the weights.
pub(super) struct ModelDescription {
    /// The folder with the transformer's files: the model's folder, or a folder in it.
    pub(super) folder: PathBuf,
    pub(super) config: ConfigJson,
    /// `None` if the folder does not state it.
    pub(super) pooling: Option<Pooling>,
    pub(super) dense: Vec<DenseLayer>,
    pub(super) query_prefix: String,
    pub(super) document_prefix: String,
    /// The number of components of a vector if the model's output is truncated.
    pub(super) dimension: Option<usize>,
    pub(super) max_tokens: Option<usize>,
    /// Whether text is converted to lower case before the tokenizer runs.
    pub(super) lower_case: bool,
    pub(super) license: Option<String>,
}

#[derive(Deserialize)]
struct ModuleEntry {
    path: String,
    r#type: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Prompts {
    prompts: BTreeMap<String, String>,
    default_prompt_name: Option<String>,
    truncate_dim: Option<usize>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LengthLimits {
    max_seq_length: Option<usize>,
    do_lower_case: Option<bool>,
}

/// Reads the description of the model in the folder `root`.
pub(super) fn describe(root: &Path) -> Result<ModelDescription> {
    let fault = |reason: String| invalid(root, reason, None);
    let modules: Vec<ModuleEntry> = json(root, "modules.json")?.unwrap_or_default();
    let mut described = ModelDescription {
        folder: root.to_path_buf(),
        config: ConfigJson::default(),
        pooling: None,
        dense: Vec::new(),
        query_prefix: String::new(),
        document_prefix: String::new(),
        dimension: None,
        max_tokens: None,
        lower_case: false,
        license: license(root),
    };
    for (index, module) in modules.iter().enumerate() {
        if !module.path.is_empty() && !is_plain(&module.path) {
            return Err(fault(format!(
                "modules.json names {:?}, which is not a folder inside the model folder",
                module.path
            )));
        }
        let path = root.join(&module.path);
        match (module.r#type.rsplit('.').next().unwrap_or_default(), index) {
            ("Transformer", 0) => described.folder = path,
            ("Pooling", 1) => described.pooling = Some(pooling(&path)?),
            ("Dense", 2..) => described.dense.push(dense(&path)?),
            // Every vector is normalized in any case, and dropout has no effect at inference.
            ("Normalize" | "Dropout", 1..) => {}
            (kind, _) => {
                return Err(fault(format!(
                    "modules.json: {kind} as module {index} is not supported; export the whole model with its pooling to ONNX \
                     (`optimum-cli export onnx --library sentence_transformers`), and import the exported folder"
                )));
            }
        }
    }
    described.config = json(&described.folder, "config.json")?.unwrap_or_default();
    if described.config.is_classifier() {
        return Err(fault(
            "config.json: the model is a classifier or a reranker, which does not compute vectors of texts".into(),
        ));
    }
    let limits = LIMIT_FILES.iter().find_map(|file| json::<LengthLimits>(&described.folder, file).transpose());
    let limits = limits.transpose()?.unwrap_or_default();
    let tokenizer: ConfigJson = json(&described.folder, "tokenizer_config.json")?.unwrap_or_default();
    let length = tokenizer.number("model_max_length").filter(|&length| length <= MAX_PLAUSIBLE_LENGTH);
    described.max_tokens = limits.max_seq_length.or(length);
    described.lower_case = limits.do_lower_case.unwrap_or(false);
    let prompts: Prompts = json(root, "config_sentence_transformers.json")?.unwrap_or_default();
    let prompt = |name: &str| prompts.prompts.get(name).cloned();
    let by_default = prompts.default_prompt_name.as_deref().and_then(prompt);
    described.document_prefix =
        DOCUMENT_PROMPTS.into_iter().find_map(prompt).or(by_default.clone()).unwrap_or_default();
    described.query_prefix = prompt("query").or(by_default).unwrap_or_default();
    described.dimension = prompts.truncate_dim;
    if described.pooling_excludes_prompts(root, &modules)? {
        let reason = "1_Pooling excludes prompts from the mean (include_prompt = false), which is not supported".into();
        return Err(fault(reason));
    }
    Ok(described)
}

impl ModelDescription {
    /// Returns true if the model has prompts whose tokens are excluded from the mean.
    fn pooling_excludes_prompts(&self, root: &Path, modules: &[ModuleEntry]) -> Result<bool> {
        let prompted = !self.query_prefix.is_empty() || !self.document_prefix.is_empty();
        let Some(module) = modules.get(1).filter(|_| prompted && self.pooling == Some(Pooling::Mean)) else {
            return Ok(false);
        };
        let pooling: ConfigJson = json(&root.join(&module.path), "config.json")?.unwrap_or_default();
        Ok(pooling.flag("include_prompt") == Some(false))
    }
}

/// Reads the pooling from `1_Pooling/config.json`, which has one flag for each mode, one of them set, or in newer
/// releases the mode's name.
fn pooling(folder: &Path) -> Result<Pooling> {
    let config: ConfigJson = required(folder, "config.json")?;
    let flags = config.0.as_object().into_iter().flatten();
    let set = flags.filter_map(|(key, value)| Some((key.strip_prefix("pooling_mode_")?, value)));
    let mut modes: Vec<&str> = set.filter(|(_, value)| **value == Value::Bool(true)).map(|(mode, _)| mode).collect();
    modes.extend(config.text("pooling_mode"));
    match modes[..] {
        // mean_sqrt_len_tokens divides by the root of the count instead of the count, which gives the same direction.
        ["mean_tokens" | "mean" | "mean_sqrt_len_tokens"] => Ok(Pooling::Mean),
        ["cls_token" | "cls"] => Ok(Pooling::Cls),
        ["lasttoken"] => Ok(Pooling::LastToken),
        _ => Err(invalid(
            folder,
            format!(
                "config.json: pooling by {} is not supported; mean, cls and last token are",
                if modes.is_empty() { "no mode".to_owned() } else { modes.join(" and ") }
            ),
            None,
        )),
    }
}

fn dense(folder: &Path) -> Result<DenseLayer> {
    let config: ConfigJson = required(folder, "config.json")?;
    let fault = |reason: String| invalid(folder, reason, None);
    let activation = config.text("activation_function").unwrap_or_default();
    let tanh = match activation.rsplit('.').next().unwrap_or_default() {
        "Tanh" => true,
        "Identity" => false,
        _ => return Err(fault(format!("config.json: activation_function {activation:?} is not Identity or Tanh"))),
    };
    let width = config.size(&["out_features"]).map_err(fault)?;
    // sentence-transformers' default is a layer with a bias.
    Ok(DenseLayer { folder: folder.to_path_buf(), width, bias: config.flag("bias") != Some(false), tanh })
}

/// Returns the licence in the front matter of README.md, which hubs use.
fn license(root: &Path) -> Option<String> {
    let readme = fs::read_to_string(root.join("README.md")).ok()?;
    let head = readme.strip_prefix("---\n")?.split("\n---").next()?;
    let license = head.lines().find_map(|line| line.strip_prefix("license:"))?.trim().trim_matches(['"', '\'']);
    (!license.is_empty() && license.len() <= 100).then(|| license.to_owned())
}

/// Reads a JSON file of a folder. Returns `None` if the folder has no such file.
pub(super) fn json<T: DeserializeOwned>(folder: &Path, file: &str) -> Result<Option<T>> {
    let failed = |error: BoxError| -> Error { invalid(folder, format!("{file}: {error}"), Some(error)) };
    let text = match fs::read(folder.join(file)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error.into())),
    };
    serde_json::from_slice(&text).map(Some).map_err(|error| failed(error.into()))
}

fn required<T: DeserializeOwned>(folder: &Path, file: &str) -> Result<T> {
    json(folder, file)?.ok_or_else(|| invalid(folder, format!("{file} is missing"), None))
}

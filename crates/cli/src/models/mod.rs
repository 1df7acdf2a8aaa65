//! `mnemon models`

mod bench;
mod destination;
mod import;
mod info;
mod list;
mod options;
mod pull;
mod verify;

use clap::Subcommand;

use crate::{output::Format, status::Status};

/// List, inspect, verify, fetch, import and measure models.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    List(list::Args),
    Info(info::Args),
    Verify(verify::Args),
    Pull(pull::Args),
    Import(import::Args),
    Bench(bench::Args),
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    match args.action {
        Action::List(args) => list::run(&args, format),
        Action::Info(args) => info::run(&args, format),
        Action::Verify(args) => verify::run(&args, format),
        Action::Pull(args) => pull::run(args, format),
        Action::Import(args) => import::run(args, format),
        Action::Bench(args) => bench::run(&args, format),
    }
}

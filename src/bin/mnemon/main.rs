//! The `mnemon` command: ingests, recalls, evaluates, reindexes and inspects a database.
//!
//! Each subcommand has a file or folder of its own. Results go to stdout, progress and errors to stderr.

mod bench;
mod embed;
mod eval;
mod ground_truth;
mod ingest;
mod input;
mod metrics;
mod models;
mod output;
mod recall;
mod reindex;
mod runtime;
mod stats;
mod svg;
mod texmex;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::output::Format;

/// Long-term memory for LLM agents: stores chat messages in one file and finds those that answer a question.
#[derive(Parser)]
#[command(
    version,
    after_help = "Exit status: 0 success, 1 failure, 2 wrong usage, 3 `verify` or `models verify` found problems, 4 the vectors \
    of a reindex were rejected.\n\
    The model static-en-256 is built in and needs nothing else. Most other models need ONNX Runtime 1.24 or newer, which `mnemon \
    runtime pull` fetches; it is searched for in $ORT_DYLIB_PATH, beside the executable, in the user's data folder, and by the \
    system's loader.\n\
    A model is given as a folder with a manifest.toml, or as the name of a folder in $MNEMON_MODELS, in models beside the \
    executable, in models in the user's data folder (such as ~/.local/share/mnemon), or in ./models."
)]
struct Cli {
    /// The format of the results.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    format: Format,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Ingest(ingest::Args),
    Recall(recall::Args),
    Eval(eval::Args),
    Embed(embed::Args),
    Reindex(reindex::Args),
    Stats(stats::Args),
    Verify(verify::Args),
    Models(models::Args),
    Runtime(runtime::Args),
    Bench(bench::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Ingest(args) => ingest::run(args, cli.format),
        Command::Recall(args) => recall::run(args, cli.format),
        Command::Eval(args) => eval::run(args, cli.format),
        Command::Embed(args) => embed::run(args, cli.format),
        Command::Reindex(args) => reindex::run(args, cli.format),
        Command::Stats(args) => stats::run(args, cli.format),
        Command::Verify(args) => verify::run(args, cli.format),
        Command::Models(args) => models::run(args, cli.format),
        Command::Runtime(args) => runtime::run(args, cli.format),
        Command::Bench(args) => bench::run(args, cli.format),
    };
    result.unwrap_or_else(|error| {
        // A reader such as `head` closes the pipe when it has seen enough: not a failure.
        if output::is_closed_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        eprintln!("mnemon: {error:#}");
        ExitCode::FAILURE
    })
}

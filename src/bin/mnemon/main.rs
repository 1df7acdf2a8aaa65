//! The `mnemon` command: ingest, recall, evaluate, reindex and look after a database.
//!
//! One file a subcommand. Results go to stdout, progress and errors to stderr.

mod bench;
mod embed;
mod eval;
mod ingest;
mod input;
mod metrics;
mod models;
mod output;
mod recall;
mod reindex;
mod stats;
mod svg;
mod texmex;
mod truth;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::output::Format;

/// Long-term memory for LLM agents: chat messages in, memories out, one file.
#[derive(Parser)]
#[command(
    version,
    after_help = "Exit status: 0 done, 1 failed, 2 wrong usage, 3 verify or models verify found problems, 4 reindex did not pass.\n\
    ONNX Runtime is looked for in $ORT_DYLIB_PATH, where `make runtime` puts it, beside the executable and by the system.\n\
    A model is a folder with a manifest.toml, or its name in $MNEMON_MODELS or ./models; static-en-256 is built in."
)]
struct Cli {
    /// How results are printed.
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
        Command::Bench(args) => bench::run(args, cli.format),
    };
    result.unwrap_or_else(|error| {
        // A reader such as `head` that has seen enough is no failure.
        if output::is_closed_pipe(&error) {
            return ExitCode::SUCCESS;
        }
        eprintln!("mnemon: {error:#}");
        ExitCode::FAILURE
    })
}

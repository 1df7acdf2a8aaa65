//! The `mnemon` command: ingests, recalls, serves, evaluates, reindexes and inspects a database.
//!
//! Each subcommand has a file or folder of its own. Results go to stdout, progress and errors to stderr. A library, so that
//! `python -m mnemon` is the same command: it calls [`run`].

#![forbid(unsafe_code)]

mod audit;
mod backup;
#[cfg(feature = "bench")]
mod bench;
mod compressed;
mod delete;
mod embed;
mod eval;
mod export;
mod foreign;
mod forget;
mod get;
mod ground_truth;
mod hold;
mod import;
mod ingest;
mod input;
mod key;
#[cfg(all(feature = "serve", unix))]
mod mcp;
mod memory_options;
mod metrics;
mod models;
mod namespaces;
mod output;
mod output_file;
mod phases;
mod printable;
mod program;
mod progress;
mod purge;
mod random;
mod recall;
mod reindex;
mod runtime;
mod salvage;
#[cfg(feature = "serve")]
mod serve;
mod sessions;
#[cfg(feature = "postgres")]
mod share;
mod shared;
mod stats;
mod status;
mod stderr;
mod stored;
mod svg;
mod texmex;
#[cfg(feature = "postgres")]
mod unshare;
mod usage;
mod verify;
mod why;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

use crate::{output::Format, status::Status, usage::UsageError};

/// Long-term memory for LLM agents: stores chat messages in one file and finds those that answer a question.
#[derive(Parser)]
#[command(
    name = "mnemon",
    version,
    after_help = "Exit status: 0 success, 1 failure, 2 wrong usage, 3 `verify`, `audit` or `models verify` found problems, 4 the vectors \
    of a reindex were rejected.\n\
    The model static-en-256 is built in and needs nothing else. Most other models need ONNX Runtime 1.24 or newer, which `mnemon \
    runtime pull` fetches; it is searched for in $ORT_DYLIB_PATH, beside the executable, in the user's data folder, and by the \
    system's loader.\n\
    A model is given as a folder with a manifest.toml, or as the name of a folder in $MNEMON_MODELS, in models beside the \
    executable, in models in the user's data folder (such as ~/.local/share/mnemon), or in ./models."
)]
struct Cli {
    /// The format of the results on stdout, and of errors, notes and progress on stderr.
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Print no progress and no notes on stderr, only errors.
    #[arg(long, short, global = true)]
    quiet: bool,
    /// The file of the key of an encrypted database, and of its embedding cache: 32 bytes, or 64 hexadecimal digits. A
    /// database that the command creates is encrypted with it. Default: the digits in $MNEMON_KEY, if it is set.
    #[arg(long, global = true, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The address of a database of Postgres that several machines share, such as postgres://USER:PASSWORD@HOST/DATABASE. The
    /// file of --db is then a copy of it, which the command makes if it is missing. Default: $MNEMON_SHARED, which other
    /// users of this machine do not see.
    #[cfg(feature = "postgres")]
    #[arg(long, global = true, value_name = "URL")]
    shared: Option<String>,
    /// How far reads may be behind the database of --shared: `latest` sees all that was stored anywhere; a number of seconds
    /// sees what was stored that long ago, and goes on without the database; `local` asks nobody. Default: `latest`, and 1
    /// for `serve` and `mcp`.
    #[cfg(feature = "postgres")]
    #[arg(long, global = true, value_name = "latest|local|SECONDS", value_parser = shared::parse_freshness)]
    freshness: Option<mnemon::Freshness>,
    #[cfg(not(feature = "postgres"))]
    #[arg(long, global = true, hide = true)]
    shared: Option<String>,
    #[cfg(not(feature = "postgres"))]
    #[arg(long, global = true, hide = true)]
    freshness: Option<String>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Ingest(ingest::Args),
    Recall(recall::Args),
    Why(why::Args),
    Namespaces(namespaces::Args),
    Sessions(sessions::Args),
    Get(get::Args),
    Delete(delete::Args),
    Forget(forget::Args),
    Audit(audit::Args),
    Hold(hold::Args),
    Export(export::Args),
    Import(import::Args),
    #[cfg(feature = "postgres")]
    Share(share::Args),
    #[cfg(feature = "postgres")]
    Unshare(unshare::Args),
    /// Not in this build: move a database to Postgres, which several machines share.
    #[cfg(not(feature = "postgres"))]
    Share(usage::Missing),
    /// Not in this build: take a namespace out of a shared database.
    #[cfg(not(feature = "postgres"))]
    Unshare(usage::Missing),
    Eval(eval::Args),
    Embed(embed::Args),
    Reindex(reindex::Args),
    Stats(stats::Args),
    Verify(verify::Args),
    Backup(backup::Args),
    Purge(purge::Args),
    Salvage(salvage::Args),
    #[cfg(feature = "serve")]
    Serve(serve::Args),
    #[cfg(feature = "serve")]
    Token(serve::TokenArgs),
    #[cfg(all(feature = "serve", unix))]
    Mcp(mcp::Args),
    /// Not in this build: serve a database over HTTP and MCP.
    #[cfg(not(feature = "serve"))]
    Serve(usage::Missing),
    /// Not in this build: make a token for clients of a server.
    #[cfg(not(feature = "serve"))]
    Token(usage::Missing),
    /// Not in this build: give an MCP client the memory of a database, over stdio.
    #[cfg(not(all(feature = "serve", unix)))]
    Mcp(usage::Missing),
    Models(models::Args),
    Runtime(runtime::Args),
    #[cfg(feature = "bench")]
    Bench(bench::Args),
    /// Not in this build: measure speed, memory and recall on this machine.
    #[cfg(not(feature = "bench"))]
    Bench(usage::Missing),
}

#[cfg(feature = "postgres")]
impl Command {
    /// How far the command's reads may be behind a shared database, unless the caller says so.
    fn freshness(&self) -> mnemon::Freshness {
        match self {
            // A server answers without the database.
            #[cfg(feature = "serve")]
            Command::Serve(_) => mnemon::Freshness::default(),
            #[cfg(all(feature = "serve", unix))]
            Command::Mcp(_) => mnemon::Freshness::default(),
            _ => mnemon::Freshness::Latest,
        }
    }
}

/// Runs the command with the arguments of the process.
pub fn main() -> ExitCode {
    let program = std::env::current_exe().map(PathBuf::into_os_string);
    run(program.into_iter().collect(), std::env::args_os().skip(1).collect()).into()
}

/// Runs the command with these arguments, and returns the exit status. `program` is what starts it again: a program and its
/// first arguments.
pub fn run(program: Vec<OsString>, arguments: Vec<OsString>) -> u8 {
    program::configure(program);
    let cli = match Cli::try_parse_from([OsString::from("mnemon")].iter().chain(&arguments)) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error, &arguments),
    };
    stderr::configure(cli.format, cli.quiet);
    key::configure(cli.key_file);
    #[cfg(feature = "postgres")]
    shared::configure(cli.shared, cli.freshness.unwrap_or_else(|| cli.command.freshness()));
    #[cfg(not(feature = "postgres"))]
    if let Err(error) = shared::refuse(cli.shared.is_some(), cli.freshness.is_some()) {
        stderr::error(error.to_string(), usage::STATUS);
        return usage::STATUS;
    }
    let result = match cli.command {
        Command::Ingest(args) => ingest::run(args, cli.format),
        Command::Recall(args) => recall::run(args, cli.format),
        Command::Why(args) => why::run(&args, cli.format),
        Command::Namespaces(args) => namespaces::run(args, cli.format),
        Command::Sessions(args) => sessions::run(&args, cli.format),
        Command::Get(args) => get::run(&args, cli.format),
        Command::Delete(args) => delete::run(args, cli.format),
        Command::Forget(args) => forget::run(args, cli.format),
        Command::Audit(args) => audit::run(&args, cli.format),
        Command::Hold(args) => hold::run(args, cli.format),
        Command::Export(args) => export::run(&args, cli.format),
        Command::Import(args) => import::run(&args, cli.format),
        #[cfg(feature = "postgres")]
        Command::Share(args) => share::run(&args, cli.format),
        #[cfg(feature = "postgres")]
        Command::Unshare(args) => unshare::run(&args, cli.format),
        #[cfg(not(feature = "postgres"))]
        Command::Share(_) => Err(usage::missing("share", &[]).into()),
        #[cfg(not(feature = "postgres"))]
        Command::Unshare(_) => Err(usage::missing("unshare", &[]).into()),
        Command::Eval(args) => eval::run(args, cli.format),
        Command::Embed(args) => embed::run(args, cli.format),
        Command::Reindex(args) => reindex::run(args, cli.format),
        Command::Stats(args) => stats::run(args, cli.format),
        Command::Verify(args) => verify::run(args, cli.format),
        Command::Backup(args) => backup::run(&args, cli.format),
        Command::Purge(args) => purge::run(&args, cli.format),
        Command::Salvage(args) => salvage::run(&args, cli.format),
        #[cfg(feature = "serve")]
        Command::Serve(args) => serve::run(args, cli.format),
        #[cfg(feature = "serve")]
        Command::Token(args) => serve::make_token(args, cli.format),
        #[cfg(all(feature = "serve", unix))]
        Command::Mcp(args) => mcp::run(args),
        #[cfg(not(feature = "serve"))]
        Command::Serve(_) => Err(usage::missing("serve", &[]).into()),
        #[cfg(not(feature = "serve"))]
        Command::Token(_) => Err(usage::missing("token", &[]).into()),
        #[cfg(not(feature = "serve"))]
        Command::Mcp(_) => Err(usage::missing("mcp", &[]).into()),
        #[cfg(all(feature = "serve", not(unix)))]
        Command::Mcp(_) => Err(UsageError(
            "`mcp` needs Unix sockets, which this system does not have; run `mnemon serve`, and give clients its address with /mcp".to_owned(),
        )
        .into()),
        Command::Models(args) => models::run(args, cli.format),
        Command::Runtime(args) => runtime::run(args, cli.format),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(args, cli.format),
        #[cfg(not(feature = "bench"))]
        Command::Bench(_) => Err(usage::missing("bench", &[]).into()),
    };
    match result {
        Ok(Status(status)) => status,
        // A reader such as `head` closes the pipe when it has seen enough: not a failure.
        Err(error) if output::is_closed_pipe(&error) => 0,
        Err(error) => {
            let status = if error.is::<UsageError>() { usage::STATUS } else { 1 };
            stderr::failure(&error, status);
            status
        }
    }
}

/// Prints the help or the version, or the error of arguments that do not parse.
fn refuse(error: &clap::Error, arguments: &[OsString]) -> u8 {
    let wants_json = arguments.windows(2).any(|pair| pair[0] == "--format" && pair[1] == "json")
        || arguments.iter().any(|argument| argument == "--format=json");
    if error.use_stderr() && wants_json {
        stderr::configure(Format::Json, false);
        let text = error.render().to_string();
        stderr::error(text.trim_start_matches("error: ").trim_end(), usage::STATUS);
    } else {
        // There is nowhere to report that stderr is closed.
        let _ = error.print();
    }
    if error.use_stderr() { usage::STATUS } else { 0 }
}

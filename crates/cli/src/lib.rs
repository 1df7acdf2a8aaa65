//! The `mnemon` command: ingests, recalls, serves, evaluates, reindexes and inspects a database.
//!
//! [`run`] parses the arguments, keeps what holds for the whole process (the key, the shared database, the format of
//! errors), and runs a subcommand. A subcommand has a file or folder, or shares one with others of its concept. Results
//! go to stdout, progress and errors to stderr.
//!
//! The command is a library, so that `python -m mnemon` is the same command.

#![forbid(unsafe_code)]
// The benches use more of what reads vectors and counts.
#![cfg_attr(not(feature = "bench"), allow(dead_code))]

// What the subcommands share: arguments and exit statuses; what is read, opened, shown and written; figures.
mod database;
mod input;
mod metrics;
mod output;
mod output_file;
mod progress;
mod signals;
mod svg;
mod usage;
mod vectors;

// Messages are stored and found.
mod ingest;
mod recall;
mod why;

// They are listed, deleted, and forgotten for good.
mod contents;
mod delete;
mod forget;

// They move to other databases.
#[cfg(feature = "postgres")]
mod share;
mod transfer;

// The database is looked after.
mod reindex;
mod retry;
mod stats;
mod verify;

// Programs use it.
#[cfg(all(feature = "serve", unix))]
mod hook;
#[cfg(all(feature = "serve", unix))]
mod local_server;
#[cfg(all(feature = "serve", unix))]
mod mcp;
#[cfg(feature = "serve")]
mod serve;

// Models are installed; what they and the database do is measured.
#[cfg(feature = "bench")]
mod bench;
mod embed;
mod eval;
mod models;

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

use crate::{
    output::Format,
    usage::{Status, UsageError},
};

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
    /// The address of a database of Postgres that several machines share, such as
    /// postgres://USER:PASSWORD@HOST/DATABASE. The file of --db is then a copy of it, which the command makes if it is
    /// missing. Default: $MNEMON_SHARED, which other users of this machine do not see.
    #[cfg(feature = "postgres")]
    #[arg(long, global = true, value_name = "URL")]
    shared: Option<String>,
    /// How far reads may be behind the database of --shared: `latest` sees all that was stored anywhere; a number of
    /// seconds sees what was stored that long ago, and goes on without the database; `local` asks nobody. Default:
    /// `latest`, and 1 for `serve` and `mcp`.
    #[cfg(feature = "postgres")]
    #[arg(long, global = true, value_name = "latest|local|SECONDS", value_parser = database::parse_freshness)]
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
    Namespaces(contents::NamespacesArgs),
    Sessions(contents::SessionsArgs),
    Get(contents::GetArgs),
    Delete(delete::Args),
    Forget(forget::ForgetArgs),
    Audit(forget::AuditArgs),
    Hold(forget::HoldArgs),
    Retry(retry::Args),
    Ttl(forget::TtlArgs),
    Export(transfer::ExportArgs),
    Import(transfer::ImportArgs),
    #[cfg(feature = "postgres")]
    Share(share::ShareArgs),
    #[cfg(feature = "postgres")]
    Unshare(share::UnshareArgs),
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
    Verify(verify::VerifyArgs),
    Backup(verify::BackupArgs),
    Purge(forget::PurgeArgs),
    Salvage(verify::SalvageArgs),
    #[cfg(feature = "serve")]
    Serve(serve::Args),
    #[cfg(feature = "serve")]
    Token(serve::TokenArgs),
    #[cfg(all(feature = "serve", unix))]
    Mcp(mcp::Args),
    #[cfg(all(feature = "serve", unix))]
    Hook(hook::Args),
    /// Not in this build: serve a database over HTTP and MCP.
    #[cfg(not(feature = "serve"))]
    Serve(usage::Missing),
    /// Not in this build: make a token for clients of a server.
    #[cfg(not(feature = "serve"))]
    Token(usage::Missing),
    /// Not in this build: give an MCP client the memory of a database, over stdio.
    #[cfg(not(all(feature = "serve", unix)))]
    Mcp(usage::Missing),
    /// Not in this build: give a coding agent the memory of its folder.
    #[cfg(not(all(feature = "serve", unix)))]
    Hook(usage::Missing),
    Models(models::Args),
    Runtime(models::RuntimeArgs),
    #[cfg(feature = "bench")]
    Bench(bench::Args),
    /// Not in this build: measure speed, memory and recall on this machine.
    #[cfg(not(feature = "bench"))]
    Bench(usage::Missing),
}

/// Runs the command with the arguments of the process.
pub fn main() -> ExitCode {
    let program = std::env::current_exe().map(PathBuf::into_os_string);
    run(program.into_iter().collect(), std::env::args_os().skip(1).collect()).into()
}

/// Runs the command with these arguments, and returns the exit status. `program` starts it again: a program and its
/// first arguments.
pub fn run(program: Vec<OsString>, arguments: Vec<OsString>) -> u8 {
    usage::set_program(program);
    let cli = match Cli::try_parse_from([OsString::from("mnemon")].iter().chain(&arguments)) {
        Ok(cli) => cli,
        Err(error) => return refuse(&error, &arguments),
    };
    output::set_stderr(cli.format, cli.quiet);
    database::set_key_file(cli.key_file);
    #[cfg(feature = "postgres")]
    database::set_shared(cli.shared, cli.freshness.unwrap_or_else(|| cli.command.freshness()));
    #[cfg(not(feature = "postgres"))]
    if let Err(error) = database::refuse_shared(cli.shared.is_some(), cli.freshness.is_some()) {
        output::error(error.to_string(), Status::USAGE.0);
        return Status::USAGE.0;
    }
    // The server ends in its own order.
    if !matches!(cli.command, Command::Serve(_))
        && let Err(error) = signals::remove_temporary_files()
    {
        output::note(format!("signals are not caught, and may leave temporary files: {error}"));
    }
    match cli.command.run(cli.format) {
        Ok(Status(status)) => status,
        // A reader such as `head` closes the pipe when it has seen enough: not a failure.
        Err(error) if output::is_closed_pipe(&error) => 0,
        Err(error) => {
            let status = if error.is::<UsageError>() { Status::USAGE.0 } else { 1 };
            output::failure(&error, status);
            status
        }
    }
}

impl Command {
    /// Returns how far the command's reads may be behind a shared database, unless --freshness says so.
    #[cfg(feature = "postgres")]
    fn freshness(&self) -> mnemon::Freshness {
        match self {
            // A server answers while the shared database cannot be reached.
            #[cfg(feature = "serve")]
            Command::Serve(_) => mnemon::Freshness::default(),
            #[cfg(all(feature = "serve", unix))]
            Command::Mcp(_) | Command::Hook(_) => mnemon::Freshness::default(),
            _ => mnemon::Freshness::Latest,
        }
    }

    fn run(self, format: Format) -> anyhow::Result<Status> {
        match self {
            Command::Ingest(args) => ingest::run(args, format),
            Command::Recall(args) => recall::run(args, format),
            Command::Why(args) => why::run(&args, format),
            Command::Namespaces(args) => contents::namespaces(args, format),
            Command::Sessions(args) => contents::sessions(&args, format),
            Command::Get(args) => contents::get(&args, format),
            Command::Delete(args) => delete::run(args, format),
            Command::Forget(args) => forget::forget(args, format),
            Command::Audit(args) => forget::audit(&args, format),
            Command::Hold(args) => forget::hold(args, format),
            Command::Retry(args) => retry::run(&args, format),
            Command::Ttl(args) => forget::ttl(args, format),
            Command::Export(args) => transfer::export(&args, format),
            Command::Import(args) => transfer::import(&args, format),
            #[cfg(feature = "postgres")]
            Command::Share(args) => share::share(&args, format),
            #[cfg(feature = "postgres")]
            Command::Unshare(args) => share::unshare(&args, format),
            #[cfg(not(feature = "postgres"))]
            Command::Share(_) => Err(usage::missing("share", &[]).into()),
            #[cfg(not(feature = "postgres"))]
            Command::Unshare(_) => Err(usage::missing("unshare", &[]).into()),
            Command::Eval(args) => eval::run(args, format),
            Command::Embed(args) => embed::run(args, format),
            Command::Reindex(args) => reindex::run(args, format),
            Command::Stats(args) => stats::run(args, format),
            Command::Verify(args) => verify::verify(&args, format),
            Command::Backup(args) => verify::backup(&args, format),
            Command::Purge(args) => forget::purge(&args, format),
            Command::Salvage(args) => verify::salvage(&args, format),
            #[cfg(feature = "serve")]
            Command::Serve(args) => serve::run(args, format),
            #[cfg(feature = "serve")]
            Command::Token(args) => serve::make_token(args, format),
            #[cfg(all(feature = "serve", unix))]
            Command::Mcp(args) => mcp::run(args),
            #[cfg(all(feature = "serve", unix))]
            Command::Hook(args) => hook::run(args),
            #[cfg(not(all(feature = "serve", unix)))]
            Command::Hook(_) => Err(usage::missing("hook", &[]).into()),
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
            Command::Models(args) => models::run(args, format),
            Command::Runtime(args) => models::runtime(args, format),
            #[cfg(feature = "bench")]
            Command::Bench(args) => bench::run(args, format),
            #[cfg(not(feature = "bench"))]
            Command::Bench(_) => Err(usage::missing("bench", &[]).into()),
        }
    }
}

/// Prints the help or the version, or the error of arguments that do not parse.
fn refuse(error: &clap::Error, arguments: &[OsString]) -> u8 {
    let wants_json = arguments.windows(2).any(|pair| pair[0] == "--format" && pair[1] == "json")
        || arguments.iter().any(|argument| argument == "--format=json");
    if error.use_stderr() && wants_json {
        output::set_stderr(Format::Json, false);
        let text = error.render().to_string();
        output::error(text.trim_start_matches("error: ").trim_end(), Status::USAGE.0);
    } else {
        // There is nowhere to report that stderr is closed.
        let _ = error.print();
    }
    match error.use_stderr() {
        false => 0,
        // To a coding agent, 2 means that the hook forbids what it is about.
        true if arguments.iter().any(|argument| argument == "hook") => 1,
        true => Status::USAGE.0,
    }
}

//! `mnemon import`

use std::{
    io::{BufReader, Read},
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow};
use mnemon::{Device, Engine, Error, IndexKind, Namespace};

use crate::{
    export, ingest, input, key,
    memory_options::MemoryOptions,
    output::Format,
    phases,
    progress::{Progress, Total},
    status::Status,
};

/// Store what `export` wrote, and embed and index it.
///
/// All of the file is stored, in one commit, or nothing: a file that is cut off or has a bad line changes nothing, and
/// neither does a command that is killed before. A namespace of the file must have no sessions and no
/// documents in the database. `ingest` stores messages of other origins.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database; created if it is missing.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// A model folder or name. Default: the database's own model, and static-en-256 for a new database.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
    /// The device that runs the model: cpu, cuda, or cuda:1 for the second GPU. A GPU needs a build with the feature
    /// `cuda`.
    #[arg(long, default_value = "cpu")]
    device: Device,
    /// Store the only namespace of the file under this name.
    #[arg(long, value_name = "NS")]
    namespace: Option<Namespace>,
    #[command(flatten)]
    memory: MemoryOptions,
    /// The file that `export` wrote, which may be compressed by gzip or zstd; - reads stdin.
    #[arg(value_name = "FILE.jsonl")]
    file: PathBuf,
}

pub(crate) fn run(args: &Args, format: Format) -> anyhow::Result<Status> {
    // Before the database is created.
    let file = input::open(&args.file)?;
    let mut config = input::config(IndexKind::Auto);
    config.device = args.device.clone();
    args.memory.set(&mut config);
    key::set(&mut config)?;
    let engine = input::engine(&args.db, args.model.as_deref(), config, true)?;
    let result = import(&engine, args, file, format);
    ingest::remove_unused(&engine, &args.db);
    result.map(|()| Status::SUCCESS)
}

fn import(engine: &Engine, args: &Args, file: impl Read, format: Format) -> anyhow::Result<()> {
    let mut file = BufReader::with_capacity(1 << 18, file);
    let progress = Progress::new();
    progress.begin("storing", "messages", Total::Unknown);
    let imported = match &args.namespace {
        Some(namespace) => engine.blocking().import_as(namespace, &mut file),
        None => engine.blocking().import(&mut file),
    };
    let report = imported.map_err(|error| at_line(error, &args.file))?;
    let embedded = phases::embed(engine, &progress);
    drop(progress);
    embedded.context(
        "the file is imported, but not all messages are embedded; the next command that opens the database does it",
    )?;
    export::print(&report, format)
}

/// Adds the file to an error, before the number of the line if it has one.
fn at_line(error: Error, file: &Path) -> anyhow::Error {
    match error {
        Error::InvalidImport { line, reason } => {
            anyhow!("{}: {reason}; nothing was imported", input::at(file, line))
        }
        error => anyhow::Error::new(error).context(file.display().to_string()),
    }
}

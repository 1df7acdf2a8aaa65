//! `mnemon export` and `mnemon import`: all that a database stores, as JSON Lines.

use std::{
    io::{self, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow};
use mnemon::{Engine, Error, Namespace, TransferReport};

use crate::{
    database,
    ingest::{IngestTarget, LinkOption},
    input,
    output::{self, Format},
    output_file::{self, Force, OutputFile},
    progress::{Progress, Total},
    usage::{MemoryOptions, Status},
};

/// Write everything that a database stores to a file, as JSON Lines that `import` reads.
///
/// Messages, sessions with their buffers, windows and batches, block states, checkpoints, and documents. No vectors but
/// given ones: the importing database makes its own. The export shows one moment, needs no model, and may be made while a program
/// uses the database. Whoever may not read the database may not read the new file.
#[derive(clap::Args)]
pub(crate) struct ExportArgs {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// Export this namespace alone. Default: all.
    #[arg(long, value_name = "NS")]
    namespace: Option<Namespace>,
    /// The file to write; - is stdout.
    #[arg(long, short, value_name = "FILE.jsonl", default_value = "-")]
    output: PathBuf,
    #[command(flatten)]
    force: Force,
}

pub(crate) fn export(args: &ExportArgs, format: Format) -> anyhow::Result<Status> {
    let engine = database::open_to_read(|| database::without_model(&args.db, args.namespace.as_ref()), &[])?;
    let export = |output: &mut dyn Write| match &args.namespace {
        Some(namespace) => engine.blocking().export(namespace, output),
        None => engine.blocking().export_all(output),
    };
    if args.output == Path::new("-") {
        export(&mut BufWriter::new(io::stdout().lock()))?;
        return Ok(Status::SUCCESS);
    }
    input::note_read(&args.db);
    let mut file = OutputFile::create(&args.output, output_file::EXPORT, args.force, Some(&args.db))?;
    let report = export(&mut file).with_context(|| args.output.display().to_string())?;
    file.finish()?;
    print(&report, format)?;
    Ok(Status::SUCCESS)
}

/// Prints the counts of an export or an import.
pub(crate) fn print(report: &TransferReport, format: Format) -> anyhow::Result<()> {
    let counts = [
        ("namespaces", report.namespaces),
        ("sessions", report.sessions),
        ("messages", report.messages),
        ("documents", report.documents),
    ];
    output::report(report, &counts, format)
}

/// Store what `export` wrote, and embed and index it.
///
/// All of the file is stored, in one commit, or nothing: a file that is cut off or has a bad line changes nothing, and
/// neither does a command that is killed before. A namespace of the file must have no sessions and no
/// documents in the database. `ingest` stores messages of other origins.
#[derive(clap::Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    target: IngestTarget,
    /// Store the only namespace of the file under this name.
    #[arg(long, value_name = "NS")]
    namespace: Option<Namespace>,
    #[command(flatten)]
    memory: MemoryOptions,
    #[command(flatten)]
    link: LinkOption,
    /// The file that `export` wrote, which may be compressed by gzip or zstd; - reads stdin.
    #[arg(value_name = "FILE.jsonl")]
    file: PathBuf,
}

pub(crate) fn import(args: &ImportArgs, format: Format) -> anyhow::Result<Status> {
    // Before the database is created.
    let file = input::open(&args.file)?;
    let mut config = database::config()?;
    args.memory.set(&mut config);
    let engine = args.target.open(config)?;
    let result = fill(&engine, args, file, format);
    args.target.remove_unused(&engine);
    result.map(|()| Status::SUCCESS)
}

fn fill(engine: &Engine, args: &ImportArgs, file: impl Read, format: Format) -> anyhow::Result<()> {
    let mut file = BufReader::with_capacity(1 << 18, file);
    let progress = Progress::new();
    progress.begin("storing", "messages", Total::Unknown);
    let imported = match &args.namespace {
        Some(namespace) => engine.blocking().import_as(namespace, &mut file),
        None => engine.blocking().import(&mut file),
    };
    let report = imported.map_err(|error| at_line(error, &args.file))?;
    progress.embed(engine).context(
        "all of the file is imported and is found by its words, but not all of it is embedded; do not import it again: the next command \
         that opens the database for writing goes on with it",
    )?;
    args.link.link(engine, &progress)?;
    drop(progress);
    print(&report, format)
}

/// Adds the file to an error, and the number of the line if the error has one.
fn at_line(error: Error, file: &Path) -> anyhow::Error {
    match error {
        Error::InvalidImport { line, reason } => {
            anyhow!("{}: {reason}; nothing was imported", input::at(file, line))
        }
        error @ Error::OutcomeUnknown { .. } => error.into(),
        error @ Error::Storage(_) => {
            anyhow::Error::new(error).context(format!("nothing of {} was imported", file.display()))
        }
        error => anyhow::Error::new(error).context(file.display().to_string()),
    }
}

//! `mnemon export`

use std::{
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use mnemon::{Namespace, TransferReport};

use crate::{
    input,
    output::{self, Format},
    output_file::{self, Force, OutputFile},
    status::Status,
    stored,
};

/// Write everything that a database stores to a file, as JSON Lines that `import` reads.
///
/// Messages, sessions with their buffers, windows and batches, block states, checkpoints, and documents. No vectors:
/// the importing database makes its own. The export shows one moment, needs no model, and may be made while a program
/// uses the database. Whoever may not read the database may not read the new file.
#[derive(clap::Args)]
pub(crate) struct Args {
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

pub(crate) fn run(args: &Args, format: Format) -> anyhow::Result<Status> {
    let engine = stored::builder(&args.db, args.namespace.as_ref())?.open_read_only()?;
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
    match format {
        Format::Json => output::json(report),
        Format::Text => {
            output::count("namespaces", report.namespaces)?;
            output::count("sessions", report.sessions)?;
            output::count("messages", report.messages)?;
            output::count("documents", report.documents)
        }
    }
}

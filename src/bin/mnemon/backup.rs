//! `mnemon backup`

use std::{path::PathBuf, process::ExitCode};

use serde_json::json;

use crate::output::{self, Format};

/// Write a consistent copy of a database to a new file, without its free space.
///
/// The copy is read back page by page before it gets its name. To restore it, open it. No other process may have the
/// database open: a program that has it open calls `Engine::backup`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// The new file.
    new: PathBuf,
}

pub(crate) fn run(args: &Args, format: Format) -> anyhow::Result<ExitCode> {
    mnemon::backup(&args.db, &args.new)?;
    let bytes = std::fs::metadata(&args.new)?.len();
    match format {
        Format::Json => output::json(&json!({ "bytes": bytes }))?,
        Format::Text => output::count("bytes", bytes)?,
    }
    Ok(ExitCode::SUCCESS)
}

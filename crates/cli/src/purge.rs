//! `mnemon purge`

use std::path::PathBuf;

use crate::{
    key,
    output::{self, Format},
    status::Status,
};

/// Replace a database's file by a copy of what is left, so that nothing of what was deleted or forgotten is in its
/// bytes.
///
/// No other process may have the database open: a program that has it open calls `Engine::purge`. `mnemon audit` lists
/// the purge.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
}

pub(crate) fn run(args: &Args, format: Format) -> anyhow::Result<Status> {
    let report = mnemon::purge(key::database(&args.db)?)?;
    match format {
        Format::Json => output::json(&report)?,
        Format::Text => {
            output::count("bytes before", report.bytes_before)?;
            output::count("bytes after", report.bytes_after)?;
        }
    }
    Ok(Status::SUCCESS)
}

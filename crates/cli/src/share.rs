//! `mnemon share`

use std::path::PathBuf;

use anyhow::Context;

use crate::{
    key,
    output::{self, Format},
    shared,
    status::Status,
};

/// Move a database to the shared database of --shared, and make the file a copy of it.
///
/// Messages, sessions, documents, block states, checkpoints, legal holds and the audit move; vectors and indexes stay in
/// the file. No other process may have the database open. A command that is killed goes on where it stopped when it is
/// repeated.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
}

pub(crate) fn run(args: &Args, format: Format) -> anyhow::Result<Status> {
    let address = shared::address().context("say where to, with --shared URL or $MNEMON_SHARED")?;
    let report = mnemon::share(key::database(&args.db)?, address)?;
    match format {
        Format::Json => output::json(&report)?,
        Format::Text => {
            output::count("namespaces", report.namespaces)?;
            output::count("messages", report.messages)?;
            output::count("documents", report.documents)?;
        }
    }
    Ok(Status::SUCCESS)
}

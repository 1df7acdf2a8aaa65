//! `mnemon salvage`

use std::path::PathBuf;

use crate::{
    key,
    output::{self, Format},
    status::Status,
};

/// Copy what can still be read of a damaged database into a new one, and list what could not.
///
/// Messages, sessions, documents, legal holds and the audit. If a hold cannot be read, all namespaces are held in the new
/// database. Vectors and indexes are made again when the new database is opened. The damaged file does not change. The new
/// one has the same key, mode and owner.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The damaged database.
    damaged: PathBuf,
    /// The new file.
    new: PathBuf,
}

pub(crate) fn run(args: &Args, format: Format) -> anyhow::Result<Status> {
    let report = mnemon::salvage(key::database(&args.damaged)?, &args.new)?;
    match format {
        Format::Json => output::json(&report)?,
        Format::Text => {
            output::count("namespaces", report.namespaces)?;
            output::count("sessions", report.sessions)?;
            output::count("messages", report.messages)?;
            output::count("documents", report.documents)?;
            output::count("holds", report.holds)?;
            output::count("audit", report.audit_entries)?;
            report.lost.iter().try_for_each(|lost| output::line(&format!("lost: {lost}")))?;
        }
    }
    Ok(Status::SUCCESS)
}

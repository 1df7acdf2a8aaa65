//! `mnemon audit`

use std::path::PathBuf;

use mnemon::{AuditEvent, Receipt};

use crate::{
    key,
    output::{self, Format, counted},
    shared,
    status::Status,
};

/// List the receipts of what was forgotten, held and purged, and check their chain.
///
/// Prints each problem, and exits with status 3 if there is one: an entry was changed, removed or put elsewhere.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
}

pub(crate) fn run(args: &Args, format: Format) -> anyhow::Result<Status> {
    shared::refresh(&args.db, None)?;
    let audit = mnemon::audit(key::database(&args.db)?)?;
    match format {
        Format::Json => output::json(&audit)?,
        Format::Text => {
            audit.entries.iter().try_for_each(print)?;
            audit.problems.iter().try_for_each(|problem| output::line(problem))?;
            output::line(if audit.is_sound() { "the chain holds" } else { "THE CHAIN IS BROKEN" })?;
        }
    }
    Ok(if audit.is_sound() { Status::SUCCESS } else { Status(3) })
}

fn print(entry: &Receipt) -> anyhow::Result<()> {
    let what = match &entry.event {
        AuditEvent::Forget { forgotten, complete, .. } => {
            let rest = if *complete { "" } else { ", and went on" };
            let purged = entry.purged_at.map_or_else(|| "not purged".into(), |at| format!("purged {at}"));
            let (messages, documents) =
                (counted(forgotten.messages, "message"), counted(forgotten.documents, "document"));
            format!("forgot {messages}, {documents}{rest}; {purged}")
        }
        AuditEvent::Hold { hold } => format!("hold {hold}"),
        AuditEvent::Release { hold } => format!("released hold {hold}"),
        AuditEvent::Purge { .. } => "purge".into(),
        _ => "an event that this version does not know".into(),
    };
    output::line(&format!("{}  {}  {}  {what}", entry.sequence, entry.at, entry.hash))
}

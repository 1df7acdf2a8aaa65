//! `mnemon namespaces`

use std::{num::NonZeroUsize, path::PathBuf};

use mnemon::{Error, Namespace, NamespaceCursor};
use serde_json::json;

use crate::{
    key,
    output::{self, Format},
    shared,
    status::Status,
    stderr,
    usage::UsageError,
};

/// The namespaces that are held in memory at a time.
const PAGE: usize = 10_000;

/// List the namespaces of a database that have messages or documents, by name.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// List this namespace and those under it: `acme` lists `acme/user-42`, but not `acme-2`.
    #[arg(long, value_name = "NS")]
    prefix: Option<Namespace>,
    /// List at most this many. If more follow, their cursor is shown: as a note, or with --format json as the last
    /// line, such as {"next": "17:acme/user-42"}.
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
    /// List what follows this cursor.
    #[arg(long, value_name = "CURSOR")]
    after: Option<NamespaceCursor>,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    let Args { db, prefix, limit, mut after } = args;
    shared::refresh(&db, prefix.as_ref())?;
    let database = key::database(&db)?;
    if format == Format::Text {
        output::line(&format!("{:>10} {:>9} {:>10}  namespace", "messages", "sessions", "documents"))?;
    }
    let mut left = limit.map_or(usize::MAX, NonZeroUsize::get);
    while left > 0 {
        let page = mnemon::namespaces(&database, prefix.as_ref(), after.as_ref(), left.min(PAGE));
        let page = page.map_err(usage_error)?;
        for found in &page.namespaces {
            match format {
                Format::Json => output::json(found)?,
                Format::Text => output::line(&format!(
                    "{:>10} {:>9} {:>10}  {}",
                    found.messages, found.sessions, found.documents, found.namespace
                ))?,
            }
        }
        left -= page.namespaces.len();
        after = page.next;
        if after.is_none() {
            return Ok(Status::SUCCESS);
        }
    }
    match (after, format) {
        (Some(next), Format::Json) => output::json(&json!({ "next": next }))?,
        (Some(next), Format::Text) => stderr::note(format!("more follow: --after {:?}", next.to_string())),
        (None, _) => {}
    }
    Ok(Status::SUCCESS)
}

/// A cursor of another database is wrong usage.
fn usage_error(error: Error) -> anyhow::Error {
    match error {
        Error::InvalidCursor { .. } => UsageError(error.to_string()).into(),
        error => error.into(),
    }
}

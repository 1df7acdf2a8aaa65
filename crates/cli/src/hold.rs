//! `mnemon hold`

use std::path::PathBuf;

use anyhow::bail;
use mnemon::Namespace;

use crate::{
    output::{self, Format},
    status::Status,
    stored,
};

/// Set a legal hold on a namespace, release it, or list all holds.
///
/// Nothing of a held namespace, and of those under it, is deleted or forgotten.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// The namespace to hold. Without it, all holds are listed.
    #[arg(long, value_name = "NS", requires = "change")]
    namespace: Option<Namespace>,
    /// Set a hold, for this reason.
    #[arg(long, value_name = "TEXT", requires = "namespace", group = "change")]
    reason: Option<String>,
    /// Release the hold.
    #[arg(long, requires = "namespace", group = "change")]
    release: bool,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    let engine = match args.namespace {
        Some(_) => stored::open(&args.db)?,
        None => stored::open_to_read(&|| stored::builder(&args.db, None), &[])?,
    };
    let blocking = engine.blocking();
    let receipt = match (&args.namespace, args.reason) {
        (Some(namespace), Some(reason)) => blocking.hold(namespace, reason)?,
        (Some(namespace), None) => match blocking.release(namespace)? {
            Some(receipt) => receipt,
            None => bail!("there is no hold of namespace {:?} (`mnemon hold` lists all)", namespace.as_str()),
        },
        (None, _) => {
            for hold in blocking.holds()? {
                match format {
                    Format::Json => output::json(&hold)?,
                    Format::Text => {
                        let (namespace, since, reason) = (&hold.namespace, hold.since, &hold.reason);
                        output::line(&format!("{namespace}  since {since}: {reason}  ({})", hold.id))?;
                    }
                }
            }
            return Ok(Status::SUCCESS);
        }
    };
    match format {
        Format::Json => output::json(&receipt)?,
        Format::Text => output::line(&format!("receipt {} of {}: {}", receipt.sequence, receipt.at, receipt.hash))?,
    }
    Ok(Status::SUCCESS)
}

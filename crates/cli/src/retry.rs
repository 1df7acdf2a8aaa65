//! `mnemon retry`: the batches that memory blocks gave up.

use std::path::PathBuf;

use mnemon::Namespace;
use serde_json::json;

use crate::{
    database,
    output::{self, Format},
    usage::Status,
};

/// Hand the batches of sessions over again that memory blocks gave up, because a language model's answer was of no use.
///
/// A server that is started with a model (`mnemon serve --llm`) then gives them to it. Of a running server, which has the database
/// open, ask POST /v1/formation/retry.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// Only those of this namespace and of those under it.
    #[arg(long, value_name = "NS")]
    prefix: Option<Namespace>,
    /// Only list them, with the reasons.
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(args: &Args, format: Format) -> anyhow::Result<Status> {
    let engine = database::without_model(&args.db, None)?.open()?;
    let failed = match args.list {
        true => engine.blocking().failed_batches(args.prefix.as_ref())?,
        false => engine.blocking().retry_failed_batches(args.prefix.as_ref())?,
    };
    match format {
        Format::Json => output::json(&json!({ "handed_over": !args.list, "batches": failed }))?,
        Format::Text => {
            for batch in &failed {
                let mnemon::memory::FailedBatch { namespace, session, block, batch, reason, .. } = batch;
                output::line(&format!("{namespace}  {session}  {block}  batch {batch}: {reason}"))?;
            }
            let batches = if failed.len() == 1 { "batch" } else { "batches" };
            let what = if args.list { "given up" } else { "handed over again" };
            output::line(&format!("{} {batches} {what}", failed.len()))?;
        }
    }
    Ok(Status::SUCCESS)
}

//! `mnemon namespaces`

use std::{path::PathBuf, process::ExitCode};

use serde_json::json;

use crate::output::{self, Format};

/// List the namespaces of a database that have messages, by name.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
}

pub(crate) fn run(args: &Args, format: Format) -> anyhow::Result<ExitCode> {
    let namespaces = mnemon::stats(&args.db)?.namespaces;
    if format == Format::Text {
        output::line(&format!("{:>10} {:>9}  namespace", "messages", "sessions"))?;
    }
    for found in namespaces.iter().filter(|found| found.messages > 0) {
        let (namespace, messages, sessions) = (&found.namespace, found.messages, found.sessions);
        match format {
            Format::Json => {
                output::json(&json!({ "namespace": namespace, "messages": messages, "sessions": sessions }))?;
            }
            Format::Text => output::line(&format!("{messages:>10} {sessions:>9}  {namespace}"))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

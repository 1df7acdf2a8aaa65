//! `mnemon sessions`

use crate::{
    output::{self, Format},
    status::Status,
    stored::Location,
};

/// List the sessions of a namespace, by id.
///
/// Prints the number of messages of each, how many of them are in its short-term buffer, and its flushed batches.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    location: Location,
}

pub(crate) fn run(args: &Args, format: Format) -> anyhow::Result<Status> {
    let sessions = args.location.open_to_read()?.blocking().sessions(&args.location.namespace)?;
    if format == Format::Text {
        output::line(&format!("{:>10} {:>9} {:>8}  session", "messages", "buffered", "batches"))?;
    }
    for found in &sessions {
        match format {
            Format::Json => output::json(found)?,
            Format::Text => output::line(&format!(
                "{:>10} {:>9} {:>8}  {}",
                found.messages, found.buffered, found.batches, found.session
            ))?,
        }
    }
    Ok(Status::SUCCESS)
}

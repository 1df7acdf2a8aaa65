//! `mnemon get`

use anyhow::ensure;
use mnemon::{Message, Namespace};
use serde::Serialize;

use crate::{
    output::{self, Format},
    status::Status,
    stored::Location,
};

/// Show messages by id, or all messages of a session in order.
///
/// With --format json each message is a line that `ingest` reads. If an id is unknown, the others are shown, and the
/// command fails.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    location: Location,
    /// Show all messages of this session.
    #[arg(long, value_name = "ID", conflicts_with = "ids")]
    session: Option<String>,
    /// The ids of messages.
    #[arg(required_unless_present = "session", value_name = "ID")]
    ids: Vec<String>,
}

/// A line of a messages file.
#[derive(Serialize)]
struct Line<'a> {
    namespace: &'a Namespace,
    #[serde(flatten)]
    message: &'a Message,
}

pub(crate) fn run(args: &Args, format: Format) -> anyhow::Result<Status> {
    let namespace = &args.location.namespace;
    let engine = args.location.open_to_read()?;
    let mut missing = String::new();
    let messages = match &args.session {
        Some(session) => {
            args.location.session(&engine, session)?;
            engine.blocking().history(namespace, session)?
        }
        None => {
            let (mut found, mut unknown) = (Vec::new(), Vec::new());
            for id in &args.ids {
                match engine.blocking().get(namespace, id)? {
                    Some(message) => found.push(message),
                    None => unknown.push(format!("{id:?}")),
                }
            }
            missing = unknown.join(", ");
            found
        }
    };
    for message in &messages {
        match format {
            Format::Json => output::json(&Line { namespace, message })?,
            Format::Text => print(message)?,
        }
    }
    ensure!(missing.is_empty(), "no message {missing} in namespace {:?}", namespace.as_str());
    Ok(Status::SUCCESS)
}

/// Prints a line with the id, the time, the session and the speaker, and then the text, or other content as JSON.
fn print(message: &Message) -> anyhow::Result<()> {
    let time = message.created_at.map_or_else(|| "no date".into(), |time| time.to_string());
    let speaker = message.name.as_deref().unwrap_or(message.role.as_str());
    output::line(&format!("{}  {time}  {}  {speaker}:", message.id, message.session))?;
    let text = message.text();
    let content = if text.is_empty() { serde_json::to_string(&message.content)? } else { text };
    output::text(&format!("{content}\n"))
}

//! `mnemon namespaces`, `mnemon sessions` and `mnemon get`: what a database stores.

use std::{num::NonZeroUsize, path::PathBuf};

use anyhow::ensure;
use clap::builder::PossibleValuesParser;
use mnemon::{
    Error, Message, MessageVersion, Namespace, NamespaceCursor,
    format::{FORMATS, Format as FileFormat},
};
use serde::Serialize;
use serde_json::json;

use crate::{
    database::{self, Location},
    output::{self, Format},
    usage::{Status, UsageError},
};

/// Number of namespaces that are held in memory at a time.
const PAGE: usize = 10_000;

/// List the namespaces of a database that have messages or documents, by name.
#[derive(clap::Args)]
pub(crate) struct NamespacesArgs {
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

pub(crate) fn namespaces(args: NamespacesArgs, format: Format) -> anyhow::Result<Status> {
    let NamespacesArgs { db, prefix, limit, mut after } = args;
    database::refresh(&db, prefix.as_ref())?;
    let database = database::file(&db)?;
    if format == Format::Text {
        output::line(&format!("{:>10} {:>9} {:>10}  namespace", "messages", "sessions", "documents"))?;
    }
    let mut left = limit.map_or(usize::MAX, NonZeroUsize::get);
    while left > 0 {
        let page = mnemon::namespaces(&database, prefix.as_ref(), after.as_ref(), left.min(PAGE));
        let page = page.map_err(|error| match error {
            // The cursor of another database is wrong usage.
            Error::InvalidCursor { .. } => anyhow::Error::new(UsageError(error.to_string())),
            error => error.into(),
        })?;
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
        (Some(next), Format::Text) => output::note(format!("more follow: --after {:?}", next.to_string())),
        (None, _) => {}
    }
    Ok(Status::SUCCESS)
}

/// List the sessions of a namespace, by id.
///
/// Prints the number of messages of each, how many of them are in its short-term buffer, and its flushed batches.
#[derive(clap::Args)]
pub(crate) struct SessionsArgs {
    #[command(flatten)]
    location: Location,
}

pub(crate) fn sessions(args: &SessionsArgs, format: Format) -> anyhow::Result<Status> {
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

/// Show messages by id, or all messages of a session in order.
///
/// With --format json each message is a line that `ingest` reads, unless it has versions. If an id is unknown, the others are shown, and the
/// command fails.
#[derive(clap::Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    location: Location,
    /// Show all messages of this session.
    #[arg(long, value_name = "ID", conflicts_with = "ids")]
    session: Option<String>,
    /// Show also what each message was before its changes, the oldest first. Databases have that of the changes that were made
    /// with `mnemon serve --keep-versions` or by programs that keep versions.
    #[arg(long)]
    versions: bool,
    /// Show the messages as one value of JSON in the format of a provider's API: of OpenAI's a list, and of the others the fields of a request.
    #[arg(long, value_name = "FORMAT", value_parser = written_formats(), conflicts_with = "versions")]
    to: Option<String>,
    /// The ids of messages.
    #[arg(required_unless_present = "session", value_name = "ID")]
    ids: Vec<String>,
}

/// The names of the formats that --to takes.
fn written_formats() -> PossibleValuesParser {
    PossibleValuesParser::new(FORMATS.iter().filter(|format| format.write.is_some()).map(|format| format.name))
}

/// A line of a messages file.
#[derive(Serialize)]
struct Line<'a> {
    namespace: &'a Namespace,
    #[serde(flatten)]
    message: &'a Message,
    /// The earlier versions of the message, if they were asked for. `ingest` refuses a line that has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    versions: Option<&'a [MessageVersion]>,
}

pub(crate) fn get(args: &GetArgs, format: Format) -> anyhow::Result<Status> {
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
    let write = args.to.as_deref().and_then(FileFormat::named).and_then(|format| format.write);
    if let Some(write) = write {
        output::json(&write(&messages))?;
    }
    for message in messages.iter().filter(|_| write.is_none()) {
        let versions = args.versions.then(|| engine.blocking().versions(namespace, &message.id)).transpose()?;
        match format {
            Format::Json => output::json(&Line { namespace, message, versions: versions.as_deref() })?,
            Format::Text => {
                for MessageVersion { message, until, .. } in versions.iter().flatten() {
                    output::line(&format!("until {until}:"))?;
                    print(message)?;
                }
                print(message)?;
            }
        }
    }
    ensure!(missing.is_empty(), "no message {missing} in namespace {:?}", namespace.as_str());
    Ok(Status::SUCCESS)
}

/// Prints a line with the id, the time, the session and the speaker, and then the text. Content without text is shown
/// as JSON.
fn print(message: &Message) -> anyhow::Result<()> {
    let time = message.created_at.map_or_else(|| "no date".into(), |time| time.to_string());
    let speaker = message.name.as_deref().unwrap_or(message.role.as_str());
    output::line(&format!("{}  {time}  {}  {speaker}:", message.id, message.session))?;
    let text = message.text();
    let content = if text.is_empty() { serde_json::to_string(&message.content)? } else { text };
    output::text(&format!("{content}\n"))
}

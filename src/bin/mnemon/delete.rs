//! `mnemon delete`

use std::process::ExitCode;

use anyhow::bail;
use serde_json::json;

use crate::{
    output::{self, Format},
    stored::Location,
    usage::{self, UsageError},
};

/// Delete messages by id, or with --yes a session or a whole namespace.
///
/// Deletes the messages with their vectors, in one commit; there is no way back. If one of the ids is unknown, nothing
/// is deleted.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    location: Location,
    /// Delete this session with all its messages; needs --yes.
    #[arg(long, value_name = "ID", conflicts_with = "ids")]
    session: Option<String>,
    /// Delete the namespace with all its messages; needs --yes.
    #[arg(long, conflicts_with_all = ["ids", "session"])]
    all: bool,
    /// Delete without asking. Otherwise a session or a namespace is not deleted: the command states how many messages
    /// it has, and fails.
    #[arg(long)]
    yes: bool,
    /// The ids of messages.
    #[arg(required_unless_present_any = ["session", "all"], value_name = "ID")]
    ids: Vec<String>,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<ExitCode> {
    let Args { location, session, all, yes, ids } = args;
    let (namespace, engine) = (&location.namespace, location.open()?);
    let blocking = engine.blocking();
    let deleted = if let Some(session) = session {
        let found = location.session(&engine, &session)?;
        confirm(yes, &format!("{} messages of session {session:?}", found.messages))?;
        blocking.delete_session(namespace, &session)?;
        found.messages
    } else if all {
        let sessions = blocking.sessions(namespace)?;
        let messages: u64 = sessions.iter().map(|session| session.messages).sum();
        confirm(yes, &format!("{messages} messages in {} sessions of {namespace}", sessions.len()))?;
        blocking.delete_namespace(namespace)?
    } else {
        for id in &ids {
            if blocking.get(namespace, id)?.is_none() {
                bail!("no message {id:?} in namespace {:?}; nothing was deleted", namespace.as_str());
            }
        }
        blocking.delete(namespace, ids)?
    };
    match format {
        Format::Json => output::json(&json!({ "namespace": namespace, "deleted": deleted }))?,
        Format::Text => output::count("deleted", deleted)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn confirm(yes: bool, what: &str) -> Result<(), UsageError> {
    usage::ensure(yes, format!("this would delete {what}, for good; nothing was deleted: add --yes if that is meant"))
}

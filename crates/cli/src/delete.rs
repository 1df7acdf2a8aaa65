//! `mnemon delete`

use std::path::{Path, PathBuf};

use anyhow::ensure;
use mnemon::Namespace;
use serde_json::json;

use crate::{
    database::{self, Location},
    output::{self, Format, counted},
    usage::{self, Status, UsageError},
};

/// Delete messages by id, or with --yes a session, a namespace, or all namespaces under a prefix.
///
/// Deletes messages and documents with their vectors; there is no way back. It is one commit, but for a prefix: that is
/// a sequence of commits of whole namespaces, and if it was interrupted, the same command deletes the rest. If one of
/// the ids is unknown, nothing is deleted.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// The namespace.
    #[arg(long, value_name = "NS", required_unless_present = "prefix")]
    namespace: Option<Namespace>,
    /// Delete this namespace and those under it, with all their messages and documents; needs --yes. `acme/user-4` does
    /// not delete `acme/user-42`.
    #[arg(long, value_name = "NS", conflicts_with_all = ["namespace", "ids", "session", "all"])]
    prefix: Option<Namespace>,
    /// Delete this session with all its messages; needs --yes.
    #[arg(long, value_name = "ID", conflicts_with = "ids")]
    session: Option<String>,
    /// Delete the namespace with all its messages and documents; needs --yes.
    #[arg(long, conflicts_with_all = ["ids", "session"])]
    all: bool,
    /// Delete without asking. Otherwise a session, a namespace or a prefix is not deleted: the command states what it
    /// has, and fails.
    #[arg(long)]
    yes: bool,
    /// The ids of messages.
    #[arg(required_unless_present_any = ["session", "all", "prefix"], value_name = "ID")]
    ids: Vec<String>,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    let Args { db, namespace, prefix, session, all, yes, ids } = args;
    let Some(namespace) = namespace else {
        return delete_prefix(&db, &prefix.expect("clap requires one of them"), yes, format);
    };
    let location = Location { db, namespace };
    let namespace = &location.namespace;
    let engine = database::without_model(&location.db, Some(namespace))?.open()?;
    let blocking = engine.blocking();
    let deleted = if let Some(session) = session {
        let found = location.session(&engine, &session)?;
        confirm(yes, &format!("{} of session {session:?}", counted(found.messages, "message")))?;
        blocking.delete_session(namespace, &session)?;
        found.messages
    } else if all {
        // A namespace is the first of those under it.
        for found in blocking.namespaces(Some(namespace), None, 1)?.namespaces {
            let (messages, sessions) = (counted(found.messages, "message"), counted(found.sessions, "session"));
            let documents = counted(found.documents, "document");
            let what = format!("{messages} in {sessions} and {documents} of {namespace}");
            confirm(yes, &what)?;
        }
        blocking.delete_namespace(namespace)?
    } else {
        let mut unknown = Vec::new();
        for id in &ids {
            if blocking.get(namespace, id)?.is_none() {
                unknown.push(format!("{id:?}"));
            }
        }
        ensure!(
            unknown.is_empty(),
            "no message {} in namespace {:?}; nothing was deleted",
            unknown.join(", "),
            namespace.as_str()
        );
        blocking.delete(namespace, ids)?
    };
    output::report(&json!({ "namespace": namespace, "deleted": deleted }), &[("deleted", deleted)], format)?;
    Ok(Status::SUCCESS)
}

/// Deletes the namespaces under a prefix. It is no error if there are none.
fn delete_prefix(db: &Path, prefix: &Namespace, yes: bool, format: Format) -> anyhow::Result<Status> {
    let engine = database::without_model(db, None)?.open()?;
    let blocking = engine.blocking();
    let found = blocking.count_namespaces(Some(prefix))?;
    if found.namespaces > 0 {
        let what = format!(
            "{} and {} in {} under {prefix}",
            counted(found.messages, "message"),
            counted(found.documents, "document"),
            counted(found.namespaces, "namespace")
        );
        confirm(yes, &what)?;
    }
    let deleted = blocking.delete_namespaces(prefix)?;
    let counts = [("namespaces", deleted.namespaces), ("deleted", deleted.messages), ("documents", deleted.documents)];
    let report = json!({
        "prefix": prefix, "namespaces": deleted.namespaces, "deleted": deleted.messages, "documents": deleted.documents,
    });
    output::report(&report, &counts, format)?;
    Ok(Status::SUCCESS)
}

fn confirm(yes: bool, what: &str) -> Result<(), UsageError> {
    usage::ensure(yes, format!("this would delete {what}, for good; nothing was deleted: add --yes if that is meant"))
}

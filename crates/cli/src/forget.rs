//! `mnemon forget`

use std::path::PathBuf;

use mnemon::{Forget, Forgotten, MetadataFilter, Namespace, Receipt};

use crate::{
    output::{self, Format, counted},
    status::Status,
    stored, usage,
};

/// Forget messages, documents, a session, a namespace, or all namespaces under a prefix, with all that was made of
/// them.
///
/// Other than `delete`, it removes the versions that checkpoints keep, states of memory blocks, cached vectors and the
/// names of sessions and namespaces that become empty; it needs --yes. It prints a receipt, which `mnemon audit` lists.
/// If it was interrupted, the same command forgets the rest. Bytes may be in unused pages of the file until it is
/// purged.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// The namespace.
    #[arg(long, value_name = "NS", required_unless_present = "prefix")]
    namespace: Option<Namespace>,
    /// Forget this namespace and those under it. `acme/user-4` does not forget `acme/user-42`.
    #[arg(long, value_name = "NS", conflicts_with_all = ["namespace", "ids", "keys", "session", "filter", "all"])]
    prefix: Option<Namespace>,
    /// Forget the messages with these ids.
    #[arg(long = "id", value_name = "ID", num_args = 1.., conflicts_with_all = ["keys", "session", "filter", "all"])]
    ids: Vec<String>,
    /// Forget the documents with these keys.
    #[arg(long = "key", value_name = "KEY", num_args = 1.., conflicts_with_all = ["session", "filter", "all"])]
    keys: Vec<String>,
    /// Forget this session.
    #[arg(long, value_name = "ID", conflicts_with_all = ["filter", "all"])]
    session: Option<String>,
    /// Forget the messages that match this filter, such as '{"$created_at": {"$lt": "2024-01-01T00:00:00Z"}}'.
    #[arg(long = "where", value_name = "FILTER", conflicts_with = "all")]
    filter: Option<MetadataFilter>,
    /// Forget everything of the namespace.
    #[arg(long)]
    all: bool,
    /// Forget the vectors in this file of an embedding cache too, which `ingest --embedding-cache` made.
    #[arg(long, value_name = "FILE")]
    embedding_cache: Option<PathBuf>,
    /// Forget without asking. Otherwise the command states what it would forget, and fails.
    #[arg(long)]
    yes: bool,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    let Args { db, namespace, prefix, ids, keys, session, filter, all, embedding_cache, yes } = args;
    let (what, text) = match (&prefix, &namespace, session, filter) {
        (Some(prefix), ..) => (Forget::prefix(prefix), format!("all namespaces under {prefix}")),
        (_, Some(namespace), Some(session), _) => {
            (Forget::session(namespace, &*session), format!("session {session:?} of {namespace}"))
        }
        (_, Some(namespace), _, Some(filter)) => {
            let text = format!("the messages of {namespace} that match {filter}");
            (Forget::matching(namespace, filter), text)
        }
        (_, Some(namespace), ..) if all => (Forget::namespace(namespace), format!("everything of {namespace}")),
        (_, Some(namespace), ..) => {
            usage::ensure(
                !(ids.is_empty() && keys.is_empty()),
                "say what to forget: --id, --key, --session, --where or --all",
            )?;
            let (number, what) = match keys.is_empty() {
                true => (counted(ids.len(), "message"), Forget::messages(namespace, ids)),
                false => (counted(keys.len(), "document"), Forget::documents(namespace, keys)),
            };
            (what, format!("{number} of {namespace}"))
        }
        (None, None, ..) => unreachable!("clap requires one of them"),
    };
    let question = format!("this would forget {text}, for good; nothing was forgotten: add --yes if that is meant");
    usage::ensure(yes, question)?;
    let mut builder = stored::builder(&db, None)?;
    if let Some(file) = embedding_cache {
        builder = builder.config(stored::config()?.embedding_cache_file(file));
    }
    // Checked before, and of use only if nothing is forgotten: a checkpoint may still have messages.
    let known = namespace.map(|namespace| stored::check_namespace(&db, &namespace));
    let receipt = builder.open()?.blocking().forget(what)?;
    if receipt.forgotten() == Forgotten::default()
        && let Some(known) = known
    {
        known?;
    }
    print(&receipt, format)?;
    Ok(Status::SUCCESS)
}

fn print(receipt: &Receipt, format: Format) -> anyhow::Result<()> {
    if let Format::Json = format {
        return output::json(receipt);
    }
    let forgotten = receipt.forgotten();
    let counts = [
        ("messages", forgotten.messages),
        ("old messages", forgotten.old_messages),
        ("documents", forgotten.documents),
        ("texts", forgotten.document_texts),
        ("vectors", forgotten.vectors),
        ("segments", forgotten.segments),
        ("block states", forgotten.block_states),
        ("cached", forgotten.cached),
        ("sessions", forgotten.sessions),
        ("namespaces", forgotten.namespaces),
    ];
    counts.into_iter().try_for_each(|(name, count)| output::count(name, count))?;
    output::line(&format!("receipt {} of {}: {}", receipt.sequence, receipt.at, receipt.hash))
}

//! `mnemon forget`, `mnemon hold`, `mnemon ttl`, `mnemon purge` and `mnemon audit`: what is gone for good, what must not go or
//! goes by itself, and the receipts.

use std::path::PathBuf;

use anyhow::bail;
use mnemon::{AuditEvent, Forget, Forgotten, MetadataFilter, Namespace, Receipt};
use serde_json::json;

use crate::{
    database,
    output::{self, Format, counted},
    usage::{self, Status},
};

/// Forget messages, documents, a session, a namespace, or all namespaces under a prefix, with all that was made of
/// them.
///
/// Other than `delete`, it removes the versions that checkpoints keep, states of memory blocks, cached vectors and the
/// names of sessions and namespaces that become empty; it needs --yes. It prints a receipt, which `mnemon audit` lists.
/// If it was interrupted, the same command forgets the rest. Bytes may be in unused pages of the file until it is
/// purged.
#[derive(clap::Args)]
pub(crate) struct ForgetArgs {
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

pub(crate) fn forget(args: ForgetArgs, format: Format) -> anyhow::Result<Status> {
    let ForgetArgs { db, namespace, prefix, ids, keys, session, filter, all, embedding_cache, yes } = args;
    let (what, text) = if let Some(prefix) = &prefix {
        (Forget::prefix(prefix), format!("all namespaces under {prefix}"))
    } else {
        let namespace = namespace.as_ref().expect("clap requires a namespace or a prefix");
        if let Some(session) = session {
            (Forget::session(namespace, &*session), format!("session {session:?} of {namespace}"))
        } else if let Some(filter) = filter {
            let text = format!("the messages of {namespace} that match {filter}");
            (Forget::matching(namespace, filter), text)
        } else if all {
            (Forget::namespace(namespace), format!("everything of {namespace}"))
        } else if !keys.is_empty() {
            let text = format!("{} of {namespace}", counted(keys.len(), "document"));
            (Forget::documents(namespace, keys), text)
        } else {
            usage::ensure(!ids.is_empty(), "say what to forget: --id, --key, --session, --where or --all")?;
            let text = format!("{} of {namespace}", counted(ids.len(), "message"));
            (Forget::messages(namespace, ids), text)
        }
    };
    let question = format!("this would forget {text}, for good; nothing was forgotten: add --yes if that is meant");
    usage::ensure(yes, question)?;
    let mut builder = database::without_model(&db, None)?;
    if let Some(file) = embedding_cache {
        builder = builder.config(database::config()?.drain_on_open(false).embedding_cache_file(file));
    }
    // An unknown namespace is an error only if nothing is forgotten: a checkpoint may still have messages of it.
    let known = namespace.map(|namespace| database::check_namespace(&db, &namespace));
    let receipt = builder.open()?.blocking().forget(what)?;
    if receipt.forgotten() == Forgotten::default()
        && let Some(known) = known
    {
        known?;
    }
    print_forgotten(&receipt, format)?;
    Ok(Status::SUCCESS)
}

fn print_forgotten(receipt: &Receipt, format: Format) -> anyhow::Result<()> {
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
    if format == Format::Text {
        counts.into_iter().try_for_each(|(name, count)| output::count(name, count))?;
        if let AuditEvent::Forget { nothing_found: true, .. } = receipt.event {
            output::line("nothing was found: everything was forgotten before, or a name or an id is wrong")?;
        }
    }
    print_receipt(receipt, format)
}

fn print_receipt(receipt: &Receipt, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json => output::json(receipt),
        Format::Text => output::line(&format!("receipt {} of {}: {}", receipt.sequence, receipt.at, receipt.hash)),
    }
}

/// Set a legal hold on a namespace, release it, or list all holds.
///
/// Nothing of a held namespace, and of those under it, is deleted or forgotten.
#[derive(clap::Args)]
pub(crate) struct HoldArgs {
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

pub(crate) fn hold(args: HoldArgs, format: Format) -> anyhow::Result<Status> {
    let engine = match args.namespace {
        Some(_) => database::without_model(&args.db, None)?.open()?,
        None => database::open_to_read(|| database::without_model(&args.db, None), &[])?,
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
    print_receipt(&receipt, format)?;
    Ok(Status::SUCCESS)
}

/// Set how long messages live that are put into a namespace from now on.
///
/// A message that is put without a time of its own expires so long after its put: from then on nothing returns it, and it
/// is deleted in the background. Messages that are stored already stay as they are. `mnemon stats` lists the times.
#[derive(clap::Args)]
pub(crate) struct TtlArgs {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// The namespace.
    #[arg(long, value_name = "NS")]
    namespace: Namespace,
    /// Minutes: a millisecond to a thousand years.
    #[arg(required_unless_present = "none")]
    minutes: Option<f64>,
    /// Messages do not expire.
    #[arg(long, conflicts_with = "minutes")]
    none: bool,
}

pub(crate) fn ttl(args: TtlArgs, format: Format) -> anyhow::Result<Status> {
    let TtlArgs { db, namespace, minutes, none: _ } = args;
    let engine = database::without_model(&db, Some(&namespace))?.open()?;
    engine.blocking().set_ttl(&namespace, minutes)?;
    match format {
        Format::Json => output::json(&json!({ "namespace": namespace, "ttl_minutes": minutes }))?,
        Format::Text => output::line(&match minutes {
            Some(minutes) => format!("messages of {namespace} expire {minutes} minutes after they are put"),
            None => format!("messages of {namespace} do not expire"),
        })?,
    }
    Ok(Status::SUCCESS)
}

/// Replace a database's file by a copy of what is left, so that nothing of what was deleted or forgotten is in its
/// bytes.
///
/// No other process may have the database open: a program that has it open calls `Engine::purge`. `mnemon audit` lists
/// the purge.
#[derive(clap::Args)]
pub(crate) struct PurgeArgs {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
}

pub(crate) fn purge(args: &PurgeArgs, format: Format) -> anyhow::Result<Status> {
    let report = mnemon::purge(database::file(&args.db)?)?;
    let counts = [("bytes before", report.bytes_before), ("bytes after", report.bytes_after)];
    output::report(&report, &counts, format)?;
    Ok(Status::SUCCESS)
}

/// List the receipts of what was forgotten, held and purged, and check their chain.
///
/// Prints each problem, and exits with status 3 if there is one: an entry was changed, removed or put elsewhere.
#[derive(clap::Args)]
pub(crate) struct AuditArgs {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
}

pub(crate) fn audit(args: &AuditArgs, format: Format) -> anyhow::Result<Status> {
    database::refresh(&args.db, None)?;
    let audit = mnemon::audit(database::file(&args.db)?)?;
    match format {
        Format::Json => output::json(&audit)?,
        Format::Text => {
            audit.entries.iter().try_for_each(print_entry)?;
            audit.problems.iter().try_for_each(|problem| output::line(problem))?;
            output::line(if audit.is_sound() { "the chain holds" } else { "THE CHAIN IS BROKEN" })?;
        }
    }
    Ok(Status::of_check(audit.is_sound()))
}

fn print_entry(entry: &Receipt) -> anyhow::Result<()> {
    let what = match &entry.event {
        AuditEvent::Forget { forgotten, complete, .. } => {
            let rest = if *complete { "" } else { ", and went on" };
            let purged = entry.purged_at.map_or_else(|| "not purged".into(), |at| format!("purged {at}"));
            let (messages, documents) =
                (counted(forgotten.messages, "message"), counted(forgotten.documents, "document"));
            format!("forgot {messages}, {documents}{rest}; {purged}")
        }
        AuditEvent::Hold { hold } => format!("hold {hold}"),
        AuditEvent::Release { hold } => format!("released hold {hold}"),
        AuditEvent::Purge { .. } => "purge".into(),
        _ => "an event that this version does not know".into(),
    };
    output::line(&format!("{}  {}  {}  {what}", entry.sequence, entry.at, entry.hash))
}

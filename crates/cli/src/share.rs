//! `mnemon share` and `mnemon unshare`: from a file of its own to the shared database, and back.

use std::{io::Cursor, path::PathBuf};

use anyhow::{Context, ensure};
use mnemon::Namespace;

use crate::{
    database,
    output::{self, Format},
    transfer,
    usage::{self, Status},
};

/// Move a database to the shared database of --shared, and make the file a copy of it.
///
/// Messages, sessions, documents, block states, checkpoints, legal holds and the audit move; vectors and indexes stay
/// in the file. No other process may have the database open. A command that is killed goes on where it stopped when it
/// is repeated.
#[derive(clap::Args)]
pub(crate) struct ShareArgs {
    /// The database.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
}

pub(crate) fn share(args: &ShareArgs, format: Format) -> anyhow::Result<Status> {
    let address = database::shared_address().context("say where to, with --shared URL or $MNEMON_SHARED")?;
    let report = mnemon::share(database::file(&args.db)?, address)?;
    let counts = [("namespaces", report.namespaces), ("messages", report.messages), ("documents", report.documents)];
    output::report(&report, &counts, format)?;
    Ok(Status::SUCCESS)
}

/// Bring a namespace of the shared database of --shared back to a file of its own.
///
/// The file, which is made if it is missing, gets the sessions, messages, documents and block states of the namespace,
/// and embeds them. With --delete, the namespace is deleted in the shared database once the file has all of it; puts of
/// other machines to it wait meanwhile, and what they put afterwards begins a new namespace there. Nothing is written
/// to temporary files.
#[derive(clap::Args)]
pub(crate) struct UnshareArgs {
    /// The database that gets the namespace: not a copy of the shared one.
    #[arg(long, value_name = "FILE")]
    db: PathBuf,
    /// The namespace.
    #[arg(long, value_name = "NS")]
    namespace: Namespace,
    /// Delete the namespace in the shared database afterwards, on all machines.
    #[arg(long)]
    delete: bool,
    /// Confirm --delete.
    #[arg(long, requires = "delete")]
    yes: bool,
}

pub(crate) fn unshare(args: &UnshareArgs, format: Format) -> anyhow::Result<Status> {
    let address = database::shared_address().context("say where from, with --shared URL or $MNEMON_SHARED")?;
    usage::ensure(
        !args.delete || args.yes,
        "this would delete the namespace on all machines: add --yes if that is meant",
    )?;
    let taken = mnemon::unshare(&args.namespace, address, args.delete)?;
    ensure!(taken.report().namespaces > 0, "the shared database has nothing in {}", args.namespace);
    let engine = database::unshared(&args.db, None, database::config()?, true)?.open()?;
    let report = engine.blocking().import(Cursor::new(taken.export()))?;
    if args.delete {
        let mut found = Vec::new();
        engine.blocking().export(&args.namespace, &mut found)?;
        ensure!(
            found == taken.export(),
            "{} does not have what the shared database has, so nothing was deleted there",
            args.db.display()
        );
        taken.delete()?;
    }
    engine.blocking().flush()?;
    transfer::print(&report, format)?;
    Ok(Status::SUCCESS)
}

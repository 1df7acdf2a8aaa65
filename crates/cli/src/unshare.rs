//! `mnemon unshare`

use std::{io::Cursor, path::PathBuf};

use anyhow::Context;
use mnemon::{Config, Namespace};

use crate::{export, input, key, output::Format, shared, status::Status, usage};

/// Bring a namespace of the shared database of --shared back to a file of its own.
///
/// The file, which is made if it is missing, gets the sessions, messages, documents and block states of the namespace,
/// and embeds them. With --delete, the namespace is deleted in the shared database once the file has all of it; puts of other
/// machines to it wait meanwhile, and what they put afterwards begins a new namespace there. Nothing is written to
/// temporary files.
#[derive(clap::Args)]
pub(crate) struct Args {
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

pub(crate) fn run(args: &Args, format: Format) -> anyhow::Result<Status> {
    let address = shared::address().context("say where from, with --shared URL or $MNEMON_SHARED")?;
    usage::ensure(
        !args.delete || args.yes,
        "this would delete the namespace on all machines: add --yes if that is meant",
    )?;
    let taken = mnemon::unshare(&args.namespace, address, args.delete)?;
    anyhow::ensure!(taken.report().namespaces > 0, "the shared database has nothing in {}", args.namespace);
    let mut config = Config::default();
    key::set(&mut config)?;
    let engine = input::own(&args.db, None, config, true)?.open()?;
    let report = engine.blocking().import(Cursor::new(taken.export()))?;
    if args.delete {
        let mut found = Vec::new();
        engine.blocking().export(&args.namespace, &mut found)?;
        anyhow::ensure!(
            found == taken.export(),
            "{} does not have what the shared database has, so nothing was deleted there",
            args.db.display()
        );
        taken.delete()?;
    }
    engine.blocking().flush()?;
    export::print(&report, format)?;
    Ok(Status::SUCCESS)
}

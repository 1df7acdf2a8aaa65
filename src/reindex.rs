//! Moving a database that no engine has open: an engine is opened for it, which asks nothing of the model that serves.

use std::{ops::ControlFlow, path::Path, sync::Arc};

pub use crate::engine::reindex::{GateReport, ReindexOptions, ReindexPhase, ReindexProgress, ReindexReport};
use crate::{
    config::Config,
    embed::{Embedder, Model, OnnxEmbedder},
    engine::Core,
    error::{Error, Result},
    ids::ModelIdentity,
    store::{Options, Store},
};

/// Blocks of old vectors deleted in one commit, with nobody waiting: 64 MiB.
const SWEEP_BLOCKS: usize = 1024;

/// [`Engine::reindex`](crate::Engine::reindex) for a database that is not open: no engine may have it.
///
/// The model that serves need not be at hand; where it is, found by its name as by [`Model::find`], the generations are compared. Only
/// the namespaces that they are tried in are loaded and linked, with default settings: for others, open an engine with them and reindex
/// in that. What is not kept is deleted, and the file made shorter.
///
/// # Errors
/// Those of opening, but for [`Error::ModelMismatch`]; those of [`Engine::reindex`](crate::Engine::reindex).
pub fn reindex(
    path: impl AsRef<Path>,
    embedder: Arc<dyn Embedder>,
    options: ReindexOptions,
    mut progress: impl FnMut(ReindexProgress) -> ControlFlow<()>,
) -> Result<ReindexReport> {
    let core = open(path.as_ref(), &embedder)?;
    let report = core.reindex(embedder, &options, &mut progress)?;
    drop(core);
    sweep(path.as_ref())?;
    Ok(report)
}

/// [`Engine::rollback`](crate::Engine::rollback) for a database that is not open: no engine may have it.
///
/// # Errors
/// Those of opening, but for [`Error::ModelMismatch`]; those of [`Engine::rollback`](crate::Engine::rollback).
pub fn rollback(
    path: impl AsRef<Path>,
    embedder: Arc<dyn Embedder>,
    mut progress: impl FnMut(ReindexProgress) -> ControlFlow<()>,
) -> Result<ReindexReport> {
    open(path.as_ref(), &embedder)?.rollback(embedder, &mut progress)
}

/// Deletes the previous generation of a database that no engine has open, and makes the file shorter. Returns whether there was one.
///
/// # Errors
/// Those of opening, but for the model's.
pub fn drop_previous(path: impl AsRef<Path>) -> Result<bool> {
    let found = open_store(path.as_ref())?.write(|transaction| transaction.retire_previous())?;
    sweep(path.as_ref())?;
    Ok(found)
}

fn config() -> Config {
    // What waits in the serving generation goes on waiting: its model may not be there.
    Config { drain_on_open: false, ..Config::default() }
}

fn open(path: &Path, new: &Arc<dyn Embedder>) -> Result<Core> {
    let resolve = |stored: Option<&ModelIdentity>| -> Result<Arc<dyn Embedder>> {
        let Some(stored) = stored.filter(|stored| *stored != new.identity()) else { return Ok(Arc::clone(new)) };
        let found = Model::find(&stored.name).and_then(OnnxEmbedder::new);
        Ok(match found.ok().filter(|found| found.identity() == stored) {
            Some(found) => Arc::new(found),
            None => Arc::new(Absent(stored.clone())),
        })
    };
    Core::open(path, config(), false, None, resolve)
}

fn open_store(path: &Path) -> Result<Store> {
    let Config { cache_bytes, two_phase_commit, .. } = config();
    Store::open(path, Options { create: false, cache_bytes, two_phase_commit })
}

/// Deletes retired generations. A kill on the way leaves the rest for the next opening.
fn sweep(path: &Path) -> Result<()> {
    let mut store = open_store(path)?;
    let mut swept = false;
    while store.write(|transaction| transaction.sweep(SWEEP_BLOCKS))? {
        swept = true;
    }
    if swept && let Err(error) = store.compact() {
        // All is done; the file is only longer than it need be.
        tracing::warn!(%error, "the file was not made shorter");
    }
    Ok(())
}

/// Stands for the model that serves, where that is not at hand.
struct Absent(ModelIdentity);

impl Embedder for Absent {
    fn identity(&self) -> &ModelIdentity {
        &self.0
    }

    fn embed_documents(&self, _: &[&str]) -> Result<Vec<Vec<f32>>> {
        let reason = format!("model {} is not at hand", self.0);
        Err(Error::EmbedderUnavailable { reason, transient: false, retry_after: None, source: None })
    }

    fn embed_query(&self, _: &str) -> Result<Vec<f32>> {
        self.embed_documents(&[]).map(|_| Vec::new())
    }
}

//! Reindexing a closed database. An engine is opened for it, which does not need the serving model.

use std::{ops::ControlFlow, sync::Arc};

use super::DatabaseFile;
use crate::{
    config::Config,
    default_embedder,
    embed::Embedder,
    engine::{
        Engine, Opening,
        reindex::{ReindexOptions, ReindexProgress, ReindexReport},
    },
    error::{Error, Result},
    ids::ModelIdentity,
    store::Store,
};

/// Blocks of old vectors deleted in one commit: 64 MiB, since no other writer waits.
const SWEEP_BLOCKS: usize = 1024;

impl DatabaseFile {
    /// Moves the database to another model or precision. Same as
    /// [`Engine::reindex`](crate::Engine::reindex), for a closed database.
    ///
    /// The serving model need not be available. If [`Model::find`](crate::Model::find) finds it by its name, the
    /// generations are compared. Namespaces are linked with the default configuration; to use another, open an engine
    /// with it and reindex there. Generations that are not kept are deleted, and the file is compacted.
    ///
    /// # Errors
    /// Those of opening an engine except [`Error::ModelMismatch`], and those of
    /// [`Engine::reindex`](crate::Engine::reindex).
    pub fn reindex(
        &self,
        embedder: Arc<dyn Embedder>,
        options: ReindexOptions,
        mut progress: impl FnMut(ReindexProgress) -> ControlFlow<()>,
    ) -> Result<ReindexReport> {
        let engine = self.open_engine(&embedder)?;
        let report = engine.core().reindex(embedder, &options, &mut progress)?;
        drop(engine);
        self.sweep()?;
        Ok(report)
    }

    /// Switches back to the previous generation of the database. Same as
    /// [`Engine::rollback`](crate::Engine::rollback), for a closed database.
    ///
    /// # Errors
    /// Those of opening an engine except [`Error::ModelMismatch`], and those of
    /// [`Engine::rollback`](crate::Engine::rollback).
    pub fn rollback(
        &self,
        embedder: Arc<dyn Embedder>,
        mut progress: impl FnMut(ReindexProgress) -> ControlFlow<()>,
    ) -> Result<ReindexReport> {
        self.open_engine(&embedder)?.core().rollback(embedder, &mut progress)
    }

    /// Deletes the previous generation of the database, and compacts the file. Returns true if there was one.
    ///
    /// # Errors
    /// Those of opening an engine, except those of its model.
    pub fn drop_previous(&self) -> Result<bool> {
        let found = self.open_store()?.write(|transaction| transaction.generations().retire_previous())?;
        self.sweep()?;
        Ok(found)
    }

    fn open_engine(&self, new: &Arc<dyn Embedder>) -> Result<Engine> {
        let resolve = |stored: Option<&ModelIdentity>| -> Result<Arc<dyn Embedder>> {
            let Some(stored) = stored.filter(|stored| *stored != new.identity()) else { return Ok(Arc::clone(new)) };
            Ok(default_embedder::find(stored).unwrap_or_else(|| Arc::new(Absent(stored.clone()))))
        };
        // Pending messages of the serving generation stay pending: its model may not be available.
        let config = Config { drain_on_open: false, ..self.config.clone() };
        let store = Store::open(&self.path, &config, false)?;
        Engine::open_core(
            Opening { store: Arc::new(store), config, reranker: None, has_own_embedder: true, upstream: None },
            None,
            resolve,
        )
    }

    fn open_store(&self) -> Result<Store> {
        Store::open(&self.path, &self.config, false)
    }

    /// Deletes retired generations. If the process dies meanwhile, the next opening deletes the rest.
    fn sweep(&self) -> Result<()> {
        let mut store = self.open_store()?;
        let mut swept = false;
        while store.write(|transaction| transaction.sweep(SWEEP_BLOCKS))? {
            swept = true;
        }
        if swept && let Err(error) = store.compact() {
            // The reindex is complete all the same; the file is only larger than necessary.
            tracing::warn!(%error, "the file was not compacted");
        }
        Ok(())
    }
}

/// A substitute for a serving model that is not available. It only knows the identity, and every embedding fails.
struct Absent(ModelIdentity);

impl Embedder for Absent {
    fn identity(&self) -> &ModelIdentity {
        &self.0
    }

    fn embed_documents(&self, _: &[&str]) -> Result<Vec<Vec<f32>>> {
        let reason = format!("model {} is not available: it was not found by its name", self.0);
        Err(Error::EmbedderUnavailable { reason, transient: false, retry_after: None, source: None })
    }

    fn embed_query(&self, _: &str) -> Result<Vec<f32>> {
        self.embed_documents(&[]).map(|_| Vec::new())
    }
}

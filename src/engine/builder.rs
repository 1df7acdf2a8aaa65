//! Settings and opening of an engine.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{core::Opening, handle::Engine};
#[cfg(feature = "postgres")]
use crate::shared::{KnownOrigin, Postgres};
use crate::{
    config::{Config, Freshness},
    default_embedder,
    embed::{Embedder, Reranker},
    error::{Error, Result, impl_debug},
    ids::ModelIdentity,
    shared::Upstream,
    store::Store,
};

impl Engine {
    /// Opens the database at `path` with default settings, or creates it. See [`EngineBuilder::open`].
    ///
    /// # Errors
    /// Those of [`EngineBuilder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Engine::builder(path).open()
    }

    /// Opens the database at `path` for reading, with default settings. See [`EngineBuilder::open_read_only`].
    ///
    /// # Errors
    /// Those of [`EngineBuilder::open_read_only`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        Engine::builder(path).open_read_only()
    }

    /// Creates an engine whose database is in memory and is lost with its last handle, with default settings: for tests
    /// and for scratch work. [`Engine::builder_in_memory`] takes other settings.
    ///
    #[cfg_attr(feature = "bundled-model", doc = "```")]
    #[cfg_attr(not(feature = "bundled-model"), doc = "```ignore")]
    /// # fn main() -> mnemon::Result<()> {
    /// use mnemon::{Engine, Message, Query};
    /// let engine = Engine::in_memory()?;
    /// let namespace = "test".parse()?;
    /// engine.blocking().put(&namespace, vec![Message::user("my bike is in the cellar")])?;
    /// engine.blocking().flush()?;
    /// assert_eq!(engine.blocking().recall(&namespace, Query::new("bicycle"))?.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`EngineBuilder::open`].
    pub fn in_memory() -> Result<Self> {
        Engine::builder_in_memory().open()
    }

    /// Returns a builder that opens the database at `path` with other than default settings.
    pub fn builder(path: impl AsRef<Path>) -> EngineBuilder {
        EngineBuilder {
            path: Some(path.as_ref().to_path_buf()),
            config: Config::default(),
            create: true,
            embedder: None,
            reranker: None,
            shared: None,
            freshness: Freshness::default(),
        }
    }

    /// Returns a builder of an engine whose database is in memory. See [`Engine::in_memory`].
    pub fn builder_in_memory() -> EngineBuilder {
        EngineBuilder { path: None, ..Engine::builder("") }
    }

    /// Opens the file again for reading, and returns an engine that shows the database as of this moment. It shares the
    /// model, the settings and the embedding cache; namespaces are loaded again by their first query. This engine goes
    /// on showing what it showed. An engine that was not opened for reading shows every commit, and returns a clone of
    /// itself.
    ///
    /// # Errors
    /// Those of [`EngineBuilder::open_read_only`].
    pub fn reopen(&self) -> Result<Self> {
        let shared = &self.core().shared;
        if !shared.store.is_read_only() {
            return Ok(self.clone());
        }
        let store = Arc::new(Store::open_read_only(shared.store.path(), &shared.config)?);
        let embedder = Arc::clone(&shared.generations.serving().embedder);
        let (config, reranker) = (shared.config.clone(), shared.reranker.clone());
        let opening = Opening { store, config, reranker, has_own_embedder: true, upstream: None };
        Engine::open_core(opening, Some(shared.cache.clone()), |_| Ok(embedder))
    }
}

/// Builder of an [`Engine`]. Made by [`Engine::builder`].
pub struct EngineBuilder {
    /// `None`: in memory.
    path: Option<PathBuf>,
    config: Config,
    create: bool,
    embedder: Option<Arc<dyn Embedder>>,
    reranker: Option<Arc<dyn Reranker>>,
    /// The address of the shared database, which may have a password.
    shared: Option<String>,
    freshness: Freshness,
}

impl_debug!(EngineBuilder { path, config, create });

impl EngineBuilder {
    /// Sets the configuration. Default: [`Config::default`].
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the embedder. Default: an [`OnnxEmbedder`](crate::OnnxEmbedder) with the model of the database, which
    /// [`Model::find`](crate::Model::find) looks up by its name; for a new database,
    /// [`Model::DEFAULT`](crate::Model::DEFAULT).
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// Sets the reranker for [`Query::rerank`](crate::Query::rerank). Default: none.
    pub fn reranker(mut self, reranker: Arc<dyn Reranker>) -> Self {
        self.reranker = Some(reranker);
        self
    }

    /// Makes the file a copy of a database of Postgres that several machines share, such as
    /// `postgres://mnemon:secret@db.example/memory?sslmode=verify-full`. What a call stores is stored there when the
    /// call returns, and all engines with the same address have the same messages, sessions and documents. The file may
    /// be deleted at any time: it is a cache, of the namespaces that this engine was asked for. Default: none.
    ///
    /// No other process can read the file meanwhile. The tables are made by the first engine. Reads go on without
    /// Postgres, and a file that is a copy already opens without it, unless [`EngineBuilder::freshness`] is
    /// [`Freshness::Latest`]; writes return [`Error::SharedDatabase`] within
    /// [`Config::shared_timeout`](field@Config::shared_timeout), or twice that behind another write. Feature `postgres`.
    #[cfg(feature = "postgres")]
    pub fn shared(mut self, address: impl Into<String>) -> Self {
        self.shared = Some(address.into());
        self
    }

    /// Sets how far reads may be behind what other machines wrote. Default: [`Freshness::default`].
    /// [`Query::freshness`](crate::Query::freshness) sets it for one recall.
    pub fn freshness(mut self, freshness: Freshness) -> Self {
        self.freshness = freshness;
        self
    }

    /// Creates the file if it is missing. Default: true.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens the database and begins to embed messages that were left pending. Other processes may read the database
    /// meanwhile ([`EngineBuilder::open_read_only`]), and none may write to it. Blocks the calling thread while it
    /// reads the file and the model: about 50 ms with the bundled model.
    ///
    /// # Errors
    /// None leaves a new file. For the database: [`Error::DatabaseNotFound`], [`Error::DatabaseLocked`],
    /// [`Error::NotADatabase`], [`Error::NewerSchema`], [`Error::OlderDatabase`]. For the model: [`Error::ModelMismatch`], and those of
    /// [`OnnxEmbedder::new`](crate::OnnxEmbedder::new). For the cache: those of
    /// [`CachedEmbedderBuilder::open`](crate::CachedEmbedderBuilder::open). [`Error::InvalidConfig`],
    /// [`Error::ThreadNotStarted`].
    pub fn open(mut self) -> Result<Engine> {
        self.config.check()?;
        if self.shared.is_some() {
            // Whoever reads beside this process would not see what is not on the disk yet.
            self.config.other_readers = false;
        }
        let store = match &self.path {
            Some(path) => Store::open(path, &self.config, self.create)?,
            None => Store::in_memory(&self.config)?,
        };
        let store = Arc::new(store);
        let opened = store.check_anchor().and_then(|()| self.open_store(Arc::clone(&store)));
        if opened.is_err() {
            // An error of this only leaves an empty database.
            let _ = store.remove_if_unused();
        }
        opened
    }

    /// Opens the database for reading. Nothing is written: the file may be read-only, and so may its folder. Another
    /// process may have the database open, for writing too, unless it opened it with [`Config::other_readers`] off.
    ///
    /// The engine shows the database as of this moment, a state between two commits; [`Engine::reopen`] moves on to
    /// what was committed since. As long as an engine shows a state, the process that writes keeps the pages that
    /// belong to it, and the file grows by what is replaced meanwhile.
    ///
    /// A copy of a [shared](Self::shared) database shows what it had when it was last open for writing. Calls that would
    /// write return [`Error::ReadOnly`]; memory blocks take no batches. Pending messages stay pending.
    ///
    /// # Errors
    /// Those of [`EngineBuilder::open`]. [`Error::WriteAccessNeeded`]: the process that wrote last was killed, or is of
    /// an older version, so the file must first be opened for writing. A recall returns the same error if the namespace
    /// was written by an older version that had no lexical index.
    pub fn open_read_only(mut self) -> Result<Engine> {
        self.config.check()?;
        self.shared = None;
        let Some(path) = &self.path else {
            let reason = "a new database in memory has nothing to read; open it for writing";
            return Err(Error::InvalidConfig { reason: reason.into() });
        };
        let store = Store::open_read_only(path, &self.config)?;
        store.check_anchor()?;
        self.open_store(Arc::new(store))
    }

    fn open_store(self, store: Arc<Store>) -> Result<Engine> {
        let (embedder, config, has_own_embedder) =
            (self.embedder.clone(), self.config.clone(), self.embedder.is_some());
        let resolve = move |stored: Option<&ModelIdentity>| match embedder {
            Some(embedder) => Ok(embedder),
            None => default_embedder::open(stored, &config),
        };
        let upstream = upstream(self.shared.as_deref(), self.freshness, &store, &self.config)?;
        let (config, reranker) = (self.config, self.reranker);
        Engine::open_core(Opening { store, config, reranker, has_own_embedder, upstream }, None, resolve)
    }
}

/// Connects to the shared database, if there is one. A copy whose reads need not be the latest may connect later.
fn upstream(
    address: Option<&str>,
    freshness: Freshness,
    store: &Store,
    config: &Config,
) -> Result<Option<(Arc<dyn Upstream>, Freshness)>> {
    #[cfg(feature = "postgres")]
    if let Some(address) = address {
        let snapshot = store.read()?;
        let known = match (snapshot.versions().origin()?, snapshot.seal_key()?, snapshot.generations().serving()?) {
            (Some(origin), Some(seal_key), Some(_)) if freshness != Freshness::Latest => {
                Some(KnownOrigin { origin, seal_key })
            }
            _ => None,
        };
        drop(snapshot);
        let opened = match known {
            Some(known) => Postgres::open_replica(address, config.shared_timeout, PATIENCE, known)?,
            None => Postgres::open(address, config.shared_timeout)?,
        };
        return Ok(Some((Arc::new(opened), freshness)));
    }
    let _ = (address, freshness, store, config);
    Ok(None)
}

/// How long the opening of a copy waits for a shared database that does not answer.
#[cfg(feature = "postgres")]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(1);

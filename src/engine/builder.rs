//! Settings and opening of an engine.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::handle::Engine;
#[cfg(doc)]
use crate::error::Error;
use crate::{
    config::Config,
    default_embedder,
    embed::{Embedder, Reranker},
    error::{Result, impl_debug},
    ids::ModelIdentity,
};

impl Engine {
    /// Opens the database at `path` with default settings, or creates it. See [`EngineBuilder::open`].
    ///
    /// # Errors
    /// Those of [`EngineBuilder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Engine::builder(path).open()
    }

    /// Returns a builder that opens the database at `path` with other than default settings.
    pub fn builder(path: impl AsRef<Path>) -> EngineBuilder {
        EngineBuilder {
            path: path.as_ref().to_path_buf(),
            config: Config::default(),
            create: true,
            embedder: None,
            reranker: None,
        }
    }
}

/// Builder of an [`Engine`]. Made by [`Engine::builder`].
pub struct EngineBuilder {
    path: PathBuf,
    config: Config,
    create: bool,
    embedder: Option<Arc<dyn Embedder>>,
    reranker: Option<Arc<dyn Reranker>>,
}

impl_debug!(EngineBuilder { path, config, create });

impl EngineBuilder {
    /// Sets the configuration. Default: [`Config::default`].
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Sets the embedder. Default: an [`OnnxEmbedder`](crate::OnnxEmbedder) with the model of the database, which [`Model::find`](crate::Model::find) looks up by its name;
    /// for a new database, [`Model::DEFAULT`](crate::Model::DEFAULT).
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// Sets the reranker for [`Query::rerank`](crate::Query::rerank). Default: none.
    pub fn reranker(mut self, reranker: Arc<dyn Reranker>) -> Self {
        self.reranker = Some(reranker);
        self
    }

    /// Creates the file if it is missing. Default: true.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens the database and begins to embed messages that were left pending. Blocks the calling thread while it reads the file
    /// and the model: about 50 ms with the bundled model.
    ///
    /// # Errors
    /// For the database: [`Error::DatabaseNotFound`], [`Error::DatabaseLocked`], [`Error::NotADatabase`],
    /// [`Error::NewerSchema`]. For the model: [`Error::ModelMismatch`], and those of [`OnnxEmbedder::new`](crate::OnnxEmbedder::new). For the cache: those of
    /// [`CachedEmbedderBuilder::open`](crate::CachedEmbedderBuilder::open). [`Error::InvalidConfig`],
    /// [`Error::ThreadNotStarted`].
    pub fn open(self) -> Result<Engine> {
        self.config.check()?;
        let (embedder, config) = (self.embedder, self.config.clone());
        let resolve = move |stored: Option<&ModelIdentity>| match embedder {
            Some(embedder) => Ok(embedder),
            None => default_embedder::open(stored, &config),
        };
        Engine::open_core(&self.path, self.config, self.create, self.reranker, resolve)
    }
}

//! The engine's methods for threads that may wait.

use std::{
    ops::ControlFlow,
    sync::{Arc, mpsc},
};

use super::{
    FlushReport, IndexStats, PutReport,
    core::Core,
    reindex::{ReindexOptions, ReindexProgress, ReindexReport},
};
use crate::{
    cache::CacheStats,
    embed::Embedder,
    error::{Error, Result, impl_debug},
    ids::Namespace,
    lexical::Language,
    message::Message,
    recall::{Hits, Query},
};

/// [`Engine`](crate::Engine)'s methods, waiting on the calling thread. From [`Engine::blocking`](crate::Engine::blocking).
pub struct Blocking<'a>(pub(crate) &'a Core);

impl_debug!(Blocking<'_>, self { model: self.0.model().name });

impl Blocking<'_> {
    /// As [`Engine::put`](crate::Engine::put).
    ///
    /// # Errors
    /// As there.
    pub fn put(&self, namespace: &Namespace, messages: Vec<Message>) -> Result<PutReport> {
        self.put_all(messages.into_iter().map(|message| (namespace.clone(), message)).collect())
    }

    /// As [`Engine::put_all`](crate::Engine::put_all).
    ///
    /// # Errors
    /// As there.
    pub fn put_all(&self, messages: Vec<(Namespace, Message)>) -> Result<PutReport> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.0.put(messages, move |result| drop(reply.send(result)))?;
        answer.recv().map_err(|_| Error::Closed)?
    }

    /// As [`Engine::flush`](crate::Engine::flush).
    ///
    /// # Errors
    /// As there.
    pub fn flush(&self) -> Result<FlushReport> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.0.flush(move |result| drop(reply.send(result)))?;
        answer.recv().map_err(|_| Error::Closed)?
    }

    /// As [`Engine::recall`](crate::Engine::recall), on the calling thread.
    ///
    /// # Errors
    /// As there.
    pub fn recall(&self, namespace: &Namespace, query: Query) -> Result<Hits> {
        self.0.recall(namespace, &query)
    }

    /// As [`Engine::set_language`](crate::Engine::set_language).
    ///
    /// # Errors
    /// As there.
    pub fn set_language(&self, namespace: &Namespace, language: Language) -> Result<()> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.0.set_language(namespace, language, move |result| drop(reply.send(result)))?;
        answer.recv().map_err(|_| Error::Closed)?
    }

    /// As [`Engine::index_stats`](crate::Engine::index_stats).
    ///
    /// # Errors
    /// As there.
    pub fn index_stats(&self, namespace: &Namespace) -> Result<IndexStats> {
        self.0.index_stats(namespace)
    }

    /// As [`Engine::reindex`](crate::Engine::reindex), on the calling thread.
    ///
    /// # Errors
    /// As there.
    pub fn reindex(
        &self,
        embedder: Arc<dyn Embedder>,
        options: ReindexOptions,
        mut progress: impl FnMut(ReindexProgress) -> ControlFlow<()>,
    ) -> Result<ReindexReport> {
        self.0.reindex_and_sweep(embedder, &options, &mut progress)
    }

    /// As [`Engine::rollback`](crate::Engine::rollback), on the calling thread.
    ///
    /// # Errors
    /// As there.
    pub fn rollback(
        &self,
        embedder: Arc<dyn Embedder>,
        mut progress: impl FnMut(ReindexProgress) -> ControlFlow<()>,
    ) -> Result<ReindexReport> {
        self.0.rollback(embedder, &mut progress)
    }

    /// As [`Engine::drop_previous`](crate::Engine::drop_previous), on the calling thread.
    ///
    /// # Errors
    /// As there.
    pub fn drop_previous(&self) -> Result<bool> {
        self.0.drop_previous()
    }

    /// As [`Engine::cache_stats`](crate::Engine::cache_stats).
    pub fn cache_stats(&self) -> Option<CacheStats> {
        self.0.cache_stats()
    }

    /// As [`Engine::get`](crate::Engine::get).
    ///
    /// # Errors
    /// As there.
    pub fn get(&self, namespace: &Namespace, id: &str) -> Result<Option<Message>> {
        self.0.get(namespace, id)
    }

    /// As [`Engine::pending`](crate::Engine::pending).
    ///
    /// # Errors
    /// As there.
    pub fn pending(&self) -> Result<u64> {
        self.0.pending()
    }

    /// Loads a namespace and does all background work of its index now, on the calling thread. Recall is right without
    /// it; after it, it is as fast as it gets. For benchmarks and evaluation.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub fn optimize(&self, namespace: &Namespace) -> Result<()> {
        self.0.optimize(namespace)
    }
}

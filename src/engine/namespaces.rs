//! Methods of [`Engine`] on whole namespaces and their indexes.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::{
    executor::Lane,
    handle::Engine,
    index_stats::IndexStats,
    namespace_slot::EngineStats,
    shared::{Shared, Wake},
    stored_graph::Workers,
};
#[cfg(doc)]
use crate::config::Config;
use crate::{
    cache::CacheStats,
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    lexical::Language,
};

impl Engine {
    /// Sets the language in which the text of a namespace is analysed for its terms, and creates the namespace if it is
    /// new. If the language changes, all stored messages are analysed again, in one commit: some microseconds per
    /// message. Default: [`Language::English`].
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn set_language(&self, namespace: &Namespace, language: Language) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        let namespace = namespace.clone();
        // Between two flushes, on the thread that embeds: no batch is analysed in two languages.
        let work = move |shared: &Arc<Shared>, workers: &Workers| {
            let _ = reply.send(shared.set_language(&namespace, language, workers));
        };
        self.core().wake(Wake::Between(Box::new(work)))?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Returns the size of a namespace's index and the estimated recall of its searches. Loads the namespace.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn index_stats(&self, namespace: &Namespace) -> Result<IndexStats> {
        self.core().refresh(namespace, None).await?;
        let namespace = namespace.clone();
        self.core().run(Lane::Recalls, move |core| core.index_stats(&namespace)).await
    }

    /// Returns how much memory loaded namespaces take, and how often namespaces were loaded and unloaded since the
    /// engine was opened.
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub async fn stats(&self) -> Result<EngineStats> {
        self.core().run(Lane::Store, |core| Ok(core.stats())).await
    }

    /// Returns the size of the embedding cache and its hits since the engine was opened, or `None` if the cache is off
    /// ([`Config::embedding_cache`]).
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub async fn cache_stats(&self) -> Result<Option<CacheStats>> {
        self.core().run(Lane::Store, |core| Ok(core.shared.cache_stats())).await
    }

    /// Deletes a namespace with all its messages and documents, its language and its name, in one commit. Returns the
    /// number of messages deleted. [`Engine::forget`] removes more: what was made of them in other places.
    ///
    /// # Errors
    /// [`Error::LegalHold`], [`Error::Storage`].
    pub async fn delete_namespace(&self, namespace: &Namespace) -> Result<u64> {
        let Some(id) = self.namespace_id(namespace).await? else { return Ok(0) };
        Ok(self.delete_all_in(vec![(namespace.clone(), id)]).await?.messages)
    }

    /// Returns the number of a namespace, or `None` if the file does not have it: then there is nothing to delete.
    pub(super) async fn namespace_id(&self, namespace: &Namespace) -> Result<Option<NamespaceId>> {
        self.core().refresh(namespace, None).await?;
        let namespace = namespace.clone();
        self.core().run(Lane::Store, move |core| core.reads().namespace_id(&namespace)).await
    }
}

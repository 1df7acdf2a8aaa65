//! Methods of [`Engine`] on whole namespaces and their indexes, and on many namespaces: listing, counting and deleting
//! them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    core::Core, executor::Lane, handle::Engine, namespace_slot::EngineStats, reports::IndexStats, writer::Commit,
};
use crate::{
    cache::CacheStats,
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    message::ttl_micros,
    store::{NamespaceCursor, NamespacePage, NamespaceTotals, Transaction},
};
#[cfg(doc)]
use crate::{config::Config, message::Message};

impl Engine {
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

    /// Sets the time to live of the messages that are put into a namespace from now on, in minutes, and creates the
    /// namespace if it is new: one that is put without [`Message::expires_at`] expires so long after its put. `None` ends
    /// it. From a millisecond to a thousand years.
    ///
    /// Messages that are stored already stay as they are. The same message put again keeps its time; put with another
    /// content, its time begins anew. Documents have times to live of their own. [`Engine::namespaces`] says what it is.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: the time is out of range. [`Error::Storage`], [`Error::ReadOnly`].
    pub async fn set_ttl(&self, namespace: &Namespace, ttl_minutes: Option<f64>) -> Result<()> {
        let ttl = ttl_minutes.map(ttl_micros).transpose().map_err(|reason| Error::InvalidConfig { reason })?;
        self.core().refresh(namespace, None).await?;
        let namespace = namespace.clone();
        let set = move |transaction: &Transaction| transaction.expiry().set_time_to_live(&namespace, ttl);
        self.core().writer.commit(Commit::Grouped, set).await
    }

    /// Deletes a namespace with all its messages and documents, its language and its name, in one commit. Returns the
    /// number of messages deleted. [`Engine::forget`] removes more: what was made of them in other places.
    ///
    /// # Errors
    /// [`Error::LegalHold`], [`Error::Storage`].
    pub async fn delete_namespace(&self, namespace: &Namespace) -> Result<u64> {
        let Some(id) = self.core().known_namespace(namespace).await? else { return Ok(0) };
        Ok(self.delete_all_in(vec![(namespace.clone(), id)]).await?.messages)
    }
}

impl Engine {
    /// Returns the first `limit` namespaces that have messages or documents, or those after a cursor: of all
    /// namespaces, or of those under a prefix, itself included. They are ordered by the bytes of their text.
    ///
    /// Cost: a pass over the names of the sessions on the page, and over deleted namespaces.
    ///
    /// # Errors
    /// [`Error::InvalidCursor`]: another database returned the cursor. [`Error::InvalidQuery`]: the limit is 0.
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn namespaces(
        &self,
        prefix: Option<&Namespace>,
        after: Option<&NamespaceCursor>,
        limit: usize,
    ) -> Result<NamespacePage> {
        let (prefix, after) = (prefix.cloned(), after.cloned());
        self.core().refresh_under(prefix.as_ref(), None).await?;
        let page =
            move |core: &Core| core.store().view(|s| s.namespaces().page(prefix.as_ref(), after.as_ref(), limit));
        self.core().run(Lane::Store, page).await
    }

    /// Counts the namespaces that have messages or documents, and these: of all namespaces, or of those under a prefix,
    /// itself included. Cost: a pass over the records of the namespaces, about a microsecond each.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn count_namespaces(&self, prefix: Option<&Namespace>) -> Result<NamespaceTotals> {
        self.core().refresh_under(prefix, None).await?;
        let prefix = prefix.cloned();
        let totals = move |core: &Core| core.store().view(|snapshot| snapshot.namespaces().totals(prefix.as_ref()));
        self.core().run(Lane::Store, totals).await
    }

    /// Deletes all namespaces under a prefix, itself included, with all their messages and documents. Returns how many
    /// had any, and how many. Nothing is an error if no namespace is under the prefix: the counts are 0.
    ///
    /// The namespaces are deleted in the order of their text, in commits of about 1,000 namespaces or 10,000 messages
    /// and documents, each of whole namespaces. If the process ends meanwhile, or the future is dropped, a namespace is
    /// still there as a whole or is deleted as a whole, and the same call deletes the rest. What is put meanwhile into
    /// a namespace that was deleted already stays.
    ///
    /// # Errors
    /// [`Error::LegalHold`], and nothing is deleted: a namespace under the prefix is held, or one above it.
    /// [`Error::Storage`], [`Error::Corrupted`], [`Error::ReadOnly`].
    pub async fn delete_namespaces(&self, prefix: &Namespace) -> Result<NamespaceTotals> {
        Ok(self.delete_namespaces_within(prefix, Duration::MAX).await?.0)
    }

    /// Same as [`Engine::delete_namespaces`], but begins no commit after this time. Also returns true if nothing is left to delete;
    /// otherwise the same call goes on.
    ///
    /// # Errors
    /// Those of [`Engine::delete_namespaces`].
    #[doc(hidden)]
    pub async fn delete_namespaces_within(
        &self,
        prefix: &Namespace,
        time: Duration,
    ) -> Result<(NamespaceTotals, bool)> {
        let begun = Instant::now();
        self.core().refresh_common().await?;
        self.core().refresh_under(Some(prefix), None).await?;
        let held = prefix.clone();
        let check = move |core: &Core| core.shared.store.read()?.holds().check_under(&held);
        self.core().run(Lane::Store, check).await?;
        let mut totals = NamespaceTotals::default();
        let mut after = None;
        loop {
            let prefix = prefix.clone();
            let from = after.clone();
            let next = move |core: &Core| core.namespaces_to_delete(&prefix, from.as_ref());
            let next = self.core().run(Lane::Store, next).await?;
            let Some((last, _)) = next.last().cloned() else { return Ok((totals, true)) };
            if begun.elapsed() >= time && after.is_some() {
                return Ok((totals, false));
            }
            let NamespaceTotals { namespaces, messages, documents } = self.delete_all_in(next).await?;
            totals.namespaces += namespaces;
            totals.messages += messages;
            totals.documents += documents;
            after = Some(last);
        }
    }

    /// Deletes everything in these namespaces, in one commit.
    pub(super) async fn delete_all_in(&self, namespaces: Vec<(Namespace, NamespaceId)>) -> Result<NamespaceTotals> {
        let ids: Vec<NamespaceId> = namespaces.iter().map(|(_, id)| *id).collect();
        let delete = move |transaction: &Transaction| transaction.namespaces().delete(&namespaces);
        let totals = self.core().writer.commit(Commit::Grouped, delete).await?;
        self.core().unload_if_empty(&ids);
        Ok(totals)
    }
}

impl Core {
    /// Returns the number of a namespace, or `None` if the file does not have it: then there is nothing to delete.
    pub(super) async fn known_namespace(self: &Arc<Self>, namespace: &Namespace) -> Result<Option<NamespaceId>> {
        self.refresh(namespace, None).await?;
        let namespace = namespace.clone();
        let id = move |core: &Core| core.store().view(|snapshot| snapshot.namespaces().id(&namespace));
        self.run(Lane::Store, id).await
    }

    /// Unloads namespaces of which nothing may be left after a deletion.
    pub(super) fn unload_if_empty(&self, namespaces: &[NamespaceId]) {
        for generation in self.shared.generations.all() {
            namespaces.iter().for_each(|&id| generation.unload_if_empty(id));
        }
    }

    /// Returns the namespaces under a prefix that the next commit of its deletion deletes.
    pub(super) fn namespaces_to_delete(
        &self,
        prefix: &Namespace,
        after: Option<&Namespace>,
    ) -> Result<Vec<(Namespace, NamespaceId)>> {
        self.store().view(|snapshot| snapshot.namespaces().next_to_delete(prefix, after))
    }
}

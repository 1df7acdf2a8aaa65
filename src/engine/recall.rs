//! A recall: the query is prepared and embedded, its namespaces are loaded, its hits are found.

use std::sync::Arc;

use super::{executor::Lane, loaded_generation::LoadedGeneration, shared::Shared};
use crate::{
    error::{Error, Result},
    ids::Namespace,
    recall::{
        Hits, LoadedHandle, LoadedMessages, Member, MultiNamespaceSearch, NamespaceSearch, NamespaceSource,
        PreparedQuery, Query, Scope, StoredWords, find_hits,
    },
    store::Snapshot,
};

impl NamespaceSource for LoadedGeneration {
    fn load(&self, member: &Member) -> Result<LoadedHandle> {
        let loaded = LoadedGeneration::load(self, member.id).map_err(|error| member.named(error))?;
        Ok(loaded)
    }

    fn words(&self, member: &Member, snapshot: &Snapshot) -> Result<Option<StoredWords>> {
        LoadedGeneration::words(self, member.id, snapshot).map_err(|error| member.named(error))
    }
}

impl Shared {
    pub(super) fn recall(&self, namespace: &Namespace, query: &Query) -> Result<Hits> {
        self.check(query)?;
        self.recall_in_one(namespace, query).map_err(|error| error.within(|| format!("namespace {namespace}")))
    }

    fn recall_in_one(&self, namespace: &Namespace, query: &Query) -> Result<Hits> {
        let Some(mut prepared) = PreparedQuery::new(query, namespace, &self.store)? else { return Ok(Hits::default()) };
        // The whole recall uses this generation, even if another one serves by its end.
        let serving = self.generations.serving();
        prepared.embed(&serving.embedder, |job| self.executor.spawn(Lane::Queries, job))?;
        self.recent_queries.push(prepared.namespace, &query.text);
        let loaded = serving.load(prepared.namespace)?;
        let LoadedMessages { index, unindexed } = &loaded.messages;
        let sets = Arc::clone(&index.read().metadata);
        prepared.filter_metadata(&sets, &self.store)?;
        let searcher = NamespaceSearch::new(&prepared, index, unindexed, serving.resources());
        find_hits(&prepared, searcher, &self.store, self.reranker.as_deref())
    }

    /// Recalls over several namespaces, see [`Engine::recall_in`](super::Engine::recall_in).
    pub(super) fn recall_in(&self, scope: &Scope, query: &Query) -> Result<Hits> {
        self.check(query)?;
        scope.check()?;
        if !query.options.previous.is_empty() {
            let reason = "a recall over several namespaces keeps no previous hits in their positions, because an id may be \
                          in several of them; leave out the previous hits";
            return Err(Error::query(reason));
        }
        self.recall_in_any(scope, query)
    }

    /// Same as [`Shared::recall_in`], for a query of any number of hits, without a reranker.
    pub(super) fn recall_in_any(&self, scope: &Scope, query: &Query) -> Result<Hits> {
        let members = scope.members(&self.store.read()?)?;
        let Some(first) = members.first() else { return Ok(Hits::default()) };
        if members.len() == 1 && !query.text.is_empty() {
            self.recent_queries.push(first.id, &query.text);
        }
        let mut prepared = PreparedQuery::for_several(query, first.id);
        let serving = self.generations.serving();
        prepared.embed(&serving.embedder, |job| self.executor.spawn(Lane::Queries, job))?;
        let searcher = MultiNamespaceSearch::new(&prepared, &members, &*serving, serving.resources())?;
        find_hits(&prepared, searcher, &self.store, self.reranker.as_deref())
    }

    fn check(&self, query: &Query) -> Result<()> {
        query.check()?;
        if query.options.rerank.is_some() && self.reranker.is_none() {
            return Err(Error::query("the engine has no reranker; open it with one"));
        }
        Ok(())
    }
}

//! A recall: the query is prepared and embedded, its namespace is loaded, its hits are found.

use std::sync::Arc;

use super::shared::Shared;
use crate::{
    error::{Error, Result},
    ids::Namespace,
    recall::{Hits, PreparedQuery, Query, find_hits},
};

impl Shared {
    pub(super) fn recall(&self, namespace: &Namespace, query: &Query) -> Result<Hits> {
        query.check()?;
        if query.rerank.is_some() && self.reranker.is_none() {
            return Err(Error::query("the engine has no reranker; give it one with EngineBuilder::reranker"));
        }
        let Some(mut prepared) = PreparedQuery::new(query, namespace, &self.store)? else { return Ok(Hits::default()) };
        // The whole recall uses this generation, even if another one serves by its end.
        let serving = self.generations.serving();
        prepared.embed(&*serving.embedder)?;
        self.recent_queries.push(prepared.namespace, &query.text);
        let loaded = serving.load(prepared.namespace)?;
        let sets = Arc::clone(&loaded.index.read().metadata);
        prepared.filter_metadata(&sets, &self.store)?;
        let reranker = self.reranker.as_deref();
        find_hits(&prepared, &loaded.index, &serving.buffers, &loaded.unindexed, &self.store, reranker)
    }
}

//! A recall over several namespaces, with one ranking.
//!
//! The namespaces are searched one after the other, and each is loaded only while it is searched. The evidence for the
//! candidates of all of them is standardized by pooled statistics: the frequencies of the query's terms, the mean and
//! the deviation of cosines and BM25 scores, the typical lengths. So a message gets nearly the same score as if all the
//! messages were in one namespace. Only its neighbors are of its own namespace.

use std::{collections::HashMap, sync::Arc};

use mnemon_index::is_past;
use parking_lot::RwLock;

use super::{
    among::Among,
    answerability::answerability,
    candidate_vectors::CandidateVectors,
    choose::{Accept, Needs, choose_hits},
    hit::Hits,
    namespace::NamespaceIndex,
    prepare::PreparedQuery,
    query::RankingStrategy,
    rank::{Candidate, rank},
    scope::Member,
    search::{Found, Origin, ScoreBuffers, Search, SearchOutcome, WIDENING},
    statistics::ScoreStatistics,
    unindexed::Unindexed,
};
use crate::{
    embed::Reranker,
    error::Result,
    ids::{Namespace, NamespaceId},
    lexical::{Collection, Language},
    store::Store,
};

/// Calls back with a loaded namespace.
pub(crate) type WithLoaded<'a> =
    dyn Fn(NamespaceId, &mut dyn FnMut(&RwLock<NamespaceIndex>, &Unindexed) -> Result<()>) -> Result<()> + 'a;

/// Finds the hits for a query in several namespaces. `with_loaded` loads each of them.
///
/// # Errors
/// The reranker's, the store's, and those of `with_loaded`.
pub(crate) fn find_hits_in_several(
    prepared: &PreparedQuery,
    members: &[Member],
    with_loaded: &WithLoaded<'_>,
    buffers: &ScoreBuffers,
    store: &Store,
    reranker: Option<&dyn Reranker>,
) -> Result<Hits> {
    let names: Vec<Namespace> = members.iter().map(|member| member.name.clone()).collect();
    let weights: Vec<f32> = members.iter().map(|member| member.weight).collect();
    let several = Several { prepared, members, weights, with_loaded, buffers, store };
    choose_hits(prepared, store, reranker, &names, |needs, accept| several.search_until(needs, accept))
}

struct Several<'s> {
    prepared: &'s PreparedQuery<'s>,
    members: &'s [Member],
    weights: Vec<f32>,
    with_loaded: &'s WithLoaded<'s>,
    buffers: &'s ScoreBuffers,
    store: &'s Store,
}

/// The evidence of all namespaces that were searched.
#[derive(Default)]
struct Together {
    candidates: Vec<Candidate>,
    /// The vectors of candidates, by origin and row.
    vectors: HashMap<(u32, u32), Vec<f32>>,
    statistics: Vec<ScoreStatistics>,
    pending: usize,
    cut_short: bool,
    is_exhaustive: bool,
}

impl Several<'_> {
    /// Searches for as many messages as are needed, and for more until `accept` returns an answer.
    fn search_until(&self, needs: &Needs, accept: &mut Accept<'_>) -> Result<Hits> {
        let mut among = Among::of(self.collection()?);
        let mut messages = needs.messages;
        loop {
            if let Some(hits) = accept(self.search(messages, needs.has_vectors, &mut among)?)? {
                return Ok(hits);
            }
            messages = messages.saturating_mul(WIDENING);
        }
    }

    /// Counts the documents of all namespaces that contain the query's terms.
    fn collection(&self) -> Result<Collection> {
        let (mut collection, mut among) = (Collection::default(), Among::default());
        if self.prepared.ranking.strategy != RankingStrategy::Dense {
            self.for_each(|_, query, index, unindexed| {
                let index = index.read();
                let unindexed =
                    unindexed.messages(query.namespace, index.language, query.deadline, || self.store.read())?;
                index.lexical.add_to(&mut collection, among.terms(index.language, query), unindexed.terms());
                Ok(())
            })?;
        }
        Ok(collection)
    }

    /// Searches each namespace for this many messages, and ranks what is found in all.
    fn search(&self, messages: usize, has_vectors: bool, among: &mut Among) -> Result<SearchOutcome<'_>> {
        let mut together = Together { is_exhaustive: true, ..Together::default() };
        let mut languages = vec![Language::default(); self.members.len()];
        among.begin(messages);
        let is_complete = self.for_each(|origin, query, index, unindexed| {
            among.origin = origin;
            let unindexed =
                |language| unindexed.messages(query.namespace, language, query.deadline, || self.store.read());
            let language = index.read().language;
            languages[origin as usize] = language;
            let mut rows = messages.saturating_add(query.excepted(&unindexed(language)?));
            let mut search = Search { index, buffers: self.buffers, query, unindexed: &unindexed, allowed: None };
            let mut add = |index: &NamespaceIndex, found| together.add(origin, index, found, has_vectors);
            while search.run(messages, rows, among, &mut add)?.is_none() {
                rows = rows.saturating_mul(2);
            }
            Ok(())
        })?;
        let Together { candidates, vectors, statistics, pending, cut_short, is_exhaustive } = together;
        let statistics = ScoreStatistics::pooled(&statistics);
        let PreparedQuery { ranking, spans, now, .. } = self.prepared;
        let ranked = rank(candidates, &statistics, ranking, &self.weights, (spans, *now));
        let origins = self.members.iter().zip(languages);
        Ok(SearchOutcome {
            vectors: CandidateVectors::Copied(vectors),
            origins: origins.map(|(member, language)| Origin { namespace: member.id, language }).collect(),
            answerability: answerability(&ranked, &statistics),
            pending,
            cut_short: cut_short || !is_complete,
            is_exhaustive,
            ranked,
        })
    }

    /// Visits the namespaces that have the query's session, each with the query for it. Returns false if the deadline
    /// passed before all were visited.
    fn for_each(
        &self,
        mut visit: impl FnMut(u32, &PreparedQuery, &RwLock<NamespaceIndex>, &Unindexed) -> Result<()>,
    ) -> Result<bool> {
        let snapshot = self.store.read()?;
        let mut query = self.prepared.clone();
        for (origin, member) in (0..).zip(self.members) {
            if origin > 0 && is_past(query.deadline) {
                return Ok(false);
            }
            if query.enter(member.id, &snapshot)? {
                (self.with_loaded)(member.id, &mut |index, unindexed| {
                    let sets = Arc::clone(&index.read().metadata);
                    query.filter_metadata(&sets, self.store)?;
                    visit(origin, &query, index, unindexed)
                })?;
            }
        }
        Ok(true)
    }
}

impl Together {
    fn add(&mut self, origin: u32, index: &NamespaceIndex, found: Found, needs_vectors: bool) {
        let Found { gathered, pending, cut_short } = found;
        if needs_vectors {
            let rows = gathered.candidates.iter().filter_map(|candidate| candidate.row);
            self.vectors.extend(rows.map(|row| ((origin, row), index.row_vector(row))));
        }
        self.candidates.extend(gathered.candidates);
        self.statistics.push(gathered.statistics);
        self.pending += pending;
        self.cut_short |= cut_short;
        self.is_exhaustive &= gathered.is_exhaustive;
    }
}

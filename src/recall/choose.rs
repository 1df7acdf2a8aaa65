//! Finds the hits for a prepared query: searches until enough of the candidates become hits.
//!
//! Candidates are dropped if they were deleted meanwhile, and moved back if they duplicate a better one. As the query
//! demands, they are reordered by the reranker, by diversity and by the positions of previous hits.

use std::{cell::OnceCell, collections::HashMap, ops::Range};

use mnemon_index::{dot, mmr};
use parking_lot::RwLock;

use super::{
    duplicates::{TermSet, is_duplicate},
    hit::{Hit, Hits},
    join::{Turns, join_sessions},
    namespace::NamespaceIndex,
    positions::keep_positions,
    prepare::PreparedQuery,
    query::{Query, RankingStrategy},
    rank::Ranked,
    search::{ScoreBuffers, SearchOutcome, WIDENING, search_until},
    supersede::mark_superseded,
    unindexed::Unindexed,
    unit::Unit,
};
use crate::{
    embed::{self, Reranker},
    error::Result,
    ids::{Namespace, NamespaceId},
    lexical::Analyzer,
    message::Message,
    store::{MessageReader, Snapshot, Store},
};

/// The minimum number of candidates that a search looks for, unless it ranks by vectors alone.
const MIN_CANDIDATES: usize = 100;
/// The number of best candidates among which near-duplicates are looked for.
const DUPLICATE_DEPTH: usize = 200;
/// Texts whose vectors have a lower cosine are not compared as duplicates.
const DUPLICATE_COSINE: f32 = 0.9;
/// The number of best hits from which diverse ones are chosen: the cost grows with its square.
const DIVERSITY_DEPTH: usize = 1000;
/// The pool has half as many more hits than are needed, where some may be passed over.
const POOL_FACTOR: (usize, usize) = (3, 2);

/// Finds the hits for a query in a loaded namespace.
///
/// # Errors
/// The reranker's and the store's.
pub(crate) fn find_hits(
    prepared: &PreparedQuery,
    index: &RwLock<NamespaceIndex>,
    buffers: &ScoreBuffers,
    unindexed: &Unindexed,
    store: &Store,
    reranker: Option<&dyn Reranker>,
) -> Result<Hits> {
    let unindexed = |language| unindexed.messages(prepared.namespace, language, prepared.deadline, || store.read());
    let search = |needs: &Needs, accept: &mut Accept<'_>| {
        search_until(index, buffers, prepared, &unindexed, needs.messages, accept)
    };
    choose_hits(prepared, store, reranker, &[], search)
}

/// The least that a search must find.
pub(super) struct Needs {
    /// The number of candidates.
    pub(super) messages: usize,
    /// The vectors of candidates.
    pub(super) has_vectors: bool,
}

/// Returns the hits among what a search found, or `None` if the search must look for more.
pub(super) type Accept<'a> = dyn FnMut(SearchOutcome<'_>) -> Result<Option<Hits>> + 'a;

/// Chooses the hits among what `search` finds, which looks for more until the hits are enough. `names` has the names of
/// the namespaces that are asked, by the origins of the candidates; it is empty if the caller knows the one namespace.
pub(super) fn choose_hits(
    prepared: &PreparedQuery,
    store: &Store,
    reranker: Option<&dyn Reranker>,
    names: &[Namespace],
    search: impl FnOnce(&Needs, &mut Accept<'_>) -> Result<Hits>,
) -> Result<Hits> {
    let query = prepared.query;
    // Hits are chosen from the pool: as many as are reranked, and some more where the choice leaves some out.
    let depth = query.rerank.unwrap_or(0).max(query.k);
    let keeps_order = query.keep_duplicates && query.previous.is_empty() && query.diversity.is_none();
    let hits = if keeps_order { depth } else { (depth * POOL_FACTOR.0).div_ceil(POOL_FACTOR.1) };
    let mut pool = query.unit.messages(hits);
    let compared = if query.keep_duplicates { 0 } else { DUPLICATE_DEPTH };
    let vectors = compared.max(query.diversity.map_or(0, |_| 2 * pool.min(DIVERSITY_DEPTH)));
    let messages = match query.ranking.strategy {
        _ if query.unit == Unit::Session => pool,
        RankingStrategy::Dense => pool,
        _ => (pool * WIDENING).max(MIN_CANDIDATES),
    };
    search(&Needs { messages, has_vectors: vectors > 0 }, &mut |found| {
        let (cut_short, answerability, pending) = (found.cut_short, found.answerability, found.pending);
        if query.answerable.is_some_and(|least| answerability < least) {
            return Ok(Some(Hits { hits: Vec::new(), cut_short, answerability, pending, seen: None }));
        }
        // The snapshot is taken after the search, so it contains every row that was found.
        let snapshot = store.read()?;
        let messages = snapshot.messages().reader()?;
        let choice = Choice { prepared, query, snapshot: &snapshot, messages, found: &found, vectors, names, reranker };
        // Messages are chosen until they are enough turns or sessions, or all.
        let chosen = loop {
            let messages = choice.choose(pool)?;
            let is_all = messages.len() < pool;
            let chosen = choice.join(messages, hits)?;
            if chosen.len() >= query.k || is_all {
                break chosen;
            }
            pool = pool.saturating_mul(WIDENING);
        };
        if chosen.len() < query.k && !found.is_exhaustive && !cut_short {
            return Ok(None);
        }
        let mut hits = keep_positions(choice.order(chosen)?, &query.previous, query.k);
        mark_superseded(&mut hits);
        for (rank, hit) in (1..).zip(&mut hits) {
            hit.rank = rank;
        }
        Ok(Some(Hits { hits, cut_short, answerability, pending, seen: None }))
    })
}

/// The choice of hits among the candidates that a search found.
struct Choice<'a> {
    prepared: &'a PreparedQuery<'a>,
    query: &'a Query,
    snapshot: &'a Snapshot,
    messages: MessageReader,
    found: &'a SearchOutcome<'a>,
    /// The number of best candidates whose vectors are needed.
    vectors: usize,
    names: &'a [Namespace],
    reranker: Option<&'a dyn Reranker>,
}

/// A hit, and its position among the candidates.
struct Chosen {
    at: usize,
    hit: Hit,
    /// Its vector; empty if it has none or is not needed.
    vector: Vec<f32>,
    /// The terms of its text; analyzed when it is first compared with another.
    terms: OnceCell<TermSet>,
}

impl Choice<'_> {
    /// Chooses up to `pool` hits in the order of the candidates, near-duplicates last.
    fn choose(&self, pool: usize) -> Result<Vec<Chosen>> {
        let mut chosen: Vec<Chosen> = Vec::new();
        let mut duplicates = Vec::new();
        let mut per_batch: HashMap<(u32, String, u32), usize> = HashMap::new();
        let most = self.query.per_batch.unwrap_or(usize::MAX);
        for (at, ranked) in self.found.ranked.iter().enumerate() {
            if chosen.len() == pool {
                break;
            }
            let namespace = self.namespace(ranked);
            // The message may have been replaced or deleted since its row was found.
            let message = self.messages.get(namespace, ranked.seq)?;
            // The values of documents are filtered again by the caller, which reads them.
            let is_text = namespace.owner().is_some();
            let Some(message) = message.filter(|message| is_text || self.prepared.filter.allows_message(message))
            else {
                continue;
            };
            let batch = match self.query.per_batch {
                None => None,
                Some(_) => self.snapshot.batches().number_of(namespace, &message.session, ranked.seq)?,
            };
            let batch = batch.map(|batch| (ranked.origin, message.session.clone(), batch));
            if batch.as_ref().is_some_and(|batch| per_batch.get(batch) == Some(&most)) {
                continue;
            }
            let vector = if at < self.vectors { self.found.vectors.of(ranked) } else { Vec::new() };
            let mut new = Chosen { at, hit: self.hit(ranked, message)?, vector, terms: OnceCell::new() };
            match self.original(&new, &chosen) {
                Some(id) => {
                    new.hit.breakdown.duplicate_of = Some(id);
                    duplicates.push((batch, new));
                }
                None => {
                    batch.into_iter().for_each(|batch| *per_batch.entry(batch).or_default() += 1);
                    chosen.push(new);
                }
            }
        }
        // Duplicates are added as far as the limits of their batches allow.
        for (batch, duplicate) in duplicates {
            let count = batch.map(|batch| per_batch.entry(batch).or_default());
            if count.as_ref().is_none_or(|count| **count < most) {
                count.into_iter().for_each(|count| *count += 1);
                chosen.push(duplicate);
            }
        }
        chosen.truncate(pool);
        Ok(chosen)
    }

    /// Joins the messages of a turn or of a session, if the query demands it: up to `most` of them, best first.
    fn join(&self, chosen: Vec<Chosen>, most: usize) -> Result<Vec<Chosen>> {
        let origin = |chosen: &Chosen| self.found.ranked[chosen.at].origin;
        match self.query.unit {
            Unit::Message => Ok(chosen),
            Unit::Session => {
                let is_odds = self.query.ranking.strategy == RankingStrategy::Hybrid;
                let key = |chosen: &Chosen| (origin(chosen), chosen.hit.message.session.clone());
                let mut sessions = join_sessions(chosen, is_odds, key, |chosen| &mut chosen.hit);
                sessions.truncate(most);
                Ok(sessions)
            }
            Unit::Turn => {
                let mut turns = Turns::new(self.prepared, self.snapshot, &self.messages);
                let mut joined = Vec::new();
                for mut chosen in chosen {
                    let ranked = &self.found.ranked[chosen.at];
                    let at = (ranked.origin, self.namespace(ranked), ranked.seq);
                    if joined.len() < most && turns.enter(at, &mut chosen.hit)? {
                        joined.push(chosen);
                    }
                }
                Ok(joined)
            }
        }
    }

    /// Reranks the hits and makes them diverse, if the query demands it.
    fn order(&self, mut chosen: Vec<Chosen>) -> Result<Vec<Hit>> {
        // A reranker's scores do not compare with the scores of hits that it did not see.
        let mut comparable = chosen.len();
        if let Some(depth) = self.query.rerank {
            comparable = comparable.min(depth.max(self.query.k));
            self.rerank(&mut chosen[..comparable])?;
        }
        if let Some(lambda) = self.query.diversity {
            let rest = chosen.split_off(comparable.min(DIVERSITY_DEPTH));
            chosen = self.diversify(chosen, lambda);
            chosen.extend(rest);
        }
        // Duplicates stay last, whatever the reranker's scores.
        chosen.sort_by_key(|chosen| chosen.hit.breakdown.duplicate_of.is_some());
        Ok(chosen.into_iter().map(|chosen| chosen.hit).collect())
    }

    fn namespace(&self, ranked: &Ranked) -> NamespaceId {
        self.found.origins[ranked.origin as usize].namespace
    }

    fn hit(&self, ranked: &Ranked, message: Message) -> Result<Hit> {
        let text = message.borrowed_text();
        // The indexed text begins with the speaker's name; passages are of the text alone.
        let name = message.bytes_before_text(&text);
        let position = |at: u32| (at as usize).saturating_sub(name);
        let passage = ranked.passage.as_ref().map(|passage| position(passage.start)..position(passage.end));
        // A window may consist of the speaker's name alone.
        let is_text = |passage: &Range<usize>| text.get(passage.clone()).is_some_and(|passage| !passage.is_empty());
        let passage = passage.filter(is_text).unwrap_or(0..text.len());
        let mut breakdown = ranked.breakdown.clone();
        if let Some(boosted_by) = ranked.boosted_by {
            breakdown.boosted_by = self.messages.id(self.namespace(ranked), boosted_by)?;
        }
        let (score, similarity) = (ranked.score, ranked.similarity);
        let namespace = self.names.get(ranked.origin as usize).cloned();
        let (supersedes, others) = (Vec::new(), Vec::new());
        Ok(Hit { message, namespace, score, similarity, rank: 0, passage, supersedes, others, breakdown })
    }

    /// The id of a better hit of the same speaker with nearly the same text, if there is one.
    fn original(&self, new: &Chosen, chosen: &[Chosen]) -> Option<String> {
        if self.query.keep_duplicates || new.at >= DUPLICATE_DEPTH {
            return None;
        }
        // Messages that are not embedded are compared by their texts alone.
        let is_near =
            |other: &[f32]| new.vector.is_empty() || other.is_empty() || dot(&new.vector, other) >= DUPLICATE_COSINE;
        let is_same = |other: &&Chosen| {
            other.hit.message.name == new.hit.message.name
                && is_near(&other.vector)
                && (other.hit.message.borrowed_text() == new.hit.message.borrowed_text()
                    || is_duplicate(self.terms(new), self.terms(other)))
        };
        chosen.iter().find(is_same).map(|other| other.hit.message.id.clone())
    }

    fn terms<'c>(&self, chosen: &'c Chosen) -> &'c TermSet {
        chosen.terms.get_or_init(|| {
            let language = self.found.origins[self.found.ranked[chosen.at].origin as usize].language;
            let (text, mut terms) = (chosen.hit.message.text(), Vec::new());
            Analyzer::of(language).terms(&text, &mut terms);
            TermSet::new(text, &terms)
        })
    }

    /// Scores hits by the reranker and sorts them by these scores.
    fn rerank(&self, chosen: &mut [Chosen]) -> Result<()> {
        let reranker = self.reranker.expect("a query that reranks is refused without a reranker");
        let texts: Vec<String> = chosen.iter().map(|chosen| chosen.hit.message.text()).collect();
        let passages: Vec<&str> =
            chosen.iter().zip(&texts).map(|(chosen, text)| &text[chosen.hit.passage.clone()]).collect();
        let scores = embed::rerank(reranker, &self.query.text, &passages)?;
        for (Chosen { hit, .. }, score) in chosen.iter_mut().zip(scores) {
            hit.breakdown.reranked = Some(score);
            hit.score = score;
        }
        chosen.sort_by(|a, b| b.hit.score.total_cmp(&a.hit.score));
        Ok(())
    }

    /// Orders hits by maximal marginal relevance. Hits whose vectors were not read follow last, and so do hits that
    /// were not reranked if others were.
    fn diversify(&self, chosen: Vec<Chosen>, lambda: f32) -> Vec<Chosen> {
        let (with, without): (Vec<Chosen>, Vec<Chosen>) =
            chosen.into_iter().partition(|Chosen { vector, hit, .. }| {
                !vector.is_empty() && hit.breakdown.reranked.is_some() == self.query.rerank.is_some()
            });
        let vectors: Vec<&[f32]> = with.iter().map(|chosen| chosen.vector.as_slice()).collect();
        // Scores are scaled to 0 to 1, the range of similarities.
        let scores = || with.iter().map(|chosen| f64::from(chosen.hit.score));
        let (low, high) = scores().fold((f64::MAX, f64::MIN), |(low, high), score| (low.min(score), high.max(score)));
        let relevance: Vec<f64> = scores().map(|score| (score - low) / (high - low).max(1e-9)).collect();
        let order = mmr(&relevance, &vectors, with.len(), f64::from(lambda));
        let mut with: Vec<Option<Chosen>> = with.into_iter().map(Some).collect();
        order.into_iter().filter_map(|at| with[at].take()).chain(without).collect()
    }
}

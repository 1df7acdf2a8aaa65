//! Searches a loaded namespace, wider and wider, until the caller accepts what was found.
//!
//! The search of the vectors runs without the namespace's lock, so that commits are published meanwhile. If one of them
//! reused a row, the row numbers found may stand for other messages than those that were searched: the search is
//! repeated.

use mnemon_index::{Bitmap, Neighbor, SearchOptions, SearchResult};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::{
    among::Among,
    answerability::answerability,
    candidate_vectors::CandidateVectors,
    candidates::{Gathered, Nearest, gather_candidates},
    namespace::{NamespaceIndex, Vectors, best_scores},
    prepare::PreparedQuery,
    rank::{Ranked, rank},
    unindexed::UnindexedMessages,
};
use crate::{
    error::Result,
    ids::NamespaceId,
    lexical::{Language, Scores},
};

/// Attempts without the lock before a search that blocks writers. An attempt is repeated when a row was reused while it
/// ran.
const UNLOCKED_ATTEMPTS: u32 = 3;

/// Number of rows up to which all are scored at once, if the index is exact: the cosines of most of them are needed as
/// evidence, whether a search finds them or not.
const FEW_ROWS: usize = 1024;

/// The factor by which a wider search looks for more messages.
pub(super) const WIDENING: usize = 4;

/// The candidates that a search found, ranked.
pub(crate) struct SearchOutcome<'s> {
    /// Best first: as many messages as were searched for, and more.
    pub(crate) ranked: Vec<Ranked>,
    pub(super) vectors: CandidateVectors<'s>,
    /// The namespaces that were searched, by the origins of the candidates.
    pub(super) origins: Vec<Origin>,
    pub(super) answerability: f32,
    /// The number of unindexed messages that the filter allows.
    pub(super) pending: usize,
    /// The deadline cut the search short.
    pub(super) cut_short: bool,
    /// No other message is allowed: a wider search finds no more.
    pub(super) is_exhaustive: bool,
}

/// A namespace that candidates are from.
pub(super) struct Origin {
    pub(super) namespace: NamespaceId,
    pub(super) language: Language,
}

/// Buffers for the BM25 scores of all rows, reused from search to search.
#[derive(Default)]
pub(crate) struct ScoreBuffers(Mutex<Vec<Scores>>);

/// Searches for `messages` messages or more, among those of the index and the `unindexed` ones, and for more until
/// `accept` returns an answer. It must accept an outcome that is exhaustive or was cut short.
pub(crate) fn search_until<'s, 'a, T>(
    index: &'s RwLock<NamespaceIndex>,
    buffers: &ScoreBuffers,
    query: &PreparedQuery,
    unindexed: &dyn Fn(Language) -> Result<UnindexedMessages<'a>>,
    messages: usize,
    mut accept: impl FnMut(SearchOutcome<'s>) -> Result<Option<T>>,
) -> Result<T> {
    let mut search = Search { index, buffers, query, unindexed, allowed: None };
    let mut among = Among::default();
    // Reads most of them before the lock is held.
    let language = index.read().language;
    let excepted = query.excepted(&unindexed(language)?);
    // A long message has several rows, so this many rows may belong to too few messages.
    let (mut messages, mut rows) = (messages, messages.saturating_add(excepted));
    loop {
        match search.run(messages, rows, &mut among, |loaded, found| outcome(query, index, loaded, found))? {
            None => rows = rows.saturating_mul(2),
            Some(outcome) => {
                if let Some(answer) = accept(outcome)? {
                    return Ok(answer);
                }
                messages = messages.saturating_mul(WIDENING);
                rows = messages.saturating_add(excepted);
            }
        }
    }
}

/// Ranks the candidates of a namespace that is searched alone.
fn outcome<'s>(
    query: &PreparedQuery,
    index: &'s RwLock<NamespaceIndex>,
    loaded: &NamespaceIndex,
    found: Found,
) -> SearchOutcome<'s> {
    let Found { gathered, pending, cut_short } = found;
    let is_exhaustive = gathered.is_exhaustive;
    let ranked = rank(gathered.candidates, &gathered.statistics, &query.ranking, &[], (&query.spans, query.now));
    SearchOutcome {
        vectors: CandidateVectors::InIndex { index, rows_reused: loaded.rows_reused },
        origins: vec![Origin { namespace: query.namespace, language: loaded.language }],
        answerability: answerability(&ranked, &gathered.statistics),
        pending,
        cut_short,
        is_exhaustive,
        ranked,
    }
}

/// A search of one namespace.
pub(super) struct Search<'s, 'a> {
    pub(super) index: &'s RwLock<NamespaceIndex>,
    pub(super) buffers: &'s ScoreBuffers,
    pub(super) query: &'s PreparedQuery<'s>,
    /// Returns the messages that are not indexed at this time.
    pub(super) unindexed: &'s dyn Fn(Language) -> Result<UnindexedMessages<'a>>,
    pub(super) allowed: Option<AllowedRows>,
}

/// The candidates that a search of one namespace found.
pub(super) struct Found {
    pub(super) gathered: Gathered,
    /// The number of unindexed messages that the filter allows.
    pub(super) pending: usize,
    /// The deadline cut the search short.
    pub(super) cut_short: bool,
}

/// The rows that the query's filter allows, `None` for all, until a row is reused.
pub(super) struct AllowedRows {
    rows: Option<Bitmap>,
    rows_reused: u64,
}

impl Search<'_, '_> {
    /// Searches for the nearest `rows` rows. Calls `finish` with what was found, while the index is locked. `None` if
    /// the rows may not contain the nearest `messages` messages, and there are more rows.
    pub(super) fn run<T>(
        &mut self,
        messages: usize,
        rows: usize,
        among: &mut Among,
        finish: impl FnOnce(&NamespaceIndex, Found) -> T,
    ) -> Result<Option<T>> {
        let mut index = self.index.read();
        let is_all = index.rows.len() <= FEW_ROWS && self.query.vectors.len() == 1 && index.vectors.index().is_exact();
        let (found, rows) = match is_all {
            true => (self.all_rows(&index), usize::MAX),
            false => (self.nearest_rows(&mut index, rows), rows),
        };
        let allowed = self.allowed.as_ref().and_then(|allowed| allowed.rows.as_ref());
        let cut_short = found.iter().any(|result| result.cut_short);
        let lists: Vec<Vec<Neighbor>> = found.into_iter().map(|result| result.neighbors).collect();
        let scored = best_scores(lists.iter().flatten().copied().collect());
        let is_wanted =
            |row| index.is_wanted(row, &self.query.except) && allowed.is_none_or(|allowed| allowed.contains(row));
        let wanted = scored.iter().copied().filter(|found| is_wanted(found.row));
        let nearest = index.best_messages(wanted, messages);
        // A list is complete if no row beyond its end can be better than the last message. There is a list for each
        // window of the query.
        let worst = nearest.get(messages - 1).map_or(f32::NEG_INFINITY, |neighbor| neighbor.score);
        let is_complete = |list: &Vec<Neighbor>| list.len() < rows || list[rows - 1].score <= worst;
        if rows < index.rows.len() && !cut_short && !lists.iter().all(is_complete) {
            return Ok(None);
        }
        // While the lock is held no message leaves the index, or enters it: each is in the index or here.
        let unindexed = (self.unindexed)(index.language)?;
        let nearest = Nearest { messages: &nearest, scored_rows: &scored, is_all };
        let gathered = self.buffers.with(|scores| {
            gather_candidates(&index, &unindexed, self.query, &nearest, (allowed, messages), among, scores)
        });
        let pending = self.query.pending(&unindexed);
        let cut_short = cut_short || self.query.is_late || unindexed.is_late;
        Ok(Some(finish(&index, Found { gathered, pending, cut_short })))
    }

    /// Scores all rows, also those that are not allowed, by the query's one vector. Sets `allowed`.
    fn all_rows(&mut self, index: &NamespaceIndex) -> Vec<SearchResult> {
        self.allow_rows(index);
        let rows: Vec<u32> = (0..index.rows.len() as u32).filter(|&row| index.live(row).is_some()).collect();
        let scores = index.cosines(&self.query.vectors, &rows, |_| None);
        let neighbors = rows.into_iter().zip(scores).map(|(row, score)| Neighbor { row, score }).collect();
        vec![SearchResult { neighbors, cut_short: false }]
    }

    /// Searches for the nearest `rows` allowed rows of each of the query's vectors, without the lock, and again when a
    /// row was reused meanwhile. Sets `allowed`.
    fn nearest_rows(&mut self, index: &mut RwLockReadGuard<'_, NamespaceIndex>, rows: usize) -> Vec<SearchResult> {
        let query = self.query;
        for attempt in 0.. {
            let (vectors, rows_reused) = (index.vectors.clone(), index.rows_reused);
            self.allow_rows(index);
            let allowed = self.allowed.as_ref().and_then(|allowed| allowed.rows.as_ref());
            let options = SearchOptions::new(rows).ef(vectors.ef()).allowed(allowed).deadline(query.deadline);
            let search = |vector: &Vec<f32>| match query.scan {
                true => SearchResult { neighbors: vectors.scan(vector, rows), cut_short: false },
                false => vectors.index().search(vector, &options),
            };
            let search = || query.vectors.iter().map(search).collect::<Vec<_>>();
            let found = match attempt < UNLOCKED_ATTEMPTS {
                true => RwLockReadGuard::unlocked(index, search),
                false => search(),
            };
            if index.rows_reused == rows_reused {
                self.offer_sample(index, &found);
                return found;
            }
        }
        unreachable!("no row is reused while the lock is held")
    }

    /// Offers what was found as a sample of the recall of the graph, unless the deadline or a filter cut it short.
    fn offer_sample(&self, index: &NamespaceIndex, found: &[SearchResult]) {
        let is_filtered = self.allowed.as_ref().is_some_and(|allowed| allowed.rows.is_some());
        if let (Vectors::Graph(graph), [vector], [result]) = (&index.vectors, &self.query.vectors[..], found)
            && !(result.cut_short || self.query.scan || is_filtered)
        {
            graph.offer_sample(vector, &result.neighbors);
        }
    }

    /// Sets `allowed`, unless it is right already.
    fn allow_rows(&mut self, index: &NamespaceIndex) {
        let (query, rows_reused) = (self.query, index.rows_reused);
        if self.allowed.as_ref().is_none_or(|allowed| allowed.rows_reused != rows_reused) {
            let rows = index.allowed(&query.filter, query.session, query.ids.as_deref(), query.matching.as_deref());
            let was_known = |row: &u32| index.live(*row).is_some_and(|row| query.was_known(row));
            let rows = match query.put_before {
                Some(_) => rows.map(|rows| rows.iter().filter(was_known).collect()),
                None => rows,
            };
            self.allowed = Some(AllowedRows { rows, rows_reused });
        }
    }
}

impl ScoreBuffers {
    fn with<T>(&self, work: impl FnOnce(&mut Scores) -> T) -> T {
        let mut scores = self.0.lock().pop().unwrap_or_default();
        let result = work(&mut scores);
        scores.clear();
        self.0.lock().push(scores);
        result
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashSet,
        sync::{
            Arc, OnceLock,
            atomic::{AtomicU32, Ordering},
        },
    };

    use mnemon_index::{ExactIndex, VectorIndex};

    use super::*;
    use crate::{
        ids::{GenerationId, NamespaceId},
        lexical::{Document, LexicalIndex, Segment, Voice},
        message::Role,
        recall::{
            changes::{AddedRows, NamespaceChange},
            query::Query,
            unindexed::Unindexed,
        },
        store::{NewRows, Removed, RowMeta},
    };

    const NAMESPACE: NamespaceId = NamespaceId(0);

    /// Gives row 0 to another message after each of the first `times` searches.
    struct Meddling {
        index: ExactIndex,
        namespace: OnceLock<Arc<RwLock<NamespaceIndex>>>,
        searches: AtomicU32,
        times: u32,
    }

    impl VectorIndex for Meddling {
        fn insert(&self, rows: &[u32], vectors: &[f32]) {
            self.index.insert(rows, vectors);
        }

        fn remove(&self, rows: &[u32]) {
            self.index.remove(rows);
        }

        fn search(&self, query: &[f32], search: &SearchOptions) -> SearchResult {
            let found = self.index.search(query, search);
            let searches = self.searches.fetch_add(1, Ordering::Relaxed) + 1;
            if searches <= self.times {
                let mut namespace = self.namespace.get().unwrap().write();
                let removed = Removed { generation: GenerationId(1), namespace: NAMESPACE, rows: vec![0] };
                namespace.apply(&NamespaceChange::Removed(removed));
                namespace.apply(&added(0, u64::from(searches), [0.0, 1.0]));
            }
            found
        }

        fn vectors(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32])) {
            self.index.vectors(rows, visit);
        }

        fn rows(&self) -> usize {
            self.index.rows()
        }
    }

    fn added(row: u32, seq: u64, vector: [f32; 2]) -> NamespaceChange {
        let meta = RowMeta { seq, created_at: None, session: 0, window: 0, role: Role::User };
        let rows = NewRows { namespace: NAMESPACE, rows: vec![row], metas: vec![meta], vectors: vector.to_vec() };
        let document = Document { row, passage: None, terms: Vec::new(), voice: Voice::default() };
        let segment = Arc::new(Segment::build(Language::English, vec![document]));
        NamespaceChange::Added(AddedRows { rows, segments: vec![(seq as u32, Some(segment))] })
    }

    #[test]
    fn a_row_reused_during_a_search_is_not_mistaken() {
        for times in 0..=UNLOCKED_ATTEMPTS {
            let meddling = Arc::new(Meddling {
                index: ExactIndex::new(2),
                namespace: OnceLock::new(),
                searches: AtomicU32::new(0),
                times,
            });
            let vectors = Vectors::Plain { index: Arc::clone(&meddling) as Arc<dyn VectorIndex>, ef: 128 };
            let mut index = NamespaceIndex::new(vectors, 2, Vec::new(), LexicalIndex::default(), Language::English);
            index.apply(&added(0, 0, [1.0, 0.0]));
            let index = Arc::new(RwLock::new(index));
            meddling.namespace.set(Arc::clone(&index)).ok().expect("set once");
            let query = Query::new("x");
            let prepared = PreparedQuery::by_vectors(&query, NAMESPACE, vec![vec![1.0, 0.0]], HashSet::new());
            let accept = |found: SearchOutcome<'_>| Ok(Some(found.ranked));
            let (buffers, none) = (ScoreBuffers::default(), Unindexed::default());
            let unindexed = |language| none.messages(NAMESPACE, language, None, || unreachable!("nothing is read"));
            let ranked = search_until(&index, &buffers, &prepared, &unindexed, 1, accept).unwrap();
            let found: Vec<(u64, f32)> = ranked.iter().map(|ranked| (ranked.seq, ranked.score)).collect();
            let score = if times == 0 { 1.0 } else { 0.0 };
            assert_eq!(found, [(u64::from(times), score)], "the last message given the row, by its own vector");
        }
    }
}

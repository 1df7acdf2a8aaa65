//! Searches one loaded namespace for the candidates of a query.
//!
//! The search of the vectors runs without the namespace's lock, so that commits are published meanwhile. If one of them
//! reused a row, the row numbers found may stand for other messages than those that were searched: the search is
//! repeated.

use std::collections::BTreeMap;

use mnemon_index::{Bitmap, Neighbor, SearchOptions, SearchResult};
use parking_lot::{RwLock, RwLockReadGuard};

use super::{
    candidates::{Gathering, Nearest, ScoredPieces, SearchContext, share_of_piece},
    namespace::{NamespaceIndex, best_scores},
    options::RankingStrategy,
    prepare::PreparedQuery,
    rank::{Candidate, Ranked},
    score_buffers::ScoreBuffers,
    statistics::ScoreStatistics,
    unindexed::{Unindexed, UnindexedMessages},
    vectors::Vectors,
};
use crate::{
    error::Result,
    ids::{Namespace, NamespaceId},
    lexical::Language,
    store::Store,
};

/// Attempts without the lock before a search that blocks writers. An attempt is repeated when a row was reused while it
/// ran.
const UNLOCKED_ATTEMPTS: u32 = 3;

/// Number of rows up to which all are scored at once, if the index is exact: the cosines of most of them are needed as
/// evidence, whether a search finds them or not.
const FEW_ROWS: usize = 1024;

/// The most vectors of the pieces of a query whose nearest messages are searched for, those of the most important pieces. All
/// pieces that are scored are evidence for what is found.
const SEARCHED: usize = 2;

/// Finds the candidates for a query, in one namespace or in several.
pub(crate) trait Searcher {
    /// Finds `messages` candidates or more, and ranks them.
    fn search(&mut self, messages: usize) -> Result<SearchOutcome>;

    /// Returns the vector of a candidate of the last search. Empty if it has none, or if the row was removed since or
    /// its number reused.
    fn vector(&self, candidate: &Ranked) -> Vec<f32>;
}

/// The candidates that a search found, ranked.
pub(crate) struct SearchOutcome {
    /// Best first: as many messages as were searched for, and more.
    pub(crate) ranked: Vec<Ranked>,
    /// The namespaces that were searched, by the origins of the candidates.
    pub(super) origins: Vec<Origin>,
    pub(super) answerability: f32,
    /// How rare each term of the query is.
    pub(super) word_rarity: BTreeMap<u64, f32>,
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
    /// `None` if the caller knows the one namespace.
    pub(super) name: Option<Namespace>,
    pub(super) language: Language,
}

/// The store, and the buffers that the searches of a generation share.
#[derive(Clone, Copy)]
pub(crate) struct SearchResources<'s> {
    pub(crate) store: &'s Store,
    pub(crate) buffers: &'s ScoreBuffers,
}

/// The searcher of one namespace.
pub(crate) struct NamespaceSearch<'s> {
    index: IndexSearch<'s>,
    context: SearchContext,
    /// The index's count of reused rows at the last search.
    rows_reused: u64,
}

impl<'s> NamespaceSearch<'s> {
    pub(crate) fn new(
        query: &'s PreparedQuery<'s>,
        index: &'s RwLock<NamespaceIndex>,
        unindexed: &'s Unindexed,
        resources: SearchResources<'s>,
    ) -> Self {
        let index = IndexSearch { query, index, unindexed, resources, keeps_vectors: false, allowed: None };
        NamespaceSearch { index, context: SearchContext::default(), rows_reused: 0 }
    }
}

impl Searcher for NamespaceSearch<'_> {
    fn search(&mut self, messages: usize) -> Result<SearchOutcome> {
        let query = self.index.query;
        let found = self.index.find(messages, &mut self.context)?;
        self.rows_reused = found.rows_reused;
        let ranker = query.ranker(&found.statistics, &[]);
        let answerability = ranker.answerability(&found.candidates);
        let ranked = ranker.rank(found.candidates);
        Ok(SearchOutcome {
            origins: vec![Origin { namespace: query.namespace, name: None, language: found.language }],
            answerability,
            word_rarity: found.word_rarity.into_iter().collect(),
            pending: found.pending,
            cut_short: found.cut_short,
            is_exhaustive: found.is_exhaustive,
            ranked,
        })
    }

    fn vector(&self, candidate: &Ranked) -> Vec<f32> {
        let Some(row) = candidate.row else { return Vec::new() };
        let index = self.index.index.read();
        if index.rows_reused == self.rows_reused { index.row_vector(row) } else { Vec::new() }
    }
}

/// A search of the index of one namespace, alone or among several.
pub(super) struct IndexSearch<'s> {
    pub(super) query: &'s PreparedQuery<'s>,
    pub(super) index: &'s RwLock<NamespaceIndex>,
    pub(super) unindexed: &'s Unindexed,
    pub(super) resources: SearchResources<'s>,
    /// The vectors of the candidates are wanted after the namespace is unloaded.
    pub(super) keeps_vectors: bool,
    pub(super) allowed: Option<AllowedRows>,
}

/// The candidates that a search of one namespace found.
pub(super) struct Found {
    pub(super) candidates: Vec<Candidate>,
    pub(super) statistics: ScoreStatistics,
    pub(super) word_rarity: Vec<(u64, f32)>,
    /// The rows of the candidates and their vectors, if they are kept.
    pub(super) vectors: Vec<(u32, Vec<f32>)>,
    pub(super) language: Language,
    /// The index's count of reused rows when it was searched.
    pub(super) rows_reused: u64,
    /// The number of unindexed messages that the filter allows.
    pub(super) pending: usize,
    /// The deadline cut the search short.
    pub(super) cut_short: bool,
    /// No other message of the namespace is allowed.
    pub(super) is_exhaustive: bool,
}

/// The rows that the query's filter allows, `None` for all, until a row is reused or added.
pub(super) struct AllowedRows {
    rows: Option<Bitmap>,
    rows_reused: u64,
    count: usize,
}

impl<'s> IndexSearch<'s> {
    /// Finds the nearest `messages` messages and as many by terms.
    pub(super) fn find(&mut self, messages: usize, context: &mut SearchContext) -> Result<Found> {
        // Most of the unindexed messages are read here, before the lock is held.
        let language = self.index.read().language;
        let excepted = self.query.excepted(&self.unindexed_messages(language)?);
        let mut rows = messages.saturating_add(excepted);
        loop {
            if let Some(found) = self.find_in_rows(messages, rows, context)? {
                return Ok(found);
            }
            // A long message has several rows, so this many rows belong to too few messages.
            rows = rows.saturating_mul(2);
        }
    }

    /// Same as [`find`](Self::find), among the nearest `rows` rows. `None` if they may not contain the nearest
    /// messages, and there are more rows.
    fn find_in_rows(&mut self, messages: usize, rows: usize, context: &mut SearchContext) -> Result<Option<Found>> {
        let mut index = self.index.read();
        let query = self.query;
        let pieces = match query.pieces.is_empty() {
            true => ScoredPieces::default(),
            false => {
                let unindexed = self.unindexed_messages(index.language)?;
                self.resources.buffers.with(|scores| ScoredPieces::new(&index, &unindexed, query, context, scores))
            }
        };
        let vectors: Vec<&[f32]> = match query.pieces.is_empty() {
            true => query.vectors.iter().map(Vec::as_slice).collect(),
            false => {
                let of_pieces = pieces.scored.iter().flat_map(|&at| &query.pieces[at].vectors);
                of_pieces.map(Vec::as_slice).take(SEARCHED).collect()
            }
        };
        let is_all = index.rows.len() <= FEW_ROWS && query.vectors.len() == 1 && index.vectors.index().is_exact();
        let (found, rows) = match is_all && query.pieces.is_empty() {
            true => (self.all_rows(&index), usize::MAX),
            false => (self.nearest_rows(&mut index, rows, &vectors), rows),
        };
        let is_all = rows == usize::MAX;
        let allowed = self.allowed.as_ref().and_then(|allowed| allowed.rows.as_ref());
        let cut_short = found.iter().any(|result| result.cut_short);
        let lists: Vec<Vec<Neighbor>> = found.into_iter().map(|result| result.neighbors).collect();
        let is_wanted =
            |row| index.is_wanted(row, &query.except) && allowed.is_none_or(|allowed| allowed.contains(row));
        let best_of = |list: &[Neighbor], messages: usize| {
            index.best_messages(list.iter().copied().filter(|found| is_wanted(found.row)), messages)
        };
        let (nearest, scored) = match query.pieces.is_empty() {
            true => {
                let scored = best_scores(lists.iter().flatten().copied().collect());
                let nearest = best_of(&scored, messages);
                // A list is complete if no row beyond its end can be better than the last message. There is a list for each
                // chunk of the query.
                let worst = nearest.get(messages - 1).map_or(f32::NEG_INFINITY, |neighbor| neighbor.score);
                let is_complete = |list: &Vec<Neighbor>| list.len() < rows || list[rows - 1].score <= worst;
                if rows < index.rows.len() && !cut_short && !lists.iter().all(is_complete) {
                    return Ok(None);
                }
                (nearest, scored)
            }
            // Of each piece the nearest: cosines of different ones do not compare.
            false => {
                let share = |at: usize| share_of_piece(at, messages);
                let of_pieces: Vec<Vec<Neighbor>> =
                    lists.iter().enumerate().map(|(at, list)| best_of(list, share(at))).collect();
                let is_short = |at: usize| of_pieces[at].len() < share(at) && lists[at].len() == rows;
                if !cut_short && rows < index.rows.len() && (0..lists.len()).any(is_short) {
                    return Ok(None);
                }
                (best_scores(of_pieces.concat()), Vec::new())
            }
        };
        // While the lock is held no message leaves the index, or enters it: each is in the index or here.
        let unindexed = self.unindexed_messages(index.language)?;
        let nearest = Nearest { messages: &nearest, scored_rows: &scored, is_all };
        let buffers = self.resources.buffers;
        let gathering =
            Gathering { index: &index, unindexed: &unindexed, query, pieces, allowed, wanted: messages, buffers };
        let gathered = buffers.with(|scores| gathering.candidates(&nearest, context, scores));
        let vectors = match self.keeps_vectors {
            true => {
                let rows = gathered.candidates.iter().filter_map(|candidate| candidate.row);
                rows.map(|row| (row, index.row_vector(row))).collect()
            }
            false => Vec::new(),
        };
        Ok(Some(Found {
            candidates: gathered.candidates,
            statistics: gathered.statistics,
            word_rarity: gathered.word_rarity,
            vectors,
            language: index.language,
            rows_reused: index.rows_reused,
            pending: self.query.pending(&unindexed),
            cut_short: cut_short || self.query.is_late || unindexed.is_late,
            is_exhaustive: gathered.is_exhaustive,
        }))
    }

    fn unindexed_messages(&self, language: Language) -> Result<UnindexedMessages<'s>> {
        self.query.unindexed(self.unindexed, language, self.resources.store)
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
    fn nearest_rows(
        &mut self,
        index: &mut RwLockReadGuard<'_, NamespaceIndex>,
        rows: usize,
        query_vectors: &[&[f32]],
    ) -> Vec<SearchResult> {
        let query = self.query;
        for attempt in 0.. {
            let (vectors, rows_reused) = (index.vectors.clone(), index.rows_reused);
            self.allow_rows(index);
            let allowed = self.allowed.as_ref().and_then(|allowed| allowed.rows.as_ref());
            let options = SearchOptions::new(rows).ef(vectors.ef()).allowed(allowed).deadline(query.deadline);
            // Beside other evidence, what rounding changes in a cosine is nothing.
            let options = options.by_codes(query.strategy != RankingStrategy::Dense);
            let search = |vector: &&[f32]| match query.scan {
                true => SearchResult { neighbors: vectors.scan(vector, rows), cut_short: false },
                false => vectors.index().search(vector, &options),
            };
            let search = || query_vectors.iter().map(search).collect::<Vec<_>>();
            let found = match attempt < UNLOCKED_ATTEMPTS {
                true => RwLockReadGuard::unlocked(index, search),
                false => search(),
            };
            if index.rows_reused == rows_reused {
                self.offer_sample(index, query_vectors, &found);
                // What was indexed meanwhile is found by its words, as it was before.
                self.allow_rows(index);
                return found;
            }
        }
        unreachable!("no row is reused while the lock is held")
    }

    /// Offers what was found as a sample of the recall of the graph, unless the deadline or a filter cut it short.
    fn offer_sample(&self, index: &NamespaceIndex, query_vectors: &[&[f32]], found: &[SearchResult]) {
        let is_filtered = self.allowed.as_ref().is_some_and(|allowed| allowed.rows.is_some());
        if let (Vectors::Graph(graph), [vector], [result]) = (&index.vectors, query_vectors, found)
            && !(result.cut_short || self.query.scan || is_filtered)
        {
            graph.offer_sample(vector, &result.neighbors);
        }
    }

    /// Sets `allowed`, unless it is right already.
    fn allow_rows(&mut self, index: &NamespaceIndex) {
        let (rows_reused, count) = (index.rows_reused, index.rows.len());
        if self.allowed.as_ref().is_none_or(|allowed| (allowed.rows_reused, allowed.count) != (rows_reused, count)) {
            self.allowed = Some(AllowedRows { rows: index.allowed(self.query), rows_reused, count });
        }
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
        config::Config,
        ids::{GenerationId, NamespaceId},
        lexical::{Document, LexicalIndex, Segment, SpeakerAndQuestion},
        message::Role,
        recall::{
            changes::{AddedRows, NamespaceChange},
            query::Query,
        },
        store::{NewRows, Removed, RowMeta},
    };

    const NAMESPACE: NamespaceId = NamespaceId(0);

    /// Gives row 0 to another message after each of the first `times` searches, or row 1 to a new one.
    struct Meddling {
        row: u32,
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
                if self.row == 0 {
                    let removed = Removed { generation: GenerationId(1), namespace: NAMESPACE, rows: vec![0] };
                    namespace.apply(&NamespaceChange::Removed(removed));
                }
                namespace.apply(&added(self.row, u64::from(searches), [0.0, 1.0]));
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
        let document = Document { row, passage: None, terms: Vec::new(), speech: SpeakerAndQuestion::default() };
        let segment = Arc::new(Segment::build(Language::English, vec![document]));
        NamespaceChange::Added(AddedRows { rows, segments: vec![(seq as u32, Some(segment))] })
    }

    /// A namespace of one message, whose index meddles.
    fn meddled(row: u32, times: u32) -> Arc<RwLock<NamespaceIndex>> {
        let (index, namespace, searches) = (ExactIndex::new(2), OnceLock::new(), AtomicU32::new(0));
        let meddling = Arc::new(Meddling { row, index, namespace, searches, times });
        let vectors = Vectors::Plain { index: Arc::clone(&meddling) as Arc<dyn VectorIndex>, ef: 128 };
        let mut index = NamespaceIndex::new(vectors, 2, Vec::new(), LexicalIndex::default(), Language::English);
        index.apply(&added(0, 0, [1.0, 0.0]));
        let index = Arc::new(RwLock::new(index));
        meddling.namespace.set(Arc::clone(&index)).ok().expect("set once");
        index
    }

    #[test]
    fn a_row_added_during_a_search_is_allowed_by_a_filter() {
        let store = Store::in_memory(&Config::default()).unwrap();
        let (index, query) = (meddled(1, 1), Query::new("x"));
        let mut prepared = PreparedQuery::by_vectors(&query, NAMESPACE, vec![vec![1.0, 0.0]], HashSet::new());
        (prepared.strategy, prepared.filter.role) = (RankingStrategy::Lexical, Some(Role::User));
        let (buffers, none) = (ScoreBuffers::default(), Unindexed::default());
        let resources = SearchResources { store: &store, buffers: &buffers };
        let found = NamespaceSearch::new(&prepared, &index, &none, resources).search(5).unwrap();
        assert_eq!(found.ranked.len(), 2);
    }

    #[test]
    fn a_row_reused_during_a_search_is_not_mistaken() {
        let store = Store::in_memory(&Config::default()).unwrap();
        for times in 0..=UNLOCKED_ATTEMPTS {
            let (index, query) = (meddled(0, times), Query::new("x"));
            let prepared = PreparedQuery::by_vectors(&query, NAMESPACE, vec![vec![1.0, 0.0]], HashSet::new());
            let (buffers, none) = (ScoreBuffers::default(), Unindexed::default());
            let resources = SearchResources { store: &store, buffers: &buffers };
            let found = NamespaceSearch::new(&prepared, &index, &none, resources).search(1).unwrap();
            let found: Vec<(u64, f32)> = found.ranked.iter().map(|ranked| (ranked.seq, ranked.score)).collect();
            let score = if times == 0 { 1.0 } else { 0.0 };
            assert_eq!(found, [(u64::from(times), score)], "the last message given the row, by its own vector");
        }
    }
}

//! The lexical index of one namespace: its segments, and which of their rows are live.
//!
//! Invariant: each live row has one *home*, the segment with the highest number that contains the row, and its terms
//! are those in its home. So a segment with a new document of a row must have a higher number than all segments with
//! older documents of that row: the engine numbers segments in the order in which it writes them, and merges only the
//! last ones, without a gap. A row whose chunk has no terms is in a segment as well.
//!
//! A query reads all postings of its terms, which takes a fraction of a millisecond for a namespace of usual size.
//! MaxScore or WAND (Turtle and Flood 1995; Broder et al. 2003) would skip postings of frequent terms for a small k. But
//! fusion needs more than the best rows: the deviation of all scores, and the scores of the rows that the vector search
//! found. And the bounds change with every change of N, df and mean length.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::Arc,
};

use super::{
    segment::{MAX_TERMS, OpenSegment, Postings, Segment},
    terms::as_part,
};

/// Maximum number of distinct terms of a query. Of more terms, the rarest are used.
const MAX_QUERY_TERMS: usize = 1024;

/// Maximum number of times that a repeated term of a query counts.
const MAX_QUERY_FREQUENCY: u32 = 3;

/// Rows with fewer terms are short.
const SHORT: usize = 128;

/// The home of a row that is not live. No segment has this number.
const NO_HOME: Home = Home { segment: u32::MAX, local: 0 };

/// The length, in a segment, of a row that has its home elsewhere. No document is as long.
const NOT_HOME: u16 = u16::MAX;
const _: () = assert!(MAX_TERMS < NOT_HOME as usize);

/// The segments of one namespace, by their numbers, and the home of each row.
#[derive(Debug, Default)]
pub(crate) struct LexicalIndex {
    bm25: Bm25,
    segments: BTreeMap<u32, LoadedSegment>,
    homes: Vec<Home>,
    live_rows: usize,
    /// Sum of the lengths of all live rows, in terms.
    total_length: u64,
}

/// The home of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Home {
    /// The number of the segment.
    segment: u32,
    /// The local number of the row in it.
    local: u32,
}

/// A segment, and which of its rows have their home in it.
#[derive(Debug)]
struct LoadedSegment {
    segment: Arc<Segment>,
    /// For each local number, the length of the row in terms; [`NOT_HOME`] if the row has its home elsewhere. Unlike a
    /// table of all rows, this one stays in the processor's first cache while the postings of the segment are read.
    lengths: Vec<u16>,
    /// Number of rows that have their home in this segment.
    live_rows: usize,
}

impl LexicalIndex {
    /// Adds, replaces or drops (`None`) the segment with a number, which is below `u32::MAX`. Only rows for which
    /// `is_live` returns true become live.
    ///
    /// Replaying any of the last changes in their order ends in the same state. The segments of one change may come in
    /// any order, after the removals of that change. A row whose home was dropped is not live until another segment
    /// that contains the row is set.
    pub(crate) fn set(&mut self, number: u32, segment: Option<Arc<Segment>>, is_live: impl Fn(u32) -> bool) {
        assert_ne!(number, NO_HOME.segment, "segments are numbered from 0");
        if let Some(old) = self.segments.get(&number).map(|old| Arc::clone(&old.segment)) {
            for &row in old.rows() {
                if self.is_home(number, row) {
                    self.leave(row);
                }
            }
            self.segments.remove(&number);
        }
        let Some(segment) = segment else { return };
        let lengths = vec![NOT_HOME; segment.rows().len()];
        self.segments.insert(number, LoadedSegment { segment: Arc::clone(&segment), lengths, live_rows: 0 });
        for ((local, &row), length) in (0..).zip(segment.rows()).zip(segment.lengths()) {
            if is_live(row) && self.home(row).is_none_or(|home| home.segment < number) {
                self.leave(row);
                self.settle(row, Home { segment: number, local }, length as u16);
            }
        }
    }

    /// Removes rows from the live rows. Rows that are not live are ignored.
    pub(crate) fn remove(&mut self, rows: &[u32]) {
        rows.iter().for_each(|&row| self.leave(row));
    }

    /// Returns true if the row is live.
    pub(crate) fn covers(&self, row: u32) -> bool {
        self.home(row).is_some()
    }

    /// Returns the bytes of the row's chunk in the text of its message; `None` if the text has only one chunk or the
    /// row is not live.
    pub(crate) fn passage(&self, row: u32) -> Option<Range<u32>> {
        let Home { segment, local } = self.home(row)?;
        self.segments[&segment].segment.passage(local)
    }

    /// Returns the terms of the name of a row's speaker; none without a name.
    pub(crate) fn speaker(&self, row: u32) -> &[u64] {
        self.home(row).map_or(&[], |home| self.segments[&home.segment].segment.speaker(home.local))
    }

    /// Returns true if the message of a live row ends with a question mark.
    pub(crate) fn is_question(&self, row: u32) -> bool {
        self.home(row).is_some_and(|home| self.segments[&home.segment].segment.is_question(home.local))
    }

    /// Returns the number of terms of a row, with repetitions; 0 if the row is not live.
    pub(crate) fn length(&self, row: u32) -> u32 {
        let length = |home: Home| self.segments[&home.segment].lengths[home.local as usize];
        self.home(row).map_or(0, |home| u32::from(length(home)))
    }

    /// Returns the bytes of memory that the index takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let segments =
            self.segments.values().map(|loaded| loaded.segment.memory_bytes() + loaded.lengths.capacity() * 2);
        segments.sum::<usize>() + self.homes.capacity() * size_of::<Home>()
    }

    /// Returns the number of live rows.
    pub(crate) fn rows(&self) -> usize {
        self.live_rows
    }

    /// Returns true if the row is live and its home is the segment with this number.
    pub(crate) fn is_home(&self, number: u32, row: u32) -> bool {
        self.home(row).is_some_and(|home| home.segment == number)
    }

    /// Returns the oldest segment of which less than half of the rows have their home in it. The caller rewrites it
    /// under its number with only these rows, or drops it if there are none.
    pub(crate) fn sparse(&self) -> Option<(u32, Arc<Segment>)> {
        let is_sparse = |loaded: &LoadedSegment| loaded.live_rows * 2 < loaded.segment.rows().len();
        let sparse = self.segments.iter().find(|(_, loaded)| is_sparse(loaded));
        sparse.map(|(&number, loaded)| (number, Arc::clone(&loaded.segment)))
    }

    /// Same as [`score_with`](Self::score_with) without more documents.
    pub(crate) fn score(&self, terms: &[u64], scores: &mut Scores) {
        self.score_with(terms, (self.homes.len() as u32, &OpenSegment::default()), None, scores);
    }

    /// Scores the live rows for the terms of a query, and the documents of an open segment as if they were rows: the
    /// first of them has the given number, which is above all rows. Replaces the contents of `scores`. A repeated term
    /// counts up to 3 times; of more than 1,024 distinct terms the rarest are used. The scores do not depend on how
    /// rows are spread over segments, to the bit. With a collection, the weights of the terms and the mean length are
    /// those of the collection.
    pub(crate) fn score_with(
        &self,
        terms: &[u64],
        more: (u32, &OpenSegment),
        collection: Option<&Collection>,
        scores: &mut Scores,
    ) {
        let (first, open) = more;
        scores.clear();
        scores.make_room(self.homes.len().max(first as usize + open.end()));
        let (documents, length) = match collection {
            None => (self.live_rows + open.len(), self.total_length + open.total_length()),
            // Not 0, in case that all documents came after the collection was counted.
            Some(collection) => (collection.documents.max(1), collection.total_length.max(1)),
        };
        let length_factor = self.bm25.length_factor((length as f64 / documents as f64) as f32);
        // Nearly all postings are of terms that are in the row once, and of rows that are short.
        let once: [f32; SHORT] = std::array::from_fn(|length| self.bm25.saturation(1, length as u16, length_factor));
        let saturation = |frequency, length: u16| match once.get(usize::from(length)) {
            Some(once) if frequency == 1 => *once,
            _ => self.bm25.saturation(frequency, length, length_factor),
        };
        let query = self.query_terms(terms, open);
        let matches = self.matches(&query);
        let frequencies = match collection {
            None => frequencies(&query, &matches, open),
            Some(collection) => {
                query.iter().map(|(term, _)| collection.frequencies.get(term).copied().unwrap_or(0)).collect()
            }
        };
        let weights: Vec<f32> = query
            .iter()
            .zip(frequencies)
            .map(|(&(_, repetitions), frequency)| Bm25::idf(frequency, documents) * repetitions as f32)
            .collect();
        scores.ideal = weights.iter().map(|weight| weight * self.bm25.max_saturation()).sum();
        scores.weights.extend(query.iter().map(|(term, _)| *term).zip(weights.iter().copied()));
        // Segment by segment, so that the scores of its rows stay in the processor's first caches.
        for Matches { loaded, terms } in matches {
            for (at, postings) in terms {
                let weight = weights[at];
                loaded.for_each(postings, |row, frequency, length| {
                    scores.add(row, weight * saturation(frequency, length));
                });
            }
        }
        for ((term, _), weight) in query.iter().zip(weights) {
            open.for_each_posting(*term, |document, frequency, length| {
                scores.add(first + document, weight * saturation(frequency, length));
            });
        }
    }

    /// Adds the documents of the index, and more of them, to a collection, for a query of these terms.
    pub(crate) fn add_to(&self, collection: &mut Collection, terms: &[u64], open: &OpenSegment) {
        collection.documents += self.live_rows + open.len();
        collection.total_length += self.total_length + open.total_length();
        let query = self.query_terms(terms, open);
        let frequencies = frequencies(&query, &self.matches(&query), open);
        for ((term, _), frequency) in query.into_iter().zip(frequencies) {
            *collection.frequencies.entry(term).or_default() += frequency;
        }
    }

    /// Returns the distinct terms of a query in ascending order, each with the number of times that it counts.
    fn query_terms(&self, terms: &[u64], open: &OpenSegment) -> Vec<(u64, u32)> {
        let mut sorted = self.with_parts(terms, open);
        sorted.sort_unstable();
        let distinct = sorted.chunk_by(|a, b| a == b);
        let mut query: Vec<(u64, u32)> =
            distinct.map(|term| (term[0], (term.len() as u32).min(MAX_QUERY_FREQUENCY))).collect();
        if query.len() > MAX_QUERY_TERMS {
            query.sort_by_cached_key(|&(term, _)| self.documents(term, open));
            query.truncate(MAX_QUERY_TERMS);
            query.sort_unstable();
        }
        query
    }

    /// Replaces each word that no document contains by its parts, if documents contain both.
    fn with_parts(&self, terms: &[u64], open: &OpenSegment) -> Vec<u64> {
        let mut words = Vec::with_capacity(terms.len());
        let mut rest = terms;
        while let [word, after @ ..] = rest {
            let parts: Vec<u64> = after.iter().map_while(|&term| as_part(term)).collect();
            let is_known = |term: u64| self.contains(term, open);
            // Most words of a query are known: then their parts, a dozen pairs, are not looked for.
            let known = match parts.is_empty() || is_known(*word) {
                true => None,
                false => parts.chunks_exact(2).find(|pair| pair.iter().all(|&part| is_known(part))),
            };
            words.extend_from_slice(known.unwrap_or(&[*word]));
            rest = &after[parts.len()..];
        }
        words
    }

    /// Returns the postings of the terms of a query in each segment.
    fn matches(&self, query: &[(u64, u32)]) -> Vec<Matches<'_>> {
        let matches = self.segments.values().map(|loaded| {
            let found = query.iter().enumerate();
            let terms = found.filter_map(|(at, &(term, _))| Some((at, loaded.segment.postings(term)?)));
            Matches { loaded, terms: terms.collect() }
        });
        matches.collect()
    }

    /// Returns true if a document contains a term.
    fn contains(&self, term: u64, open: &OpenSegment) -> bool {
        let mut is_open = false;
        open.for_each_posting(term, |_, _, _| is_open = true);
        let has = |loaded: &LoadedSegment| loaded.segment.postings(term).is_some_and(|found| loaded.count(found) > 0);
        is_open || self.segments.values().any(has)
    }

    /// Returns the number of documents that contain a term.
    fn documents(&self, term: u64, open: &OpenSegment) -> usize {
        let query = [(term, 1)];
        frequencies(&query, &self.matches(&query), open)[0]
    }

    /// Returns the home of a row; `None` if the row is not live.
    fn home(&self, row: u32) -> Option<Home> {
        self.homes.get(row as usize).copied().filter(|&home| home != NO_HOME)
    }

    fn leave(&mut self, row: u32) {
        let Some(home) = self.home(row) else { return };
        let loaded = self.segments.get_mut(&home.segment).expect("a home is a loaded segment");
        let length = std::mem::replace(&mut loaded.lengths[home.local as usize], NOT_HOME);
        self.homes[row as usize] = NO_HOME;
        loaded.live_rows -= 1;
        self.live_rows -= 1;
        self.total_length -= u64::from(length);
    }

    /// Gives a home to a row that has none.
    fn settle(&mut self, row: u32, home: Home, length: u16) {
        let loaded = self.segments.get_mut(&home.segment).expect("a home is a loaded segment");
        loaded.lengths[home.local as usize] = length;
        loaded.live_rows += 1;
        self.live_rows += 1;
        self.total_length += u64::from(length);
        if row as usize >= self.homes.len() {
            self.homes.resize(row as usize + 1, NO_HOME);
        }
        self.homes[row as usize] = home;
    }
}

/// The postings of the terms of a query in one segment, each with the position of its term in the query.
struct Matches<'a> {
    loaded: &'a LoadedSegment,
    terms: Vec<(usize, Postings<'a>)>,
}

/// Returns the number of documents that contain each term of a query.
fn frequencies(query: &[(u64, u32)], matches: &[Matches<'_>], open: &OpenSegment) -> Vec<usize> {
    let mut frequencies = vec![0; query.len()];
    for Matches { loaded, terms } in matches {
        for (at, postings) in terms {
            frequencies[*at] += loaded.count(postings.clone());
        }
    }
    for ((term, _), frequency) in query.iter().zip(&mut frequencies) {
        open.for_each_posting(*term, |_, _, _| *frequency += 1);
    }
    frequencies
}

impl LoadedSegment {
    /// Calls `visit` with the row, the frequency and the length of each posting of a live document.
    #[inline]
    fn for_each(&self, postings: Postings<'_>, mut visit: impl FnMut(u32, u32, u16)) {
        let (rows, lengths) = (self.segment.rows(), &self.lengths[..]);
        postings.for_each(|(local, frequency)| {
            let length = lengths[local as usize];
            if length != NOT_HOME {
                visit(rows[local as usize], frequency, length);
            }
        });
    }

    /// Returns the number of postings of live documents.
    fn count(&self, postings: Postings<'_>) -> usize {
        match self.live_rows == self.lengths.len() {
            true => postings.len(),
            false => postings.filter(|(local, _)| self.lengths[*local as usize] != NOT_HOME).count(),
        }
    }
}

/// The scores of one query. The buffers are reused from query to query; they take 8 bytes for each row of the
/// namespace.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    rows: Vec<f32>,
    /// The first `touched_count` of these are the rows with a score above 0. There is room for all rows and one more.
    touched: Vec<u32>,
    touched_count: usize,
    ideal: f32,
    /// The terms of the query with their weights.
    weights: Vec<(u64, f32)>,
}

impl Scores {
    /// Returns the score of a row; 0 if the row contains no term of the query.
    pub(crate) fn get(&self, row: u32) -> f32 {
        self.rows.get(row as usize).copied().unwrap_or(0.0)
    }

    /// Returns the rows that contain a term of the query, in no particular order.
    pub(crate) fn touched(&self) -> &[u32] {
        &self.touched[..self.touched_count]
    }

    /// Returns an upper bound of any row's score: the limit for a document that contains every term of the query
    /// endlessly often. Terms that no row contains count as well. 0 if the query has no terms.
    pub(crate) fn ideal(&self) -> f32 {
        self.ideal
    }

    /// Returns the distinct terms of the query with their weights: the inverse document frequency, times repetitions.
    pub(crate) fn weights(&self) -> &[(u64, f32)] {
        &self.weights
    }

    /// Resets all scores to 0, in time proportional to the touched rows.
    pub(crate) fn clear(&mut self) {
        self.touched[..self.touched_count].iter().for_each(|&row| self.rows[row as usize] = 0.0);
        self.touched_count = 0;
        self.ideal = 0.0;
        self.weights.clear();
    }

    fn make_room(&mut self, rows: usize) {
        self.rows.resize(self.rows.len().max(rows), 0.0);
        self.touched.resize(self.rows.len() + 1, 0);
    }

    /// Adds what a term adds to the score of a row, which is above 0.
    #[inline]
    fn add(&mut self, row: u32, added: f32) {
        let score = &mut self.rows[row as usize];
        // Always written and counted if it is new: a branch on that would be mispredicted for every other row.
        self.touched[self.touched_count] = row;
        self.touched_count += usize::from(*score == 0.0);
        *score += added;
    }
}

/// The documents of several indexes as one collection, by which the terms of a query weigh the same in all of them.
#[derive(Debug, Default)]
pub(crate) struct Collection {
    documents: usize,
    total_length: u64,
    /// For each term of the query, the number of documents that contain it.
    frequencies: HashMap<u64, usize>,
}

/// Okapi BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework", 2009), with the inverse document
/// frequency of Lucene, which is never negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bm25 {
    /// The weight of repetitions of a term in a document; with 0 they do not count.
    pub(super) k1: f32,
    /// The weight of the length of a document, from 0 to 1.
    pub(super) b: f32,
}

impl Default for Bm25 {
    /// The parameters that Anserini found best over many collections of short passages. A chunk is neither long nor
    /// repetitive.
    fn default() -> Self {
        Bm25 { k1: 0.9, b: 0.4 }
    }
}

impl Bm25 {
    /// Returns the weight of a term that `documents` of `all` documents contain. Above 0.
    pub(super) fn idf(documents: usize, all: usize) -> f32 {
        let (documents, all) = (documents as f64, all as f64);
        ((all - documents + 0.5) / (documents + 0.5)).ln_1p() as f32
    }

    /// Returns the limit of [`saturation`](Self::saturation): the most that a term of weight 1 adds to a score.
    pub(super) fn max_saturation(self) -> f32 {
        self.k1 + 1.0
    }

    /// Returns the factor of the document length in [`saturation`](Self::saturation).
    pub(super) fn length_factor(self, mean_length: f32) -> f32 {
        self.k1 * self.b / mean_length
    }

    /// Returns the score of a document of `length` terms for a term of weight 1 that it contains `frequency` times.
    /// Below [`max_saturation`](Self::max_saturation).
    #[inline]
    pub(super) fn saturation(self, frequency: u32, length: u16, length_factor: f32) -> f32 {
        let frequency = frequency as f32;
        frequency * self.max_saturation() / (frequency + self.k1 * (1.0 - self.b) + length_factor * f32::from(length))
    }
}

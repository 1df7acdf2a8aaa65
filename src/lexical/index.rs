//! The segments of one namespace, and which rows of them are alive.
//!
//! Invariant: a row is counted while it is alive, and its terms are those in the segment of the highest number that has it,
//! its *home*. So a segment that holds a new document must have a higher number than all that hold the row's old ones: the
//! engine numbers them as it writes them, and merges the last ones alone, without a gap. A row that is given to a window
//! without any term is in a segment all the same.
//!
//! A query looks at all postings of its terms. At the sizes that a namespace has, that is a fraction of a millisecond;
//! MaxScore or WAND (Turtle and Flood 1995; Broder et al. 2003) would skip most of the frequent terms' postings for a
//! small k, at the cost of stored bounds that every change of N, df and mean length moves, and would not give the score of
//! each row that vectors found, which fusion wants.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use super::{Bm25, Scores, Segment, segment::MAX_TERMS};

/// Most distinct terms of a query that count: the rarest.
const MAX_QUERY_TERMS: usize = 1024;

/// Most times that a query's term counts.
const MAX_QUERY_FREQUENCY: u32 = 3;

/// The home of a row that is dead: no segment has this number.
const NOWHERE: u32 = u32::MAX;

/// The length of a row that is not at home: no document is as long.
const AWAY: u16 = u16::MAX;
const _: () = assert!(MAX_TERMS < AWAY as usize);

#[derive(Debug, Default)]
pub(crate) struct LexicalIndex {
    bm25: Bm25,
    parts: BTreeMap<u32, Part>,
    /// By row.
    homes: Vec<u32>,
    alive: usize,
    /// Of all rows that are alive, in terms.
    total_length: u64,
}

#[derive(Debug)]
struct Part {
    segment: Arc<Segment>,
    /// By local number, in terms; [`AWAY`] of a row that is not at home here. Small enough to stay in the nearest cache
    /// while the postings of a segment are gone through, which a table by row is not.
    lengths: Vec<u16>,
    /// How many rows are at home here.
    alive: usize,
}

impl LexicalIndex {
    /// Puts, replaces or drops the segment of a number, below `u32::MAX`. Of its rows those are counted that are alive.
    ///
    /// May be told again: any end of the changes so far, made again in their order, ends in the same state. The segments
    /// of one change may come in any order, after its removals; a row that was at home in a dropped one is not counted
    /// until another that has it is set.
    pub(crate) fn set(&mut self, number: u32, segment: Option<Arc<Segment>>, is_alive: impl Fn(u32) -> bool) {
        assert_ne!(number, NOWHERE, "segments are numbered from 0");
        if let Some(old) = self.parts.get(&number).map(|part| Arc::clone(&part.segment)) {
            for &row in old.rows() {
                if self.is_home(number, row) {
                    self.leave(row);
                }
            }
            self.parts.remove(&number);
        }
        let Some(segment) = segment else { return };
        let lengths = vec![AWAY; segment.rows().len()];
        self.parts.insert(number, Part { segment: Arc::clone(&segment), lengths, alive: 0 });
        for ((local, &row), length) in segment.rows().iter().enumerate().zip(segment.lengths()) {
            if is_alive(row) && self.home(row).is_none_or(|home| home < number) {
                self.leave(row);
                self.settle(row, number, local, length as u16);
            }
        }
    }

    /// These rows are dead from now on.
    pub(crate) fn remove(&mut self, rows: &[u32]) {
        rows.iter().for_each(|&row| self.leave(row));
    }

    /// Whether a row is alive and has its terms here.
    pub(crate) fn covers(&self, row: u32) -> bool {
        self.home(row).is_some()
    }

    /// The bytes of a row's window in the message's text, if that has several windows.
    pub(crate) fn passage(&self, row: u32) -> Option<Range<u32>> {
        let segment = &self.parts[&self.home(row)?].segment;
        segment.passage(segment.local(row)?)
    }

    /// How many terms a row has; 0 if it is dead.
    pub(crate) fn length(&self, row: u32) -> u32 {
        let length = self.home(row).and_then(|home| {
            let part = &self.parts[&home];
            Some(part.lengths[part.segment.local(row)? as usize])
        });
        length.map_or(0, u32::from)
    }

    /// How many rows are alive.
    pub(crate) fn rows(&self) -> usize {
        self.alive
    }

    /// Whether a row is alive and its terms are those in this segment.
    pub(crate) fn is_home(&self, number: u32, row: u32) -> bool {
        self.home(row) == Some(number)
    }

    /// The oldest segment of which less than half is alive: to be written again under its number with the rows that are at
    /// home in it, or dropped if none is.
    pub(crate) fn sparse(&self) -> Option<(u32, Arc<Segment>)> {
        let is_sparse = |part: &Part| part.alive * 2 < part.segment.rows().len();
        self.parts.iter().find(|(_, part)| is_sparse(part)).map(|(&number, part)| (number, Arc::clone(&part.segment)))
    }

    /// Scores the rows that are alive by a query's terms, in place of what `scores` held. A term given several times
    /// counts as often, up to 3 times; of more than 1,024 distinct ones the rarest count.
    ///
    /// The same however rows are spread over segments, to the bit.
    pub(crate) fn score(&self, terms: &[u64], scores: &mut Scores) {
        scores.clear();
        scores.make_room(self.homes.len());
        let slope = self.bm25.slope((self.total_length as f64 / self.alive as f64) as f32);
        for (term, frequency) in self.query(terms) {
            scores.postings.clear();
            self.each_posting(term, |row, frequency, length| {
                scores.postings.push((row, self.bm25.saturation(frequency, length, slope)));
            });
            let idf = Bm25::idf(scores.postings.len(), self.alive);
            scores.add(idf * frequency as f32, self.bm25.most());
        }
    }

    /// The distinct terms in the order of their numbers, each with how often it counts.
    fn query(&self, terms: &[u64]) -> Vec<(u64, u32)> {
        let mut sorted = terms.to_vec();
        sorted.sort_unstable();
        let distinct = sorted.chunk_by(|a, b| a == b);
        let mut query: Vec<(u64, u32)> =
            distinct.map(|term| (term[0], (term.len() as u32).min(MAX_QUERY_FREQUENCY))).collect();
        if query.len() > MAX_QUERY_TERMS {
            query.sort_by_cached_key(|&(term, _)| {
                let mut documents = 0;
                self.each_posting(term, |_, _, _| documents += 1);
                documents
            });
            query.truncate(MAX_QUERY_TERMS);
            query.sort_unstable();
        }
        query
    }

    /// Row, frequency and length of each document that is alive and has the term.
    fn each_posting(&self, term: u64, mut each: impl FnMut(u32, u32, u16)) {
        for part in self.parts.values() {
            let Some(postings) = part.segment.postings(term) else { continue };
            let (rows, lengths) = (part.segment.rows(), &part.lengths[..]);
            postings.for_each(|(local, frequency)| {
                let length = lengths[local as usize];
                if length != AWAY {
                    each(rows[local as usize], frequency, length);
                }
            });
        }
    }

    fn home(&self, row: u32) -> Option<u32> {
        self.homes.get(row as usize).copied().filter(|&home| home != NOWHERE)
    }

    /// Takes a row from its home, if it has one.
    fn leave(&mut self, row: u32) {
        let Some(home) = self.home(row) else { return };
        let part = self.parts.get_mut(&home).expect("a home is a segment");
        let local = part.segment.local(row).expect("a home has the row");
        let length = std::mem::replace(&mut part.lengths[local as usize], AWAY);
        self.homes[row as usize] = NOWHERE;
        part.alive -= 1;
        self.alive -= 1;
        self.total_length -= u64::from(length);
    }

    /// Gives a row without a home one.
    fn settle(&mut self, row: u32, home: u32, local: usize, length: u16) {
        let part = self.parts.get_mut(&home).expect("a home is a segment");
        part.lengths[local] = length;
        part.alive += 1;
        self.alive += 1;
        self.total_length += u64::from(length);
        if row as usize >= self.homes.len() {
            self.homes.resize(row as usize + 1, NOWHERE);
        }
        self.homes[row as usize] = home;
    }
}

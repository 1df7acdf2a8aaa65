//! One loaded namespace: the messages that are not indexed yet, and the index of the others, with its rows, its vectors,
//! its terms, and statistics over them.
//!
//! A *row* is one chunk of the text of one message, numbered alike for vectors and terms. A message with several chunks
//! has several rows, one after the other, and is identified by the first of them.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    ops::Range,
    sync::{Arc, OnceLock},
};

use mnemon_index::{Bitmap, Neighbor};
use parking_lot::RwLock;

use super::{
    metadata::MetadataSets,
    prepare::PreparedQuery,
    row_filter::RowMetas,
    statistics::{Sample, TypicalLengths, spread},
    unindexed::Unindexed,
    vectors::Vectors,
};
use crate::{
    lexical::{Language, LexicalIndex, Scores, Segment},
    store::RowMeta,
};

/// Number of messages before and after a match that are boosted as its neighbors.
const NEIGHBOR_REACH: usize = 2;

/// Rows that are collected before the best of them are chosen.
const MIN_COLLECTED: usize = 512;

/// Number of rows after a cursor that are looked at before a session is searched.
const CURSOR_REACH: usize = 8;

/// The messages of a loaded namespace. [`apply`](Self::apply) keeps them equal to the store.
pub(crate) struct LoadedMessages {
    pub(crate) index: RwLock<NamespaceIndex>,
    /// The messages that are not in the index yet.
    pub(crate) unindexed: Unindexed,
}

/// The indexed messages of a loaded namespace.
pub(crate) struct NamespaceIndex {
    pub(crate) vectors: Vectors,
    pub(super) rows: RowMetas,
    /// The rows of each session, ordered by message and chunk.
    pub(super) sessions: HashMap<u32, Vec<u32>>,
    pub(super) lexical: LexicalIndex,
    pub(super) language: Language,
    pub(super) dimension: usize,
    /// Counts the removed rows that were reused for another message.
    pub(super) rows_reused: u64,
    pub(crate) metadata: Arc<MetadataSets>,
    /// Computed when a search first needs it; cleared by every change.
    pub(super) sample: OnceLock<Sample>,
}

impl LoadedMessages {
    /// Returns true if there are no messages.
    pub(crate) fn is_empty(&self) -> bool {
        self.index.read().is_empty() && self.unindexed.is_empty()
    }

    /// Returns the bytes of memory that the messages take, approximately.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.index.read().memory_bytes() + self.unindexed.memory_bytes()
    }
}

impl NamespaceIndex {
    pub(super) fn new(
        vectors: Vectors,
        dimension: usize,
        rows: Vec<Option<RowMeta>>,
        lexical: LexicalIndex,
        language: Language,
    ) -> Self {
        let mut sessions: HashMap<u32, Vec<u32>> = HashMap::new();
        for (row, meta) in (0..).zip(&rows) {
            if let Some(meta) = meta {
                sessions.entry(meta.session).or_default().push(row);
            }
        }
        sessions.values_mut().for_each(|of_session| of_session.sort_by_key(|&row| session_order(&rows, row)));
        NamespaceIndex {
            vectors,
            rows: RowMetas::new(rows),
            sessions,
            lexical,
            language,
            dimension,
            rows_reused: 0,
            metadata: Arc::default(),
            sample: OnceLock::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.lexical.rows() == 0
    }

    /// The number of live rows.
    pub(crate) fn live_rows(&self) -> usize {
        self.rows.iter().flatten().count()
    }

    fn memory_bytes(&self) -> usize {
        let rows = self.rows.memory_bytes();
        // For each session a table entry and a list, and for each row a number in a list, with room to grow.
        let sessions = self.sessions.capacity() * 56 + self.rows.len() * 6;
        let sample = self.sample.get().map_or(0, |sample| sample.rows.capacity() * size_of::<u32>());
        let metadata = self.metadata.memory_bytes(self.rows.len());
        self.vectors.index().memory_bytes() + self.lexical.memory_bytes() + rows + sessions + sample + metadata
    }

    /// The lexical segment that has too many removed rows, with its number, if there is one.
    pub(crate) fn sparse_segment(&self) -> Option<(u32, Arc<Segment>)> {
        self.lexical.sparse()
    }

    /// The rows of a segment whose terms are searched: those that are live and in no newer segment.
    pub(crate) fn rows_searched_in(&self, number: u32, segment: &Segment) -> Vec<u32> {
        segment.rows().iter().copied().filter(|&row| self.lexical.is_home(number, row)).collect()
    }

    /// The metadata of a row; `None` if the row was removed or never existed.
    pub(super) fn live(&self, row: u32) -> Option<&RowMeta> {
        self.rows.get(row as usize)?.as_ref()
    }

    /// Returns true if the row is live and its message is not excepted.
    pub(super) fn is_wanted(&self, row: u32, except: &HashSet<u64>) -> bool {
        self.live(row).is_some_and(|meta| !except.contains(&meta.seq))
    }

    /// The rows that the filter of a query allows; `None` for all.
    pub(super) fn allowed(&self, query: &PreparedQuery) -> Option<Bitmap> {
        let filter = &query.filter;
        if filter.is_empty() {
            return None;
        }
        let mut rows = match query.session {
            // A session lists live rows only, so the rows are checked only if the filter has other conditions.
            Some(session) => {
                let is_all = filter.is_session_only();
                let allows = |row: &&u32| {
                    is_all || self.live(**row).is_some_and(|meta| filter.allows(meta.role, meta.created_at))
                };
                self.sessions.get(&session).into_iter().flatten().filter(allows).copied().collect()
            }
            None => self.rows.allowed(filter),
        };
        if let Some(matching) = &query.matching {
            rows.intersect(&matching.rows(&self.rows, self.rows_reused));
        }
        if let Some(ids) = &query.ids {
            let is_in = |row: &u32| self.live(*row).is_some_and(|meta| ids.binary_search(&meta.seq).is_ok());
            rows = rows.iter().filter(is_in).collect();
        }
        if query.put_before.is_some() {
            rows = rows.iter().filter(|row| self.live(*row).is_some_and(|meta| query.was_known(meta))).collect();
        }
        Some(rows)
    }

    /// The first row of the message that a row belongs to.
    pub(super) fn first_row(&self, row: u32) -> u32 {
        row - self.live(row).map_or(0, |meta| u32::from(meta.window))
    }

    /// The rows of the message with this first row.
    pub(super) fn message_rows(&self, first: u32) -> Range<u32> {
        let Some(message) = self.live(first).map(|meta| meta.seq) else { return first..first + 1 };
        let is_next = |row: &u32| self.live(*row).is_some_and(|meta| meta.seq == message && meta.window > 0);
        let more = (first + 1..).take_while(is_next).count();
        first..first + 1 + more as u32
    }

    /// The `count` best messages among these live rows, by first row, each with the score of its best row; best first.
    pub(super) fn best_messages(&self, rows: impl Iterator<Item = Neighbor>, count: usize) -> Vec<Neighbor> {
        let of_message = |neighbor: Neighbor| Neighbor { row: self.first_row(neighbor.row), ..neighbor };
        let mut messages = best_scores(rows.map(of_message).collect());
        if count < messages.len() {
            messages.select_nth_unstable_by(count, Neighbor::order);
            messages.truncate(count);
        }
        messages.sort_unstable_by(Neighbor::order);
        messages
    }

    /// The `count` allowed messages with the best BM25, by first row; best first.
    pub(super) fn best_by_terms(
        &self,
        scores: &Scores,
        count: usize,
        is_allowed: impl Fn(u32) -> bool,
    ) -> Vec<Neighbor> {
        // A message may have several rows, so the number of rows is doubled until they cover enough messages.
        let mut most = count;
        loop {
            let rows = scores.touched().iter().map(|&row| Neighbor { row, score: scores.get(row) });
            let rows = best_rows(rows, most, &is_allowed);
            let has_all = rows.len() < most;
            let messages = self.best_messages(rows.into_iter(), count);
            if messages.len() == count || has_all {
                return messages;
            }
            most = most.saturating_mul(2);
        }
    }

    /// The first rows of the `count` newest messages whose first row is allowed, in no particular order.
    pub(super) fn newest_messages(&self, count: usize, is_allowed: impl Fn(u32) -> bool) -> Vec<u32> {
        let is_first = |meta: &RowMeta| meta.window == 0;
        let firsts = (0..self.rows.len() as u32).filter(|&row| self.live(row).is_some_and(is_first) && is_allowed(row));
        let mut newest: Vec<u32> = firsts.collect();
        if count < newest.len() {
            newest.select_nth_unstable_by_key(count, |&row| Reverse(session_order(&self.rows, row)));
            newest.truncate(count);
        }
        newest
    }

    /// The first rows of up to [`NEIGHBOR_REACH`] messages before and after a message in its session. The cursor is
    /// left at the message: the next one is found at once if it follows soon.
    pub(super) fn neighbors<'a>(
        &'a self,
        first: u32,
        cursor: &mut SessionCursor<'a>,
    ) -> impl Iterator<Item = u32> + use<> {
        let mut near = [None; 2 * NEIGHBOR_REACH];
        if let Some(meta) = self.live(first) {
            if cursor.session != Some(meta.session) {
                let rows = self.sessions.get(&meta.session).map_or(&[][..], Vec::as_slice);
                *cursor = SessionCursor { session: Some(meta.session), rows, at: 0 };
            }
            let rows = cursor.rows;
            let next = rows[cursor.at..].iter().take(CURSOR_REACH).position(|&row| row == first);
            // The rows of a session ascend, unless some were reused.
            let found = next.map(|next| cursor.at + next).or_else(|| rows.binary_search(&first).ok());
            let search = || rows.partition_point(|&row| session_order(&self.rows, row) < (meta.seq, 0));
            let at = found.unwrap_or_else(search);
            cursor.at = at.min(rows.len());
            let is_first = |row: &&u32| self.live(**row).is_some_and(|meta| meta.window == 0);
            let before = rows[..at].iter().rev().filter(is_first).take(NEIGHBOR_REACH);
            let after = rows[(at + 1).min(rows.len())..].iter().filter(is_first).take(NEIGHBOR_REACH);
            for (slot, &row) in near.iter_mut().zip(before.chain(after)) {
                *slot = Some(row);
            }
        }
        near.into_iter().flatten()
    }

    /// The logarithm of the number of terms in a message's rows.
    pub(super) fn length(&self, rows: Range<u32>) -> f32 {
        (rows.map(|row| self.lexical.length(row)).sum::<u32>().max(1) as f32).ln()
    }

    /// The cosine of each row with the nearest of the query's vectors, if it is not `known`; 0 if the query has none.
    pub(super) fn cosines(
        &self,
        vectors: &[Vec<f32>],
        rows: &[u32],
        mut known: impl FnMut(u32) -> Option<f32>,
    ) -> Vec<f32> {
        if vectors.is_empty() {
            return vec![0.0; rows.len()];
        }
        let mut cosines = vec![-1.0; rows.len()];
        let (mut positions, mut unknown) = (Vec::new(), Vec::new());
        for (at, &row) in rows.iter().enumerate() {
            match known(row) {
                Some(cosine) => cosines[at] = cosine,
                None => {
                    positions.push(at);
                    unknown.push(row);
                }
            }
        }
        for vector in vectors {
            self.vectors.index().products(vector, &unknown, &mut |at, cosine| {
                let best = &mut cosines[positions[at]];
                *best = best.max(cosine);
            });
        }
        cosines
    }

    /// The vector of a row; empty for a removed one.
    pub(super) fn row_vector(&self, row: u32) -> Vec<f32> {
        let mut vector = Vec::new();
        self.vectors.index().vectors(&[row], &mut |_, row| vector = row.to_vec());
        vector
    }

    pub(super) fn sample(&self) -> &Sample {
        self.sample.get_or_init(|| {
            let rows = spread(self.rows.len(), |row| self.live(row).is_some());
            let messages = rows.iter().filter_map(|&row| {
                let meta = self.live(row).filter(|meta| meta.window == 0)?;
                Some((meta.role, self.length(self.message_rows(row))))
            });
            Sample { lengths: TypicalLengths::new(messages), rows }
        })
    }
}

/// A position in a session.
#[derive(Default)]
pub(super) struct SessionCursor<'a> {
    session: Option<u32>,
    /// The rows of the session.
    rows: &'a [u32],
    at: usize,
}

/// The sort key of a session's rows: the sequence number of the message, and the number of the chunk.
pub(super) fn session_order(rows: &[Option<RowMeta>], row: u32) -> (u64, u16) {
    rows.get(row as usize).and_then(Option::as_ref).map_or((0, 0), |meta| (meta.seq, meta.window))
}

/// The `count` best of these rows that are allowed, in no particular order. They are not all collected first.
fn best_rows(rows: impl Iterator<Item = Neighbor>, count: usize, is_allowed: impl Fn(u32) -> bool) -> Vec<Neighbor> {
    let mut best: Vec<Neighbor> = Vec::new();
    let mut floor = f32::NEG_INFINITY;
    for row in rows {
        if row.score < floor || !is_allowed(row.row) {
            continue;
        }
        best.push(row);
        if best.len() >= count.saturating_mul(2).max(MIN_COLLECTED) {
            best.select_nth_unstable_by(count.saturating_sub(1), Neighbor::order);
            best.truncate(count);
            floor = best.last().map_or(f32::INFINITY, |last| last.score);
        }
    }
    if count < best.len() {
        best.select_nth_unstable_by(count, Neighbor::order);
        best.truncate(count);
    }
    best
}

/// The best score of each row, ascending by row.
pub(super) fn best_scores(mut found: Vec<Neighbor>) -> Vec<Neighbor> {
    found.sort_unstable_by(|a, b| a.row.cmp(&b.row).then(b.score.total_cmp(&a.score)));
    found.dedup_by_key(|neighbor| neighbor.row);
    found
}

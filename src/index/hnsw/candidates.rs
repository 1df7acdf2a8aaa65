//! The best rows that a search has found so far.

use std::cmp::Ordering;

use super::codes::Codes;

/// Marks a row whose links have been followed. Row numbers stay below this bit.
const EXPANDED: u32 = 1 << 31;

/// Above this number of candidates, they are sorted at the end of a search. To keep them sorted takes longer.
const SORTED_CANDIDATES: usize = 4096;

/// A row with its score, and whether its links have been followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScoredRow {
    pub(super) score: f32,
    marked_row: u32,
}

impl ScoredRow {
    #[inline(always)]
    pub(super) fn new(score: f32, row: u32) -> Self {
        ScoredRow { score, marked_row: row }
    }

    #[inline(always)]
    pub(super) fn row(self) -> u32 {
        self.marked_row & !EXPANDED
    }

    /// Orders rows from the highest score to the lowest, and equal scores by ascending row.
    #[inline]
    pub(super) fn order(&self, other: &ScoredRow) -> Ordering {
        other.score.total_cmp(&self.score).then(self.row().cmp(&other.row()))
    }
}

/// The nearer row is the greater one, so it is at the top of a heap.
impl Ord for ScoredRow {
    fn cmp(&self, other: &Self) -> Ordering {
        other.order(self)
    }
}

impl PartialOrd for ScoredRow {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ScoredRow {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ScoredRow {}

/// A collection of the best rows.
pub(super) trait KeepBest {
    /// Returns the score that a row must exceed to come in, or a lower one.
    fn floor(&self) -> f32;

    /// Adds a row whose score exceeds the floor.
    fn push(&mut self, row: ScoredRow);

    /// Same as `push`, unless there are enough rows with the same code.
    fn offer(&mut self, codes: &Codes, row: ScoredRow);
}

/// The best candidates, nearest first, at most `capacity`. One sorted list is both the queue and the result of a
/// search.
#[derive(Debug, Default)]
pub(super) struct CandidateList {
    candidates: Vec<ScoredRow>,
    capacity: usize,
    /// Maximum number of rows with the same code. Copies link to each other, and would otherwise fill the list.
    max_copies: usize,
    /// All candidates before this position have been expanded.
    next: usize,
}

impl CandidateList {
    /// Empties the list.
    pub(super) fn reset(&mut self, capacity: usize, max_copies: usize) {
        self.candidates.clear();
        self.capacity = capacity;
        self.max_copies = max_copies;
        self.next = 0;
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[ScoredRow] {
        &self.candidates
    }

    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(u32) -> bool) {
        self.candidates.retain(|candidate| is_kept(candidate.row()));
    }

    /// Returns true if there may be so many candidates that they are not sorted during a search.
    pub(super) fn is_wide(&self) -> bool {
        self.capacity > SORTED_CANDIDATES
    }

    /// Moves the candidates to an unsorted collection, if there may be very many.
    pub(super) fn take_unsorted(&mut self) -> Option<BestRows> {
        let (capacity, floor) = (self.capacity, self.floor());
        self.is_wide().then(|| BestRows { rows: self.take(), capacity, floor })
    }

    /// Replaces the candidates.
    pub(super) fn set(&mut self, mut best: BestRows) {
        best.drop_worst();
        self.candidates = best.rows;
        self.candidates.sort_unstable_by(ScoredRow::order);
        self.next = 0;
    }

    /// Empties the list and returns the candidates that it had.
    pub(super) fn take(&mut self) -> Vec<ScoredRow> {
        let candidates = self.candidates.drain(..).collect();
        self.next = 0;
        candidates
    }

    /// Marks all candidates as not expanded, and calls `visit` with each row.
    pub(super) fn restart(&mut self, mut visit: impl FnMut(u32)) {
        for candidate in &mut self.candidates {
            candidate.marked_row &= !EXPANDED;
            visit(candidate.marked_row);
        }
        self.next = 0;
    }

    /// Returns the position behind the candidates with the same score.
    #[inline]
    fn position(&self, candidate: ScoredRow) -> usize {
        self.candidates.partition_point(|other| other.score >= candidate.score)
    }

    #[inline]
    fn insert(&mut self, position: usize, candidate: ScoredRow) {
        if self.candidates.len() == self.capacity {
            self.candidates.pop();
        }
        self.candidates.insert(position, candidate);
        self.next = self.next.min(position);
    }

    /// Adds a candidate whose score exceeds the floor, unless the list has enough rows with the same code for which
    /// `is_counted` returns true.
    #[inline]
    pub(super) fn offer_counted(&mut self, codes: &Codes, candidate: ScoredRow, is_counted: impl Fn(u32) -> bool) {
        let position = self.position(candidate);
        // Nearly always, no other candidate has the same score.
        if position > 0 && self.candidates[position - 1].score == candidate.score {
            let ties = self.candidates[..position].iter().rev().take_while(|other| other.score == candidate.score);
            let copies = ties.filter(|other| is_counted(other.row()) && codes.same(other.row(), candidate.row()));
            if copies.take(self.max_copies).count() >= self.max_copies {
                return;
            }
        }
        self.insert(position, candidate);
    }

    /// Returns the best candidate that has not been expanded, and marks it as expanded.
    #[inline]
    pub(super) fn expand(&mut self) -> Option<u32> {
        let candidate = self.candidates.get_mut(self.next)?;
        let row = candidate.marked_row;
        candidate.marked_row |= EXPANDED;
        while self.peek().is_some_and(|row| row & EXPANDED != 0) {
            self.next += 1;
        }
        Some(row)
    }

    /// Returns the row that the next call of [`expand`](Self::expand) returns, unless a better candidate comes in
    /// before.
    #[inline]
    pub(super) fn peek(&self) -> Option<u32> {
        self.candidates.get(self.next).map(|candidate| candidate.marked_row)
    }
}

impl KeepBest for CandidateList {
    #[inline(always)]
    fn floor(&self) -> f32 {
        if self.candidates.len() < self.capacity { f32::NEG_INFINITY } else { self.candidates[self.capacity - 1].score }
    }

    #[inline]
    fn push(&mut self, candidate: ScoredRow) {
        self.insert(self.position(candidate), candidate);
    }

    fn offer(&mut self, codes: &Codes, candidate: ScoredRow) {
        self.offer_counted(codes, candidate, |_| true);
    }
}

/// The best rows, in no order. Once there are a quarter more than `capacity`, the worst are dropped.
pub(super) struct BestRows {
    rows: Vec<ScoredRow>,
    capacity: usize,
    floor: f32,
}

impl BestRows {
    fn drop_worst(&mut self) {
        if self.rows.len() > self.capacity {
            let (_, last, _) = self.rows.select_nth_unstable_by(self.capacity - 1, ScoredRow::order);
            self.floor = last.score;
            self.rows.truncate(self.capacity);
        }
    }
}

impl KeepBest for BestRows {
    #[inline]
    fn floor(&self) -> f32 {
        self.floor
    }

    #[inline]
    fn push(&mut self, row: ScoredRow) {
        self.rows.push(row);
        if self.rows.len() > self.capacity + self.capacity / 4 {
            self.drop_worst();
        }
    }

    /// Copies do not crowd out other rows of so many.
    fn offer(&mut self, _codes: &Codes, row: ScoredRow) {
        self.push(row);
    }
}

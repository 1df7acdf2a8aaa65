//! The best rows that a search has found so far.

use std::cmp::Ordering;

use super::codes::Codes;

/// Marks a row whose links have been followed. Row numbers stay below this bit.
const EXPANDED: u32 = 1 << 31;

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

    /// Returns the score that a candidate must exceed to enter the list.
    #[inline(always)]
    pub(super) fn floor(&self) -> f32 {
        if self.candidates.len() < self.capacity { f32::NEG_INFINITY } else { self.candidates[self.capacity - 1].score }
    }

    /// Adds a candidate whose score exceeds the floor.
    #[inline]
    pub(super) fn push(&mut self, candidate: ScoredRow) {
        self.insert(self.position(candidate), candidate);
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
    pub(super) fn offer(&mut self, codes: &Codes, candidate: ScoredRow, is_counted: impl Fn(u32) -> bool) {
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

//! The state of a search: the best rows that it has found so far, the rows that it has met, and which of its rows may be
//! copies of others.

use super::codes::{Codes, ScoredRow};

/// Marks a row whose links have been followed. Row numbers stay below this bit.
const EXPANDED: u32 = 1 << 31;

/// Candidates among which a position is found by comparing with each: the processor compares many at a time.
const COMPARED: usize = 64;

/// Above this number of candidates, they are sorted at the end of a search. To keep them sorted takes longer.
const SORTED_CANDIDATES: usize = 4096;

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
    scores: Vec<f32>,
    /// For each score its row, marked as [`EXPANDED`] once its links have been followed.
    marked_rows: Vec<u32>,
    capacity: usize,
    /// Maximum number of rows with the same code. Copies link to each other, and would otherwise fill the list.
    max_copies: usize,
    /// All candidates before this position have been expanded.
    next: usize,
}

impl CandidateList {
    pub(super) fn reset(&mut self, capacity: usize, max_copies: usize) {
        self.clear();
        self.capacity = capacity;
        self.max_copies = max_copies;
    }

    fn clear(&mut self) {
        self.scores.clear();
        self.marked_rows.clear();
        self.next = 0;
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(super) fn max_copies(&self) -> usize {
        self.max_copies
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = ScoredRow> {
        let rows = self.marked_rows.iter().map(|row| row & !EXPANDED);
        self.scores.iter().zip(rows).map(|(&score, row)| ScoredRow { score, row })
    }

    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(u32) -> bool) {
        let kept: Vec<ScoredRow> = self.iter().filter(|candidate| is_kept(candidate.row)).collect();
        self.replace(&kept);
    }

    /// Replaces the candidates by the best of others that are sorted.
    pub(super) fn replace(&mut self, sorted: &[ScoredRow]) {
        self.clear();
        let sorted = &sorted[..sorted.len().min(self.capacity)];
        self.scores.extend(sorted.iter().map(|candidate| candidate.score));
        self.marked_rows.extend(sorted.iter().map(|candidate| candidate.row));
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

    pub(super) fn set(&mut self, mut best: BestRows) {
        best.drop_worst();
        best.rows.sort_unstable_by(ScoredRow::order);
        self.replace(&best.rows);
    }

    /// Empties the list and returns the candidates that it had.
    pub(super) fn take(&mut self) -> Vec<ScoredRow> {
        let candidates = self.iter().collect();
        self.clear();
        candidates
    }

    /// Marks all candidates as not expanded, and calls `visit` with each row.
    pub(super) fn restart(&mut self, mut visit: impl FnMut(u32)) {
        for row in &mut self.marked_rows {
            *row &= !EXPANDED;
            visit(*row);
        }
        self.next = 0;
    }

    /// Returns the position behind the candidates with the same score.
    #[inline]
    fn position(&self, score: f32) -> usize {
        let (mut begin, mut count) = (0, self.len());
        while count > COMPARED {
            let half = count / 2;
            begin += if self.scores[begin + half - 1] >= score { half } else { 0 };
            count -= half;
        }
        begin + self.scores[begin..begin + count].iter().map(|other| u32::from(*other >= score)).sum::<u32>() as usize
    }

    /// Inserts a candidate. Returns the row that has to leave for it and was not expanded.
    #[inline]
    fn insert(&mut self, position: usize, candidate: ScoredRow) -> Option<u32> {
        let worst = if self.len() == self.capacity { self.marked_rows.pop() } else { None };
        self.scores.truncate(self.marked_rows.len());
        self.scores.insert(position, candidate.score);
        self.marked_rows.insert(position, candidate.row);
        self.next = self.next.min(position);
        worst.filter(|row| row & EXPANDED == 0)
    }

    /// Adds a candidate whose score exceeds the floor. Returns the row that has to leave for it and was not expanded.
    #[inline]
    pub(super) fn add(&mut self, candidate: ScoredRow) -> Option<u32> {
        self.insert(self.position(candidate.score), candidate)
    }

    /// Adds a candidate whose score exceeds the floor, unless the list has enough rows with the same code for which
    /// `is_counted` returns true.
    #[inline]
    pub(super) fn offer_counted(&mut self, codes: &Codes, candidate: ScoredRow, is_counted: impl Fn(u32) -> bool) {
        let position = self.position(candidate.score);
        // Nearly always, no other candidate has the same score.
        if position > 0 && self.scores[position - 1] == candidate.score {
            let ties = self.scores[..position].iter().rev().take_while(|score| **score == candidate.score).count();
            let ties = self.marked_rows[position - ties..position].iter().map(|row| row & !EXPANDED);
            let copies = ties.filter(|&other| is_counted(other) && codes.same(other, candidate.row));
            if copies.take(self.max_copies).count() >= self.max_copies {
                return;
            }
        }
        self.insert(position, candidate);
    }

    /// Removes a candidate, so that there is room for another.
    pub(super) fn remove(&mut self, row: u32) {
        if let Some(position) = self.marked_rows.iter().position(|other| other & !EXPANDED == row) {
            self.scores.remove(position);
            self.marked_rows.remove(position);
            self.next -= usize::from(position < self.next);
        }
    }

    /// Returns the best candidate that has not been expanded, and marks it as expanded.
    #[inline]
    pub(super) fn expand(&mut self) -> Option<u32> {
        let marked_row = self.marked_rows.get_mut(self.next)?;
        let row = *marked_row;
        *marked_row |= EXPANDED;
        while self.peek().is_some_and(|row| row & EXPANDED != 0) {
            self.next += 1;
        }
        Some(row)
    }

    /// Returns the row that the next call of [`expand`](Self::expand) returns, unless a better candidate comes in
    /// before.
    #[inline]
    pub(super) fn peek(&self) -> Option<u32> {
        self.marked_rows.get(self.next).copied()
    }
}

impl KeepBest for CandidateList {
    #[inline(always)]
    fn floor(&self) -> f32 {
        if self.len() < self.capacity { f32::NEG_INFINITY } else { self.scores[self.capacity - 1] }
    }

    #[inline]
    fn push(&mut self, candidate: ScoredRow) {
        self.add(candidate);
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

/// A set of rows with a bit for each, which remembers the words that it changed, so that clearing is as cheap as the
/// search was.
#[derive(Debug, Default)]
pub(super) struct Visited {
    words: Vec<u64>,
    changed_words: Vec<u32>,
}

impl Visited {
    /// Empties the set and makes room for `rows` rows.
    pub(super) fn reset(&mut self, rows: usize) {
        for word in self.changed_words.drain(..) {
            self.words[word as usize] = 0;
        }
        self.words.resize(rows.div_ceil(64), 0);
    }

    #[inline(always)]
    pub(super) fn remove(&mut self, row: u32) {
        self.words[row as usize / 64] &= !(1 << (row % 64));
    }

    /// Adds a row. Returns true if the set did not contain it.
    #[inline(always)]
    pub(super) fn insert(&mut self, row: u32) -> bool {
        let word = &mut self.words[row as usize / 64];
        let bit = 1 << (row % 64);
        if *word & bit != 0 {
            return false;
        }
        if *word == 0 {
            self.changed_words.push(row / 64);
        }
        *word |= bit;
        true
    }
}

/// Counts scores: copies have one score. Different scores may share a count.
#[derive(Debug)]
pub(super) struct ScoreCounts([u32; 64]);

impl Default for ScoreCounts {
    fn default() -> Self {
        ScoreCounts([0; 64])
    }
}

impl ScoreCounts {
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Adds a score. Returns how often it was added, or more.
    #[inline(always)]
    pub(super) fn add(&mut self, score: f32) -> usize {
        let count = &mut self.0[(score.to_bits().wrapping_mul(0x9e37_79b9) >> 26) as usize];
        *count += 1;
        *count as usize
    }
}

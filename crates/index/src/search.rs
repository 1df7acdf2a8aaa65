//! The options and the result of a search.

use std::{cmp::Ordering, time::Instant};

use super::Bitmap;

/// A row that a search found, with its score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// Row number, from 0.
    pub row: u32,
    /// Inner product of the row's vector with the query. For unit vectors this is the cosine similarity, from -1 to 1.
    /// Higher is nearer.
    pub score: f32,
}

impl Neighbor {
    /// Orders neighbors from the highest score to the lowest, and equal scores by ascending row. A total order, because
    /// scores are finite.
    pub fn order(&self, other: &Neighbor) -> Ordering {
        other.score.total_cmp(&self.score).then(self.row.cmp(&other.row))
    }
}

/// The options of one search: the number of results, the effort, the allowed rows and the deadline.
///
/// ```
/// use mnemon_index::{Bitmap, ExactIndex, SearchOptions, VectorIndex};
///
/// let index = ExactIndex::new(2);
/// index.insert(&[0, 1, 2], &[1.0, 0.0, 0.0, 1.0, 0.6, 0.8]);
/// let even = Bitmap::from_fn(3, |row| row % 2 == 0);
/// let result = index.search(&[0.0, 1.0], &SearchOptions::new(1).allowed(Some(&even)));
/// assert_eq!((result.neighbors[0].row, result.neighbors[0].score), (2, 0.8));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SearchOptions<'a> {
    pub(crate) k: usize,
    pub(crate) ef: usize,
    pub(crate) allowed: Option<&'a Bitmap>,
    pub(crate) deadline: Option<Instant>,
}

impl<'a> SearchOptions<'a> {
    /// Searches for the `k` nearest rows with `ef` 128, among all rows, without a deadline. With `k` 0 the result is
    /// empty; with more than the number of rows it has all rows.
    pub fn new(k: usize) -> Self {
        SearchOptions { k, ef: 128, allowed: None, deadline: None }
    }

    /// Number of candidates that an approximate index keeps during the search (`ef_search`). A higher number finds more
    /// of the true neighbors and costs proportionally more time. A number below `k` counts as `k`. An exact index
    /// ignores it. Default: 128.
    pub fn ef(mut self, ef: usize) -> Self {
        self.ef = ef;
        self
    }

    /// Restricts the result to these rows; `None` allows all rows, which is the default.
    pub fn allowed(mut self, allowed: Option<&'a Bitmap>) -> Self {
        self.allowed = allowed;
        self
    }

    /// Ends the search at this time with the best rows found until then. The clock is read once in 256 scanned rows, or
    /// in 16 visited nodes of a graph: every few tens of microseconds at most. `HnswRsIndex` checks it only while it
    /// scans. Default: none.
    pub fn deadline(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// Returns true if the deadline has passed.
    pub(crate) fn is_late(&self) -> bool {
        is_past(self.deadline)
    }
}

/// Returns true if there is a deadline and it has passed.
#[inline]
pub fn is_past(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// The result of a search.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SearchResult {
    /// At most `k` rows, from the highest score to the lowest; equal scores by ascending row.
    pub neighbors: Vec<Neighbor>,
    /// Whether the deadline ended the search before it was complete, so that nearer rows may be missing.
    pub cut_short: bool,
}

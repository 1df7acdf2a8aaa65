//! Nearest vectors.
//!
//! Owns the vectors of one namespace in memory, by row number, and finds those nearest to a query. Does not know what
//! a row stands for. Invariants: rows are numbered from 0 and never renumbered; a row is found right after `insert`
//! returns, and never again after `remove` returns, unless its number is given to another vector; a search returns `k`
//! rows if `k` are allowed and its time is not up.

mod bitmap;
mod distance;
mod exact;
mod hnsw;
mod hnswrs;
mod mmr;

use std::{sync::OnceLock, time::Instant};

pub use bitmap::Bitmap;
pub use exact::ExactIndex;
pub(crate) use hnsw::{Delta, Loader, Originals, Planning};
pub use hnsw::{HnswIndex, HnswOptions};
pub use hnswrs::HnswRsIndex;
pub(crate) use mmr::{cosine, mmr};

/// The inner product of two vectors of one length.
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    static KERNELS: OnceLock<distance::Kernels> = OnceLock::new();
    KERNELS.get_or_init(distance::Kernels::detect).dot(a, b)
}

/// Whether all components are finite numbers. Looks at all of them: that is faster than stopping.
pub(crate) fn is_finite(vector: &[f32]) -> bool {
    vector.iter().fold(true, |all, x| all & x.is_finite())
}

/// A row and how near it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbor {
    /// The row's number.
    pub row: u32,
    /// Inner product with the query, the cosine for unit vectors: higher is nearer.
    pub score: f32,
}

impl Neighbor {
    /// Nearest first; among equals the lower row. Total, as scores are finite.
    pub(crate) fn order(&self, other: &Neighbor) -> std::cmp::Ordering {
        other.score.total_cmp(&self.score).then(self.row.cmp(&other.row))
    }
}

/// What to search for beside the query: how many, how hard, among which rows, and until when.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    pub(crate) k: usize,
    pub(crate) ef: usize,
    pub(crate) allowed: Option<&'a Bitmap>,
    pub(crate) deadline: Option<Instant>,
}

impl<'a> Search<'a> {
    /// The `k` nearest rows, with 128 candidates.
    pub fn new(k: usize) -> Self {
        Search { k, ef: 128, allowed: None, deadline: None }
    }

    /// The number of candidates that an approximate index keeps (`ef_search`); at least `k` are used. An exact index
    /// ignores it.
    pub fn ef(mut self, ef: usize) -> Self {
        self.ef = ef;
        self
    }

    /// Only these rows.
    pub fn allowed(mut self, allowed: Option<&'a Bitmap>) -> Self {
        self.allowed = allowed;
        self
    }

    /// Ends at this moment at the latest, with the best found by then.
    pub fn deadline(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    pub(crate) fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Nearest first.
    pub neighbors: Vec<Neighbor>,
    /// Whether the deadline cut the search short: nearer rows may not have been seen.
    pub cut_short: bool,
}

/// An index over unit vectors (f32, one dimension for all).
///
/// All methods take `&self`: searches run beside inserts.
pub trait VectorIndex: Send + Sync {
    /// Puts vectors, the components of one after the other, at rows: each the next number, or one that was removed.
    ///
    /// # Panics
    /// If `vectors` is not one of the dimension for each row, or has a component that is not finite, or a row is neither
    /// new nor removed: the caller checks vectors when they are made.
    fn insert(&self, rows: &[u32], vectors: &[f32]);

    /// Takes rows out. Unknown rows are ignored.
    fn remove(&self, rows: &[u32]);

    /// The rows nearest to `query`.
    ///
    /// # Panics
    /// If `query` has the wrong dimension.
    fn search(&self, query: &[f32], search: &Search) -> Found;

    /// Calls `visit` with the place in `rows`, and the vector, of each of these rows that is not removed, in order. An index
    /// that keeps codes alone gives what they stand for, to about 1/256 of the largest component.
    fn vectors(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32]));

    /// The number of the next row: rows inserted, those removed included.
    fn rows(&self) -> usize;

    /// Work left to do in the background to make searches faster; done in steps. Returns whether there is more.
    fn improve(&self) -> bool {
        false
    }
}

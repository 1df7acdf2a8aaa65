//! Nearest vectors.
//!
//! Owns the vectors of one namespace in memory, by row number, and finds those nearest to a query. Does not know what
//! a row stands for. Invariants: rows are numbered from 0 in the order of insertion and never renumbered; a row is
//! found right after `insert` returns, and never again after `remove` returns; a search returns `k` rows if `k` are
//! allowed.

mod bitmap;
mod distance;
mod exact;
mod hnswrs;
mod mmr;

pub use bitmap::Bitmap;
pub use exact::ExactIndex;
pub use hnswrs::HnswRsIndex;
pub(crate) use mmr::{cosine, mmr};

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

/// An index over unit vectors (f32, one dimension for all).
///
/// All methods take `&self`: searches run beside inserts.
pub trait VectorIndex: Send + Sync {
    /// Appends rows, the components of one after the other.
    ///
    /// # Panics
    /// If `rows` is no multiple of the dimension or has a component that is not finite: the caller checks vectors when
    /// they are made.
    fn insert(&self, rows: &[f32]);

    /// Takes rows out for ever. Their numbers are not given again. Unknown rows are ignored.
    fn remove(&self, rows: &[u32]);

    /// The `k` nearest rows, nearest first; only rows of `allowed`, if given. `effort` is the number of candidates an
    /// approximate index keeps (`ef_search`, at least `k` is used); an exact one ignores it.
    ///
    /// # Panics
    /// If `query` has the wrong dimension.
    fn search(&self, query: &[f32], k: usize, effort: usize, allowed: Option<&Bitmap>) -> Vec<Neighbor>;

    /// Rows inserted, those removed included: the number of the next row.
    fn rows(&self) -> usize;

    /// Work left to do in the background to make searches faster; done in steps. Returns whether there is more.
    fn improve(&self) -> bool {
        false
    }
}

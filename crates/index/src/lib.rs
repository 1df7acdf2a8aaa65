//! Search for the nearest vectors: the indexes of the memory engine `mnemon`.
//!
//! An index holds vectors in memory, by row number, and finds those nearest to a query. This crate knows nothing of
//! messages, files and namespaces: whoever uses it maps rows to what they stand for, and stores what
//! [`HnswIndex::page`] and [`HnswIndex::encode`] return. It has all the unsafe code of the project, in the distances.
//!
//! [`VectorIndex`] is the interface of all indexes: [`ExactIndex`] scans every row, [`HnswIndex`] searches a graph of
//! its own, and `HnswRsIndex` searches the graph of the crate `hnsw_rs`.
//!
//! Invariants:
//! - Rows are numbered from 0 and never renumbered.
//! - A search finds a row as soon as `insert` has returned, and never after `remove` has returned, unless the row is
//!   reused for another vector.
//! - A search returns `k` rows if at least `k` rows are allowed and the deadline has not passed.

mod distance;
mod exact;
mod hnsw;
#[cfg(feature = "hnsw_rs")]
mod hnsw_rs;
mod mmr;
mod vector_index;

pub use distance::{add_scaled, dot, is_finite};
pub use exact::ExactIndex;
pub use hnsw::{Delta, HnswIndex, HnswOptions, Loader, Originals, PlanningGuard};
#[cfg(feature = "hnsw_rs")]
pub use hnsw_rs::HnswRsIndex;
pub use mmr::{cosine, mmr};
pub use vector_index::{Bitmap, Neighbor, SearchOptions, SearchResult, VectorIndex, is_past};

/// The error of reading a stored part of a graph that cannot be decoded, or that does not fit the graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damaged(pub &'static str);

type Result<T> = std::result::Result<T, Damaged>;

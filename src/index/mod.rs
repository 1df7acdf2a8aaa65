//! Search for the nearest vectors.
//!
//! An index holds the vectors of one namespace in memory, by row number, and finds those nearest to a query. This
//! module does not know what a row stands for: the engine maps rows to messages.
//!
//! [`VectorIndex`] is the interface of all indexes: [`ExactIndex`] scans every row, [`HnswIndex`] searches a graph of
//! its own, and `HnswRsIndex` searches the graph of the crate `hnsw_rs`.
//!
//! Invariants:
//! - Rows are numbered from 0 and never renumbered.
//! - A search finds a row as soon as `insert` has returned, and never after `remove` has returned, unless the row is
//!   reused for another vector.
//! - A search returns `k` rows if at least `k` rows are allowed and the deadline has not passed.

mod bitmap;
mod distance;
mod exact;
mod hnsw;
#[cfg(feature = "hnsw_rs")]
mod hnsw_rs;
mod mmr;
mod search;
mod vector;
mod vector_index;

pub use bitmap::Bitmap;
pub use exact::ExactIndex;
pub(crate) use hnsw::{Delta, Loader, Originals, PlanningGuard};
pub use hnsw::{HnswIndex, HnswOptions};
#[cfg(feature = "hnsw_rs")]
pub use hnsw_rs::HnswRsIndex;
pub(crate) use mmr::{cosine, mmr};
pub(crate) use search::is_past;
pub use search::{Neighbor, SearchOptions, SearchResult};
#[cfg(feature = "onnx")]
pub(crate) use vector::add_scaled;
pub(crate) use vector::{dot, is_finite};
pub use vector_index::VectorIndex;

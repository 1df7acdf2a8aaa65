//! An approximate index: HNSW (Malkov and Yashunin, arXiv 1603.09320) over 4-bit and 8-bit codes.
//!
//! - Storage: `row_table`, `codes` (the vectors as codes), `links` (the adjacency lists), `neighbor_codes` (the linked rows
//!   as codes, beside each row), and `graph`, which joins them.
//! - Search: `candidates`, `visited` and `score_counts` are the state of a search, `scoring` scores rows by their codes, `beam`
//!   searches a layer, `neighbor_search` does it by the codes of neighbors, `search` answers a query.
//! - Changes: `plan` computes what linking new rows changes, `repair` what unlinking removed rows changes, `select`
//!   which links are kept. Both give a `delta`. `planning_lock` allows one plan at a time.
//! - Persistence: `encoding` has the bytes of deltas and pages, `load` reads them back, `check` verifies a graph.
//! - `index` is the public type, with its `options`.
//!
//! A delta is planned while searches go on, then committed if the graph is stored, and only then applied, which takes a
//! fraction of a millisecond. Live rows that are not linked yet, the *tail*, are scanned, so a search finds a row as
//! soon as it is inserted.

mod beam;
mod candidates;
mod check;
mod codes;
mod delta;
mod encoding;
mod graph;
mod index;
mod links;
mod load;
mod neighbor_codes;
mod neighbor_search;
mod options;
mod originals;
mod plan;
mod planning_lock;
mod repair;
mod row_table;
mod score_counts;
mod scoring;
mod search;
mod select;
#[cfg(test)]
mod tests;
mod vector_table;
mod visited;

pub use delta::Delta;
pub use index::HnswIndex;
pub use load::Loader;
pub use options::HnswOptions;
pub use originals::Originals;
pub use planning_lock::PlanningGuard;

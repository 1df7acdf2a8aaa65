//! An approximate index: HNSW (Malkov and Yashunin, arXiv 1603.09320) over 4-bit and 8-bit codes.
//!
//! - Storage: `row_table`, `codes` (the vectors as codes, and scores by them), `links` (the adjacency lists, and *deltas*,
//!   which are planned changes of them), `neighbor_codes` (the linked rows as codes, beside each row), and `graph`, which
//!   joins them and checks them.
//! - Search: `candidates` is the state of a search, `beam` searches a layer, `neighbor_codes` does it by the codes of
//!   neighbors, `search` answers a query.
//! - Changes: `plan` computes what linking new rows changes, `repair` what unlinking removed rows changes. Both give a
//!   delta. `planning_lock` allows one plan at a time.
//! - Persistence: `encoding` has the bytes of deltas and pages, `load` reads them back.
//! - `index` is the public type.
//!
//! A delta is planned while searches go on, then committed if the graph is stored, and only then applied, which takes a
//! fraction of a millisecond. Live rows that are not linked yet, the *tail*, are scanned, so a search finds a row as
//! soon as it is inserted.

mod beam;
mod candidates;
mod codes;
mod encoding;
mod graph;
mod index;
mod links;
mod load;
mod neighbor_codes;
mod plan;
mod planning_lock;
mod repair;
mod row_table;
mod search;
#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

pub use index::HnswIndex;
pub use links::Delta;
pub use load::Loader;
pub use planning_lock::PlanningGuard;

/// The options of building an [`HnswIndex`](crate::HnswIndex).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HnswOptions {
    /// Maximum number of links of a row on each upper layer; layer 0 has twice as many. A higher number gives a higher
    /// recall, slower inserts and more memory. 4 to 64. Default: 16.
    pub m: usize,
    /// Number of candidates that an insert considers as links. A higher number gives a better graph and slower inserts.
    /// 8 to 4,096. Default: 200.
    pub ef_construction: usize,
    /// Number of rows up to which there is no graph and every search is exact. Default: 10,000.
    pub graph_above: usize,
    /// Keeps a code of one bit for each component of each of a row's links beside the row. A search then reads what it
    /// needs in one piece: measured on 100,000 rows, 1.15 to 1.3 times as many searches at the same recall of clustered
    /// vectors, 0.9 to 1.2 times of texts, for 1.8 times the memory, or 2.2 times that of vectors with 16 bits. A higher
    /// `ef` is needed for the same recall. Searches with a filter use other codes. Background work computes these codes
    /// once rows are linked, and again after an index is loaded, about 20 microseconds a row; until then searches are
    /// those without them. Default: false.
    pub neighbor_codes: bool,
    /// Keeps vectors with 16 bits a component instead of 32. Default: false; an engine's index has what the precision of its
    /// database asks for.
    pub half_precision: bool,
}

impl Default for HnswOptions {
    fn default() -> Self {
        HnswOptions { m: 16, ef_construction: 200, graph_above: 10_000, neighbor_codes: false, half_precision: false }
    }
}

impl HnswOptions {
    /// Range of [`m`](field@HnswOptions::m). Layer 0 must have room for a parent and its children; the length of a list
    /// is stored as one byte.
    pub const M: RangeInclusive<usize> = 4..=64;
    /// Range of [`ef_construction`](field@HnswOptions::ef_construction).
    pub const EF_CONSTRUCTION: RangeInclusive<usize> = 8..=4096;

    /// # Panics
    /// If an option is out of its range.
    fn check(&self) {
        let HnswOptions { m, ef_construction, .. } = self;
        assert!(HnswOptions::M.contains(m), "m is {m}, not within 4 to 64");
        let range = HnswOptions::EF_CONSTRUCTION;
        assert!(range.contains(ef_construction), "ef_construction is {ef_construction}, not within 8 to 4096");
    }
}

/// A source of the original vectors, for an index that keeps only codes. A search reads those whose scores by their codes are
/// too close to tell which are among the nearest.
pub trait Originals: Send + Sync {
    /// Calls `visit` with the position in `rows` and the vector of each row that can be read.
    fn read(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32]));
}

//! The options of a graph.

use crate::{
    config::{Config, EF_CONSTRUCTION, M, in_range},
    error::Result,
};

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
        let Config { m, ef_construction, exact_threshold: graph_above, neighbor_codes, .. } = Config::default();
        HnswOptions { m, ef_construction, graph_above, neighbor_codes, half_precision: false }
    }
}

impl HnswOptions {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`](crate::Error::InvalidConfig) if an option is out of its range.
    pub(crate) fn check(&self) -> Result<()> {
        in_range("m", self.m, M)?;
        in_range("ef_construction", self.ef_construction, EF_CONSTRUCTION)
    }
}

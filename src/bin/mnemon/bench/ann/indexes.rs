//! Creates the indexes to measure by name.

use anyhow::bail;
use mnemon::{ExactIndex, HnswIndex, HnswOptions, VectorIndex};

/// The indexes that are measured unless others are named.
pub(super) const DEFAULT: &str = if cfg!(feature = "hnsw_rs") { "exact,hnsw,hnsw_rs" } else { "exact,hnsw" };

/// Creates an empty index. This is the only list of names: a new kind of index is one more line here.
pub(super) fn new(
    name: &str,
    dimension: usize,
    ef_construction: Option<usize>,
) -> anyhow::Result<Box<dyn VectorIndex>> {
    Ok(match name {
        "exact" => Box::new(ExactIndex::new(dimension)),
        "hnsw" => {
            let mut options = HnswOptions::default();
            options.graph_above = 0;
            options.ef_construction = ef_construction.unwrap_or(options.ef_construction);
            Box::new(HnswIndex::new(dimension, options))
        }
        #[cfg(feature = "hnsw_rs")]
        "hnsw_rs" => Box::new(mnemon::HnswRsIndex::new(dimension, 0)),
        #[cfg(not(feature = "hnsw_rs"))]
        "hnsw_rs" => bail!("index \"hnsw_rs\" needs the cargo feature `hnsw_rs`"),
        _ => bail!("index {name:?} is not one of exact, hnsw, hnsw_rs"),
    })
}

/// Returns true if an index always finds all neighbors, so that there is no effort to choose.
pub(super) fn is_exact(name: &str) -> bool {
    name == "exact"
}

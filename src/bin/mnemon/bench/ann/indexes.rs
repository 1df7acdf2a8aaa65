//! The indexes that can be measured, by name.

use anyhow::bail;
use mnemon::{ExactIndex, HnswIndex, HnswOptions, HnswRsIndex, VectorIndex};

/// An empty index. The one place that knows the names: a new kind is one more line here.
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
        "hnsw_rs" => Box::new(HnswRsIndex::new(dimension, 0)),
        _ => bail!("index {name:?} is not one of exact, hnsw, hnsw_rs"),
    })
}

/// Whether an index always finds all: then there is no effort to choose.
pub(super) fn is_exact(name: &str) -> bool {
    name == "exact"
}

//! Creates the indexes to measure by name.

use anyhow::bail;
use mnemon::{Config, ExactIndex, HnswIndex, HnswOptions, VectorIndex};

/// The indexes that are measured unless others are named.
pub(super) const DEFAULT: &str = if cfg!(feature = "hnsw_rs") { "exact,hnsw,hnsw_rs" } else { "exact,hnsw" };

/// `hnsw` with the codes of neighbors.
const WITH_NEIGHBOR_CODES: &str = "hnsw+neighbors";

/// Returns the settings of an engine that has this index.
pub(super) fn config(name: &str) -> anyhow::Result<Config> {
    let has_neighbor_codes = name == WITH_NEIGHBOR_CODES;
    let kind = if has_neighbor_codes { "hnsw" } else { name };
    Ok(Config::default().index(kind.parse()?).neighbor_codes(has_neighbor_codes))
}

/// Creates an empty index. This is the only list of names: a new kind of index is one more line here.
pub(super) fn new(
    name: &str,
    dimension: usize,
    ef_construction: Option<usize>,
) -> anyhow::Result<Box<dyn VectorIndex>> {
    Ok(match name {
        "exact" => Box::new(ExactIndex::new(dimension)),
        "hnsw" | WITH_NEIGHBOR_CODES => {
            let mut options = HnswOptions::default();
            options.graph_above = 0;
            options.neighbor_codes = name == WITH_NEIGHBOR_CODES;
            options.ef_construction = ef_construction.unwrap_or(options.ef_construction);
            Box::new(HnswIndex::new(dimension, options))
        }
        #[cfg(feature = "hnsw_rs")]
        "hnsw_rs" => Box::new(mnemon::HnswRsIndex::new(dimension, 0)),
        #[cfg(not(feature = "hnsw_rs"))]
        "hnsw_rs" => bail!("index \"hnsw_rs\" needs the cargo feature `hnsw_rs`"),
        _ => bail!("index {name:?} is not one of exact, hnsw, {WITH_NEIGHBOR_CODES}, hnsw_rs"),
    })
}

/// Returns true if an index always finds all neighbors, so that there is no effort to choose.
pub(super) fn is_exact(name: &str) -> bool {
    name == "exact"
}

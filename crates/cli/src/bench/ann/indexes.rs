//! Creates the indexes to measure by name.

use anyhow::anyhow;
use mnemon::{Config, ExactIndex, HnswIndex, HnswOptions, Precision, VectorIndex};

/// The indexes that are measured unless others are named.
pub(super) const DEFAULT: &str = if cfg!(feature = "hnsw_rs") { "exact,hnsw,hnsw_rs" } else { "exact,hnsw" };

/// Splits a name into the kind of index and the options that stand behind it: `hnsw+neighbors+f16` has both.
fn parse(name: &str) -> anyhow::Result<(&str, HnswOptions)> {
    let mut parts = name.split('+');
    let kind = parts.next().unwrap_or(name);
    let mut options = HnswOptions::default();
    for part in parts {
        match (kind, part) {
            ("hnsw", "neighbors") => options.neighbor_codes = true,
            ("hnsw", "f16") => options.half_precision = true,
            _ => return Err(unknown(name)),
        }
    }
    Ok((kind, options))
}

fn unknown(name: &str) -> anyhow::Error {
    anyhow!("index {name:?} is not one of exact, hnsw, hnsw_rs; hnsw can have +neighbors, +f16 or both")
}

/// Returns the settings of an engine that has this index.
pub(super) fn config(name: &str) -> anyhow::Result<Config> {
    let (kind, options) = parse(name)?;
    let precision = if options.half_precision { Precision::F16 } else { Precision::F32 };
    Ok(Config::default().index(kind.parse()?).neighbor_codes(options.neighbor_codes).precision(precision))
}

/// Creates an empty index.
pub(super) fn new(
    name: &str,
    dimension: usize,
    ef_construction: Option<usize>,
) -> anyhow::Result<Box<dyn VectorIndex>> {
    let (kind, mut options) = parse(name)?;
    Ok(match kind {
        "exact" => Box::new(ExactIndex::new(dimension)),
        "hnsw" => {
            options.graph_above = 0;
            options.ef_construction = ef_construction.unwrap_or(options.ef_construction);
            Box::new(HnswIndex::new(dimension, options))
        }
        #[cfg(feature = "hnsw_rs")]
        "hnsw_rs" => Box::new(mnemon::HnswRsIndex::new(dimension, 0)),
        #[cfg(not(feature = "hnsw_rs"))]
        "hnsw_rs" => return Err(crate::usage::missing("hnsw_rs", &["hnsw_rs"]).into()),
        _ => return Err(unknown(name)),
    })
}

/// Returns true if an index always finds all neighbors, so that there is no effort to choose.
pub(super) fn is_exact(name: &str) -> bool {
    name == "exact"
}

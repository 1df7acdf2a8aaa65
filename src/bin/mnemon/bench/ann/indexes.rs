//! Creates the indexes to measure by name.

use anyhow::anyhow;
use mnemon::{Config, ExactIndex, HnswIndex, HnswOptions, Precision, VectorIndex};

/// The indexes that are measured unless others are named.
pub(super) const DEFAULT: &str = if cfg!(feature = "hnsw_rs") { "exact,hnsw,hnsw_rs" } else { "exact,hnsw" };

/// The options of an index that its name gives: `hnsw+neighbors`, `hnsw+f16`, `hnsw+neighbors+f16`.
#[derive(Clone, Copy, Default)]
struct Extras {
    /// The codes of neighbors.
    neighbors: bool,
    /// Vectors with 16 bits a component.
    f16: bool,
}

/// Splits a name into the kind of index and its extras.
fn parse(name: &str) -> anyhow::Result<(&str, Extras)> {
    let mut parts = name.split('+');
    let kind = parts.next().unwrap_or(name);
    let mut extras = Extras::default();
    for part in parts {
        match (kind, part) {
            ("hnsw", "neighbors") => extras.neighbors = true,
            ("hnsw", "f16") => extras.f16 = true,
            _ => return Err(unknown(name)),
        }
    }
    Ok((kind, extras))
}

fn unknown(name: &str) -> anyhow::Error {
    anyhow!("index {name:?} is not one of exact, hnsw, hnsw_rs; hnsw can have +neighbors, +f16 or both")
}

/// Returns the settings of an engine that has this index.
pub(super) fn config(name: &str) -> anyhow::Result<Config> {
    let (kind, extras) = parse(name)?;
    let precision = if extras.f16 { Precision::F16 } else { Precision::F32 };
    Ok(Config::default().index(kind.parse()?).neighbor_codes(extras.neighbors).precision(precision))
}

/// Creates an empty index.
pub(super) fn new(
    name: &str,
    dimension: usize,
    ef_construction: Option<usize>,
) -> anyhow::Result<Box<dyn VectorIndex>> {
    let (kind, extras) = parse(name)?;
    Ok(match kind {
        "exact" => Box::new(ExactIndex::new(dimension)),
        "hnsw" => {
            let mut options = HnswOptions::default();
            options.graph_above = 0;
            (options.neighbor_codes, options.half_precision) = (extras.neighbors, extras.f16);
            options.ef_construction = ef_construction.unwrap_or(options.ef_construction);
            Box::new(HnswIndex::new(dimension, options))
        }
        #[cfg(feature = "hnsw_rs")]
        "hnsw_rs" => Box::new(mnemon::HnswRsIndex::new(dimension, 0)),
        #[cfg(not(feature = "hnsw_rs"))]
        "hnsw_rs" => anyhow::bail!("index \"hnsw_rs\" needs the cargo feature `hnsw_rs`"),
        _ => return Err(unknown(name)),
    })
}

/// Returns true if an index always finds all neighbors, so that there is no effort to choose.
pub(super) fn is_exact(name: &str) -> bool {
    name == "exact"
}

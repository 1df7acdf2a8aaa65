//! The report, written as JSON and read again for comparisons.

use std::path::Path;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use super::{engine::EngineReport, machine::Machine};
use crate::{input, stderr};

/// All measurements of a run.
#[derive(Deserialize, Serialize)]
pub(super) struct Report {
    pub(super) machine: Machine,
    pub(super) data: Data,
    pub(super) indexes: Vec<Measured>,
}

/// The shape of the data set.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct Data {
    pub(super) n: usize,
    pub(super) dim: usize,
    pub(super) queries: usize,
}

/// The measurements of an index, mnemon's or a peer's.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Measured {
    #[serde(alias = "peer")]
    pub(super) index: String,
    pub(super) build_s: f64,
    /// Growth of resident memory over the build, in MiB; includes the vectors only if the index copies them.
    pub(super) index_mb: Option<f64>,
    pub(super) points: Vec<Point>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) deletions: Option<Deletions>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) engine: Option<EngineReport>,
}

/// An index after a fifth of its rows was deleted and the rest repaired, beside an index built from the rest.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Deletions {
    pub(super) repair_s: f64,
    pub(super) repaired: Vec<Point>,
    pub(super) fresh: Vec<Point>,
}

/// A point of an index's curve.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct Point {
    /// Candidates kept (`ef`), or the peer's corresponding setting; 0 for an exact index.
    pub(super) effort: usize,
    pub(super) recall: f64,
    pub(super) qps: f64,
    /// Latency of a search on one thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) p50_us: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) p99_us: Option<f64>,
}

/// A file of figures to compare with.
#[derive(Deserialize)]
#[serde(untagged)]
enum PeerFile {
    Peers(Vec<Measured>),
    Ours(Report),
}

/// Reads the peers in a file: a list of them, or an earlier report of this command, whose indexes then have the file's
/// name added.
pub(super) fn peers(path: &Path, data: &Data) -> anyhow::Result<Vec<Measured>> {
    let name = path.display();
    let text = input::text(path)?;
    let file = serde_json::from_str(&text).with_context(|| {
        format!(
            "{name}: neither a list of {{\"peer\", \"build_s\", \"index_mb\", \"points\": [{{\"effort\", \"recall\", \
             \"qps\"}}]}} nor a report of `mnemon bench ann --json`"
        )
    })?;
    let peers = match file {
        PeerFile::Peers(peers) => peers,
        PeerFile::Ours(report) => {
            if report.data != *data {
                stderr::note(format!("{name} was measured with other data: {} x {}", report.data.n, report.data.dim));
            }
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let renamed = |one: Measured| Measured { index: format!("{} ({stem})", one.index), ..one };
            report.indexes.into_iter().map(renamed).collect()
        }
    };
    for peer in &peers {
        let sound = |point: &Point| (0.0..=1.0).contains(&point.recall) && point.qps > 0.0 && point.qps.is_finite();
        ensure!(
            peer.points.iter().all(sound),
            "{name}: {} has a recall outside 0 to 1, or a rate that is not positive; correct the file",
            peer.index
        );
    }
    Ok(peers)
}

//! The report: written as JSON, read again for comparisons, and printed as text. Curves are compared by their rates at
//! equal recall.

use std::path::Path;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use super::engine::EngineReport;
use crate::{
    input,
    output::{self, line},
};

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
                output::note(format!("{name} was measured with other data: {} x {}", report.data.n, report.data.dim));
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

/// The machine that the figures were measured on, as far as the system reports it (Linux).
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(super) struct Machine {
    pub(super) processor: String,
    pub(super) cores: usize,
    /// Number of search threads.
    pub(super) threads: usize,
}

impl Machine {
    pub(super) fn here(threads: usize) -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Machine {
            processor: name.map_or(std::env::consts::ARCH, |(_, name)| name.trim()).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            threads,
        }
    }

    pub(super) fn describe(&self) -> String {
        let s = if self.threads == 1 { "" } else { "s" };
        format!("{}, {} search thread{s}", self.processor, self.threads)
    }
}

/// The recalls at which curves are compared.
const RECALLS: [f64; 2] = [0.95, 0.99];

pub(super) fn print(report: &Report, peers: &[Measured]) -> anyhow::Result<()> {
    let data = &report.data;
    line(&format!("{} x {}, {} queries; {}", data.n, data.dim, data.queries, report.machine.describe()))?;
    report.indexes.iter().chain(peers).try_for_each(block)?;
    line("")?;
    compare(&report.indexes, peers)
}

fn block(index: &Measured) -> anyhow::Result<()> {
    let mb = index.index_mb.map_or("memory unknown".into(), |mb| format!("about {mb:.0} MB"));
    line(&format!("{}: build {:.2} s, {mb}", index.index, index.build_s))?;
    index.points.iter().try_for_each(point)?;
    if let Some(deletions) = &index.deletions {
        line(&format!("  20 % deleted, repaired in {:.2} s", deletions.repair_s))?;
        deletions.repaired.iter().try_for_each(point)?;
        line("  built from the rest")?;
        deletions.fresh.iter().try_for_each(point)?;
    }
    index.engine.iter().flat_map(|engine| engine.lines()).try_for_each(|text| line(&text))
}

fn point(point: &Point) -> anyhow::Result<()> {
    let latency = match (point.p50_us, point.p99_us) {
        (Some(p50), Some(p99)) => format!("  p50 {p50:>6.0} us  p99 {p99:>6.0} us"),
        _ => String::new(),
    };
    line(&format!("  effort {:>4}  recall@10 {:.4}  {:>7.0} q/s{latency}", point.effort, point.recall, point.qps))
}

/// Prints the rates at equal recall, and mnemon's rate over each peer's.
fn compare(ours: &[Measured], peers: &[Measured]) -> anyhow::Result<()> {
    let heads: String = RECALLS.iter().map(|recall| format!(" {:>10}", format!("at {recall}"))).collect();
    line(&format!("{:<32}{heads}", "q/s by recall@10"))?;
    for index in ours.iter().chain(peers) {
        row(&index.index, |recall| qps_at(&index.points, recall).map(|qps| format!("{qps:.0}")))?;
    }
    for one in ours {
        for peer in peers {
            row(&format!("{} / {}", one.index, peer.index), |recall| {
                Some(format!("{:.2}", qps_at(&one.points, recall)? / qps_at(&peer.points, recall)?))
            })?;
        }
    }
    Ok(())
}

fn row(name: &str, value: impl Fn(f64) -> Option<String>) -> anyhow::Result<()> {
    let values: String =
        RECALLS.iter().map(|&recall| format!(" {:>10}", value(recall).unwrap_or_else(|| "-".into()))).collect();
    line(&format!("{name:<32}{values}"))
}

/// Returns the Pareto front: the points that no other beats in both recall and rate, by ascending recall.
fn pareto_front(points: &[Point]) -> Vec<&Point> {
    let mut front: Vec<&Point> = points.iter().collect();
    front.sort_by(|a, b| b.recall.total_cmp(&a.recall).then(b.qps.total_cmp(&a.qps)));
    let mut fastest = 0.0;
    front.retain(|point| {
        let faster = point.qps > fastest;
        fastest = point.qps.max(fastest);
        faster
    });
    front.reverse();
    front
}

/// Returns queries per second at this recall, with the logarithm of the rate interpolated linearly between two points.
/// `None` if no point reaches the recall; the rate of the first point if all are above it.
fn qps_at(points: &[Point], recall: f64) -> Option<f64> {
    let front = pareto_front(points);
    let above = front.iter().position(|point| point.recall >= recall)?;
    let b = front[above];
    let Some(a) = above.checked_sub(1).map(|below| front[below]) else { return Some(b.qps) };
    let share = (recall - a.recall) / (b.recall - a.recall);
    Some((a.qps.ln() + share * (b.qps.ln() - a.qps.ln())).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(recall: f64, qps: f64) -> Point {
        Point { effort: 0, recall, qps, p50_us: None, p99_us: None }
    }

    #[test]
    fn rates_are_interpolated_by_their_logarithm() {
        let points = [point(0.9, 10_000.0), point(0.96, 500.0), point(1.0, 100.0), point(0.95, 900.0)];
        let at = |recall| qps_at(&points, recall).map(f64::round);
        assert_eq!(at(0.9), Some(10_000.0));
        assert_eq!(at(0.925), Some(3_000.0));
        assert_eq!(at(0.96), Some(500.0));
        assert_eq!(at(0.98), Some((500.0f64 * 100.0).sqrt().round()));
        assert_eq!(at(0.5), Some(10_000.0));
        assert_eq!(qps_at(&points[..2], 0.99), None);
        // A point that another one beats in both does not change the curve.
        let beaten = [point(0.9, 1000.0), point(0.92, 5.0), point(0.95, 800.0)];
        assert!(qps_at(&beaten, 0.92).unwrap() > 800.0);
        assert_eq!(qps_at(&[], 0.9), None);
    }
}

//! Prints the report as text.

use super::{
    curve::qps_at,
    report::{Measured, Point, Report},
};
use crate::output::line;

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

//! Draws the curves as SVG.

use std::fmt::Write;

use super::report::{Measured, Point, Report};
use crate::svg::{self, COLOURS, text};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 520.0;
/// Margins around the plot; the legend is in the right one.
const LEFT: f64 = 76.0;
const TOP: f64 = 58.0;
const RIGHT: f64 = 210.0;
const BOTTOM: f64 = 54.0;

/// The range of recall that is shown. Higher values are drawn at its end, since this scale never reaches 1.
const LOWEST: f64 = 0.8;
const HIGHEST: f64 = 0.9995;
const TICKS: [f64; 7] = [0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999];

/// Draws mnemon's indexes with solid lines and discs, and peers with dashes and squares.
pub(super) fn svg(report: &Report, peers: &[Measured]) -> String {
    let indexes: Vec<(&Measured, bool)> =
        report.indexes.iter().map(|one| (one, false)).chain(peers.iter().map(|peer| (peer, true))).collect();
    let rates = indexes.iter().flat_map(|(one, _)| shown(one)).map(|point| point.qps);
    let scale = Scale::of(rates);
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    let data = &report.data;
    let title = format!("recall@10 and queries a second, {} x {}", data.n, data.dim);
    let mut svg = svg::open(WIDTH, HEIGHT, &title);
    text(&mut svg, LEFT, 24.0, "start", "font-size=\"16\" font-weight=\"bold\"", &title);
    text(&mut svg, LEFT, 43.0, "start", "fill=\"#555\"", &report.machine.describe());
    axes(&mut svg, &scale);
    text(&mut svg, middle, HEIGHT - 12.0, "middle", "", "recall@10 (stretched towards 1)");
    let turned = format!("transform=\"rotate(-90 18 {0})\"", HEIGHT / 2.0);
    text(&mut svg, 18.0, HEIGHT / 2.0, "middle", &turned, "queries a second (logarithmic)");
    // The first index is drawn last, on top: exact search is a single point that others may cover.
    for (number, (index, is_peer)) in indexes.iter().enumerate().rev() {
        let colour = COLOURS[number % COLOURS.len()];
        curve(&mut svg, &scale, index, *is_peer, colour);
        legend(&mut svg, number, &index.index, *is_peer, colour);
    }
    svg::close(svg)
}

/// Returns the points within the shown range, by ascending recall.
fn shown(index: &Measured) -> Vec<&Point> {
    let mut points: Vec<&Point> =
        index.points.iter().filter(|point| point.recall >= LOWEST && point.qps > 0.0).collect();
    points.sort_by(|a, b| a.recall.total_cmp(&b.recall));
    points
}

/// The logarithmic axis of the rates. Its ends and grid lines are 1, 2 or 5 times a power of ten.
struct Scale {
    ticks: Vec<f64>,
}

impl Scale {
    fn of(rates: impl Iterator<Item = f64>) -> Self {
        let (least, most) =
            rates.fold((f64::INFINITY, 0.0f64), |(least, most), rate| (least.min(rate), most.max(rate)));
        let (least, most) = if most > 0.0 { (least, most) } else { (1.0, 10.0) };
        let powers = least.log10().floor() as i32..=most.log10().ceil() as i32;
        let steps: Vec<f64> = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|step| step * 10f64.powi(power))).collect();
        let first = steps.iter().rposition(|&step| step <= least).unwrap_or(0);
        let last = steps.iter().position(|&step| step >= most).unwrap_or(steps.len() - 1).max(first + 1);
        Scale { ticks: steps[first..=last].to_vec() }
    }

    fn y(&self, qps: f64) -> f64 {
        let (low, high) = (self.ticks[0].log10(), self.ticks[self.ticks.len() - 1].log10());
        HEIGHT - BOTTOM - (qps.log10() - low) / (high - low) * (HEIGHT - TOP - BOTTOM)
    }
}

/// Returns the horizontal position of a recall, on a logarithmic scale of the error: from .9 to .99 is as far as from
/// .99 to .999.
fn x(recall: f64) -> f64 {
    let stretched = |recall: f64| -(1.0 - recall).log10();
    let (low, high) = (stretched(LOWEST), stretched(HIGHEST));
    LEFT + (stretched(recall.clamp(LOWEST, HIGHEST)) - low) / (high - low) * (WIDTH - LEFT - RIGHT)
}

fn axes(svg: &mut String, scale: &Scale) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for tick in TICKS {
        let x = x(tick);
        let _ = writeln!(svg, "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/>");
        text(svg, x, bottom + 18.0, "middle", "", &tick.to_string());
    }
    text(svg, right, bottom + 18.0, "middle", "", "1");
    for &qps in &scale.ticks {
        let y = scale.y(qps);
        let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ddd\"/>");
        let label = if qps >= 1000.0 { format!("{}k", qps / 1000.0) } else { qps.to_string() };
        text(svg, LEFT - 8.0, y + 4.0, "end", "", &label);
    }
    let (width, height) = (right - LEFT, bottom - TOP);
    let _ = writeln!(
        svg,
        "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{width}\" height=\"{height}\" fill=\"none\" stroke=\"#666\"/>"
    );
}

fn curve(svg: &mut String, scale: &Scale, index: &Measured, is_peer: bool, colour: &str) {
    let positions: Vec<(f64, f64)> =
        shown(index).into_iter().map(|point| (x(point.recall), scale.y(point.qps))).collect();
    let path: Vec<String> = positions.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    stroke(svg, &path.join(" "), is_peer, colour);
    for (x, y) in positions {
        marker(svg, x, y, is_peer, colour);
    }
}

fn legend(svg: &mut String, number: usize, name: &str, is_peer: bool, colour: &str) {
    let (x, y) = (WIDTH - RIGHT + 18.0, TOP + 12.0 + 22.0 * number as f64);
    stroke(svg, &format!("{x},{y} {},{y}", x + 28.0), is_peer, colour);
    marker(svg, x + 14.0, y, is_peer, colour);
    text(svg, x + 36.0, y + 4.0, "start", "", name);
}

fn stroke(svg: &mut String, points: &str, is_peer: bool, colour: &str) {
    let dashes = if is_peer { " stroke-dasharray=\"5 4\" stroke-width=\"1.5\"" } else { " stroke-width=\"2.5\"" };
    let _ = writeln!(svg, "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\"{dashes}/>");
}

fn marker(svg: &mut String, x: f64, y: f64, is_peer: bool, colour: &str) {
    let _ = if is_peer {
        writeln!(svg, "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"6\" height=\"6\" fill=\"{colour}\"/>", x - 3.0, y - 3.0)
    } else {
        writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>")
    };
}

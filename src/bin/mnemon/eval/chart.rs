//! Draws R@10 as bars: a group of bars for each set and model, a bar for each variant.

use std::fmt::Write;

use super::{bootstrap::Interval, report::Report, set::BUT_ADVERSARIAL};
use crate::svg::{self, COLOURS, text};

/// Margins around the bars; the legend is in the right one.
const LEFT: f64 = 56.0;
const TOP: f64 = 58.0;
const RIGHT: f64 = 170.0;
const BOTTOM: f64 = 52.0;
const PLOT: f64 = 320.0;
const BAR: f64 = 30.0;
const GAP: f64 = 36.0;
/// Least width of a group, for the names below it.
const GROUP: f64 = 130.0;
const HEIGHT: f64 = TOP + PLOT + BOTTOM;

pub(super) fn svg(reports: &[Report]) -> String {
    let bars = reports.iter().map(|report| 1 + report.others.len()).max().unwrap_or(0) as f64 * BAR;
    let group = bars.max(GROUP);
    let right = LEFT + GAP + reports.len() as f64 * (group + GAP);
    let title = "R@10 of the evidence";
    let mut svg = svg::open(right + RIGHT, HEIGHT, title);
    text(&mut svg, LEFT, 24.0, "start", "font-size=\"16\" font-weight=\"bold\"", title);
    let subtitle = format!("{BUT_ADVERSARIAL} questions; lines: 95 % of resamples");
    text(&mut svg, LEFT, 43.0, "start", "fill=\"#555\"", &subtitle);
    for tenth in (0..=10).step_by(2) {
        let y = y(f64::from(tenth) / 10.0);
        let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{right:.1}\" stroke=\"#ddd\"/>");
        text(&mut svg, LEFT - 8.0, y + 4.0, "end", "", &format!("{:.1}", f64::from(tenth) / 10.0));
    }
    for (number, report) in reports.iter().enumerate() {
        let left = LEFT + GAP + number as f64 * (group + GAP);
        for (at, variant) in report.variants().enumerate() {
            let Some(scores) = variant.scores.get(BUT_ADVERSARIAL) else { continue };
            bar(&mut svg, left + (group - bars) / 2.0 + at as f64 * BAR, scores.intervals.recall_at_10, colour(at));
        }
        let middle = left + group / 2.0;
        text(&mut svg, middle, TOP + PLOT + 20.0, "middle", "font-weight=\"bold\"", &report.set);
        let model = report.model.split_whitespace().next().unwrap_or_default();
        text(&mut svg, middle, TOP + PLOT + 37.0, "middle", "fill=\"#555\"", model);
    }
    for (at, variant) in reports.first().into_iter().flat_map(Report::variants).enumerate() {
        let (x, y) = (right + 18.0, TOP + 4.0 + 22.0 * at as f64);
        let _ = writeln!(svg, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"14\" height=\"14\" fill=\"{}\"/>", colour(at));
        text(&mut svg, x + 22.0, y + 11.0, "start", "", &variant.recall);
    }
    svg::close(svg)
}

fn y(share: f64) -> f64 {
    TOP + (1.0 - share) * PLOT
}

fn colour(variant: usize) -> &'static str {
    COLOURS[variant % COLOURS.len()]
}

/// Draws a bar with its interval and, above it, its value.
fn bar(svg: &mut String, x: f64, Interval { mean, low, high }: Interval, colour: &str) {
    let (width, height) = (BAR - 4.0, mean * PLOT);
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width}\" height=\"{height:.1}\" fill=\"{colour}\"/>",
        y(mean)
    );
    let middle = x + width / 2.0;
    let (low, high) = (y(low), y(high));
    let (left, right) = (middle - 4.0, middle + 4.0);
    // The white outline keeps the line visible on a dark bar.
    for (stroke, thickness) in [("#fff", 3.5), ("#222", 1.5)] {
        let _ = writeln!(
            svg,
            "<path d=\"M{middle:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}H{right:.1}M{left:.1} {high:.1}H{right:.1}\" \
             stroke=\"{stroke}\" stroke-width=\"{thickness}\"/>"
        );
    }
    let figure = format!("{mean:.2}");
    text(svg, middle, high - 6.0, "middle", "font-size=\"10\"", figure.trim_start_matches('0'));
}

//! Draws R@10 as bars: a group of bars for each set and model, a bar for each variant. Groups are wrapped into rows, so
//! that the chart fits the width of a page.

use std::{collections::BTreeMap, fmt::Write};

use serde::Deserialize;

use super::{figures::Interval, set::BUT_ADVERSARIAL};
use crate::svg::{self, COLOURS, text};

const WIDTH: f64 = 880.0;
/// Margins of a row, for the labels of its axis and the names below it.
const LEFT: f64 = 44.0;
const RIGHT: f64 = 8.0;
const BELOW: f64 = 70.0;
/// Height of the bars' area in a row.
const PLOT: f64 = 150.0;
/// Space between two groups.
const GAP: f64 = 18.0;
/// The widths of a bar: there is room for its value.
const BAR: f64 = 24.0;
const WIDEST_BAR: f64 = 34.0;
/// The least width of a group: there is room for its names.
const GROUP: f64 = 130.0;
/// Height of a line of the legend.
const LEGEND: f64 = 22.0;

/// The results of a set and a model: the part of a report that is drawn.
#[derive(Deserialize)]
pub(super) struct Group {
    set: String,
    model: String,
    #[serde(flatten)]
    first: Variant,
    others: Vec<Variant>,
}

#[derive(Deserialize)]
struct Variant {
    recall: String,
    scores: BTreeMap<String, Scores>,
}

#[derive(Deserialize)]
struct Scores {
    intervals: Intervals,
}

#[derive(Deserialize)]
struct Intervals {
    recall_at_10: Interval,
}

impl Group {
    fn variants(&self) -> impl Iterator<Item = &Variant> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

pub(super) fn svg(groups: &[Group]) -> String {
    let bars = groups.iter().map(|group| group.variants().count()).max().unwrap_or(1) as f64;
    let plot = WIDTH - LEFT - RIGHT;
    let per_row = per_row(groups, (plot / (bars * BAR + GAP).max(GROUP)) as usize);
    let slot = plot / per_row as f64;
    let bar = ((slot - GAP) / bars).min(WIDEST_BAR);
    let names: Vec<&str> =
        groups.first().into_iter().flat_map(Group::variants).map(|variant| &*variant.recall).collect();
    let legend = legend(&names);
    let top = 58.0 + legend.last().map_or(0.0, |(_, y)| y + LEGEND + 14.0);

    let title = "R@10 of the evidence";
    let rows = groups.len().div_ceil(per_row) as f64;
    let mut svg = svg::open(WIDTH, top + rows * (PLOT + BELOW) - 18.0, title);
    text(&mut svg, 12.0, 26.0, "start", "font-size=\"17\" font-weight=\"bold\"", title);
    let subtitle = format!("{BUT_ADVERSARIAL} questions; lines: 95 % of resamples");
    text(&mut svg, 12.0, 46.0, "start", "font-size=\"13\" fill=\"#555\"", &subtitle);
    for (at, (name, (x, y))) in names.iter().zip(&legend).enumerate() {
        let y = 58.0 + y;
        let _ = writeln!(svg, "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"14\" height=\"14\" fill=\"{}\"/>", colour(at));
        text(&mut svg, x + 20.0, y + 12.0, "start", "font-size=\"13\"", name);
    }
    for (row, groups) in groups.chunks(per_row).enumerate() {
        let top = top + row as f64 * (PLOT + BELOW);
        axis(&mut svg, top);
        for (at, group) in groups.iter().enumerate() {
            let middle = LEFT + (at as f64 + 0.5) * slot;
            for (number, variant) in group.variants().enumerate() {
                let Some(scores) = variant.scores.get(BUT_ADVERSARIAL) else { continue };
                let x = middle + (number as f64 - group.variants().count() as f64 / 2.0) * bar;
                let place = BarPlace { x, top, width: bar - 3.0 };
                draw_bar(&mut svg, place, scores.intervals.recall_at_10, colour(number));
            }
            text(&mut svg, middle, top + PLOT + 19.0, "middle", "font-size=\"14\" font-weight=\"bold\"", &group.set);
            let model = group.model.split_whitespace().next().unwrap_or_default();
            text(&mut svg, middle, top + PLOT + 36.0, "middle", "font-size=\"13\" fill=\"#555\"", model);
        }
    }
    svg::close(svg)
}

/// Returns the number of groups in a row, which has room for `most`. The models of a set stay in one row if they can.
fn per_row(groups: &[Group], most: usize) -> usize {
    let most = most.clamp(1, groups.len().max(1));
    let models = groups.iter().take_while(|group| group.set == groups[0].set).count().max(1);
    if models <= most { most / models * models } else { most }
}

/// Returns the positions of the legend's items, in as many lines as they need.
fn legend(names: &[&str]) -> Vec<(f64, f64)> {
    let (mut x, mut y) = (12.0, 0.0);
    let place = |name: &&str| {
        // The width of the letters is estimated.
        let width = 40.0 + 7.2 * name.chars().count() as f64;
        if x + width > WIDTH {
            (x, y) = (12.0, y + LEGEND);
        }
        let position = (x, y);
        x += width;
        position
    };
    names.iter().map(place).collect()
}

fn axis(svg: &mut String, top: f64) {
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let y = top + (1.0 - tick) * PLOT;
        let _ = writeln!(svg, "<path d=\"M{LEFT} {y:.1}H{:.1}\" stroke=\"#ddd\"/>", WIDTH - RIGHT);
        text(svg, LEFT - 7.0, y + 4.0, "end", "font-size=\"12\"", &tick.to_string());
    }
}

fn colour(variant: usize) -> &'static str {
    COLOURS[variant % COLOURS.len()]
}

/// Where a bar is: its left side, and the top of its row.
struct BarPlace {
    x: f64,
    top: f64,
    width: f64,
}

/// Draws a bar with its interval and, above it, its value.
fn draw_bar(svg: &mut String, place: BarPlace, Interval { mean, low, high }: Interval, colour: &str) {
    let BarPlace { x, top, width } = place;
    let y = |share: f64| top + (1.0 - share) * PLOT;
    let _ = writeln!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
        y(mean),
        mean * PLOT
    );
    let middle = x + width / 2.0;
    let (low, high) = (y(low), y(high));
    let (left, right) = (middle - 3.5, middle + 3.5);
    // The white outline keeps the line visible on a dark bar.
    for (stroke, thickness) in [("#fff", 3.5), ("#222", 1.5)] {
        let _ = writeln!(
            svg,
            "<path d=\"M{middle:.1} {low:.1}V{high:.1}M{left:.1} {low:.1}H{right:.1}M{left:.1} {high:.1}H{right:.1}\" \
             stroke=\"{stroke}\" stroke-width=\"{thickness}\"/>"
        );
    }
    let figure = format!("{mean:.2}");
    text(svg, middle, high - 5.0, "middle", "font-size=\"12\"", figure.strip_prefix('0').unwrap_or(&figure));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn group(set: &str, variants: usize) -> Group {
        let interval = json!({ "mean": 0.7, "low": 0.6, "high": 0.8 });
        let scores = json!({ BUT_ADVERSARIAL: { "intervals": { "recall_at_10": interval } } });
        let variant = json!({ "recall": "hybrid-neighbors", "scores": scores });
        let others = vec![variant; variants - 1];
        serde_json::from_value(json!({
            "set": set, "model": "m (8 dimensions)", "recall": "hybrid", "scores": scores, "others": others,
        }))
        .unwrap()
    }

    #[test]
    fn a_chart_fits_a_page_with_any_number_of_sets() {
        for (sets, models, variants, rows) in [(1, 1, 1, 1), (4, 3, 8, 4), (12, 1, 2, 2), (2, 2, 3, 1), (1, 2, 40, 2)] {
            let names: Vec<String> = (0..sets).map(|set| format!("set{set}")).collect();
            let groups: Vec<Group> = names.iter().flat_map(|name| (0..models).map(|_| group(name, variants))).collect();
            let svg = svg(&groups);
            assert!(svg.contains("width=\"880\""), "{svg}");
            // The axis of each row has one label of 0.5.
            assert_eq!(svg.matches(">0.5<").count(), rows, "{sets} sets of {models} models with {variants} variants");
            let rights = svg.split(" x=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse::<f64>().unwrap());
            assert!(rights.into_iter().all(|x| (0.0..880.0).contains(&x)), "{svg}");
        }
    }
}

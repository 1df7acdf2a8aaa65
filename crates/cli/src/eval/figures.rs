//! Figures: means over questions with their confidence intervals, and aligned tables of them.

use serde::{Deserialize, Serialize};

use crate::{
    metrics::{Random, mean, percentile},
    output,
};

const RESAMPLES: usize = 1_000;
const SEED: u64 = 5;

/// A mean, and the interval in which it lies for 95 % of the resampled sets of questions.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub(super) struct Interval {
    pub(super) mean: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Computes a percentile bootstrap interval (Efron and Tibshirani 1993, ch. 13). For differences per question it is the
/// paired bootstrap.
pub(super) fn interval(values: &[f64]) -> Interval {
    let mut random = Random::new(SEED);
    let mut resample = || {
        let sum: f64 = (0..values.len()).map(|_| values[random.below(values.len())]).sum();
        sum / values.len().max(1) as f64
    };
    let mut means: Vec<f64> = (0..RESAMPLES).map(|_| resample()).collect();
    means.sort_by(f64::total_cmp);
    Interval { mean: mean(values), low: percentile(&means, 0.025), high: percentile(&means, 0.975) }
}

/// Prints an empty line and then the rows, with the first column aligned left and the others right.
pub(super) fn print(rows: &[Vec<String>]) -> anyhow::Result<()> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    output::line("")?;
    for row in rows {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, &width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("  {cell:>width$}"),
        });
        output::line(cells.collect::<String>().trim_end())?;
    }
    Ok(())
}

/// Prints the definition of each figure of a table, a line each.
pub(super) fn define(figures: &[(&str, &str)]) -> anyhow::Result<()> {
    figures.iter().try_for_each(|(name, definition)| output::line(&format!("  {name}: {definition}")))
}

/// Formats a score or share with three decimals.
pub(super) fn figure(value: f64) -> String {
    format!("{value:.3}")
}

/// Formats a mean with its interval, such as `0.754 [0.735, 0.772]`.
pub(super) fn with_interval(Interval { mean, low, high }: Interval) -> String {
    format!("{mean:.3} [{low:.3}, {high:.3}]")
}

/// Formats a difference with its interval, such as `+0.031 [+0.012, +0.050]`.
pub(super) fn difference(Interval { mean, low, high }: Interval) -> String {
    format!("{mean:+.3} [{low:+.3}, {high:+.3}]")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn intervals_match_known_distributions() {
        assert_eq!(interval(&[0.25; 9]), Interval { mean: 0.25, low: 0.25, high: 0.25 });
        assert_eq!(interval(&[]), Interval { mean: 0.0, low: 0.0, high: 0.0 });
        // The mean of n coin throws has a standard deviation of 1 / (2 sqrt(n)): for 400 throws, 1.96 of it are 0.049.
        let coin: Vec<f64> = (0..400).map(|throw| f64::from(throw % 2)).collect();
        let Interval { mean, low, high } = interval(&coin);
        assert_eq!(mean, 0.5);
        assert!((low - 0.451).abs() < 0.006 && (high - 0.549).abs() < 0.006, "{low} {high}");
        // Four times as many throws halve the interval.
        let Interval { low, high, .. } = interval(&coin.repeat(4));
        assert!((high - low - 0.049).abs() < 0.006, "{low} {high}");
        assert_eq!(interval(&coin), interval(&coin));
    }

    proptest! {
        #[test]
        fn an_interval_lies_within_the_values(values in prop::collection::vec(-1.0f64..1.0, 1..40)) {
            let Interval { low, high, .. } = interval(&values);
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(least - 1e-9 <= low && low <= high && high <= most + 1e-9);
        }
    }
}

//! Tables for people.

use super::bootstrap::Interval;
use crate::output;

/// Prints rows after a line that is empty: the first column to the left, the others to the right, all as wide as they need.
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

/// A share.
pub(super) fn figure(value: f64) -> String {
    format!("{value:.3}")
}

/// `0.754 [0.735, 0.772]`
pub(super) fn with_interval(Interval { mean, low, high }: Interval) -> String {
    format!("{mean:.3} [{low:.3}, {high:.3}]")
}

/// `+0.031 [+0.012, +0.050]`
pub(super) fn difference(Interval { mean, low, high }: Interval) -> String {
    format!("{mean:+.3} [{low:+.3}, {high:+.3}]")
}

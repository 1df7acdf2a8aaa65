//! Aligned text tables.

use super::bootstrap::Interval;
use crate::output;

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

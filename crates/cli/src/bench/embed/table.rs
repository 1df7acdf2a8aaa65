//! Prints the figures as a table.

use super::report::Report;
use crate::output;

pub(super) fn print(report: &Report) -> anyhow::Result<()> {
    let Report { messages, texts, device, threads, rows, .. } = report;
    output::line(&format!("{texts} texts of {messages}, {device}, {threads} threads; ratios are to the first row"))?;
    output::line(&format!(
        "{:<34} {:<26} {:>10} {:>6} {:>17} {:>12} {:>12} {:>9}",
        "by", "model", "texts/s", "ratio", "slowest-fastest", "one p50 us", "one p99 us", "peak MiB"
    ))?;
    let number = |figure: Option<f64>| figure.map_or(String::new(), |figure| format!("{figure:.0}"));
    for row in rows {
        let range = row.texts_per_second_range.map_or(String::new(), |(low, high)| format!("{low:.0}-{high:.0}"));
        output::line(&format!(
            "{:<34} {:<26} {:>10.0} {:>6.2} {:>17} {:>12} {:>12} {:>9}",
            row.by,
            row.model,
            row.texts_per_second,
            row.texts_per_second / rows[0].texts_per_second,
            range,
            number(row.query_p50_us),
            number(row.query_p99_us),
            number(row.peak_memory_mb)
        ))?;
    }
    Ok(())
}

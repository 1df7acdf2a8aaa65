//! The figures that the bench prints.

use serde::{Deserialize, Serialize};

/// Figures of one program with one model; medians of the rounds.
#[derive(Deserialize, Serialize)]
pub(super) struct Row {
    /// The program that ran the model.
    pub(super) by: String,
    pub(super) model: String,
    pub(super) texts_per_second: f64,
    /// The rates of the slowest and the fastest round.
    #[serde(default)]
    pub(super) texts_per_second_range: Option<(f64, f64)>,
    #[serde(default)]
    pub(super) query_p50_us: Option<f64>,
    #[serde(default)]
    pub(super) query_p99_us: Option<f64>,
    /// Peak memory of a process that embeds texts of all lengths and queries at the same time.
    #[serde(default)]
    pub(super) peak_memory_mb: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct Report {
    pub(super) bench: &'static str,
    pub(super) messages: String,
    pub(super) texts: usize,
    pub(super) device: String,
    pub(super) threads: usize,
    pub(super) rows: Vec<Row>,
}

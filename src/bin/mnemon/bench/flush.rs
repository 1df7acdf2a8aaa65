//! `mnemon bench flush`

use std::time::Instant;

use serde_json::json;

use super::{ingest_options::IngestOptions, process_memory::peak_bytes};
use crate::{input, metrics::percentile, output};

pub(super) fn run(options: &IngestOptions) -> anyhow::Result<()> {
    let messages = options.messages()?;
    let (engine, path, _folder) = input::temporary(options.model.as_deref(), options.index, options.precision)?;
    let count = messages.len();
    let mut puts = Vec::new();
    let started = Instant::now();
    for batch in messages.chunks(options.batch) {
        let put = Instant::now();
        engine.blocking().put_all(batch.to_vec())?;
        puts.push(put.elapsed().as_secs_f64() * 1e6);
    }
    let put_seconds = started.elapsed().as_secs_f64();
    engine.blocking().flush()?;
    let seconds = started.elapsed().as_secs_f64();
    puts.sort_by(f64::total_cmp);
    output::json(&json!({
        "bench": "flush",
        "model": engine.model().to_string(),
        "precision": options.precision,
        "messages": count,
        "batch": options.batch,
        "seconds": seconds,
        "messages_per_second": count as f64 / seconds,
        "put_seconds": put_seconds,
        "put_p50_us": percentile(&puts, 0.5),
        "put_p99_us": percentile(&puts, 0.99),
        "file_bytes": std::fs::metadata(path)?.len(),
        "peak_memory_bytes": peak_bytes(),
    }))
}

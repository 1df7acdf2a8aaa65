//! `mnemon bench`

mod ann;
mod embed;
mod memory;
mod recall;
mod reindex;

use std::{path::PathBuf, process::ExitCode, time::Instant};

use clap::Subcommand;
use mnemon::{IndexKind, Precision};
use serde_json::json;

use crate::{
    input,
    metrics::percentile,
    output::{self, Format},
};

/// Measure on a message file, end to end, or on vectors; prints JSON.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Recall against queries a second of the indexes, on vectors in files; prints a table, or JSON with --format json.
    ///
    /// Each index is built and asked in a process of its own, so that its memory is its own.
    Ann(ann::Args),
    /// Texts a second of models, and the time of a question; beside fastembed, and others' figures. Prints a table, or JSON with
    /// --format json.
    ///
    /// Each is measured in a process of its own.
    Embed(embed::Args),
    /// Durable ingest: put in batches, embed, commit, index.
    Flush(Common),
    /// A session's memory: durable puts one by one and from 8 tasks, and prompts with 4 blocks and 200 recent messages.
    Memory(memory::Args),
    /// Recall, the question's embedding included; and the sizes of what was stored.
    Recall(recall::Args),
    /// A reindex to another model and a rollback, while recalls and puts go on: rates, latencies, and what failed or was missing.
    Reindex(reindex::Args),
}

#[derive(clap::Args)]
struct Common {
    /// The messages.
    #[arg(long, value_name = "M.jsonl", default_value = "datasets/sample/messages.jsonl")]
    messages: PathBuf,
    /// A model folder or name.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
    /// exact, hnsw_rs or auto.
    #[arg(long, default_value = "auto")]
    index: IndexKind,
    /// How vectors are stored: f32 or i8.
    #[arg(long, default_value = "f32")]
    precision: Precision,
    /// Messages of one put.
    #[arg(long, default_value_t = 512)]
    batch: usize,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<ExitCode> {
    match args.what {
        What::Ann(args) => ann::run(&args, format)?,
        What::Embed(args) => embed::run(&args, format)?,
        What::Flush(common) => flush(&common)?,
        What::Memory(args) => memory::run(&args)?,
        What::Recall(args) => recall::run(&args)?,
        What::Reindex(args) => reindex::run(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn flush(common: &Common) -> anyhow::Result<()> {
    let messages = input::messages(&common.messages)?;
    let (engine, path, _folder) = input::temporary(common.model.as_deref(), common.index, common.precision)?;
    let count = messages.len();
    let mut puts = Vec::new();
    let started = Instant::now();
    for batch in messages.chunks(common.batch.max(1)) {
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
        "precision": common.precision,
        "messages": count,
        "batch": common.batch,
        "seconds": seconds,
        "messages_per_second": count as f64 / seconds,
        "put_seconds": put_seconds,
        "put_p50_us": percentile(&puts, 0.5),
        "put_p99_us": percentile(&puts, 0.99),
        "file_bytes": std::fs::metadata(path)?.len(),
        "peak_memory_bytes": peak_memory(),
    }))
}

/// The most memory this process has had resident, where the system tells (Linux).
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().ok()? * 1024)
}

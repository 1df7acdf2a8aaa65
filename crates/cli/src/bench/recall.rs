//! `mnemon bench recall`: latency, and sizes of the stored data.

use std::{path::PathBuf, time::Instant};

use anyhow::ensure;
use mnemon::{MAX_K, Namespace, Query, RankingStrategy};
use serde_json::json;

use super::setup::{IngestOptions, peak_bytes, spread};
use crate::{database::Temporary, input, metrics::Times, output, usage};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    ingest: IngestOptions,
    /// A file of queries. Default: the texts of messages, evenly spread.
    #[arg(long, value_name = "Q.jsonl")]
    queries: Option<PathBuf>,
    /// Store all messages in this namespace, and query it, instead of those that the lines name.
    #[arg(long)]
    namespace: Option<Namespace>,
    /// Number of messages to find.
    #[arg(short, default_value_t = 10, value_parser = usage::within(1..=MAX_K))]
    k: usize,
    /// Number of passes over the queries.
    #[arg(long, default_value_t = 5, value_parser = usage::within(1..=1_000_000))]
    rounds: usize,
    /// The ranking: hybrid, dense, lexical, rrf or weighted:0.5.
    #[arg(long, default_value = "hybrid")]
    strategy: RankingStrategy,
}

/// Number of messages whose texts are the queries if no file is given.
const SAMPLED: usize = 500;

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let mut messages = args.ingest.messages()?;
    if let Some(namespace) = &args.namespace {
        messages.iter_mut().for_each(|(own, _)| own.clone_from(namespace));
    }
    let queries: Vec<(Namespace, String)> = match &args.queries {
        Some(path) => {
            let target = |own: Namespace| args.namespace.clone().unwrap_or(own);
            input::queries(path)?.into_iter().map(|line| (target(line.namespace), line.query)).collect()
        }
        None => spread(&messages, SAMPLED),
    };
    ensure!(!queries.is_empty(), "there are no queries; give a file that has some with --queries");
    let text_bytes: usize = messages.iter().map(|(_, message)| message.text().len()).sum();
    let count = messages.len();
    let Temporary { engine, path, folder: _folder } = args.ingest.database()?;
    let model = engine.model().to_string();
    let blocking = engine.blocking();
    let started = Instant::now();
    // Without copies, which the peak of the memory would count.
    let mut messages = messages.into_iter().peekable();
    while messages.peek().is_some() {
        blocking.put_all(messages.by_ref().take(args.ingest.batch).collect())?;
    }
    blocking.flush()?;
    let ingest_seconds = started.elapsed().as_secs_f64();

    let recall = |(namespace, text): &(Namespace, String)| {
        blocking.recall(namespace, Query::new(text).k(args.k).strategy(args.strategy))
    };
    for query in &queries {
        blocking.optimize(&query.0)?;
        recall(query)?;
    }
    let mut latencies = Times::default();
    for query in (0..args.rounds).flat_map(|_| &queries) {
        latencies.time(|| recall(query))?;
    }
    let peak_memory_bytes = peak_bytes();
    drop(engine);
    let stats = mnemon::stats(&path)?;
    output::json(&json!({
        "bench": "recall",
        "model": model,
        "index": format!("{:?}", args.ingest.index),
        "precision": args.ingest.precision,
        "strategy": args.strategy.to_string(),
        "messages": count,
        "text_bytes": text_bytes,
        "ingest_messages_per_second": count as f64 / ingest_seconds,
        "file_bytes": stats.file_bytes,
        "sizes": stats.sizes,
        "recalls": latencies.len(),
        "k": args.k,
        "p50_us": latencies.percentile(0.5),
        "p95_us": latencies.percentile(0.95),
        "p99_us": latencies.percentile(0.99),
        "max_us": latencies.percentile(1.0),
        "peak_memory_bytes": peak_memory_bytes,
    }))
}

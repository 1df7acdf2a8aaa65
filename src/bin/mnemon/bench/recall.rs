//! `mnemon bench recall`

use std::{path::PathBuf, time::Instant};

use anyhow::ensure;
use mnemon::{Namespace, Query, Strategy};
use serde_json::json;

use super::{Common, peak_memory};
use crate::{input, metrics::percentile, output};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,
    /// The questions. Without: the texts of messages, evenly spread.
    #[arg(long, value_name = "Q.jsonl")]
    queries: Option<PathBuf>,
    /// Put all messages into this namespace, and ask there, whatever their lines say.
    #[arg(long)]
    namespace: Option<Namespace>,
    /// Messages of an answer.
    #[arg(short, default_value_t = 10)]
    k: usize,
    /// How often the questions are asked.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// hybrid, dense, lexical, rrf or weighted:0.5.
    #[arg(long, default_value = "hybrid")]
    strategy: Strategy,
}

/// Messages whose texts are asked, without questions.
const ASKED: usize = 500;

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let mut messages = input::messages(&args.common.messages)?;
    ensure!(!messages.is_empty(), "{}: no messages", args.common.messages.display());
    if let Some(namespace) = &args.namespace {
        messages.iter_mut().for_each(|(own, _)| own.clone_from(namespace));
    }
    let queries: Vec<(Namespace, String)> = match &args.queries {
        Some(path) => {
            let place = |own: Namespace| args.namespace.clone().unwrap_or(own);
            input::queries(path)?.into_iter().map(|line| (place(line.namespace), line.query)).collect()
        }
        None => {
            let spread = messages.iter().step_by(messages.len().div_ceil(ASKED));
            let texts = spread.map(|(namespace, message)| (namespace.clone(), message.text()));
            texts.filter(|(_, text)| !text.trim().is_empty()).collect()
        }
    };
    ensure!(!queries.is_empty(), "no questions");
    let text_bytes: usize = messages.iter().map(|(_, message)| message.text().len()).sum();
    let count = messages.len();
    let (engine, path, _folder) =
        input::temporary(args.common.model.as_deref(), args.common.index, args.common.precision)?;
    let model = engine.model().to_string();
    let blocking = engine.blocking();
    let started = Instant::now();
    let mut messages = messages.into_iter().peekable();
    while messages.peek().is_some() {
        blocking.put_all(messages.by_ref().take(args.common.batch.max(1)).collect())?;
    }
    blocking.flush()?;
    let ingest_seconds = started.elapsed().as_secs_f64();

    let ask = |(namespace, text): &(Namespace, String)| {
        blocking.recall(namespace, Query::new(text).k(args.k).strategy(args.strategy))
    };
    for query in &queries {
        blocking.optimize(&query.0)?;
        ask(query)?;
    }
    let mut latencies = Vec::new();
    for query in (0..args.rounds).flat_map(|_| &queries) {
        let started = Instant::now();
        ask(query)?;
        latencies.push(started.elapsed().as_secs_f64() * 1e6);
    }
    latencies.sort_by(f64::total_cmp);
    let peak_memory_bytes = peak_memory();
    drop(engine);
    let stats = mnemon::stats(&path)?;
    output::json(&json!({
        "bench": "recall",
        "model": model,
        "index": format!("{:?}", args.common.index),
        "precision": args.common.precision,
        "strategy": args.strategy.to_string(),
        "messages": count,
        "text_bytes": text_bytes,
        "ingest_messages_per_second": count as f64 / ingest_seconds,
        "file_bytes": stats.file_bytes,
        "sizes": stats.sizes,
        "recalls": latencies.len(),
        "k": args.k,
        "p50_us": percentile(&latencies, 0.5),
        "p95_us": percentile(&latencies, 0.95),
        "p99_us": percentile(&latencies, 0.99),
        "max_us": percentile(&latencies, 1.0),
        "peak_memory_bytes": peak_memory_bytes,
    }))
}

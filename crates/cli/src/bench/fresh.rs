//! `mnemon bench fresh`

use std::time::{Duration, Instant};

use anyhow::ensure;
use mnemon::{Message, Query, RankingStrategy};
use serde_json::json;

use super::ingest_options::IngestOptions;
use crate::{input, metrics::percentile, output};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    ingest: IngestOptions,
    /// Number of messages put one by one and recalled at once by their words.
    #[arg(long, default_value_t = 1000)]
    words: usize,
    /// Number of messages put one by one and recalled by meaning, each after the idle flush of a second.
    #[arg(long, default_value_t = 20)]
    meanings: usize,
}

/// How often a recall by meaning is tried.
const EVERY: Duration = Duration::from_millis(2);

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let options = &args.ingest;
    let messages = options.messages()?;
    let (engine, _path, _folder) = input::temporary(options.model.as_deref(), options.index, options.precision)?;
    let (blocking, count, namespace) = (engine.blocking(), messages.len(), messages[0].0.clone());
    for batch in messages.chunks(options.batch) {
        blocking.put_all(batch.iter().map(|(_, message)| (namespace.clone(), message.clone())).collect())?;
    }
    blocking.flush()?;
    blocking.recall(&namespace, Query::new("warm"))?;

    // A word of its own for each message, so that it must be the first hit.
    let put = |kind: &str, at: usize| -> anyhow::Result<(String, String)> {
        let text = format!("the parcel {kind}{at} is at the counter");
        let message = Message::user(text.as_str());
        let id = message.id.clone();
        blocking.put(&namespace, vec![message])?;
        Ok((id, text))
    };
    let (mut words, mut meanings) = (Vec::new(), Vec::new());
    for at in 0..args.words {
        let started = Instant::now();
        let (id, _) = put("w", at)?;
        let hits = blocking.recall(&namespace, Query::new(format!("where is w{at}")).k(1))?;
        words.push(started.elapsed().as_secs_f64() * 1e3);
        ensure!(hits.first().is_some_and(|hit| hit.message.id == id), "a message was not found by its words");
    }
    blocking.flush()?;
    for at in 0..args.meanings {
        let started = Instant::now();
        let (id, text) = put("m", at)?;
        let query = || Query::new(text.as_str()).k(5).strategy(RankingStrategy::Dense);
        while !blocking.recall(&namespace, query())?.iter().any(|hit| hit.message.id == id) {
            ensure!(started.elapsed() < Duration::from_secs(60), "a message was not found by meaning");
            std::thread::sleep(EVERY);
        }
        meanings.push(started.elapsed().as_secs_f64() * 1e3);
    }
    words.sort_by(f64::total_cmp);
    meanings.sort_by(f64::total_cmp);
    output::json(&json!({
        "bench": "fresh",
        "model": engine.model().to_string(),
        "messages": count,
        "words": words.len(),
        "words_p50_ms": percentile(&words, 0.5),
        "words_p99_ms": percentile(&words, 0.99),
        "meanings": meanings.len(),
        "meanings_p50_ms": percentile(&meanings, 0.5),
        "meanings_p99_ms": percentile(&meanings, 0.99),
    }))
}

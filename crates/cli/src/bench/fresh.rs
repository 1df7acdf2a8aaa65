//! `mnemon bench fresh`: how soon a message is recalled after it was put.

use std::time::{Duration, Instant};

use anyhow::ensure;
use mnemon::{Message, Query, RankingStrategy};
use serde_json::json;

use super::setup::IngestOptions;
use crate::{database::Temporary, metrics::Times, output};

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

/// The time between two recalls by meaning.
const EVERY: Duration = Duration::from_millis(2);

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let options = &args.ingest;
    let mut messages = options.messages()?;
    let namespace = messages[0].0.clone();
    messages.iter_mut().for_each(|(own, _)| own.clone_from(&namespace));
    let Temporary { engine, folder: _folder, .. } = options.database()?;
    let blocking = engine.blocking();
    options.ingest(&engine, &messages)?;
    blocking.recall(&namespace, Query::new("warm"))?;

    // Each message has a word of its own, so that it must be the first hit.
    let put = |kind: &str, at: usize| -> anyhow::Result<(String, String)> {
        let text = format!("the parcel {kind}{at} is at the counter");
        let message = Message::user(text.as_str());
        let id = message.id.clone();
        blocking.put(&namespace, vec![message])?;
        Ok((id, text))
    };
    let (mut words, mut meanings) = (Times::default(), Times::default());
    for at in 0..args.words {
        let started = Instant::now();
        let (id, _) = put("w", at)?;
        let hits = blocking.recall(&namespace, Query::new(format!("where is w{at}")).k(1))?;
        words.add(started);
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
        meanings.add(started);
    }
    let ms = |times: &Times, p| times.percentile(p) / 1e3;
    output::json(&json!({
        "bench": "fresh",
        "model": engine.model().to_string(),
        "messages": messages.len(),
        "words": words.len(),
        "words_p50_ms": ms(&words, 0.5),
        "words_p99_ms": ms(&words, 0.99),
        "meanings": meanings.len(),
        "meanings_p50_ms": ms(&meanings, 0.5),
        "meanings_p99_ms": ms(&meanings, 0.99),
    }))
}

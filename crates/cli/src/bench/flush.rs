//! `mnemon bench flush`: durable ingest, and long texts.

use std::time::Instant;

use anyhow::ensure;
use mnemon::{ContentPart, Embedder, Message, Namespace};
use serde_json::json;

use super::setup::{IngestOptions, peak_bytes};
use crate::{database::Temporary, metrics::Times, output};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    ingest: IngestOptions,
    /// Join consecutive turns of a session to messages of 2,100 characters, or a little more, and leave out the
    /// shorter rest of each session. Also measures how long one text of 1 MiB takes to embed.
    #[arg(long)]
    long: bool,
}

/// The least number of characters of a joined message.
const LONG: usize = 2100;
/// The size of the single text in bytes.
const SINGLE: usize = 1 << 20;
/// How often the single text is embedded.
const ROUNDS: usize = 9;

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let options = &args.ingest;
    let mut messages = options.messages()?;
    if args.long {
        messages = joined(messages);
        ensure!(!messages.is_empty(), "no session has {LONG} characters, which --long needs");
    }
    let Temporary { engine, path, folder: _folder } = options.database()?;
    let count = messages.len();
    let bytes: usize = messages.iter().map(|(_, message)| message.text().len()).sum();
    let mut puts = Times::default();
    let started = Instant::now();
    for batch in messages.chunks(options.batch) {
        puts.time(|| engine.blocking().put_all(batch.to_vec()))?;
    }
    let put_seconds = started.elapsed().as_secs_f64();
    engine.blocking().flush()?;
    let seconds = started.elapsed().as_secs_f64();
    let single = args.long.then(|| single_ms(&*engine.embedder(), &messages)).transpose()?;
    output::json(&json!({
        "bench": "flush",
        "model": engine.model().to_string(),
        "precision": options.precision,
        "messages": count,
        "batch": options.batch,
        "seconds": seconds,
        "messages_per_second": count as f64 / seconds,
        "megabytes_per_second": bytes as f64 / 1e6 / seconds,
        "put_seconds": put_seconds,
        "put_p50_us": puts.percentile(0.5),
        "put_p99_us": puts.percentile(0.99),
        "embed_1_mib_p50_ms": single,
        "file_bytes": std::fs::metadata(path)?.len(),
        "peak_memory_bytes": peak_bytes(),
    }))
}

/// Joins consecutive turns of a session to messages of at least [`LONG`] characters.
fn joined(messages: Vec<(Namespace, Message)>) -> Vec<(Namespace, Message)> {
    let mut long: Vec<(Namespace, Message)> = Vec::new();
    for session in messages.chunk_by(|(a, first), (b, second)| a == b && first.session == second.session) {
        let mut text = String::new();
        for (namespace, message) in session {
            text.push_str(&message.text());
            if text.chars().count() >= LONG {
                let content = vec![ContentPart::Text { text: std::mem::take(&mut text) }];
                long.push((namespace.clone(), Message { content, ..message.clone() }));
            } else {
                text.push('\n');
            }
        }
    }
    long
}

/// Returns the median time of embedding one text of [`SINGLE`] bytes, which repeats the messages, in milliseconds.
fn single_ms(embedder: &dyn Embedder, messages: &[(Namespace, Message)]) -> anyhow::Result<f64> {
    let mut text = String::new();
    for (_, message) in messages.iter().cycle() {
        text.push_str(&message.text());
        if text.len() >= SINGLE {
            break;
        }
        text.push('\n');
    }
    text.truncate(text.floor_char_boundary(SINGLE));
    let mut times = Times::default();
    for _ in 0..ROUNDS {
        times.time(|| embedder.embed_passages(&[&text]))?;
    }
    Ok(times.percentile(0.5) / 1e3)
}

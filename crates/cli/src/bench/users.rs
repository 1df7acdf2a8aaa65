//! `mnemon bench users`: very many namespaces under a memory budget.

use std::time::{Duration, Instant};

use anyhow::ensure;
use mnemon::{Config, Engine, Message, Namespace, Query};
use serde_json::json;

use super::setup::{messages_or_sample, peak_bytes, resident_bytes};
use crate::{
    database,
    metrics::{Random, Times},
    output,
    usage::{self, MemoryOptions},
};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Number of users, each with a namespace.
    #[arg(long, default_value_t = 2_000, value_parser = usage::within(1..=10_000_000))]
    namespaces: usize,
    /// Number of messages of each user.
    #[arg(long, default_value_t = 50, value_parser = usage::within(1..=1_000_000))]
    messages: usize,
    #[command(flatten)]
    memory: MemoryOptions,
    /// Number of recalls, each of a random user.
    #[arg(long, default_value_t = 20_000)]
    recalls: usize,
    /// A model folder or name.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
}

/// Messages of one put.
const BATCH: usize = 10_000;

/// Returns a word of letters for a number.
fn word(mut number: usize) -> String {
    let mut word = String::from("xq");
    for _ in 0..7 {
        word.push(char::from(b'a' + (number % 26) as u8));
        number /= 26;
    }
    word.push('k');
    word
}

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let talk: Vec<Message> = messages_or_sample(None)?.into_iter().map(|(_, message)| message).collect();
    let name = |user: usize| -> Namespace { format!("users/{user}").parse().expect("a valid name") };
    // Each user has another part of the sample, and each message a word that no other message has.
    let said_at = |user: usize, at: usize| (user * 31 + at) % talk.len();
    let mut config = Config::default().embedding_cache(0);
    args.memory.set(&mut config);
    let folder = database::temporary_folder()?;
    let path = folder.path().join("memory.redb");
    let open = || -> anyhow::Result<(Engine, Duration)> {
        let started = Instant::now();
        let engine = database::engine(&path, args.model.as_deref(), config.clone(), true)?;
        Ok((engine, started.elapsed()))
    };

    let (engine, _) = open()?;
    let started = Instant::now();
    let mut batch = Vec::with_capacity(BATCH);
    for user in 0..args.namespaces {
        let namespace = name(user);
        for at in 0..args.messages {
            let said = &talk[said_at(user, at)];
            let text = format!("{} {}", said.text(), word(user * args.messages + at));
            batch.push((namespace.clone(), Message::new(said.role, text).with_id(format!("{at}"))));
        }
        if batch.len() >= BATCH || user + 1 == args.namespaces {
            engine.blocking().put_all(std::mem::take(&mut batch))?;
        }
    }
    engine.blocking().flush()?;
    let ingest_seconds = started.elapsed().as_secs_f64();
    let after_ingest = resident_bytes();
    // Namespaces that are large enough for a graph are measured with a finished one.
    let started = Instant::now();
    if args.messages > config.exact_threshold {
        (0..args.namespaces).try_for_each(|user| engine.blocking().optimize(&name(user)))?;
    }
    let link_seconds = started.elapsed().as_secs_f64();
    drop(engine);

    let (engine, opening) = open()?;
    let at_rest = resident_bytes();
    let mut random = Random::new(7);
    let (mut cold, mut warm) = (Times::default(), Times::default());
    let started = Instant::now();
    let mut most_resident = at_rest;
    for recall in 0..args.recalls {
        let (user, at) = (random.below(args.namespaces), random.below(args.messages));
        // The text of a message of the user.
        let question = format!("{} {}", talk[said_at(user, at)].text(), word(user * args.messages + at));
        let namespace = name(user);
        let loads = engine.blocking().stats().loads;
        // The second recall of a user finds the namespace loaded.
        for _ in 0..2 {
            let one = Instant::now();
            let hits = engine.blocking().recall(&namespace, Query::new(question.as_str()).k(5))?;
            let time = one.elapsed().as_secs_f64() * 1e6;
            ensure!(hits.iter().any(|hit| hit.message.id == at.to_string()), "a message was not found");
            let is_cold = engine.blocking().stats().loads > loads && cold.len() + warm.len() == 2 * recall;
            if is_cold { &mut cold } else { &mut warm }.0.push(time);
        }
        if recall % 100 == 0 {
            most_resident = most_resident.max(resident_bytes());
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let stats = engine.blocking().stats();
    output::json(&json!({
        "bench": "users",
        "model": engine.model().to_string(),
        "namespaces": args.namespaces,
        "messages": args.namespaces * args.messages,
        "ingest_messages_per_second": (args.namespaces * args.messages) as f64 / ingest_seconds,
        "link_s": link_seconds,
        "opening_ms": opening.as_secs_f64() * 1e3,
        "recalls": cold.len() + warm.len(),
        "loads_per_second": stats.loads as f64 / seconds,
        "cold_p50_us": cold.percentile(0.5),
        "cold_p99_us": cold.percentile(0.99),
        "p50_us": warm.percentile(0.5),
        "p99_us": warm.percentile(0.99),
        "memory": stats,
        "resident_after_ingest_bytes": after_ingest,
        "resident_at_rest_bytes": at_rest,
        "resident_beside_recalls_bytes": most_resident,
        "peak_memory_bytes": peak_bytes(),
        "file_bytes": std::fs::metadata(&path)?.len(),
    }))
}

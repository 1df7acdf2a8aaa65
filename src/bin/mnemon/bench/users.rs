//! `mnemon bench users`

use std::time::{Duration, Instant};

use anyhow::ensure;
use mnemon::{Config, Engine, IndexKind, Message, Namespace, Query};
use serde_json::json;

use super::{
    process_memory::{peak_bytes, resident_bytes},
    sample,
};
use crate::{input, metrics::percentile, output, random::Random, usage};

#[derive(clap::Args)]
pub(super) struct Args {
    /// Number of users, each with a namespace.
    #[arg(long, default_value_t = 2_000, value_parser = usage::within(1..=10_000_000))]
    namespaces: usize,
    /// Number of messages of each user.
    #[arg(long, default_value_t = 50, value_parser = usage::within(1..=1_000_000))]
    messages: usize,
    /// Memory that loaded namespaces may take together, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 256 << 20)]
    memory_budget: usize,
    /// Number of recalls, each of a random user.
    #[arg(long, default_value_t = 20_000)]
    recalls: usize,
    /// A model folder or name.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
}

/// Messages of one put.
const BATCH: usize = 10_000;

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let talk: Vec<Message> = sample::messages(None)?.into_iter().map(|(_, message)| message).collect();
    let name = |user: usize| -> Namespace { format!("users/{user}").parse().expect("a valid name") };
    let mut config: Config = input::config(IndexKind::Auto);
    config.memory_budget = args.memory_budget;
    config.embedding_cache = 0;
    let folder = tempfile::Builder::new().prefix("mnemon-").tempdir()?;
    let path = folder.path().join("memory.redb");
    let open = || -> anyhow::Result<(Engine, Duration)> {
        let started = Instant::now();
        let engine = input::engine(&path, args.model.as_deref(), config.clone(), true)?;
        Ok((engine, started.elapsed()))
    };

    let (engine, _) = open()?;
    let started = Instant::now();
    let mut batch = Vec::with_capacity(BATCH);
    for user in 0..args.namespaces {
        let namespace = name(user);
        for at in 0..args.messages {
            // Each user has another part of the sample, and each message a word that no other user's has.
            let said = &talk[(user * 31 + at) % talk.len()];
            let text = format!("{} (note u{user}n{at})", said.text());
            batch.push((namespace.clone(), Message::new(said.role, text).with_id(format!("{at}"))));
        }
        if batch.len() >= BATCH || user + 1 == args.namespaces {
            engine.blocking().put_all(std::mem::take(&mut batch))?;
        }
    }
    engine.blocking().flush()?;
    let ingest_seconds = started.elapsed().as_secs_f64();
    let after_ingest = resident_bytes();
    drop(engine);

    let (engine, opening) = open()?;
    let at_rest = resident_bytes();
    let mut random = Random::new(7);
    let (mut cold, mut warm) = (Vec::new(), Vec::new());
    let started = Instant::now();
    let mut most_resident = at_rest;
    for recall in 0..args.recalls {
        let (user, at) = (random.below(args.namespaces), random.below(args.messages));
        let namespace = name(user);
        let loads = engine.blocking().stats().loads;
        // The second recall of a user finds the namespace loaded.
        for _ in 0..2 {
            let one = Instant::now();
            let hits = engine.blocking().recall(&namespace, Query::new(format!("where is note u{user}n{at}")).k(5))?;
            let time = one.elapsed().as_secs_f64() * 1e6;
            ensure!(hits.first().is_some_and(|hit| hit.message.id == at.to_string()), "a message was not found");
            let is_cold = engine.blocking().stats().loads > loads && cold.len() + warm.len() == 2 * recall;
            if is_cold { &mut cold } else { &mut warm }.push(time);
        }
        if recall % 100 == 0 {
            most_resident = most_resident.max(resident_bytes());
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let stats = engine.blocking().stats();
    [&mut cold, &mut warm].into_iter().for_each(|times| times.sort_by(f64::total_cmp));
    output::json(&json!({
        "bench": "users",
        "model": engine.model().to_string(),
        "namespaces": args.namespaces,
        "messages": args.namespaces * args.messages,
        "ingest_messages_per_second": (args.namespaces * args.messages) as f64 / ingest_seconds,
        "opening_ms": opening.as_secs_f64() * 1e3,
        "recalls": cold.len() + warm.len(),
        "loads_per_second": stats.loads as f64 / seconds,
        "cold_p50_us": percentile(&cold, 0.5),
        "cold_p99_us": percentile(&cold, 0.99),
        "p50_us": percentile(&warm, 0.5),
        "p99_us": percentile(&warm, 0.99),
        "memory": stats,
        "resident_after_ingest_bytes": after_ingest,
        "resident_at_rest_bytes": at_rest,
        "resident_beside_recalls_bytes": most_resident,
        "peak_memory_bytes": peak_bytes(),
        "file_bytes": std::fs::metadata(&path)?.len(),
    }))
}

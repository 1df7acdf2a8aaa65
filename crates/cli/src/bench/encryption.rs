//! `mnemon bench encryption`: the same messages in a plain and in an encrypted database.
//!
//! A round measures both, in an order that changes with each round, so that what disturbs one disturbs the other. Each
//! ratio is the median over the rounds of encrypted by plain.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::ensure;
use mnemon::{Config, Device, Embedder, EncryptionKey, Engine, Message, Model, Namespace, Query};
use serde_json::{Map, Value, json};

use super::setup::{IngestOptions, spread};
use crate::{
    database,
    metrics::{Times, percentile_of},
    output,
    progress::Progress,
    usage,
};

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    ingest: IngestOptions,
    /// Number of messages that are put one by one, as an agent does; the others are put in batches.
    #[arg(long, default_value_t = 200, value_parser = usage::within(1..=1_000_000))]
    puts: usize,
    /// Number of queries: the texts of messages, evenly spread.
    #[arg(long, default_value_t = 500, value_parser = usage::within(1..=1_000_000))]
    queries: usize,
    /// Number of rounds, each with new databases.
    #[arg(long, default_value_t = 5, value_parser = usage::within(1..=1_000))]
    rounds: usize,
}

/// The time between two puts of an agent.
const PAUSE: Duration = Duration::from_millis(2);
/// The largest number of openings in a round, each for the first recall of another namespace.
const OPENINGS: usize = 10;
/// The largest ratios that the project accepts.
const TARGETS: [(&str, f64); 3] = [("put_p50_us", 1.5), ("ingest_s", 1.5), ("recall_p50_us", 1.1)];

/// The figures of a database. Less is better for each: a durable put of one message; the batches with their embedding
/// and indexing; a recall in a loaded namespace; opening the file; the first recall of a namespace afterwards; and the
/// size of the closed file.
const FIGURES: [&str; 6] =
    ["put_p50_us", "ingest_s", "recall_p50_us", "opening_p50_us", "first_recall_p50_us", "file_bytes"];
type Figures = [f64; FIGURES.len()];

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let messages = args.ingest.messages()?;
    usage::ensure(
        args.puts < messages.len(),
        format!("--puts {} leaves none of {} messages for batches; choose fewer", args.puts, messages.len()),
    )?;
    let model = args.ingest.model.as_deref().unwrap_or(Model::DEFAULT);
    let embedder = Arc::new(database::embedder(model, &Device::Cpu, None)?);
    let bench = Bench { args, embedder, queries: spread(&messages, args.queries), messages };
    ensure!(!bench.queries.is_empty(), "no message has text");
    let (mut plain, mut encrypted) = (Vec::new(), Vec::new());
    let progress = Progress::new();
    progress.begin("measuring", "rounds", args.rounds as u64);
    for round in 0..args.rounds {
        for is_encrypted in [round % 2 == 1, round % 2 == 0] {
            let key = is_encrypted.then(|| EncryptionKey::from_bytes([7; 32]));
            let rounds = if is_encrypted { &mut encrypted } else { &mut plain };
            rounds.push(bench.measure(key)?);
        }
        progress.inc(1);
    }
    drop(progress);
    let ratio = |(encrypted, plain): (&Figures, &Figures)| std::array::from_fn(|at| encrypted[at] / plain[at]);
    let ratios: Vec<Figures> = encrypted.iter().zip(&plain).map(ratio).collect();
    output::json(&json!({
        "bench": "encryption",
        "model": bench.embedder.identity().to_string(),
        "messages": bench.messages.len(),
        "puts": args.puts,
        "batch": args.ingest.batch,
        "queries": bench.queries.len(),
        "rounds": args.rounds,
        "plain": medians(&plain),
        "encrypted": medians(&encrypted),
        "ratios": medians(&ratios),
        "targets": Map::from_iter(TARGETS.map(|(name, most)| (name.to_owned(), json!(most)))),
    }))
}

struct Bench<'a> {
    args: &'a Args,
    embedder: Arc<dyn Embedder>,
    messages: Vec<(Namespace, Message)>,
    queries: Vec<(Namespace, String)>,
}

impl Bench<'_> {
    /// Measures a new database, with a key or without.
    fn measure(&self, key: Option<EncryptionKey>) -> anyhow::Result<Figures> {
        let folder = database::temporary_folder()?;
        let path = folder.path().join("memory.redb");
        let IngestOptions { index, precision, .. } = self.args.ingest;
        // The model costs the same in both, and the cache is not measured.
        let mut config = Config::default().index(index).precision(precision).embedding_cache(0);
        config.encryption_key = key;
        let open = || Engine::builder(&path).config(config.clone()).embedder(self.embedder.clone()).open();

        let engine = open()?;
        let (single, bulk) = self.messages.split_at(self.args.puts);
        let mut puts = Times::default();
        for (namespace, message) in single {
            std::thread::sleep(PAUSE);
            puts.time(|| engine.blocking().put(namespace, vec![message.clone()]))?;
        }
        engine.blocking().flush()?;
        let started = Instant::now();
        self.args.ingest.ingest(&engine, bulk)?;
        let ingest_s = started.elapsed().as_secs_f64();

        let recall = |engine: &Engine, (namespace, text): &(Namespace, String)| {
            engine.blocking().recall(namespace, Query::new(text)).map(drop)
        };
        for query in &self.queries {
            engine.blocking().optimize(&query.0)?;
            recall(&engine, query)?;
        }
        let mut recalls = Times::default();
        for query in &self.queries {
            recalls.time(|| recall(&engine, query))?;
        }
        drop(engine);

        let (mut openings, mut first) = (Times::default(), Times::default());
        let mut seen = BTreeSet::new();
        for query in self.queries.iter().filter(|query| seen.insert(&query.0)).take(OPENINGS) {
            let engine = openings.time(open)?;
            first.time(|| recall(&engine, query))?;
        }
        let file_bytes = std::fs::metadata(&path)?.len() as f64;
        let median = |times: Times| times.percentile(0.5);
        Ok([median(puts), ingest_s, median(recalls), median(openings), median(first), file_bytes])
    }
}

/// Returns the median of each figure over the rounds.
fn medians(rounds: &[Figures]) -> Value {
    let of = |at: usize| json!(percentile_of(rounds.iter().map(|figures| figures[at]).collect(), 0.5));
    FIGURES.iter().enumerate().map(|(at, name)| ((*name).to_owned(), of(at))).collect::<Map<_, _>>().into()
}

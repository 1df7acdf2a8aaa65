//! `mnemon bench encryption`: the same messages in a plain and in an encrypted database.
//!
//! A round measures both, in an order that changes with each round, so that what disturbs one disturbs the other. Each
//! ratio is the median over the rounds of encrypted by plain.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use mnemon::{Config, Device, Embedder, EncryptionKey, Engine, Message, Model, Namespace, Query};
use serde_json::{Map, Value, json};

use super::{ingest_options::IngestOptions, sample, timed::timed};
use crate::{input, metrics::percentile, output, progress::Progress, usage};

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

/// The figures that are measured of a database. Less is better for each: a durable put of one message, the batches with
/// their embedding and indexing, a recall from what is loaded, opening the file, the first recall of a namespace then,
/// and the size of the closed file.
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
    let embedder = Arc::new(input::embedder(model, &Device::Cpu, None)?);
    let bench = Bench { args, embedder, queries: sample::spread(&messages, args.queries), messages };
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
    /// Measures a new database.
    fn measure(&self, key: Option<EncryptionKey>) -> anyhow::Result<Figures> {
        let folder = tempfile::Builder::new().prefix("mnemon-").tempdir().context("creating a temporary folder")?;
        let path = folder.path().join("memory.redb");
        let mut config: Config = input::config(self.args.ingest.index).precision(self.args.ingest.precision);
        // The cost of the model is the same, and that of the cache is not measured.
        config.embedding_cache = 0;
        config.encryption_key = key;
        let open = || Engine::builder(&path).config(config.clone()).embedder(self.embedder.clone()).open();

        let engine = open()?;
        let (single, bulk) = self.messages.split_at(self.args.puts);
        let mut puts = Vec::new();
        for (namespace, message) in single {
            std::thread::sleep(PAUSE);
            timed(&mut puts, || engine.blocking().put(namespace, vec![message.clone()]))?;
        }
        engine.blocking().flush()?;
        let started = Instant::now();
        for batch in bulk.chunks(self.args.ingest.batch) {
            engine.blocking().put_all(batch.to_vec())?;
        }
        engine.blocking().flush()?;
        let ingest_s = started.elapsed().as_secs_f64();

        let recall = |engine: &Engine, (namespace, text): &(Namespace, String)| {
            engine.blocking().recall(namespace, Query::new(text)).map(drop)
        };
        for query in &self.queries {
            engine.blocking().optimize(&query.0)?;
            recall(&engine, query)?;
        }
        let mut recalls = Vec::new();
        for query in &self.queries {
            timed(&mut recalls, || recall(&engine, query))?;
        }
        drop(engine);

        let (mut openings, mut first) = (Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        for query in self.queries.iter().filter(|query| seen.insert(&query.0)).take(OPENINGS) {
            let engine = timed(&mut openings, open)?;
            timed(&mut first, || recall(&engine, query))?;
        }
        let file_bytes = std::fs::metadata(&path)?.len() as f64;
        Ok([median(puts), ingest_s, median(recalls), median(openings), median(first), file_bytes])
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    percentile(&values, 0.5)
}

/// Returns the median of each figure over the rounds.
fn medians(rounds: &[Figures]) -> Value {
    let of = |at: usize| json!(median(rounds.iter().map(|figures| figures[at]).collect()));
    FIGURES.iter().enumerate().map(|(at, name)| ((*name).to_owned(), of(at))).collect::<Map<_, _>>().into()
}

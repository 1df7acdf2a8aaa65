//! Measures an engine with the same vectors: ingest, opening, commits, filters, deletions.
//!
//! The embedder looks vectors up in a table, so everything but the model is measured. Rows are texts such as `row 17`,
//! queries such as `query 5`.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use anyhow::ensure;
use mnemon::{
    Bitmap, Config, Embedder, Engine, Error, Message, ModelIdentity, Namespace, Query, RankingStrategy, VectorStorage,
};
use serde::{Deserialize, Serialize};

use super::data::{K, Vectors, count_correct};
use crate::{
    bench::setup::{growth_mib, resident_bytes},
    database,
    metrics::Times,
    output_file::Force,
    progress::Progress,
    vectors::{self, Rows},
};

/// Number of messages in a put while ingesting, and of ids in a deletion.
const BATCH: usize = 1000;
/// Number of messages in a small commit: a turn or two of a conversation.
const COMMIT: usize = 20;
const COMMITS: usize = 50;
const REOPENINGS: usize = 5;
/// Number of queries in a measurement: enough for a p99, and quick with exact search too.
const QUERIES: usize = 1000;
/// One row in this many is deleted: 20 %.
const DELETED: usize = 5;
/// A filter keeps one row in this many if the data set is large enough.
const SESSIONS: usize = 100;

/// The measurements of an engine.
#[derive(Clone, Deserialize, Serialize)]
pub(super) struct EngineReport {
    rows: usize,
    ef_search: usize,
    vectors_in_store: bool,
    cache_bytes: usize,
    ingest_s: f64,
    /// Background work of the index that remained after the ingest.
    optimize_s: f64,
    /// Rows per second of the ingest and the background work together.
    ingest_rows_per_s: f64,
    file_bytes: u64,
    /// Median time from opening to the first answer, with the file in the system's cache.
    open_ms: f64,
    idle: Measurement,
    /// Latency beside a thread that commits as fast as it can. There is no figure of recall, since the rows change.
    busy: Latency,
    busy_rows_per_s: f64,
    /// Durable put of the messages of a small commit.
    put_p50_ms: f64,
    put_p99_ms: f64,
    /// The commit of their vectors and links, which follows.
    commit_p50_ms: f64,
    commit_p99_ms: f64,
    /// Share of the rows that pass the filter.
    filter_share: f64,
    filtered: Measurement,
    deleted_rows_per_s: f64,
    /// Queries after a fifth of the ingested rows was deleted; the rows of the small commits are included.
    deleted: Measurement,
    /// Growth of resident memory from before the ingest until after the deletions. The table of vectors does not count.
    resident_mb: Option<f64>,
}

#[derive(Clone, Deserialize, Serialize)]
struct Latency {
    p50_us: f64,
    p99_us: f64,
}

/// Recall and speed of the queries of one thread.
#[derive(Clone, Deserialize, Serialize)]
struct Measurement {
    recall: f64,
    qps: f64,
    #[serde(flatten)]
    latency: Latency,
}

impl EngineReport {
    pub(super) fn lines(&self) -> Vec<String> {
        let line = |title: &str, measured: &Measurement| {
            let Latency { p50_us, p99_us } = measured.latency;
            format!(
                "  {title:<22} recall@10 {:.4}  {:>7.0} q/s  p50 {p50_us:.0} us, p99 {p99_us:.0} us",
                measured.recall, measured.qps
            )
        };
        let mb = self.resident_mb.map_or("unknown".into(), |mb| format!("{mb:.0} MB"));
        vec![
            format!(
                "  engine: {} rows at {:.0}/s ({:.1} s durable, {:.1} s index), file {:.1} MB, memory {mb}",
                self.rows,
                self.ingest_rows_per_s,
                self.ingest_s,
                self.optimize_s,
                self.file_bytes as f64 / f64::from(1 << 20)
            ),
            format!("  opened and answered in {:.1} ms", self.open_ms),
            format!(
                "  {COMMIT} put: p50 {:.2} ms, p99 {:.2} ms; their vectors and links committed: p50 {:.2} ms, p99 {:.2} ms",
                self.put_p50_ms, self.put_p99_ms, self.commit_p50_ms, self.commit_p99_ms
            ),
            line(&format!("idle, ef {}", self.ef_search), &self.idle),
            line(&format!("filter keeps {:.1} %", 100.0 * self.filter_share), &self.filtered),
            line(&format!("{} % deleted", 100 / DELETED), &self.deleted),
            format!(
                "  {:<22} {:.0} rows inserted per second, p50 {:.0} us, p99 {:.0} us",
                "busy", self.busy_rows_per_s, self.busy.p50_us, self.busy.p99_us
            ),
        ]
    }
}

/// The rows of each measurement.
pub(super) struct Plan {
    /// Number of rows that are ingested first.
    kept: usize,
    /// Number of the following rows, which the small commits insert.
    held: usize,
    /// Number of sessions among which the rows are spread, for filters.
    sessions: usize,
}

impl Plan {
    pub(super) fn of(rows: usize) -> anyhow::Result<Self> {
        let least = 10 * COMMIT;
        ensure!(rows >= least, "--engine needs at least {least} rows; there are {rows}");
        let held = (rows / 10).min(COMMIT * COMMITS) / COMMIT * COMMIT;
        let kept = rows - held;
        Ok(Plan { kept, held, sessions: (kept / (2 * K)).min(SESSIONS) })
    }

    fn session(&self, number: usize) -> String {
        (number % self.sessions).to_string()
    }

    /// Computes the ground truth of each measurement and writes it to files.
    pub(super) fn write_truths(&self, vectors: &Vectors, folder: &Path) -> anyhow::Result<()> {
        let index = vectors::exact_index(&vectors.base);
        let rows = |allowed: &dyn Fn(usize) -> bool| Bitmap::from_fn(self.kept, |row| allowed(row as usize));
        let all = rows(&|_| true);
        // The small commits come before the deletions.
        let remaining = Bitmap::from_fn(vectors.base.len(), |row| {
            row as usize >= self.kept || !(row as usize).is_multiple_of(DELETED)
        });
        let sessions: Vec<Bitmap> = (0..self.sessions).map(|one| rows(&|row| row % self.sessions == one)).collect();
        let write = |file: &str, allowed: &(dyn Fn(usize) -> Bitmap + Sync)| {
            let queries = Rows {
                width: vectors.queries.width,
                values: vectors.queries.iter().take(QUERIES).flatten().copied().collect(),
            };
            let truth = vectors::nearest(&index, &queries, K, |query| Some(allowed(query)));
            vectors::write(vectors::create(&folder.join(file), Force { force: false })?, &truth)
        };
        write(ALL, &|_| all.clone())?;
        write(REMAINING, &|_| remaining.clone())?;
        write(FILTERED, &|query| sessions[query % self.sessions].clone())
    }
}

const ALL: &str = "all.ivecs";
const REMAINING: &str = "remaining.ivecs";
const FILTERED: &str = "filtered.ivecs";

/// An embedder that looks its vectors up in a table.
struct Table {
    identity: ModelIdentity,
    vectors: Vectors,
}

impl Embedder for Table {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn embed_documents(&self, texts: &[&str]) -> mnemon::Result<Vec<Vec<f32>>> {
        texts.iter().map(|text| self.embed_query(text)).collect()
    }

    fn embed_query(&self, text: &str) -> mnemon::Result<Vec<f32>> {
        let row = text.split_once(' ').and_then(|(what, number)| {
            let rows = if what == "row" { &self.vectors.base } else { &self.vectors.queries };
            number.parse().ok().filter(|&number: &usize| number < rows.len()).map(|number| rows.row(number).to_vec())
        });
        // After a failed embedding the engine embeds a probe text.
        row.ok_or_else(|| Error::Embedding {
            reason: format!("{text:?} is neither a row nor a query of the table"),
            source: None,
        })
    }
}

/// The seconds until the rows are durable and embedded, and those of the index's background work afterwards.
struct Ingested {
    ingest_s: f64,
    optimize_s: f64,
}

/// The times of small commits: the puts, until the messages are durable, and the flushes, until their vectors are
/// durable and searchable.
#[derive(Default)]
struct Commits {
    puts: Times,
    flushes: Times,
}

/// The settings that all measurements have in common.
struct Bench {
    plan: Plan,
    namespace: Namespace,
    queries: usize,
    engine: Engine,
}

/// Measures an engine on a temporary file.
pub(super) fn measure(config: Config, vectors: Vectors, truths: &Path) -> anyhow::Result<EngineReport> {
    let truth = |file: &str| vectors::read::<u32>(&truths.join(file), usize::MAX);
    let (all, remaining, filtered) = (truth(ALL)?, truth(REMAINING)?, truth(FILTERED)?);
    let folder = database::temporary_folder()?;
    let path = folder.path().join("memory.redb");
    let plan = Plan::of(vectors.base.len())?;
    let queries = vectors.queries.len().min(QUERIES);
    let identity = ModelIdentity { name: "table".into(), dimension: vectors.base.width, hash: "table".into() };
    let table = Arc::new(Table { identity, vectors });
    let open = || Engine::builder(&path).config(config.clone()).embedder(table.clone()).open();
    let before = resident_bytes();
    let mut bench = Bench { plan, namespace: "bench/ann".parse()?, queries, engine: open()? };
    let Ingested { ingest_s, optimize_s } = bench.ingest()?;
    let file_bytes = std::fs::metadata(&path)?.len();

    let mut openings = Times::default();
    for _ in 0..REOPENINGS {
        let Bench { plan, namespace, queries, engine } = bench;
        // Dropping the engine waits until the file is closed.
        drop(engine);
        let started = Instant::now();
        let engine = open()?;
        engine.blocking().recall(&namespace, dense(0))?;
        openings.add(started);
        bench = Bench { plan, namespace, queries, engine };
    }
    bench.engine.blocking().optimize(&bench.namespace)?;

    let idle = bench.query(&all, |_, query| query)?;
    let filter = |number: usize, query: Query| query.session(bench.plan.session(number));
    let filtered = bench.query(&filtered, filter)?;
    let Commits { puts, flushes } = bench.commits()?;

    let Plan { kept, sessions, .. } = bench.plan;
    let deleted_ids: Vec<String> = (0..kept).step_by(DELETED).map(|row| row.to_string()).collect();
    let (count, started) = (deleted_ids.len(), Instant::now());
    bench.delete(deleted_ids)?;
    let deleted_rows_per_s = count as f64 / started.elapsed().as_secs_f64();
    bench.engine.blocking().optimize(&bench.namespace)?;
    let deleted = bench.query(&remaining, |_, query| query)?;
    let resident_mb = growth_mib(before);
    // Last: the number of rows that it adds depends on its speed, and they would affect all other figures.
    let (busy, busy_rows_per_s) = bench.busy(&all)?;

    Ok(EngineReport {
        rows: kept,
        ef_search: config.ef_search,
        vectors_in_store: config.vectors == VectorStorage::Store,
        cache_bytes: config.cache_bytes,
        ingest_s,
        optimize_s,
        ingest_rows_per_s: kept as f64 / (ingest_s + optimize_s),
        file_bytes,
        open_ms: openings.percentile(0.5) / 1e3,
        idle,
        busy,
        busy_rows_per_s,
        put_p50_ms: puts.percentile(0.5) / 1e3,
        put_p99_ms: puts.percentile(0.99) / 1e3,
        commit_p50_ms: flushes.percentile(0.5) / 1e3,
        commit_p99_ms: flushes.percentile(0.99) / 1e3,
        filter_share: 1.0 / sessions as f64,
        filtered,
        deleted_rows_per_s,
        deleted,
        resident_mb,
    })
}

impl Bench {
    fn message(&self, row: usize, id: String) -> (Namespace, Message) {
        let message = Message::user(format!("row {row}")).with_id(id).in_session(self.plan.session(row));
        (self.namespace.clone(), message)
    }

    /// Ingests the rows.
    fn ingest(&self) -> anyhow::Result<Ingested> {
        let engine = self.engine.blocking();
        let progress = Progress::new();
        progress.begin("engine: storing", "rows", self.plan.kept as u64);
        let started = Instant::now();
        for begin in (0..self.plan.kept).step_by(BATCH) {
            let rows = begin..(begin + BATCH).min(self.plan.kept);
            progress.inc(rows.len() as u64);
            engine.put_all(rows.map(|row| self.message(row, row.to_string())).collect())?;
        }
        engine.flush()?;
        drop(progress);
        let ingest_s = started.elapsed().as_secs_f64();
        engine.optimize(&self.namespace)?;
        Ok(Ingested { ingest_s, optimize_s: started.elapsed().as_secs_f64() - ingest_s })
    }

    /// Runs all queries once, one after the other.
    fn query(&self, truth: &Rows<u32>, shape: impl Fn(usize, Query) -> Query) -> anyhow::Result<Measurement> {
        let engine = self.engine.blocking();
        let mut times = Times(Vec::with_capacity(self.queries));
        let mut found = 0;
        for number in 0..self.queries {
            let query = shape(number, dense(number));
            let hits = times.time(|| engine.recall(&self.namespace, query))?;
            // Ids that are not numbers belong to the rows of `busy`, which are not in the ground truth.
            found += count_correct(hits.iter().filter_map(|hit| hit.message.id.parse().ok()), truth.row(number));
        }
        let qps = times.len() as f64 * 1e6 / times.0.iter().sum::<f64>();
        let latency = Latency { p50_us: times.percentile(0.5), p99_us: times.percentile(0.99) };
        Ok(Measurement { recall: found as f64 / (self.queries * K) as f64, qps, latency })
    }

    /// Makes small commits.
    fn commits(&self) -> anyhow::Result<Commits> {
        let engine = self.engine.blocking();
        let mut commits = Commits::default();
        for first in (self.plan.kept..self.plan.kept + self.plan.held).step_by(COMMIT) {
            let messages = (first..first + COMMIT).map(|row| self.message(row, row.to_string())).collect();
            commits.puts.time(|| engine.put_all(messages))?;
            commits.flushes.time(|| engine.flush())?;
        }
        Ok(commits)
    }

    /// Runs the queries while another thread inserts. Returns their latency, and the rows inserted per second.
    fn busy(&self, truth: &Rows<u32>) -> anyhow::Result<(Latency, f64)> {
        let done = AtomicBool::new(false);
        let insert = || -> mnemon::Result<f64> {
            let engine = self.engine.blocking();
            let (mut count, started) = (0, Instant::now());
            while !done.load(Ordering::Relaxed) {
                // The rows of the small commits, with new ids.
                let message =
                    |number| self.message(self.plan.kept + number % self.plan.held, format!("again-{number}"));
                engine.put_all((count..count + COMMIT).map(message).collect())?;
                engine.flush()?;
                count += COMMIT;
            }
            Ok(count as f64 / started.elapsed().as_secs_f64())
        };
        let (measured, rate) = std::thread::scope(|scope| {
            let inserter = scope.spawn(insert);
            let measured = self.query(truth, |_, query| query);
            done.store(true, Ordering::Relaxed);
            (measured, inserter.join().expect("inserts do not panic"))
        });
        Ok((measured?.latency, rate?))
    }

    fn delete(&self, ids: Vec<String>) -> anyhow::Result<()> {
        for batch in ids.chunks(BATCH) {
            self.engine.blocking().delete(&self.namespace, batch.to_vec())?;
        }
        Ok(())
    }
}

/// Builds a query that ranks by vectors alone.
fn dense(number: usize) -> Query {
    Query::new(format!("query {number}")).k(K).strategy(RankingStrategy::Dense).keep_duplicates()
}

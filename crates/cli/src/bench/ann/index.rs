//! The indexes by name, and their measurement without an engine: build time, memory, and the curve of recall against
//! rate.

use std::{collections::HashMap, ops::Range, time::Instant};

use anyhow::anyhow;
use mnemon::{Bitmap, Config, ExactIndex, HnswIndex, HnswOptions, Precision, SearchOptions, VectorIndex};

use super::{
    data::{K, Vectors, count_correct},
    report::{Deletions, Measured, Point},
};
use crate::{
    bench::setup::{growth_mib, resident_bytes},
    metrics::Times,
    progress::Progress,
    vectors::{self, Rows},
};

/// The indexes that are measured unless others are named.
pub(super) const DEFAULT: &str = if cfg!(feature = "hnsw_rs") { "exact,hnsw,hnsw_rs" } else { "exact,hnsw" };

/// Splits a name into the kind of index and its options: `hnsw+neighbors+f16` has both.
fn parse(name: &str) -> anyhow::Result<(&str, HnswOptions)> {
    let mut parts = name.split('+');
    let kind = parts.next().unwrap_or(name);
    let mut options = HnswOptions::default();
    for part in parts {
        match (kind, part) {
            ("hnsw", "neighbors") => options.neighbor_codes = true,
            ("hnsw", "f16") => options.half_precision = true,
            _ => return Err(unknown(name)),
        }
    }
    Ok((kind, options))
}

fn unknown(name: &str) -> anyhow::Error {
    anyhow!("index {name:?} is not one of exact, hnsw, hnsw_rs; hnsw can have +neighbors, +f16 or both")
}

/// Returns the settings of an engine that has this index.
pub(super) fn config(name: &str) -> anyhow::Result<Config> {
    let (kind, options) = parse(name)?;
    let precision = if options.half_precision { Precision::F16 } else { Precision::F32 };
    Ok(Config::default().index(kind.parse()?).neighbor_codes(options.neighbor_codes).precision(precision))
}

/// Creates an empty index.
pub(super) fn new(
    name: &str,
    dimension: usize,
    ef_construction: Option<usize>,
) -> anyhow::Result<Box<dyn VectorIndex>> {
    let (kind, mut options) = parse(name)?;
    Ok(match kind {
        "exact" => Box::new(ExactIndex::new(dimension)),
        "hnsw" => {
            options.graph_above = 0;
            options.ef_construction = ef_construction.unwrap_or(options.ef_construction);
            Box::new(HnswIndex::new(dimension, options))
        }
        #[cfg(feature = "hnsw_rs")]
        "hnsw_rs" => Box::new(mnemon::HnswRsIndex::new(dimension, 0)),
        #[cfg(not(feature = "hnsw_rs"))]
        "hnsw_rs" => return Err(crate::usage::missing("hnsw_rs", &["hnsw_rs"]).into()),
        _ => return Err(unknown(name)),
    })
}

/// Returns true if an index always finds all neighbors: there is no effort to choose.
fn is_exact(name: &str) -> bool {
    name == "exact"
}

/// Number of rounds over all queries for each point. The fastest counts, since other programs may use the machine.
const ROUNDS: usize = 3;

/// Creates an empty index of a kind.
type New<'a> = &'a dyn Fn() -> anyhow::Result<Box<dyn VectorIndex>>;

pub(super) fn measure(
    name: &str,
    new: New,
    vectors: &Vectors,
    truth: &Rows<u32>,
    efforts: &[usize],
    threads: usize,
) -> anyhow::Result<Measured> {
    let base = &vectors.base;
    let numbers: Vec<u32> = (0..base.len() as u32).collect();
    let before = resident_bytes();
    let started = Instant::now();
    let index = new()?;
    index.insert(&numbers, &base.values);
    while index.improve() {}
    let build_s = started.elapsed().as_secs_f64();
    let index_mb = growth_mib(before);

    let points = sweep(name, &*index, vectors, truth, efforts, threads);
    Ok(Measured { index: name.to_owned(), build_s, index_mb, points, deletions: None, engine: None })
}

/// Deletes a fifth of the rows and repairs the index, and builds another one from the remaining rows.
pub(super) fn deletions(name: &str, new: New, vectors: &Vectors, efforts: &[usize]) -> anyhow::Result<Deletions> {
    let base = &vectors.base;
    let (mut gone, mut left): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
    for row in 0..base.len() as u32 {
        if row.is_multiple_of(5) { gone.push(row) } else { left.push(row) }
    }
    let allowed = Bitmap::from_fn(base.len(), |row| !row.is_multiple_of(5));
    let truth = vectors::nearest(&vectors::exact_index(base), &vectors.queries, K, |_| Some(allowed.clone()));
    let build = |rows: &[u32]| -> anyhow::Result<Box<dyn VectorIndex>> {
        let index = new()?;
        let values: Vec<f32> = rows.iter().flat_map(|&row| base.row(row as usize)).copied().collect();
        index.insert(&(0..rows.len() as u32).collect::<Vec<_>>(), &values);
        while index.improve() {}
        Ok(index)
    };
    let index = build(&(0..base.len() as u32).collect::<Vec<_>>())?;
    let started = Instant::now();
    index.remove(&gone);
    while index.improve() {}
    let repair_s = started.elapsed().as_secs_f64();
    let repaired = sweep(name, &*index, vectors, &truth, efforts, 1);
    drop(index);
    // The rows of the fresh index are numbered from 0.
    let numbers: HashMap<u32, u32> = left.iter().copied().zip(0..).collect();
    let values = truth.values.iter().map(|row| numbers[row]).collect();
    let fresh = sweep(name, &*build(&left)?, vectors, &Rows { width: truth.width, values }, efforts, 1);
    Ok(Deletions { repair_s, repaired, fresh })
}

/// Runs all queries with each effort, and returns the curve.
fn sweep(
    name: &str,
    index: &dyn VectorIndex,
    vectors: &Vectors,
    truth: &Rows<u32>,
    efforts: &[usize],
    threads: usize,
) -> Vec<Point> {
    let efforts = if is_exact(name) { &[0] } else { efforts };
    let progress = Progress::new();
    progress.begin(&format!("{name}: search"), "rounds", (efforts.len() * ROUNDS) as u64);
    let searches = Searches { index, queries: &vectors.queries, truth };
    let mut points = Vec::with_capacity(efforts.len());
    for &effort in efforts {
        let mut rounds = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            rounds.push(searches.round(effort, threads));
            progress.inc(1);
        }
        let best = rounds.into_iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds)).expect("ROUNDS is positive");
        let queries = vectors.queries.len() as f64;
        // With several threads a latency also depends on the other searches.
        let latencies = if threads == 1 { best.latencies } else { searches.round(effort, 1).latencies };
        points.push(Point {
            effort,
            recall: best.correct as f64 / (queries * K as f64),
            qps: queries / best.seconds,
            p50_us: Some(latencies.percentile(0.5)),
            p99_us: Some(latencies.percentile(0.99)),
        });
    }
    drop(progress);
    points
}

/// The settings that all searches of a curve have in common.
struct Searches<'a> {
    index: &'a dyn VectorIndex,
    queries: &'a Rows<f32>,
    truth: &'a Rows<u32>,
}

/// The results of a round over all queries.
struct Round {
    seconds: f64,
    latencies: Times,
    /// Number of true neighbors that were found, over all queries.
    correct: usize,
}

impl Searches<'_> {
    /// Runs all queries once, split among the threads.
    fn round(&self, effort: usize, threads: usize) -> Round {
        let count = self.queries.len();
        let share = count.div_ceil(threads);
        let started = Instant::now();
        let parts: Vec<Round> = std::thread::scope(|scope| {
            let part = |thread: usize| (thread * share).min(count)..((thread + 1) * share).min(count);
            // The calling thread takes a part too, so that a single thread starts no other.
            let others: Vec<_> =
                (1..threads).map(|thread| scope.spawn(move || self.search(part(thread), effort))).collect();
            let own = self.search(part(0), effort);
            let others = others.into_iter().map(|other| other.join().expect("searches do not panic"));
            std::iter::once(own).chain(others).collect()
        });
        let seconds = started.elapsed().as_secs_f64();
        let correct = parts.iter().map(|part| part.correct).sum();
        let latencies = Times(parts.into_iter().flat_map(|part| part.latencies.0).collect());
        Round { seconds, latencies, correct }
    }

    /// Runs the queries of these numbers, on one thread.
    fn search(&self, numbers: Range<usize>, effort: usize) -> Round {
        let options = SearchOptions::new(K).ef(effort);
        let mut latencies = Times(Vec::with_capacity(numbers.len()));
        let (all, mut correct) = (Instant::now(), 0);
        for number in numbers {
            let started = Instant::now();
            let neighbors = self.index.search(self.queries.row(number), &options).neighbors;
            latencies.add(started);
            correct += count_correct(neighbors.iter().map(|neighbor| neighbor.row), self.truth.row(number));
        }
        Round { seconds: all.elapsed().as_secs_f64(), latencies, correct }
    }
}

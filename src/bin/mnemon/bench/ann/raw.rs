//! An index by itself: how long it takes to build, what memory it takes, and how fast it finds how much.

use std::{ops::Range, time::Instant};

use mnemon::{Search, VectorIndex};

use super::{
    data::{K, Vectors, right},
    indexes,
    machine::{grown_mb, resident_mb},
    report::{Measured, Point},
};
use crate::{metrics::percentile, output, texmex::Rows};

/// Each point is the best of so many rounds over all queries: others use the machine as well.
const ROUNDS: usize = 3;

pub(super) fn measure(
    name: &str,
    vectors: &Vectors,
    truth: &Rows<u32>,
    efforts: &[usize],
    threads: usize,
) -> anyhow::Result<Measured> {
    let base = &vectors.base;
    let numbers: Vec<u32> = (0..base.len() as u32).collect();
    let before = resident_mb();
    let started = Instant::now();
    let index = indexes::new(name, base.width)?;
    index.insert(&numbers, &base.values);
    while index.improve() {}
    let build_s = started.elapsed().as_secs_f64();
    let index_mb = grown_mb(before);

    let efforts = if indexes::is_exact(name) { &[0] } else { efforts };
    let bar =
        output::progress((efforts.len() * ROUNDS) as u64, &format!("{name}: search [{{bar:30}}] {{pos}} of {{len}}"));
    let asked = Asked { index: &*index, queries: &vectors.queries, truth };
    let mut points = Vec::with_capacity(efforts.len());
    for &effort in efforts {
        let mut rounds = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            rounds.push(asked.round(effort, threads));
            bar.inc(1);
        }
        let best = rounds.into_iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds)).expect("there are rounds");
        let queries = vectors.queries.len() as f64;
        // Beside other searches a latency says little of the index.
        let latencies = if threads == 1 { best.latencies } else { asked.round(effort, 1).latencies };
        points.push(Point {
            effort,
            recall: best.right as f64 / (queries * K as f64),
            qps: queries / best.seconds,
            p50_us: Some(percentile(&latencies, 0.5)),
            p99_us: Some(percentile(&latencies, 0.99)),
        });
    }
    bar.finish_and_clear();
    Ok(Measured { index: name.to_owned(), build_s, index_mb, points, engine: None })
}

struct Asked<'a> {
    index: &'a dyn VectorIndex,
    queries: &'a Rows<f32>,
    truth: &'a Rows<u32>,
}

struct Round {
    seconds: f64,
    /// Microseconds, sorted.
    latencies: Vec<f64>,
    /// True neighbours found, of all queries.
    right: usize,
}

impl Asked<'_> {
    /// All queries once, split among threads.
    fn round(&self, effort: usize, threads: usize) -> Round {
        let count = self.queries.len();
        let share = count.div_ceil(threads);
        let started = Instant::now();
        let parts: Vec<_> = std::thread::scope(|scope| {
            let part = |thread: usize| (thread * share).min(count)..((thread + 1) * share).min(count);
            // The calling thread takes a part as well: of one thread, none is started.
            let others: Vec<_> =
                (1..threads).map(|thread| scope.spawn(move || self.ask(part(thread), effort))).collect();
            let own = self.ask(part(0), effort);
            let others = others.into_iter().map(|other| other.join().expect("searches do not panic"));
            std::iter::once(own).chain(others).collect()
        });
        let seconds = started.elapsed().as_secs_f64();
        let right = parts.iter().map(|(_, right)| right).sum();
        let mut latencies: Vec<f64> = parts.into_iter().flat_map(|(latencies, _)| latencies).collect();
        latencies.sort_by(f64::total_cmp);
        Round { seconds, latencies, right }
    }

    fn ask(&self, numbers: Range<usize>, effort: usize) -> (Vec<f64>, usize) {
        let search = Search::new(K).ef(effort);
        let mut latencies = Vec::with_capacity(numbers.len());
        let mut found = 0;
        for number in numbers {
            let started = Instant::now();
            let neighbors = self.index.search(self.queries.row(number), &search).neighbors;
            latencies.push(started.elapsed().as_secs_f64() * 1e6);
            found += right(neighbors.iter().map(|neighbor| neighbor.row), self.truth.row(number));
        }
        (latencies, found)
    }
}

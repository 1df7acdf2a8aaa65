//! Exact nearest neighbors, which the results of approximate search are compared with.

use std::sync::atomic::{AtomicUsize, Ordering};

use mnemon::{Bitmap, ExactIndex, SearchOptions, VectorIndex};

use crate::{progress::Progress, texmex::Rows};

/// Builds an exact index of all rows.
pub(crate) fn exact(base: &Rows<f32>) -> ExactIndex {
    let index = ExactIndex::new(base.width);
    let numbers: Vec<u32> = (0..base.len() as u32).collect();
    index.insert(&numbers, &base.values);
    index
}

/// Finds the `k` rows nearest to each query on all cores. `allowed` returns the rows to search for a query's number, at
/// least `k`; `None` searches all.
pub(crate) fn nearest(
    index: &ExactIndex,
    queries: &Rows<f32>,
    k: usize,
    allowed: impl Fn(usize) -> Option<Bitmap> + Sync,
) -> Rows<u32> {
    let progress = Progress::new();
    progress.begin("exact search", "queries", queries.len() as u64);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= queries.len() {
                return found;
            }
            let allowed = allowed(number);
            let neighbors =
                index.search(queries.row(number), &SearchOptions::new(k).allowed(allowed.as_ref())).neighbors;
            found.push((number, neighbors));
            progress.inc(1);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("searches do not panic")).collect()
    });
    drop(progress);
    all.sort_unstable_by_key(|(number, _)| *number);
    let values = all.into_iter().flat_map(|(_, neighbors)| neighbors).map(|neighbor| neighbor.row).collect();
    Rows { width: k, values }
}

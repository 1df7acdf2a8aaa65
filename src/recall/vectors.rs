//! The index of a namespace's vectors: one in memory alone, or a graph that is stored too and whose search quality is
//! measured.
//!
//! One search in 64 of a graph is repeated by scanning every row, in the background. The number of candidates that
//! searches keep, `ef_search`, is tuned by the recall that is estimated so.

use std::{
    ops::RangeInclusive,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use mnemon_index::{HnswIndex, Neighbor, VectorIndex};
use parking_lot::Mutex;

/// One search in this many is sampled.
const SAMPLE_INTERVAL: u64 = 64;
/// The weight of one sample in the running estimate.
const SAMPLE_WEIGHT: f64 = 1.0 / 32.0;
/// Scores that differ by less are counted as equal.
const TIE: f32 = 1e-6;
/// The range within which `ef_search` is tuned.
const EF_RANGE: RangeInclusive<usize> = 16..=2048;

/// The index of a namespace's vectors.
#[derive(Clone)]
pub(crate) enum Vectors {
    /// An index that is only in memory. `ef` is the number of candidates that its searches keep.
    Plain { index: Arc<dyn VectorIndex>, ef: usize },
    /// A graph that is also in the store.
    Graph(Arc<MeasuredGraph>),
}

impl Vectors {
    pub(crate) fn index(&self) -> &dyn VectorIndex {
        match self {
            Vectors::Plain { index, .. } => &**index,
            Vectors::Graph(graph) => &graph.index,
        }
    }

    /// The number of candidates that a search keeps.
    pub(super) fn ef(&self) -> usize {
        match self {
            Vectors::Plain { ef, .. } => *ef,
            Vectors::Graph(graph) => graph.ef(),
        }
    }

    /// Finds the nearest rows by scoring every row.
    pub(super) fn scan(&self, query: &[f32], k: usize) -> Vec<Neighbor> {
        match self {
            Vectors::Graph(graph) => graph.index.search_exactly(query, k),
            Vectors::Plain { index, .. } => {
                let rows: Vec<u32> = (0..index.rows() as u32).collect();
                let mut scored = Vec::with_capacity(rows.len());
                index.products(query, &rows, &mut |at, score| scored.push(Neighbor { row: rows[at], score }));
                scored.sort_unstable_by(Neighbor::order);
                scored.truncate(k);
                scored
            }
        }
    }
}

/// A graph, the recall of its searches as estimated from samples, and the `ef_search` tuned by that estimate.
pub(crate) struct MeasuredGraph {
    pub(crate) index: HnswIndex,
    searches: AtomicU64,
    /// The number of candidates that searches keep now.
    ef: AtomicUsize,
    target_recall: Option<f64>,
    state: Mutex<State>,
    on_sample: OnSample,
}

/// Called when a search was kept as a sample: [`MeasuredGraph::measure`] has work to do.
pub(crate) type OnSample = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct State {
    waiting: Option<Sample>,
    recall: Option<f64>,
    samples: u64,
}

/// A search that waits to be repeated exactly.
struct Sample {
    query: Vec<f32>,
    /// The rows that the search found.
    rows: Vec<u32>,
}

/// The recall of a graph's searches, estimated from samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub(crate) recall: Option<f64>,
    pub(crate) samples: u64,
    pub(crate) ef: usize,
}

impl MeasuredGraph {
    pub(crate) fn new(index: HnswIndex, ef: usize, target_recall: Option<f64>, on_sample: OnSample) -> Self {
        let (searches, ef, state) = (AtomicU64::new(0), AtomicUsize::new(ef), Mutex::default());
        MeasuredGraph { index, searches, ef, target_recall, state, on_sample }
    }

    pub(crate) fn ef(&self) -> usize {
        self.ef.load(Ordering::Relaxed)
    }

    /// Keeps a search as a sample if it is the 64th since the last and no other sample waits.
    pub(super) fn offer_sample(&self, query: &[f32], found: &[Neighbor]) {
        if !self.searches.fetch_add(1, Ordering::Relaxed).is_multiple_of(SAMPLE_INTERVAL) {
            return;
        }
        let mut state = self.state.lock();
        if state.waiting.is_none() && !found.is_empty() {
            let rows = found.iter().map(|neighbor| neighbor.row).collect();
            state.waiting = Some(Sample { query: query.to_vec(), rows });
            drop(state);
            (self.on_sample)();
        }
    }

    /// Repeats the waiting sample, if there is one, by scanning every row; updates the estimate and tunes `ef_search`.
    pub(crate) fn measure(&self) {
        let Some(sample) = self.state.lock().waiting.take() else { return };
        let truth = self.index.search_exactly(&sample.query, sample.rows.len());
        if truth.is_empty() {
            return;
        }
        let products = |rows: &[u32]| {
            let mut products = Vec::with_capacity(rows.len());
            self.index.products(&sample.query, rows, &mut |_, product| products.push(product));
            products
        };
        // Rows as near as the last one are right as well.
        let true_rows: Vec<u32> = truth.iter().map(|neighbor| neighbor.row).collect();
        let least = products(&true_rows).into_iter().fold(f32::INFINITY, f32::min) - TIE;
        let right = products(&sample.rows).into_iter().filter(|&product| product >= least).count();
        let recall = right as f64 / truth.len().max(sample.rows.len()) as f64;
        let mut state = self.state.lock();
        let estimate = state.recall.map_or(recall, |old| old + (recall - old) * SAMPLE_WEIGHT);
        state.recall = Some(estimate);
        state.samples += 1;
        if let Some(target) = self.target_recall {
            // Raised fast below the target; lowered slowly once recall is halfway from the target to 1.
            let ef = self.ef();
            let tuned = match estimate {
                low if low < target => ef + ef / 8,
                high if high > (target + 1.0) / 2.0 => ef - ef / 32,
                _ => ef,
            };
            self.ef.store(tuned.clamp(*EF_RANGE.start(), *EF_RANGE.end()), Ordering::Relaxed);
        }
    }

    pub(crate) fn estimate(&self) -> Estimate {
        let state = self.state.lock();
        Estimate { recall: state.recall, samples: state.samples, ef: self.ef() }
    }
}

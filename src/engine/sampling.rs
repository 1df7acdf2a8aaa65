//! How much of the truth searches find: now and then one is answered again, by scoring every row.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::index::{HnswIndex, Neighbor};

/// One search in so many is sampled.
const EVERY: u64 = 64;
/// The weight of one sample in the running estimate.
const WEIGHT: f64 = 1.0 / 32.0;
/// Scores that differ by less are the same.
const TIE: f32 = 1e-6;
/// The least and the most that `ef_search` is tuned to.
const EF: std::ops::RangeInclusive<usize> = 16..=2048;

pub(super) struct Sampling {
    searches: AtomicU64,
    /// The number of candidates that searches keep now.
    ef: AtomicUsize,
    target: Option<f64>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: Option<Sample>,
    estimate: Option<f64>,
    samples: u64,
}

struct Sample {
    query: Vec<f32>,
    /// Of what was found.
    scores: Vec<f32>,
}

/// What samples say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimate {
    pub(super) recall: Option<f64>,
    pub(super) samples: u64,
    pub(super) ef: usize,
}

impl Sampling {
    pub(super) fn new(ef: usize, target: Option<f64>) -> Self {
        Sampling { searches: AtomicU64::new(0), ef: AtomicUsize::new(ef), target, state: Mutex::default() }
    }

    pub(super) fn ef(&self) -> usize {
        self.ef.load(Ordering::Relaxed)
    }

    /// Keeps a search in mind, if it is its turn. Returns whether it did: there is something to do in the background.
    pub(super) fn offer(&self, query: &[f32], found: &[Neighbor]) -> bool {
        if !self.searches.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY) {
            return false;
        }
        let mut state = self.state.lock();
        let is_free = state.waiting.is_none() && !found.is_empty();
        if is_free {
            let scores = found.iter().map(|neighbor| neighbor.score).collect();
            state.waiting = Some(Sample { query: query.to_vec(), scores });
        }
        is_free
    }

    /// Answers the search that waits, if one does, exactly, and says with how many candidates the next are to be made.
    pub(super) fn step(&self, index: &HnswIndex) {
        let Some(sample) = self.state.lock().waiting.take() else { return };
        let truth = index.search_exactly(&sample.query, sample.scores.len());
        let Some(last) = truth.last() else { return };
        let right = sample.scores.iter().filter(|&&score| score >= last.score - TIE).count();
        let recall = right as f64 / truth.len().max(sample.scores.len()) as f64;
        let mut state = self.state.lock();
        let estimate = state.estimate.map_or(recall, |old| old + (recall - old) * WEIGHT);
        state.estimate = Some(estimate);
        state.samples += 1;
        if let Some(target) = self.target {
            // Up at once when too little is found, down slowly when there is room: halfway from the target to 1.
            let ef = self.ef();
            let tuned = match estimate {
                low if low < target => ef + ef / 8,
                high if high > (target + 1.0) / 2.0 => ef - ef / 32,
                _ => ef,
            };
            self.ef.store(tuned.clamp(*EF.start(), *EF.end()), Ordering::Relaxed);
        }
    }

    pub(super) fn estimate(&self) -> Estimate {
        let state = self.state.lock();
        Estimate { recall: state.estimate, samples: state.samples, ef: self.ef() }
    }
}

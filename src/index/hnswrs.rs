//! The graph of the crate `hnsw_rs` over a prefix of the rows, exact search over the rest.
//!
//! So a row is found as soon as it is inserted, and building the graph, which takes about a millisecond a row, never
//! makes anyone wait: [`VectorIndex::improve`] moves rows from the rest into the graph, a step at a time.
//!
//! What the crate does badly is kept away from it. Its own inner-product distance asserts on rounding: ours is clamped.
//! NaN makes it panic: rows are checked before. Its filtered search can panic when everything is filtered out: it is
//! searched without a filter, more widely, and what is filtered is left out after. Its loader trusts the bytes of its
//! dump: none is ever written or read. Its parallel insert can lock up: rows are inserted one at a time.

use std::sync::atomic::{AtomicUsize, Ordering};

use ::hnsw_rs::prelude::{Distance, Hnsw};
use parking_lot::Mutex;

use super::{Bitmap, ExactIndex, Neighbor, VectorIndex, distance::Dot};
use crate::error::impl_debug;

/// Links a node (twice that on layer 0), as in Malkov and Yashunin (arXiv 1603.09320).
const M: usize = 16;
const EF_CONSTRUCTION: usize = 200;
const MAX_LAYER: usize = 16;
/// Rows of one step: some tenths of a second.
const STEP_ROWS: usize = 512;
/// A filter that leaves fewer rows than this is scanned, which is then as fast and always right.
const SCAN_ROWS: usize = 10_000;

/// Approximate search by `hnsw_rs`.
///
/// Memory: the vectors twice, and about 1 KB of links a row. Not persistent: built again after opening.
pub struct HnswRsIndex {
    rows: ExactIndex,
    graph: Hnsw<'static, f32, ClampedCosine>,
    graph_above: usize,
    /// Rows below this are in the graph.
    built: AtomicUsize,
    building: Mutex<()>,
}

impl_debug!(HnswRsIndex { rows, graph_above, built });

#[derive(Clone, Copy)]
struct ClampedCosine(Dot);

impl Distance<f32> for ClampedCosine {
    fn eval(&self, a: &[f32], b: &[f32]) -> f32 {
        (1.0 - self.0.of(a, b)).max(0.0)
    }
}

impl HnswRsIndex {
    /// An empty index of this dimension, at least 1. The graph is begun when there are more than `graph_above` rows;
    /// until then, search is exact.
    pub fn new(dimension: usize, graph_above: usize) -> Self {
        HnswRsIndex {
            rows: ExactIndex::new(dimension),
            graph: Hnsw::new(M, 1, MAX_LAYER, EF_CONSTRUCTION, ClampedCosine(Dot::detect())),
            graph_above,
            built: AtomicUsize::new(0),
            building: Mutex::new(()),
        }
    }

    fn search_graph(
        &self,
        query: &[f32],
        k: usize,
        effort: usize,
        built: usize,
        allowed: Option<&Bitmap>,
    ) -> Vec<Neighbor> {
        // As many more candidates as the filter throws away.
        let share = allowed.map_or(1, |allowed| built / allowed.count().max(1) + 1);
        let ef = effort.max(k).saturating_mul(share).min(built);
        self.graph
            .search(query, ef, ef)
            .into_iter()
            .map(|point| Neighbor { row: point.d_id as u32, score: 1.0 - point.distance })
            // Rows that are being inserted right now belong to the rest.
            .filter(|neighbor| (neighbor.row as usize) < built)
            .filter(|neighbor| allowed.is_none_or(|allowed| allowed.contains(neighbor.row)))
            .filter(|neighbor| !self.rows.is_removed(neighbor.row))
            .take(k)
            .collect()
    }
}

impl VectorIndex for HnswRsIndex {
    fn insert(&self, rows: &[f32]) {
        self.rows.insert(rows);
    }

    fn remove(&self, rows: &[u32]) {
        self.rows.remove(rows);
    }

    fn search(&self, query: &[f32], k: usize, effort: usize, allowed: Option<&Bitmap>) -> Vec<Neighbor> {
        let built = self.built.load(Ordering::Acquire);
        if built == 0 || allowed.is_some_and(|allowed| allowed.count() <= SCAN_ROWS) {
            return self.rows.search(query, k, effort, allowed);
        }
        let mut best = self.search_graph(query, k, effort, built, allowed);
        if best.len() < k.min(built) {
            // Too many removed or filtered out near the query, or rows that the graph does not reach.
            return self.rows.search(query, k, effort, allowed);
        }
        best.extend(self.rows.scan(built..usize::MAX, query, k, allowed));
        best.sort_unstable_by(Neighbor::order);
        best.truncate(k);
        best
    }

    fn rows(&self) -> usize {
        self.rows.rows()
    }

    fn improve(&self) -> bool {
        let _one_at_a_time = self.building.lock();
        let built = self.built.load(Ordering::Acquire);
        let rows = self.rows();
        if built == rows || rows <= self.graph_above {
            return false;
        }
        let end = rows.min(built + STEP_ROWS);
        // Copied out, so that searches and inserts are not kept waiting by the lock on the rows. The removed stay out: after
        // a reopening they are zeros, as near to everything as to nothing.
        let step = self.rows.live_rows(built..end);
        // One at a time: two inserts that choose each other on two layers can wait for each other's lists for ever.
        for (vector, row) in &step {
            self.graph.insert((vector, *row));
        }
        self.built.store(end, Ordering::Release);
        end < rows
    }
}

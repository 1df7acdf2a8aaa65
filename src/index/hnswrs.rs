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
use parking_lot::{Mutex, RwLock};

use super::{Bitmap, ExactIndex, Found, Neighbor, Search, VectorIndex, distance::Kernels};
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
    /// Rows that were given again: the graph has their old vectors, and cannot forget them.
    again: RwLock<Bitmap>,
}

impl_debug!(HnswRsIndex { rows, graph_above, built });

#[derive(Clone, Copy)]
struct ClampedCosine(Kernels);

impl Distance<f32> for ClampedCosine {
    fn eval(&self, a: &[f32], b: &[f32]) -> f32 {
        (1.0 - self.0.dot(a, b)).max(0.0)
    }
}

impl HnswRsIndex {
    /// An empty index of this dimension, at least 1. The graph is begun when there are more than `graph_above` rows;
    /// until then, search is exact.
    pub fn new(dimension: usize, graph_above: usize) -> Self {
        HnswRsIndex {
            rows: ExactIndex::new(dimension),
            graph: Hnsw::new(M, 1, MAX_LAYER, EF_CONSTRUCTION, ClampedCosine(Kernels::detect())),
            graph_above,
            built: AtomicUsize::new(0),
            building: Mutex::new(()),
            again: RwLock::default(),
        }
    }

    fn search_graph(&self, query: &[f32], built: usize, again: &Bitmap, search: &Search) -> Vec<Neighbor> {
        // As many more candidates as the filter throws away.
        let share = search.allowed.map_or(1, |allowed| built / allowed.count().max(1) + 1);
        let ef = search.ef.max(search.k).saturating_mul(share).min(built);
        self.graph
            .search(query, ef, ef)
            .into_iter()
            .map(|point| Neighbor { row: point.d_id as u32, score: 1.0 - point.distance })
            // Rows that are being inserted right now belong to the rest.
            .filter(|neighbor| (neighbor.row as usize) < built)
            .filter(|neighbor| search.allowed.is_none_or(|allowed| allowed.contains(neighbor.row)))
            .filter(|neighbor| !again.contains(neighbor.row) && !self.rows.is_removed(neighbor.row))
            .take(search.k)
            .collect()
    }
}

impl VectorIndex for HnswRsIndex {
    fn insert(&self, rows: &[u32], vectors: &[f32]) {
        let known = self.rows.rows();
        self.rows.insert(rows, vectors);
        let mut again = self.again.write();
        for &row in rows.iter().filter(|&&row| (row as usize) < known) {
            again.insert(row);
        }
    }

    fn remove(&self, rows: &[u32]) {
        self.rows.remove(rows);
    }

    fn search(&self, query: &[f32], search: &Search) -> Found {
        let built = self.built.load(Ordering::Acquire);
        if built == 0 || search.allowed.is_some_and(|allowed| allowed.count() <= SCAN_ROWS) {
            return self.rows.search(query, search);
        }
        let again = self.again.read();
        let mut best = self.search_graph(query, built, &again, search);
        if best.len() < search.k.min(built) {
            // Too many removed or filtered out near the query, or rows that the graph does not reach.
            return self.rows.search(query, search);
        }
        let rest = self.rows.scan(built..usize::MAX, query, search);
        best.extend(rest.neighbors);
        if again.count() > 0 {
            let both = Bitmap::from_fn(built, |row| {
                again.contains(row) && search.allowed.is_none_or(|allowed| allowed.contains(row))
            });
            best.extend(self.rows.scan(0..built, query, &search.allowed(Some(&both))).neighbors);
        }
        best.sort_unstable_by(Neighbor::order);
        best.truncate(search.k);
        Found { neighbors: best, cut_short: rest.cut_short }
    }

    fn vectors(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32])) {
        self.rows.vectors(rows, visit);
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

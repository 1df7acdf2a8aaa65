//! Search in the graph of the crate `hnsw_rs`.
//!
//! The graph covers a prefix of the rows, and the rest is scanned. So a search finds a row as soon as it is inserted,
//! and no insert waits for the graph, which takes about a millisecond for each row: [`VectorIndex::improve`] moves rows
//! from the rest into the graph, one step at a time.
//!
//! The index works around these weaknesses of the crate:
//! - Its inner-product distance asserts on rounding errors. The distance here is clamped.
//! - NaN makes it panic. Vectors are checked before they are inserted.
//! - Its filtered search can panic when the filter excludes everything. The graph is searched more widely without a
//!   filter, and the result is filtered.
//! - Its loader trusts the bytes of its dump. No dump is written or read.
//! - Its parallel insert can deadlock. Rows are inserted one at a time.

use std::{
    fmt,
    sync::atomic::{AtomicUsize, Ordering},
};

use ::hnsw_rs::prelude::{Distance, Hnsw};
use parking_lot::{Mutex, RwLock};

use super::{Bitmap, ExactIndex, Neighbor, SearchOptions, SearchResult, VectorIndex, distance::Kernels};

/// Links of a node on each upper layer; layer 0 has twice as many, as in Malkov and Yashunin (arXiv 1603.09320).
const M: usize = 16;
const EF_CONSTRUCTION: usize = 200;
const MAX_LAYER: usize = 16;
/// Rows that one step inserts into the graph. A step takes some tenths of a second.
const STEP_ROWS: usize = 512;
/// A filter that allows at most this many rows makes the search scan them, which is as fast and is exact.
const SCAN_ROWS: usize = 10_000;

/// An approximate index with the graph of the crate `hnsw_rs`. Needs the cargo feature `hnsw_rs`.
///
/// Memory: the vectors twice, and about 1 KB of links for each row. The graph is not persistent: the engine builds it
/// again in the background after a namespace is loaded.
pub struct HnswRsIndex {
    rows: ExactIndex,
    graph: Hnsw<'static, f32, ClampedCosine>,
    graph_above: usize,
    /// Number of rows in the graph: those below this number.
    built: AtomicUsize,
    building: Mutex<()>,
    /// Rows that were reused. The graph has their old vectors and cannot delete them, so these rows are scanned.
    reused: RwLock<Bitmap>,
}

impl fmt::Debug for HnswRsIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HnswRsIndex { rows, graph_above, built, .. } = self;
        let mut f = f.debug_struct("HnswRsIndex");
        f.field("rows", rows).field("graph_above", graph_above).field("built", built).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy)]
struct ClampedCosine(Kernels);

impl Distance<f32> for ClampedCosine {
    fn eval(&self, a: &[f32], b: &[f32]) -> f32 {
        (1.0 - self.0.dot(a, b)).max(0.0)
    }
}

impl HnswRsIndex {
    /// Creates an empty index of the given dimension. The graph is begun when there are more than `graph_above` rows;
    /// until then, search is exact.
    ///
    /// # Panics
    /// If `dimension` is 0.
    pub fn new(dimension: usize, graph_above: usize) -> Self {
        HnswRsIndex {
            rows: ExactIndex::new(dimension),
            graph: Hnsw::new(M, 1, MAX_LAYER, EF_CONSTRUCTION, ClampedCosine(Kernels::detect())),
            graph_above,
            built: AtomicUsize::new(0),
            building: Mutex::new(()),
            reused: RwLock::default(),
        }
    }

    fn search_graph(&self, query: &[f32], built: usize, reused: &Bitmap, search: &SearchOptions) -> Vec<Neighbor> {
        // The filter drops candidates, so the search keeps proportionally more of them.
        let share = search.allowed.map_or(1, |allowed| built / allowed.count().max(1) + 1);
        let ef = search.ef.max(search.k).saturating_mul(share).min(built);
        self.graph
            .search(query, ef, ef)
            .into_iter()
            .map(|point| Neighbor { row: point.d_id as u32, score: 1.0 - point.distance })
            // Rows that a step is inserting at this moment are scanned.
            .filter(|neighbor| (neighbor.row as usize) < built)
            .filter(|neighbor| search.allowed.is_none_or(|allowed| allowed.contains(neighbor.row)))
            .filter(|neighbor| !reused.contains(neighbor.row) && !self.rows.is_removed(neighbor.row))
            .take(search.k)
            .collect()
    }
}

impl VectorIndex for HnswRsIndex {
    fn insert(&self, rows: &[u32], vectors: &[f32]) {
        let known = self.rows.rows();
        self.rows.insert(rows, vectors);
        let mut reused = self.reused.write();
        for &row in rows.iter().filter(|&&row| (row as usize) < known) {
            reused.insert(row);
        }
    }

    fn remove(&self, rows: &[u32]) {
        self.rows.remove(rows);
    }

    fn search(&self, query: &[f32], search: &SearchOptions) -> SearchResult {
        let built = self.built.load(Ordering::Acquire);
        if built == 0 || search.allowed.is_some_and(|allowed| allowed.count() <= SCAN_ROWS) {
            return self.rows.search(query, search);
        }
        let reused = self.reused.read();
        let mut best = self.search_graph(query, built, &reused, search);
        if best.len() < search.k.min(built) {
            // Too many rows near the query are removed or filtered out, or the graph does not reach enough of them.
            return self.rows.search(query, search);
        }
        let rest = self.rows.scan(built..usize::MAX, query, search);
        best.extend(rest.neighbors);
        if reused.count() > 0 {
            let allowed_and_reused = Bitmap::from_fn(built, |row| {
                reused.contains(row) && search.allowed.is_none_or(|allowed| allowed.contains(row))
            });
            best.extend(self.rows.scan(0..built, query, &search.allowed(Some(&allowed_and_reused))).neighbors);
        }
        best.sort_unstable_by(Neighbor::order);
        best.truncate(search.k);
        SearchResult { neighbors: best, cut_short: rest.cut_short }
    }

    fn vectors(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32])) {
        self.rows.vectors(rows, visit);
    }

    fn rows(&self) -> usize {
        self.rows.rows()
    }

    /// The graph has a copy of each vector, and a list of neighbors of 16 bytes each.
    fn memory_bytes(&self) -> usize {
        let linked = self.built.load(Ordering::Acquire);
        2 * self.rows.memory_bytes() + linked * 2 * self.graph.get_max_nb_connection() as usize * 16
    }

    fn improve(&self) -> bool {
        let _one_at_a_time = self.building.lock();
        let built = self.built.load(Ordering::Acquire);
        let rows = self.rows();
        if built == rows || rows <= self.graph_above {
            return false;
        }
        let end = rows.min(built + STEP_ROWS);
        // The vectors are copied, so that searches and inserts do not wait for the lock on the rows. Removed rows stay
        // out of the graph: after a reopening they are zeros, which are equally far from everything.
        let step = self.rows.live_rows(built..end);
        // One row at a time, because two concurrent inserts that choose each other on two layers can deadlock.
        for (vector, row) in &step {
            self.graph.insert((vector, *row));
        }
        self.built.store(end, Ordering::Release);
        end < rows
    }
}

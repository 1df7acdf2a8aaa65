//! A graph of our own: HNSW (Malkov and Yashunin, arXiv 1603.09320) over 4 and 8 bit codes.
//!
//! `chunks`, `codes` and `links` hold it; `beam` searches a layer, `search` answers a query; `plan` and `repair` say what
//! linking and unlinking rows changes, `select` which links are worth having; `delta` is such a change, and its bytes;
//! `load` reads them back, and `check` says what is wrong with it.
//!
//! A change is planned while searches go on, then, if there is a store, committed, and only then made, which takes a
//! fraction of a millisecond. Rows that are not linked yet, the tail, are scanned: so a row is found as soon as it is inserted.

mod beam;
mod check;
mod chunks;
mod codes;
mod delta;
mod graph;
mod links;
mod load;
mod plan;
mod repair;
mod search;
mod select;
#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, RwLock};

use self::{beam::Scratch, graph::Graph};
use super::{Found, Neighbor, Search, VectorIndex, is_finite};
use crate::{
    config::{Config, EF_CONSTRUCTION, M, in_range},
    error::{Result, impl_debug},
};
pub(crate) use delta::Delta;
pub(crate) use load::Loader;

/// Rows linked in one step of the background: some tens of milliseconds.
const STEP_ROWS: usize = 512;

/// Removed rows unlinked in one step: one in so many, as each step is a pass over all links; this many at least.
const REPAIRED_SHARE: usize = 32;
const REPAIR_ROWS: usize = 1024;

/// Lists set while searches wait: some tens of microseconds.
const LISTS_A_LOCK: usize = 512;

/// How an [`HnswIndex`] is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HnswOptions {
    /// Links a row on upper layers; twice that on layer 0. More of them: higher recall, slower inserts, more memory. 4 to 64.
    /// Default: 16.
    pub m: usize,
    /// Candidates that an insert looks at. More of them: a better graph, slower inserts. 8 to 4,096. Default: 200.
    pub ef_construction: usize,
    /// Rows up to which there is no graph, and search is exact. Default: 10,000.
    pub graph_above: usize,
}

impl Default for HnswOptions {
    fn default() -> Self {
        let Config { m, ef_construction, exact_threshold: graph_above, .. } = Config::default();
        HnswOptions { m, ef_construction, graph_above }
    }
}

impl HnswOptions {
    /// # Errors
    /// [`Error::InvalidConfig`] if one is out of its range.
    pub(crate) fn check(&self) -> Result<()> {
        in_range("m", self.m, M)?;
        in_range("ef_construction", self.ef_construction, EF_CONSTRUCTION)
    }
}

/// Where the vectors themselves are read, when the index does not keep them.
pub(crate) trait Originals: Send + Sync {
    /// Calls `visit` with the place in `rows`, and the vector, of each row that can be read.
    fn read(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32]));
}

/// Approximate search by a graph.
///
/// Searches run beside each other and beside all else; they wait only while a planned change is copied in, well under a
/// millisecond. A row is found as soon as `insert` returns. The same inserts and steps of [`VectorIndex::improve`] give the
/// same graph, whatever the number of threads.
///
/// Memory a row of d dimensions: d bytes for codes, 8 `m` for links, about 8 more, and 4 d for the vector.
pub struct HnswIndex {
    options: HnswOptions,
    graph: RwLock<Graph>,
    scratches: Mutex<Vec<Scratch>>,
    source: Option<Arc<dyn Originals>>,
    /// Whether somebody has the right to plan.
    planning: Arc<AtomicBool>,
    /// Whether removed rows are kept until they are unlinked: a graph is stored.
    is_stored: AtomicBool,
}

impl_debug!(HnswIndex { options });

/// The right to plan a change and to make it: one at a time, for a plan is no longer right when another was made.
pub(crate) struct Planning(Arc<AtomicBool>);

impl Drop for Planning {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl HnswIndex {
    /// An empty index of this dimension, at least 1.
    ///
    /// # Panics
    /// If an option is out of its range.
    pub fn new(dimension: usize, options: HnswOptions) -> Self {
        options.check().expect("options are within their ranges");
        HnswIndex::with(Graph::new(dimension, options.m, options.ef_construction), options, None)
    }

    fn with(graph: Graph, options: HnswOptions, source: Option<Arc<dyn Originals>>) -> Self {
        HnswIndex {
            options,
            graph: RwLock::new(graph),
            scratches: Mutex::default(),
            source,
            planning: Arc::default(),
            is_stored: AtomicBool::new(false),
        }
    }

    /// The nearest rows by scoring every row: what `search` is measured by.
    pub(crate) fn search_exactly(&self, query: &[f32], k: usize) -> Vec<Neighbor> {
        self.scratch(|scratch| self.graph.read().search_exactly(query, k, self.source.as_deref(), scratch))
    }

    /// Rows that are alive, and how many of them the graph has.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let graph = self.graph.read();
        (graph.alive.count(), graph.alive.count() - graph.tail.count())
    }

    /// What is wrong with the graph, a line each. Cost: a pass over it.
    pub fn check(&self) -> Vec<String> {
        self.graph.read().check()
    }

    /// [`HnswIndex::check`], and that none of these rows, which may be given again, is in the graph.
    pub(crate) fn check_with(&self, free: &[u32]) -> Vec<String> {
        let graph = self.graph.read();
        let linked = free.iter().filter(|&&row| graph.links.has(row));
        linked.map(|row| format!("row {row} is free, and in the graph")).chain(graph.check()).collect()
    }

    /// The right to plan, unless another has it.
    pub(crate) fn try_plan(&self) -> Option<Planning> {
        let is_free = self.planning.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok();
        is_free.then(|| Planning(Arc::clone(&self.planning)))
    }

    /// The right to plan, once another gives it back.
    pub(crate) fn wait_to_plan(&self) -> Planning {
        loop {
            if let Some(right) = self.try_plan() {
                return right;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Whether removed rows are kept, from here on, until a change frees them. If not, those kept so far are free at once:
    /// what was stored is gone, and nothing leads to them.
    pub(crate) fn set_stored(&self, is_stored: bool) {
        let mut graph = self.graph.write();
        if !is_stored {
            let free: Vec<u32> = graph.dead.iter().filter(|&row| !graph.links.has(row)).collect();
            for row in free {
                graph.dead.remove(row);
            }
        }
        self.is_stored.store(is_stored, Ordering::Release);
    }

    pub(crate) fn is_stored(&self) -> bool {
        self.is_stored.load(Ordering::Acquire)
    }

    /// Plans linking rows that are not inserted yet, if all others are linked: so that they are in the graph when they
    /// are inserted, after which the change is to be made.
    pub(crate) fn plan_new(&self, _right: &Planning, rows: &[u32], vectors: &[f32]) -> Option<Delta> {
        let mut graph = self.graph.write();
        if graph.links.count() == 0 || graph.tail.count() > 0 {
            return None;
        }
        let dimension = graph.dimension;
        // Not alive: nobody finds them.
        rows.iter().zip(vectors.chunks_exact(dimension)).for_each(|(&row, vector)| graph.write(row, vector));
        drop(graph);
        Some(plan::plan(&self.graph, rows))
    }

    /// Whether there is something to do in the background. Few removed rows are left for later, unless `is_thorough`.
    pub(crate) fn has_work(&self, is_thorough: bool) -> bool {
        self.graph.read().has_work(is_thorough)
    }

    /// Plans the next step of it; `None` if there is nothing.
    pub(crate) fn plan_step(&self, _right: &Planning, is_thorough: bool) -> Option<Delta> {
        let graph = self.graph.read();
        if !graph.has_work(is_thorough) {
            return None;
        }
        if graph.tail.count() > 0 {
            // The first batches are smaller: rows of one batch know each other by comparing all.
            let step = STEP_ROWS.min(graph.links.count().max(64));
            let rows: Vec<u32> = graph.tail.iter().take(step).collect();
            drop(graph);
            return Some(plan::plan(&self.graph, &rows));
        }
        let rows = graph.dead.iter().take(REPAIR_ROWS.max(graph.links.count() / REPAIRED_SHARE)).collect::<Vec<_>>();
        drop(graph);
        Some(repair::plan_repair(&self.graph, &rows))
    }

    /// Makes a planned change, a part at a time: searches wait for none for long.
    pub(crate) fn apply(&self, delta: &Delta) {
        self.graph.write().begin(delta);
        for lists in delta.lists.chunks(LISTS_A_LOCK) {
            self.graph.write().set_lists(lists);
        }
        self.graph.write().end(delta);
    }

    /// The bytes that say what a change is.
    pub(crate) fn encode(&self, delta: &Delta) -> Vec<u8> {
        delta.encode(self.options.m)
    }

    /// The pages that changed since this was asked last.
    pub(crate) fn take_changed_pages(&self) -> Vec<u32> {
        std::mem::take(&mut self.graph.write().changed_pages).into_iter().collect()
    }

    /// Says that pages changed: they were not stored.
    pub(crate) fn give_back_pages(&self, pages: &[u32]) {
        self.graph.write().changed_pages.extend(pages);
    }

    /// A page of links as it is now.
    pub(crate) fn page(&self, page: u32) -> Vec<u8> {
        delta::encode_page(&self.graph.read().links, page)
    }

    /// Bytes of all pages, about.
    pub(crate) fn page_bytes(&self) -> usize {
        let graph = self.graph.read();
        graph.links.count() * (graph.links.m() * 6 + 2)
    }

    fn scratch<T>(&self, use_it: impl FnOnce(&mut Scratch) -> T) -> T {
        let mut scratch = self.scratches.lock().pop().unwrap_or_default();
        let result = use_it(&mut scratch);
        self.scratches.lock().push(scratch);
        result
    }
}

impl VectorIndex for HnswIndex {
    fn insert(&self, rows: &[u32], vectors: &[f32]) {
        self.unlink(rows);
        let mut graph = self.graph.write();
        let dimension = graph.dimension;
        assert_eq!(vectors.len(), rows.len() * dimension, "a vector a row");
        assert!(is_finite(vectors), "vectors are checked when they are made");
        for (&row, vector) in rows.iter().zip(vectors.chunks_exact(dimension)) {
            assert!(row as usize <= graph.rows, "rows are numbered one after the other");
            assert!(!graph.alive.contains(row), "row {row} is in use");
            graph.write(row, vector);
            graph.enliven(row);
        }
        if !graph.has_codes() && graph.alive.count() > self.options.graph_above {
            graph.encode();
            if self.source.is_some() {
                graph.originals = None;
            }
        }
    }

    fn remove(&self, rows: &[u32]) {
        let is_stored = self.is_stored();
        let mut graph = self.graph.write();
        for &row in rows {
            let is_kept = is_stored || graph.links.has(row);
            graph.kill(row, is_kept);
        }
    }

    fn search(&self, query: &[f32], search: &Search) -> Found {
        self.scratch(|scratch| self.graph.read().search(query, search, self.source.as_deref(), scratch))
    }

    fn vectors(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32])) {
        let graph = self.graph.read();
        let mut decoded = Vec::new();
        for (at, &row) in rows.iter().enumerate().filter(|&(_, &row)| graph.alive.contains(row)) {
            match &graph.originals {
                Some(originals) => visit(at, originals.row(row)),
                None => {
                    graph.codes.decode(row, &mut decoded);
                    visit(at, &decoded);
                }
            }
        }
    }

    fn rows(&self) -> usize {
        self.graph.read().rows
    }

    /// Links rows that were inserted; then unlinks those that were removed.
    fn improve(&self) -> bool {
        let right = self.wait_to_plan();
        let Some(delta) = self.plan_step(&right, true) else { return false };
        self.apply(&delta);
        true
    }
}

impl HnswIndex {
    /// Before rows are given again that were removed and are still linked to.
    fn unlink(&self, rows: &[u32]) {
        let is_linked = |graph: &Graph, row: u32| graph.links.has(row) && !graph.alive.contains(row);
        if !rows.iter().any(|&row| is_linked(&self.graph.read(), row)) {
            return;
        }
        let _right = self.wait_to_plan();
        let linked: Vec<u32> = rows.iter().copied().filter(|&row| is_linked(&self.graph.read(), row)).collect();
        let delta = repair::plan_repair(&self.graph, &linked);
        self.apply(&delta);
    }
}

//! The public index: a graph behind a lock.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use rayon::prelude::*;

use super::{
    HnswOptions, Originals, PlanningGuard,
    beam::BeamSearch,
    codes::{CodedQuery, score_finely},
    encoding,
    graph::{Graph, check},
    links::Delta,
    plan::plan_links,
    planning_lock::PlanningLock,
    repair::plan_repair,
    search::Searcher,
};
use crate::{Neighbor, SearchOptions, SearchResult, VectorIndex, is_finite};

/// Rows that one background step links, which takes some tens of milliseconds.
const STEP_ROWS: usize = 512;

/// One background step unlinks the linked rows divided by this number, at least [`REPAIR_ROWS`]. Few large steps are
/// cheaper than many small ones, because each step is a pass over all links.
const REPAIR_DIVISOR: usize = 32;
const REPAIR_ROWS: usize = 1024;

/// Lists that are set under one write lock. Searches wait for it some tens of microseconds.
const LISTS_PER_LOCK: usize = 512;

/// Rows whose neighbors' codes are written under one write lock.
const CODED_PER_LOCK: usize = 128;

/// Rows whose neighbors' codes one background step computes, which takes some tens of milliseconds.
const CODED_PER_STEP: usize = 4096;

/// An approximate index with a graph.
///
/// Searches run beside each other and beside all other calls; they wait only while a planned change is copied into the
/// graph, well under a millisecond. A search finds a row as soon as `insert` has returned. The same inserts and steps
/// of [`VectorIndex::improve`] give the same graph with any number of threads.
///
/// Memory for a row of `d` dimensions: `d` bytes for codes, `8 m` bytes for links, about 8 bytes more, and `4 d` bytes
/// for the vector, or `2 d` with [`HnswOptions::half_precision`]. [`HnswOptions::neighbor_codes`] takes `4 d + 128` bytes
/// more for every 32 of the `2 m` links of a row. For codes, `d` is rounded up to a multiple of 128. A search scores about
/// ten rows for each of its `ef` candidates. Linking a row costs a search with `ef_construction` candidates, and a comparison
/// with each row of its batch, at most 512.
pub struct HnswIndex {
    pub(super) options: HnswOptions,
    pub(super) graph: RwLock<Graph>,
    /// The state of earlier searches, to be reused: at most one for each search that ever ran at the same time.
    searches: Mutex<Vec<BeamSearch>>,
    originals: Option<Arc<dyn Originals>>,
    planning: Arc<PlanningLock>,
    /// Whether the graph is stored. If it is, removed rows stay reserved until a committed delta unlinks them.
    is_stored: AtomicBool,
}

impl fmt::Debug for HnswIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HnswIndex").field("options", &self.options).finish_non_exhaustive()
    }
}

impl HnswIndex {
    /// Creates an empty index of the given dimension, at least 1.
    ///
    /// # Panics
    /// If an option is out of its range.
    pub fn new(dimension: usize, options: HnswOptions) -> Self {
        options.check();
        HnswIndex::with_graph(Graph::new(dimension, &options), options, None)
    }

    pub(super) fn with_graph(graph: Graph, options: HnswOptions, originals: Option<Arc<dyn Originals>>) -> Self {
        HnswIndex {
            options,
            graph: RwLock::new(graph),
            searches: Mutex::default(),
            originals,
            planning: Arc::default(),
            is_stored: AtomicBool::new(false),
        }
    }

    /// Returns the nearest rows by scoring every row. Used to measure the recall of `search`.
    pub fn search_exactly(&self, query: &[f32], k: usize) -> Vec<Neighbor> {
        self.with_searcher(|searcher| searcher.search_exactly(query, k))
    }

    /// Returns the number of live rows, and how many of them are linked.
    pub fn counts(&self) -> (usize, usize) {
        let graph = self.graph.read();
        (graph.live.count(), graph.live.count() - graph.tail.count())
    }

    /// Verifies the graph and describes each problem in a line; a sound graph gives none. Cost: a pass over all links,
    /// during which changes wait.
    pub fn check(&self) -> Vec<String> {
        check(&self.graph.read())
    }

    /// Same as [`HnswIndex::check`], and also verifies that none of the `free` rows, which may be reused, is in the
    /// graph.
    pub fn check_with(&self, free: &[u32]) -> Vec<String> {
        let graph = self.graph.read();
        let linked = free.iter().filter(|&&row| graph.links.has(row));
        linked.map(|row| format!("row {row} is free, but it is still in the graph")).chain(check(&graph)).collect()
    }

    /// Takes the planning lock, unless another thread holds it.
    pub fn try_lock_planning(&self) -> Option<PlanningGuard> {
        self.planning.try_lock()
    }

    /// Waits for the planning lock and takes it.
    pub fn lock_planning(&self) -> PlanningGuard {
        self.planning.lock()
    }

    /// Sets whether the graph is stored. If it is, rows removed from now on stay reserved until a delta frees them. If
    /// it is not, the removed rows that are not in the graph are free at once, because no stored link leads to them any
    /// more.
    pub fn set_stored(&self, is_stored: bool) {
        let mut graph = self.graph.write();
        if !is_stored {
            let free: Vec<u32> = graph.removed.iter().filter(|&row| !graph.links.has(row)).collect();
            for row in free {
                graph.removed.remove(row);
            }
        }
        self.is_stored.store(is_stored, Ordering::Release);
    }

    /// Returns true if the graph is stored.
    pub fn is_stored(&self) -> bool {
        self.is_stored.load(Ordering::Acquire)
    }

    /// Plans the links of rows that are not inserted yet, so that they can be in the graph as soon as they are
    /// inserted: the caller inserts them and then applies the delta. `None` if there is no graph yet, or other rows
    /// wait to be linked.
    pub fn plan_new(&self, _planning: &PlanningGuard, rows: &[u32], vectors: &[f32]) -> Option<Delta> {
        let mut graph = self.graph.write();
        if graph.links.count() == 0 || graph.tail.count() > 0 {
            return None;
        }
        let dimension = graph.dimension;
        // The rows are written but not live, so no search finds them.
        rows.iter().zip(vectors.chunks_exact(dimension)).for_each(|(&row, vector)| graph.write(row, vector));
        drop(graph);
        Some(plan_links(&self.graph, rows))
    }

    /// Returns true if there is background work: rows to link, removed rows to unlink, or codes of neighbors to compute.
    /// Unless `is_thorough`, few removed rows do not count.
    pub fn has_work(&self, is_thorough: bool) -> bool {
        self.graph.read().has_work(is_thorough)
    }

    /// Plans the next step of the background work; `None` if no links change. First computes some of the codes of neighbors
    /// that are stale.
    pub fn plan_step(&self, _planning: &PlanningGuard, is_thorough: bool) -> Option<Delta> {
        self.code_neighbors(CODED_PER_STEP);
        let graph = self.graph.read();
        if !graph.has_links_to_change(is_thorough) {
            return None;
        }
        if graph.tail.count() > 0 {
            // The first batches are smaller, because every two rows of a batch are compared.
            let step = STEP_ROWS.min(graph.links.count().max(64));
            let rows: Vec<u32> = graph.tail.iter().take(step).collect();
            drop(graph);
            return Some(plan_links(&self.graph, &rows));
        }
        let step = REPAIR_ROWS.max(graph.links.count() / REPAIR_DIVISOR);
        let rows: Vec<u32> = graph.removed.iter().take(step).collect();
        drop(graph);
        Some(plan_repair(&self.graph, &rows))
    }

    /// Applies a planned delta, part by part, so that searches never wait for long.
    pub fn apply(&self, delta: &Delta) {
        self.graph.write().begin(delta);
        for lists in delta.lists.chunks(LISTS_PER_LOCK) {
            self.graph.write().set_lists(lists);
        }
        self.graph.write().end(delta);
    }

    /// Computes the codes of neighbors of some rows with stale ones, at least `least` if there are as many, unless rows wait
    /// to be linked. The caller holds the planning lock, or nobody plans.
    pub fn code_neighbors(&self, least: usize) {
        let mut coded = 0;
        while coded < least {
            let rows = match &*self.graph.read() {
                graph @ Graph { neighbor_codes: Some(codes), .. } if graph.has_stale_codes() => {
                    codes.stale(CODED_PER_LOCK)
                }
                _ => return,
            };
            coded += rows.len();
            let blocks: Vec<_> = rows
                .par_iter()
                .map_init(Default::default, |scratch, &row| {
                    let Graph { neighbor_codes, codes, links, .. } = &*self.graph.read();
                    neighbor_codes.as_ref().map(|neighbors| neighbors.encode(codes, links, row, scratch))
                })
                .collect();
            if let Some(codes) = &mut self.graph.write().neighbor_codes {
                rows.iter().zip(blocks.iter().flatten()).for_each(|(&row, blocks)| codes.put(row, blocks));
            }
        }
    }

    /// Returns the bytes of a delta, as they are stored.
    pub fn encode(&self, delta: &Delta) -> Vec<u8> {
        encoding::encode_delta(delta, self.options.m)
    }

    /// Returns the pages that changed since the last call.
    pub fn take_changed_pages(&self) -> Vec<u32> {
        std::mem::take(&mut self.graph.write().changed_pages).into_iter().collect()
    }

    /// Marks pages as changed again, after storing them failed.
    pub fn mark_pages_changed(&self, pages: &[u32]) {
        self.graph.write().changed_pages.extend(pages);
    }

    /// Returns the bytes of a page of links as it is now.
    pub fn page(&self, page: u32) -> Vec<u8> {
        encoding::encode_page(&self.graph.read().links, page)
    }

    /// Estimates the bytes of all pages.
    pub fn page_bytes(&self) -> usize {
        let graph = self.graph.read();
        graph.links.count() * (graph.links.m() * 6 + 2)
    }

    /// Unlinks removed rows that are still in the graph, before they are reused.
    fn unlink(&self, rows: &[u32]) {
        let is_linked = |graph: &Graph, row: u32| graph.links.has(row) && !graph.live.contains(row);
        if !rows.iter().any(|&row| is_linked(&self.graph.read(), row)) {
            return;
        }
        let _planning = self.lock_planning();
        let linked: Vec<u32> = rows.iter().copied().filter(|&row| is_linked(&self.graph.read(), row)).collect();
        let delta = plan_repair(&self.graph, &linked);
        self.apply(&delta);
    }

    pub(super) fn with_searcher<T>(&self, search: impl FnOnce(&mut Searcher) -> T) -> T {
        let beam = self.searches.lock().pop().unwrap_or_default();
        let graph = self.graph.read();
        let mut searcher = Searcher { graph: &graph, originals: self.originals.as_deref(), beam };
        let result = search(&mut searcher);
        let beam = searcher.beam;
        drop(graph);
        self.searches.lock().push(beam);
        result
    }
}

impl VectorIndex for HnswIndex {
    fn insert(&self, rows: &[u32], vectors: &[f32]) {
        self.unlink(rows);
        let mut graph = self.graph.write();
        let dimension = graph.dimension;
        assert_eq!(vectors.len(), rows.len() * dimension, "each row has a vector");
        assert!(is_finite(vectors), "vectors are checked before they are inserted");
        for (&row, vector) in rows.iter().zip(vectors.chunks_exact(dimension)) {
            assert!(row as usize <= graph.rows, "new rows are numbered consecutively");
            assert!(!graph.live.contains(row), "row {row} is in use");
            graph.write(row, vector);
            graph.make_live(row);
        }
        if !graph.has_codes() && graph.live.count() > self.options.graph_above {
            graph.encode();
            if self.originals.is_some() {
                graph.originals = None;
            }
        }
    }

    fn remove(&self, rows: &[u32]) {
        let is_stored = self.is_stored();
        let mut graph = self.graph.write();
        for &row in rows {
            let is_reserved = is_stored || graph.links.has(row);
            graph.remove(row, is_reserved);
        }
    }

    fn search(&self, query: &[f32], search: &SearchOptions) -> SearchResult {
        self.with_searcher(|searcher| searcher.search(query, search))
    }

    fn vectors(&self, rows: &[u32], visit: &mut dyn FnMut(usize, &[f32])) {
        let graph = self.graph.read();
        let mut decoded = Vec::new();
        for (position, &row) in rows.iter().enumerate().filter(|&(_, &row)| graph.live.contains(row)) {
            match &graph.originals {
                Some(originals) => visit(position, originals.row(row, &mut decoded)),
                None => {
                    graph.codes.decode(row, &mut decoded);
                    visit(position, &decoded);
                }
            }
        }
    }

    /// Vectors with 16 bits and codes are not decoded one by one, which would take as long again.
    fn products(&self, query: &[f32], rows: &[u32], visit: &mut dyn FnMut(usize, f32)) {
        let Graph { originals, codes, live, .. } = &*self.graph.read();
        let is_live = |&(_, row): &(usize, u32)| live.contains(row);
        let (positions, rows): (Vec<usize>, Vec<u32>) = rows.iter().copied().enumerate().filter(is_live).unzip();
        match originals {
            Some(originals) => {
                rows.iter().for_each(|&row| originals.prefetch(row));
                for (position, row) in positions.into_iter().zip(rows) {
                    visit(position, originals.dot(codes.kernels(), query, row));
                }
            }
            None => {
                let mut coded = CodedQuery::default();
                codes.encode_query(query, &mut coded);
                for (position, scored) in positions.into_iter().zip(score_finely(codes, &coded, &rows)) {
                    visit(position, scored.score);
                }
            }
        }
    }

    fn rows(&self) -> usize {
        self.graph.read().rows
    }

    fn is_exact(&self) -> bool {
        !self.graph.read().has_codes()
    }

    fn memory_bytes(&self) -> usize {
        self.graph.read().memory_bytes()
    }

    /// Links rows that were inserted; then unlinks rows that were removed.
    fn improve(&self) -> bool {
        let planning = self.lock_planning();
        let Some(delta) = self.plan_step(&planning, true) else { return self.has_work(true) };
        self.apply(&delta);
        true
    }
}

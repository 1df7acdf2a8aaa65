//! A namespace's graph in memory, kept equal to the graph in the store.
//!
//! A change of the graph (a delta) is planned, committed, and then applied in memory, so searches use the stored graph
//! or one slightly behind it. A few new rows are linked by the commit that stores them. More rows are linked in steps
//! in the background, and scanned until then. Deltas are stored one after the other; once they have grown to a share of
//! the graph, the pages that they changed are written, a few at a time, and the deltas are deleted.
//!
//! Very many rows, as after a bulk ingest, are an exception: storing each step would write the graph many times over.
//! They are linked in memory, and their pages are stored in one commit now and then; links lost in a crash are made
//! again.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use mnemon_index::{Delta, HnswIndex, PlanningGuard};
use parking_lot::Mutex;

use super::{
    executor::Planners,
    writer::{Commit, Writer, then},
};
use crate::{
    error::Result,
    ids::{GenerationId, NamespaceId},
    recall::{Estimate, MeasuredGraph, ReadGraph},
    store::{NewRows, Transaction},
};

/// The most rows that a commit links itself, which takes some milliseconds.
const LINKED_ROWS: usize = 64;
/// With more unlinked rows than this, they are linked in bulk.
const BULK_ROWS: usize = 4096;
/// Rows linked in bulk are stored once they are more than this and more than a third of all linked rows.
const SAVED_ROWS: usize = 16_384;
/// While there is other work, deltas are kept until they have as many bytes as the pages; else until they have a
/// quarter as many.
const BUSY_SHARE: usize = 1;
const IDLE_SHARE: usize = 4;
/// Deltas of fewer bytes are kept in any case.
const FEW_BYTES: usize = 1 << 20;
/// Pages written by one transaction: half a megabyte, so that puts do not wait long.
const FOLDED_PAGES: usize = 8;

/// A graph in memory, and the state of the graph in the store.
pub(super) struct StoredGraph {
    graph: Arc<MeasuredGraph>,
    generation: GenerationId,
    namespace: NamespaceId,
    changes: Mutex<Changes>,
    /// Held by the thread that does a step.
    stepping: Mutex<()>,
    /// The number of recalls in the engine at the last step.
    uses: AtomicU64,
}

/// The deltas stored since the pages were.
#[derive(Default)]
struct Changes {
    last: Option<u32>,
    bytes: usize,
    /// The stored graph cannot be read, and must be deleted first.
    is_broken: bool,
    /// Rows that were linked in bulk since, and are not stored.
    unsaved: usize,
}

/// The writer that commits for a graph, and the threads that plan.
#[derive(Clone)]
pub(super) struct Workers {
    pub(super) writer: Arc<Writer>,
    pub(super) planners: Arc<Planners>,
}

/// A delta in a transaction, to be applied in memory once the transaction is committed.
pub(super) struct Committed {
    graph: Arc<StoredGraph>,
    delta: Arc<Delta>,
    number: u32,
    bytes: usize,
    /// No other delta is planned before this one is applied.
    _planning: Option<PlanningGuard>,
}

impl Committed {
    /// Applies the delta in memory.
    pub(super) fn apply(self) {
        self.graph.index().apply(&self.delta);
        let mut changes = self.graph.changes.lock();
        changes.last = Some(self.number);
        changes.bytes += self.bytes;
    }
}

impl StoredGraph {
    pub(super) fn new(read: ReadGraph, generation: GenerationId, namespace: NamespaceId) -> Self {
        let ReadGraph { graph, deltas, is_broken } = read;
        let changes = Mutex::new(Changes { last: deltas.last, bytes: deltas.bytes, is_broken, unsaved: 0 });
        StoredGraph { graph, generation, namespace, changes, stepping: Mutex::new(()), uses: AtomicU64::new(0) }
    }

    pub(super) fn index(&self) -> &HnswIndex {
        &self.graph.index
    }

    /// The recall of searches, estimated from samples.
    pub(super) fn estimate(&self) -> Estimate {
        self.graph.estimate()
    }

    /// Returns true if everything that the graph has in memory can be read from the store.
    pub(super) fn is_stored(&self) -> bool {
        let changes = self.changes.lock();
        changes.unsaved == 0 && !changes.is_broken
    }

    /// Links rows in the transaction that stores them, if they are few and all earlier rows are linked.
    pub(super) fn link(
        self: &Arc<Self>,
        transaction: &Transaction,
        new: &NewRows,
        planners: &Planners,
    ) -> Result<Option<Committed>> {
        if new.rows.len() > LINKED_ROWS || !self.graph.index.is_stored() {
            return Ok(None);
        }
        let Some(planning) = self.graph.index.try_lock_planning() else { return Ok(None) };
        if self.changes.lock().unsaved > 0 {
            return Ok(None);
        }
        let planned = planners.plan(false, || self.graph.index.plan_new(&planning, &new.rows, &new.vectors));
        let Some(delta) = planned else { return Ok(None) };
        self.put(transaction, &Arc::new(delta), Some(planning)).map(Some)
    }

    fn put(
        self: &Arc<Self>,
        transaction: &Transaction,
        delta: &Arc<Delta>,
        planning: Option<PlanningGuard>,
    ) -> Result<Committed> {
        let bytes = self.graph.index.encode(delta);
        let number = transaction.graphs().add_delta(self.generation, self.namespace, &bytes, delta.freed())?;
        let (graph, delta) = (Arc::clone(self), Arc::clone(delta));
        Ok(Committed { graph, delta, number, bytes: bytes.len(), _planning: planning })
    }

    /// Does one step of the background work: on all threads, or on one fewer if there were recalls since the last step.
    /// `uses` is their number so far. Returns true if more is left.
    pub(super) fn step(self: &Arc<Self>, workers: &Workers, is_thorough: bool, uses: u64) -> Result<bool> {
        let _one_at_a_time = self.stepping.lock();
        if self.changes.lock().is_broken {
            self.drop_stored(workers)?;
        }
        let planning = self.graph.index.lock_planning();
        let (live, linked) = self.graph.index.counts();
        let unsaved = self.changes.lock().unsaved;
        if unsaved > 0 && (linked == live || unsaved > SAVED_ROWS.max(linked / 3)) {
            return self.save(workers).map(|()| true);
        }
        if !self.graph.index.has_work(is_thorough) {
            drop(planning);
            // Each sample asks for a step of its own, so that other namespaces have their turn while this one is
            // searched.
            self.graph.measure();
            return self.fold(workers, IDLE_SHARE);
        }
        if !self.graph.index.is_stored() {
            self.begin(workers)?;
        }
        // `None` if the work was undone just then.
        let others_recall = self.uses.swap(uses, Ordering::Relaxed) != uses;
        let planned = workers.planners.plan(others_recall, || self.graph.index.plan_step(&planning, is_thorough));
        let Some(delta) = planned else { return Ok(true) };
        if unsaved > 0 && !delta.freed().is_empty() {
            // A row to be linked was removed just then. A row is free only when no stored link leads to it.
            return self.save(workers).map(|()| true);
        }
        if delta.freed().is_empty() && (unsaved > 0 || live - linked > BULK_ROWS) {
            self.graph.index.apply(&delta);
            self.changes.lock().unsaved += delta.added();
            return Ok(true);
        }
        let (this, delta) = (Arc::clone(self), Arc::new(delta));
        let put = move |transaction: &Transaction| this.put(transaction, &delta, None);
        let put = then(put, |committed| committed.map(Committed::apply));
        workers.writer.commit(Commit::Grouped, put).wait()?;
        drop(planning);
        self.fold(workers, BUSY_SHARE)?;
        Ok(true)
    }

    /// Stores rows that were linked in bulk, before the engine closes.
    pub(super) fn close(self: &Arc<Self>, workers: &Workers) -> Result<()> {
        let _one_at_a_time = self.stepping.lock();
        let _planning = self.graph.index.lock_planning();
        let unsaved = self.changes.lock().unsaved;
        if unsaved > 0 { self.save(workers) } else { Ok(()) }
    }

    /// Stores all pages that changed, in one commit. The caller holds the planning lock, so that nothing changes
    /// meanwhile.
    fn save(self: &Arc<Self>, workers: &Workers) -> Result<()> {
        let (generation, namespace, last) = (self.generation, self.namespace, self.changes.lock().last);
        let changed = self.graph.index.take_changed_pages();
        let pages: Vec<(u32, Vec<u8>)> = changed.iter().map(|&page| (page, self.graph.index.page(page))).collect();
        let put = move |transaction: &Transaction| {
            transaction.graphs().put_pages(generation, namespace, &pages)?;
            last.map_or(Ok(()), |last| transaction.graphs().remove_deltas(generation, namespace, last))
        };
        let this = Arc::clone(self);
        let finish = move |saved: Result<()>| {
            saved.map(|()| {
                let mut changes = this.changes.lock();
                (changes.bytes, changes.unsaved) = (0, 0);
            })
        };
        let saved = workers.writer.commit(Commit::Grouped, then(put, finish)).wait();
        if saved.is_err() {
            self.graph.index.mark_pages_changed(&changed);
        }
        saved
    }

    /// Stores that the namespace has a graph. From then on removed rows are kept until they are unlinked.
    fn begin(self: &Arc<Self>, workers: &Workers) -> Result<()> {
        let (this, delta) = (Arc::clone(self), Arc::new(Delta::default()));
        let put = move |transaction: &Transaction| this.put(transaction, &delta, None);
        let finish = |committed: Result<Committed>| {
            committed.map(|committed| {
                committed.graph.index().set_stored(true);
                committed.apply();
            })
        };
        workers.writer.commit(Commit::Grouped, then(put, finish)).wait()
    }

    fn drop_stored(self: &Arc<Self>, workers: &Workers) -> Result<()> {
        let (generation, namespace, this) = (self.generation, self.namespace, Arc::clone(self));
        let remove = move |transaction: &Transaction| transaction.graphs().remove(generation, namespace);
        let finish = move |removed: Result<()>| {
            removed.map(|()| {
                this.graph.index.set_stored(false);
                *this.changes.lock() = Changes::default();
            })
        };
        workers.writer.commit(Commit::Grouped, then(remove, finish)).wait()
    }

    /// Writes the changed pages and deletes the deltas, if these have more bytes than a share of the pages. Returns
    /// false: no work is left.
    fn fold(self: &Arc<Self>, workers: &Workers, share: usize) -> Result<bool> {
        let (last, bytes) = {
            let changes = self.changes.lock();
            (changes.last, changes.bytes)
        };
        let Some(last) = last else { return Ok(false) };
        if bytes < FEW_BYTES.max(self.graph.index.page_bytes() / share) {
            return Ok(false);
        }
        // Taken after `last` was read, so the pages contain that delta. Deltas committed meanwhile may be in the pages
        // too; they are kept, and applying them again when the graph is read changes nothing.
        let pages = self.graph.index.take_changed_pages();
        let folded = self.write_pages(workers, &pages, last);
        match folded {
            Ok(()) => self.changes.lock().bytes -= bytes,
            Err(_) => self.graph.index.mark_pages_changed(&pages),
        }
        folded.map(|()| false)
    }

    fn write_pages(self: &Arc<Self>, workers: &Workers, pages: &[u32], last: u32) -> Result<()> {
        let (generation, namespace) = (self.generation, self.namespace);
        for some in pages.chunks(FOLDED_PAGES) {
            let pages: Vec<(u32, Vec<u8>)> = some.iter().map(|&page| (page, self.graph.index.page(page))).collect();
            let put = move |transaction: &Transaction| transaction.graphs().put_pages(generation, namespace, &pages);
            workers.writer.commit(Commit::Grouped, put).wait()?;
        }
        let remove = move |transaction: &Transaction| transaction.graphs().remove_deltas(generation, namespace, last);
        workers.writer.commit(Commit::Grouped, remove).wait()
    }
}

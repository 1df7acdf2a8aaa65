//! A namespace's graph and its place in the store.
//!
//! A change is planned, committed, and then made: so what searches go through is what is stored, or a little behind it.
//! Few new rows are linked by the commit that stores them. More are linked in steps in the background, and are scanned until
//! then. Changes are stored one after the other; when they have grown to a share of the graph, the pages that they touch are
//! written, a few at a time, and they are dropped.
//!
//! Very many rows, as after a bulk ingest, are an exception: storing each step would write the graph many times over. They
//! are linked in memory, and the pages stored in one commit now and then; what a crash takes of that is linked again.

use std::sync::Arc;

use parking_lot::Mutex;

use super::{sampling::Sampling, writer::Writer};
use crate::{
    error::Result,
    ids::{GenerationId, NamespaceId},
    index::{Delta, HnswIndex, Planning},
    store::{NewRows, Transaction},
};

/// The most rows that a commit links itself: some milliseconds.
const LINKED_ROWS: usize = 64;
/// More rows than this to link are linked in bulk, and stored when they are this many and half as many as are stored.
const BULK_ROWS: usize = 4096;
const SAVED_ROWS: usize = 16_384;
/// Changes are kept up to this share of the pages' bytes while there is other work, and up to the other when there is none.
const BUSY_SHARE: usize = 1;
const IDLE_SHARE: usize = 4;
/// Changes of fewer bytes are kept in any case.
const FEW_BYTES: usize = 1 << 20;
/// Pages of one transaction: half a megabyte, so that puts do not wait for long.
const FOLDED_PAGES: usize = 8;

pub(super) struct StoredGraph {
    pub(super) index: Arc<HnswIndex>,
    pub(super) sampling: Sampling,
    generation: GenerationId,
    namespace: NamespaceId,
    changes: Mutex<Changes>,
    /// Held by who does a step.
    stepping: Mutex<()>,
}

/// What is stored since the pages were.
#[derive(Default)]
struct Changes {
    last: Option<u32>,
    bytes: usize,
    /// What is stored cannot be read, and is to be deleted first.
    is_broken: bool,
    /// Rows that were linked in bulk since.
    unsaved: usize,
}

/// Threads that plan and do nothing else. One that plans has the graph's lock while it waits for its parts, and takes up
/// whatever the pool has waiting: a recall there might wait for a writer that waits for the lock. And the writer must not
/// wait for threads of the program, rayon's global pool, which may wait for the writer.
#[derive(Clone)]
pub(super) struct Planners(pub(super) Arc<rayon::ThreadPool>);

/// Who commits for a graph, and who plans.
#[derive(Clone)]
pub(super) struct Workers {
    pub(super) writer: Arc<Writer>,
    pub(super) planners: Planners,
}

/// A change that is in a transaction, to be made once that is committed.
pub(super) struct Committed {
    graph: Arc<StoredGraph>,
    delta: Delta,
    number: u32,
    bytes: usize,
    /// Nobody else plans before it is made.
    _right: Option<Planning>,
}

impl Committed {
    pub(super) fn make(self) {
        self.graph.index.apply(&self.delta);
        let mut changes = self.graph.changes.lock();
        changes.last = Some(self.number);
        changes.bytes += self.bytes;
    }
}

impl StoredGraph {
    /// `changes` are the number of the last one stored and the bytes of all, as they were read.
    pub(super) fn new(
        index: HnswIndex,
        generation: GenerationId,
        namespace: NamespaceId,
        (last, bytes): (Option<u32>, usize),
        is_broken: bool,
        sampling: Sampling,
    ) -> Self {
        let changes = Mutex::new(Changes { last, bytes, is_broken, unsaved: 0 });
        StoredGraph { index: Arc::new(index), sampling, generation, namespace, changes, stepping: Mutex::new(()) }
    }

    /// Links rows in the transaction that stores them, if they are few and all before them are linked.
    pub(super) fn link(
        self: &Arc<Self>,
        transaction: &mut Transaction,
        new: &NewRows,
        planners: &Planners,
    ) -> Result<Option<Committed>> {
        if new.rows.len() > LINKED_ROWS || !self.index.is_stored() {
            return Ok(None);
        }
        let Some(right) = self.index.try_plan() else { return Ok(None) };
        if self.changes.lock().unsaved > 0 {
            return Ok(None);
        }
        let planned = planners.0.install(|| self.index.plan_new(&right, &new.rows, &new.vectors));
        let Some(delta) = planned else { return Ok(None) };
        self.put(transaction, delta, Some(right)).map(Some)
    }

    fn put(
        self: &Arc<Self>,
        transaction: &mut Transaction,
        delta: Delta,
        right: Option<Planning>,
    ) -> Result<Committed> {
        let bytes = self.index.encode(&delta);
        let number = transaction.add_graph_delta(self.generation, self.namespace, &bytes, delta.freed())?;
        Ok(Committed { graph: Arc::clone(self), delta, number, bytes: bytes.len(), _right: right })
    }

    /// Does a step of what is to do in the background. Returns whether there is more.
    pub(super) fn step(self: &Arc<Self>, workers: &Workers, is_thorough: bool) -> Result<bool> {
        let _one_at_a_time = self.stepping.lock();
        if self.changes.lock().is_broken {
            self.drop_stored(workers)?;
        }
        let right = self.index.wait_to_plan();
        let (alive, linked) = self.index.counts();
        let unsaved = self.changes.lock().unsaved;
        if unsaved > 0 && (linked == alive || unsaved > SAVED_ROWS.max(linked / 3)) {
            return self.save(workers).map(|()| true);
        }
        if !self.index.has_work(is_thorough) {
            drop(right);
            // Whoever offers a sample asks for a step: while one namespace is searched, others have their turn.
            self.sampling.step(&self.index);
            return self.fold(workers, IDLE_SHARE);
        }
        if !self.index.is_stored() {
            self.begin(workers)?;
        }
        // None: what was to do was undone just then.
        let planned = workers.planners.0.install(|| self.index.plan_step(&right, is_thorough));
        let Some(delta) = planned else { return Ok(true) };
        if unsaved > 0 && !delta.freed().is_empty() {
            // What was to be linked was removed just then. Rows are free only when nothing stored leads to them.
            return self.save(workers).map(|()| true);
        }
        if delta.freed().is_empty() && (unsaved > 0 || alive - linked > BULK_ROWS) {
            self.index.apply(&delta);
            self.changes.lock().unsaved += delta.added();
            return Ok(true);
        }
        let this = Arc::clone(self);
        let put = move |transaction: &mut Transaction| this.put(transaction, delta.clone(), None);
        workers.writer.commit(put, Committed::make)?;
        drop(right);
        self.fold(workers, BUSY_SHARE)?;
        Ok(true)
    }

    /// Stores what was linked in bulk, if it was, before the engine closes.
    pub(super) fn close(self: &Arc<Self>, workers: &Workers) -> Result<()> {
        let _one_at_a_time = self.stepping.lock();
        let _right = self.index.wait_to_plan();
        let unsaved = self.changes.lock().unsaved;
        if unsaved > 0 { self.save(workers) } else { Ok(()) }
    }

    /// Stores all pages that changed in one commit. The right to plan is held: nothing changes meanwhile.
    fn save(self: &Arc<Self>, workers: &Workers) -> Result<()> {
        let (generation, namespace, last) = (self.generation, self.namespace, self.changes.lock().last);
        let changed = self.index.take_changed_pages();
        let pages: Vec<(u32, Vec<u8>)> = changed.iter().map(|&page| (page, self.index.page(page))).collect();
        let put = move |transaction: &mut Transaction| {
            transaction.put_graph_pages(generation, namespace, &pages)?;
            last.map_or(Ok(()), |last| transaction.drop_graph_deltas(generation, namespace, last))
        };
        let this = Arc::clone(self);
        let saved = workers.writer.commit(put, move |()| {
            let mut changes = this.changes.lock();
            (changes.bytes, changes.unsaved) = (0, 0);
        });
        if saved.is_err() {
            self.index.give_back_pages(&changed);
        }
        saved
    }

    /// Stores that there is a graph: from then on, removed rows are kept until they are unlinked.
    fn begin(self: &Arc<Self>, workers: &Workers) -> Result<()> {
        let this = Arc::clone(self);
        let put = move |transaction: &mut Transaction| this.put(transaction, Delta::default(), None);
        workers.writer.commit(put, |committed| {
            committed.graph.index.set_stored(true);
            committed.make();
        })
    }

    fn drop_stored(self: &Arc<Self>, workers: &Workers) -> Result<()> {
        let (generation, namespace, this) = (self.generation, self.namespace, Arc::clone(self));
        workers.writer.commit(
            move |transaction| transaction.drop_graph(generation, namespace),
            move |()| {
                this.index.set_stored(false);
                *this.changes.lock() = Changes::default();
            },
        )
    }

    /// Writes the pages that changed, if the changes are more than a share of all pages, and drops the changes. Returns
    /// false: it leaves nothing to do.
    fn fold(self: &Arc<Self>, workers: &Workers, share: usize) -> Result<bool> {
        let (last, bytes) = {
            let changes = self.changes.lock();
            (changes.last, changes.bytes)
        };
        let Some(last) = last else { return Ok(false) };
        if bytes < FEW_BYTES.max(self.index.page_bytes() / share) {
            return Ok(false);
        }
        // After `last` was read, so the pages have it. What is committed meanwhile may be in them too: it stays, and is
        // made again when they are read, which changes nothing.
        let pages = self.index.take_changed_pages();
        let folded = self.write_pages(workers, &pages, last);
        match folded {
            Ok(()) => self.changes.lock().bytes -= bytes,
            Err(_) => self.index.give_back_pages(&pages),
        }
        folded.map(|()| false)
    }

    fn write_pages(self: &Arc<Self>, workers: &Workers, pages: &[u32], last: u32) -> Result<()> {
        let (generation, namespace) = (self.generation, self.namespace);
        for some in pages.chunks(FOLDED_PAGES) {
            let pages: Vec<(u32, Vec<u8>)> = some.iter().map(|&page| (page, self.index.page(page))).collect();
            workers
                .writer
                .commit(move |transaction| transaction.put_graph_pages(generation, namespace, &pages), |()| ())?;
        }
        workers.writer.commit(move |transaction| transaction.drop_graph_deltas(generation, namespace, last), |()| ())
    }
}

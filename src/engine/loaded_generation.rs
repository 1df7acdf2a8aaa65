//! The generations in memory, each with its embedder and its loaded namespaces: the serving one and, during a reindex or a
//! rollback, the one that is to serve next.
//!
//! A namespace is loaded when it is first queried. A commit is published to the generation that it was made for, and
//! there to the namespaces that are loaded. A recall takes the serving generation once, and uses it to its end, whichever
//! serves then.

use std::{
    collections::HashMap,
    sync::{Arc, Weak, mpsc},
};

use parking_lot::{Mutex, RwLock};

use super::{
    executor::Planners,
    namespace_slot::{LoadedNamespace, MemoryBudget, NamespaceSlot},
    reports::IndexStats,
    segments::{LexicalRebuild, rewrite_segment},
    stored_graph::{Committed, StoredGraph, Workers},
    writer::Writer,
};
use crate::{
    config::{Config, IndexKind},
    embed::Embedder,
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
    recall::{self, AddedRows, NamespaceChange, OnSample, ScoreBuffers, SearchResources, StoredWords},
    store::{Generation, Snapshot, Store, Transaction, UnindexedChange},
};

/// The generations in memory.
pub(super) struct Generations(RwLock<GenerationsState>);

struct GenerationsState {
    serving: Arc<LoadedGeneration>,
    /// The generation that a reindex builds, or that a rollback goes back to.
    target: Option<Arc<LoadedGeneration>>,
    /// The last generation that was removed.
    removed: Weak<LoadedGeneration>,
}

impl Generations {
    pub(super) fn new(serving: LoadedGeneration) -> Self {
        Generations(RwLock::new(GenerationsState { serving: Arc::new(serving), target: None, removed: Weak::new() }))
    }

    pub(super) fn serving(&self) -> Arc<LoadedGeneration> {
        Arc::clone(&self.0.read().serving)
    }

    /// Returns the serving generation, and the target if there is one.
    pub(super) fn all(&self) -> Vec<Arc<LoadedGeneration>> {
        let state = self.0.read();
        [&state.serving].into_iter().chain(&state.target).cloned().collect()
    }

    /// Returns the generation with this id; also one that was removed and is still used, which may be storing its
    /// graphs.
    pub(super) fn get(&self, id: GenerationId) -> Option<Arc<LoadedGeneration>> {
        let GenerationsState { serving, target, removed } = &*self.0.read();
        let all = [Some(serving), target.as_ref()].into_iter().flatten().cloned().chain(removed.upgrade());
        all.into_iter().find(|loaded| loaded.generation.id == id)
    }

    pub(super) fn set_target(&self, target: Arc<LoadedGeneration>) {
        self.0.write().target = Some(target);
    }

    /// Removes the target, if there is one.
    pub(super) fn remove_target(&self) {
        let mut state = self.0.write();
        let target = state.target.take();
        if let Some(target) = &target {
            state.removed = Arc::downgrade(target);
        }
    }

    /// Makes the target the serving generation, and removes the one that served.
    pub(super) fn switch(&self) {
        let mut state = self.0.write();
        if let Some(new) = state.target.take() {
            let old = std::mem::replace(&mut state.serving, new);
            state.removed = Arc::downgrade(&old);
        }
    }

    /// Returns true if the last generation that was removed is still used, by a recall that began before.
    pub(super) fn is_removed_in_use(&self) -> bool {
        self.0.read().removed.strong_count() > 0
    }
}

/// A generation in memory: its embedder and its loaded namespaces.
pub(super) struct LoadedGeneration {
    pub(super) generation: Generation,
    pub(super) embedder: Arc<dyn Embedder>,
    config: Config,
    store: Arc<Store>,
    /// Weak, because commits queued in the writer may hold the generation.
    writer: Weak<Writer>,
    /// The namespaces that are loaded or being loaded.
    slots: RwLock<HashMap<NamespaceId, Arc<NamespaceSlot>>>,
    budget: Arc<MemoryBudget>,
    improve: mpsc::Sender<Improve>,
    /// Held while a batch is embedded and handed to the writer, and while the language that batches are analyzed by
    /// changes.
    pub(super) batching: Mutex<()>,
    buffers: ScoreBuffers,
}

/// A namespace of a generation whose index may need work in the background; `None` ends the thread that does it.
pub(super) type Improve = Option<(GenerationId, NamespaceId)>;

/// The parts of the engine that a generation works with.
pub(super) struct Services {
    pub(super) store: Arc<Store>,
    pub(super) writer: Weak<Writer>,
    pub(super) config: Config,
    pub(super) budget: Arc<MemoryBudget>,
    pub(super) improve: mpsc::Sender<Improve>,
}

impl LoadedGeneration {
    pub(super) fn new(generation: Generation, embedder: Arc<dyn Embedder>, services: Services) -> Self {
        let Services { store, writer, config, budget, improve } = services;
        let (slots, batching, buffers) = (RwLock::default(), Mutex::default(), ScoreBuffers::default());
        LoadedGeneration { generation, embedder, config, store, writer, slots, budget, improve, batching, buffers }
    }

    /// Returns what every search of the generation uses.
    pub(super) fn resources(&self) -> SearchResources<'_> {
        SearchResources { store: &self.store, buffers: &self.buffers }
    }

    /// The namespaces that are loaded.
    pub(super) fn namespaces(&self) -> Vec<NamespaceId> {
        self.all_loaded().into_iter().map(|(namespace, _)| namespace).collect()
    }

    fn all_loaded(&self) -> Vec<(NamespaceId, Arc<LoadedNamespace>)> {
        let slots: Vec<_> = self.slots.read().iter().map(|(&namespace, slot)| (namespace, Arc::clone(slot))).collect();
        slots.into_iter().filter_map(|(namespace, slot)| Some((namespace, slot.loaded()?))).collect()
    }

    fn slot(&self, namespace: NamespaceId) -> Option<Arc<NamespaceSlot>> {
        self.slots.read().get(&namespace).cloned()
    }

    fn loaded(&self, namespace: NamespaceId) -> Option<Arc<LoadedNamespace>> {
        self.slot(namespace)?.loaded()
    }

    /// Returns a namespace, loaded if it was not yet.
    ///
    /// # Errors
    /// [`Error::Corrupted`] and [`Error::Storage`]; [`Error::Closed`] if its lexical index must be rebuilt and the
    /// engine is closing.
    pub(super) fn load(&self, namespace: NamespaceId) -> Result<Arc<LoadedNamespace>> {
        let slot = self.slot(namespace).unwrap_or_else(|| Arc::clone(self.slots.write().entry(namespace).or_default()));
        slot.set_last_used(self.budget.now());
        if let Some(loaded) = slot.loaded() {
            // The last recall may have read messages that are not indexed.
            loaded.recharge();
            return Ok(loaded);
        }
        let loaded = slot.load(|| self.read(namespace, &slot))?;
        drop(slot);
        self.enforce_budget();
        self.improve_later(namespace);
        Ok(loaded)
    }

    /// Reads the words of a namespace that is not loaded. `None`: there is room to load it, or it must be loaded.
    ///
    /// # Errors
    /// [`Error::Corrupted`] and [`Error::Storage`].
    pub(super) fn words(&self, namespace: NamespaceId, snapshot: &Snapshot) -> Result<Option<StoredWords>> {
        match self.budget.has_room() || self.loaded(namespace).is_some() {
            true => Ok(None),
            false => recall::read_words(snapshot, &self.generation, namespace),
        }
    }

    /// Unloads the namespaces that were not used for the longest time, if loaded ones take more than the budget.
    pub(super) fn enforce_budget(&self) {
        if self.budget.is_exceeded() {
            let loaded = || self.slots.read().iter().map(|(&namespace, slot)| (slot.last_used(), namespace)).collect();
            self.budget.enforce(loaded, |&namespace| self.unload(namespace));
        }
    }

    /// Unloads a namespace, unless it is in use.
    fn unload(&self, namespace: NamespaceId) {
        let mut slots = self.slots.write();
        // While the lock is held nobody gets the slot, and who has it already is counted.
        let Some(slot) = slots.get_mut(&namespace) else { return };
        let unloaded = match Arc::get_mut(slot).is_some_and(NamespaceSlot::is_idle) {
            true => slots.remove(&namespace),
            false => None,
        };
        drop(slots);
        // Its memory is freed without the lock.
        drop(unloaded);
    }

    /// Forgets what is loaded. A recall that goes on ends with what it began with.
    pub(super) fn unload_all(&self) {
        let slots = std::mem::take(&mut *self.slots.write());
        // Their memory is freed without the lock.
        drop(slots);
    }

    /// Forgets what is loaded of a namespace. A recall that goes on ends with what it began with.
    pub(super) fn reload(&self, namespace: NamespaceId) {
        let slot = self.slots.write().remove(&namespace);
        drop(slot);
    }

    /// Unloads a namespace whose messages were deleted, unless it is in use.
    pub(super) fn unload_if_empty(&self, namespace: NamespaceId) {
        if self.loaded(namespace).is_some_and(|loaded| loaded.messages.is_empty()) {
            self.unload(namespace);
        }
    }

    /// Reads a namespace from the store, after its lexical index was rebuilt if that is missing or damaged.
    fn read(&self, namespace: NamespaceId, slot: &Arc<NamespaceSlot>) -> Result<LoadedNamespace> {
        let on_sample: OnSample = {
            let (improve, generation) = (self.improve.clone(), self.generation.id);
            Arc::new(move || {
                let _ = improve.send(Some((generation, namespace)));
            })
        };
        let read = || recall::load(&self.store, &self.generation, namespace, &self.config, &on_sample);
        let found = match read()? {
            Some(found) => found,
            None => {
                let writer = self.writer.upgrade().ok_or(Error::Closed)?;
                let slot = Arc::clone(slot);
                let generations = vec![(self.generation.id, &*self.embedder)];
                // Published by the writer, in order with other commits: the rebuild replaces what they did to segments.
                LexicalRebuild { namespace, generations, language: None }.commit(
                    &self.store,
                    &writer,
                    move |changes| {
                        slot.publish(NamespaceChange::Segments(namespace, None, changes.concat()));
                    },
                )?;
                let incomplete = "a lexical index that was just rebuilt is incomplete; verify the database";
                read()?.ok_or_else(|| Error::corrupted(incomplete))?
            }
        };
        let graph = found.graph.map(|graph| Arc::new(StoredGraph::new(graph, self.generation.id, namespace)));
        Ok(LoadedNamespace::new(found.messages, graph, &self.budget))
    }

    /// Links rows in the transaction that stores them, where that is quick. The returned links are to be applied once
    /// the transaction is committed and the rows are published.
    pub(super) fn link(
        &self,
        transaction: &Transaction,
        added: &[AddedRows],
        planners: &Planners,
    ) -> Result<Vec<Committed>> {
        let mut linked = Vec::new();
        for AddedRows { rows: new, .. } in added {
            if let Some(graph) = self.graph(new.namespace) {
                linked.extend(graph.link(transaction, new, planners)?);
            }
        }
        Ok(linked)
    }

    /// Applies a commit to its namespace, if that is in memory.
    pub(super) fn publish(&self, change: NamespaceChange) {
        let namespace = change.namespace();
        if self.slot(namespace).is_some_and(|slot| slot.publish(change)) {
            self.improve_later(namespace);
        }
    }

    /// Applies the changes of unindexed messages by a commit to their namespace, if that is in memory.
    pub(super) fn publish_unindexed(&self, namespace: NamespaceId, changes: Vec<UnindexedChange>) {
        if let Some(slot) = self.slot(namespace) {
            slot.publish(NamespaceChange::Unindexed(namespace, changes));
        }
    }

    /// Does one step of the background work of a namespace's index; work of every kind if `is_thorough`. Returns true
    /// if more is left.
    pub(super) fn improve(&self, namespace: NamespaceId, workers: &Workers, is_thorough: bool) -> Result<bool> {
        let Some(loaded) = self.loaded(namespace) else { return Ok(false) };
        // The lock is released first: the writer is waited for, and it publishes under that lock.
        let sparse = loaded.messages.index.read().sparse_segment();
        if let Some((number, segment)) = sparse {
            let slot = self.slot(namespace).expect("a namespace in use keeps its slot");
            return rewrite_segment(self.generation.id, namespace, &slot, &loaded, (number, segment), workers);
        }
        match &loaded.graph {
            Some(graph) => graph.step(workers, is_thorough, self.budget.uses()),
            None => {
                let vectors = loaded.messages.index.read().vectors.clone();
                Ok(vectors.index().improve())
            }
        }
    }

    /// Stores the links that background work has not stored yet.
    pub(super) fn close(&self, workers: &Workers) {
        for graph in self.all_loaded().iter().filter_map(|(_, loaded)| loaded.graph.as_ref()) {
            if let Err(error) = graph.close(workers) {
                tracing::error!(%error, "links were not stored; the next opening makes them again");
            }
        }
    }

    /// Does all background work of a namespace's index now.
    pub(super) fn optimize(&self, namespace: NamespaceId, workers: &Workers) -> Result<()> {
        self.load(namespace)?;
        while self.improve(namespace, workers, true)? {}
        Ok(())
    }

    /// The namespaces that have enough vectors for a graph.
    pub(super) fn with_graphs(&self) -> Result<Vec<NamespaceId>> {
        let above = match self.config.index {
            IndexKind::Hnsw => 0,
            IndexKind::Auto => self.config.exact_threshold,
            _ => return Ok(Vec::new()),
        };
        let snapshot = self.store.read()?;
        let (rows, generation) = (snapshot.rows(), self.generation.id);
        let mut found = Vec::new();
        for namespace in rows.namespaces(generation)? {
            if rows.live_count(generation, namespace)? > above {
                found.push(namespace);
            }
        }
        Ok(found)
    }

    /// Loads namespaces and links all their vectors. `go_on` gets the vectors in all of them and those that need no work
    /// any more. Returns false once it has.
    pub(super) fn link_all(
        &self,
        namespaces: &[NamespaceId],
        workers: &Workers,
        mut go_on: impl FnMut(u64, u64) -> Result<bool>,
    ) -> Result<bool> {
        let snapshot = self.store.read()?;
        let rows = |&namespace: &NamespaceId| snapshot.rows().live_count(self.generation.id, namespace);
        let rows = namespaces.iter().map(rows).collect::<Result<Vec<usize>>>()?;
        // A snapshot held meanwhile would keep all pages that are rewritten.
        drop(snapshot);
        let (mut done, total) = (0, rows.iter().sum::<usize>() as u64);
        for (&namespace, rows) in namespaces.iter().zip(rows) {
            if !go_on(done, total)? {
                return Ok(false);
            }
            self.load(namespace)?;
            while self.improve(namespace, workers, false)? {
                if !go_on(done + self.linked(namespace).min(rows) as u64, total)? {
                    return Ok(false);
                }
            }
            done += rows as u64;
        }
        go_on(done, total)
    }

    fn graph(&self, namespace: NamespaceId) -> Option<Arc<StoredGraph>> {
        self.loaded(namespace)?.graph.clone()
    }

    /// The number of rows in the graph of a namespace; 0 if it is not loaded or has no graph.
    fn linked(&self, namespace: NamespaceId) -> usize {
        self.graph(namespace).map_or(0, |graph| graph.index().counts().1)
    }

    /// Statistics of a namespace's index. Loads the namespace.
    pub(super) fn index_stats(&self, namespace: NamespaceId) -> Result<IndexStats> {
        let loaded = self.load(namespace)?;
        Ok(match &loaded.graph {
            None => {
                let vectors = loaded.messages.index.read().live_rows();
                IndexStats { vectors, linked: 0, ef_search: self.config.ef_search, recall: None, samples: 0 }
            }
            Some(graph) => {
                let ((vectors, linked), estimate) = (graph.index().counts(), graph.estimate());
                let (recall, samples, ef_search) = (estimate.recall, estimate.samples, estimate.ef);
                IndexStats { vectors, linked, ef_search, recall, samples }
            }
        })
    }

    /// Asks the background thread to improve a namespace's index.
    pub(super) fn improve_later(&self, namespace: NamespaceId) {
        // Without a receiver the engine is closing, and the index with it.
        let _ = self.improve.send(Some((self.generation.id, namespace)));
    }
}

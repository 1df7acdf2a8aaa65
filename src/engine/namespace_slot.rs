//! A namespace of a loaded generation: unloaded, being loaded by one thread while others wait, or loaded.
//!
//! Commits are published to the slot. A commit that arrives while the namespace is being loaded is queued and applied
//! after, so the writer never waits for a load.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parking_lot::{Mutex, RwLock};

use super::{
    memory_budget::{Charge, MemoryBudget},
    stored_graph::StoredGraph,
};
use crate::{
    error::Result,
    recall::{NamespaceChange, NamespaceIndex, Unindexed},
};

#[derive(Default)]
pub(super) struct NamespaceSlot {
    state: RwLock<State>,
    /// Held by the thread that loads.
    loading: Mutex<()>,
    /// The time of the last use, as [`MemoryBudget::now`] counts it.
    last_used: AtomicU64,
}

#[derive(Default)]
enum State {
    #[default]
    Unloaded,
    /// With the commits since loading began.
    Loading(Vec<NamespaceChange>),
    Loaded(Arc<LoadedNamespace>),
}

/// A loaded namespace, and what maintains its graph in the store, if it has one.
pub(super) struct LoadedNamespace {
    pub(super) index: RwLock<NamespaceIndex>,
    pub(super) unindexed: Unindexed,
    pub(super) graph: Option<Arc<StoredGraph>>,
    charge: Charge,
}

impl LoadedNamespace {
    pub(super) fn new(
        index: NamespaceIndex,
        unindexed: Unindexed,
        graph: Option<Arc<StoredGraph>>,
        budget: &Arc<MemoryBudget>,
    ) -> Self {
        let charge = budget.charge(memory_bytes(&index, &unindexed));
        LoadedNamespace { index: RwLock::new(index), unindexed, graph, charge }
    }

    /// Returns true if it has no messages.
    pub(super) fn is_empty(&self) -> bool {
        self.index.read().is_empty() && self.unindexed.is_empty()
    }

    /// Counts the memory that the namespace takes now.
    pub(super) fn recharge(&self) {
        self.charge.set(memory_bytes(&self.index.read(), &self.unindexed));
    }

    fn apply(&self, change: &NamespaceChange) {
        match change {
            NamespaceChange::Unindexed(_, changes) => {
                self.unindexed.apply(changes);
                self.index.read().metadata.apply(changes);
            }
            NamespaceChange::Added(added) => {
                self.index.write().apply(change);
                // After they are in the index, so that a recall finds them at every moment.
                self.unindexed.remove(added.rows.metas.iter().map(|meta| meta.seq));
            }
            _ => self.index.write().apply(change),
        }
    }
}

/// The bytes of a loaded namespace, with what the allocator needs beside them: an eighth, measured with `mnemon bench
/// users` as resident memory for each byte of the budget.
fn memory_bytes(index: &NamespaceIndex, unindexed: &Unindexed) -> usize {
    let bytes = size_of::<LoadedNamespace>() + index.memory_bytes() + unindexed.memory_bytes();
    bytes + bytes / 8
}

impl NamespaceSlot {
    pub(super) fn set_last_used(&self, time: u64) {
        self.last_used.store(time, Ordering::Relaxed);
    }

    pub(super) fn last_used(&self) -> u64 {
        self.last_used.load(Ordering::Relaxed)
    }

    /// Returns true if nothing is lost by forgetting the slot: nobody uses the namespace, and all that was done for its
    /// graph is stored. The caller holds the only reference to the slot.
    pub(super) fn is_idle(&mut self) -> bool {
        match self.state.get_mut() {
            State::Unloaded => true,
            State::Loading(_) => false,
            State::Loaded(loaded) => {
                let is_unused = |graph: &Arc<StoredGraph>| Arc::strong_count(graph) == 1 && graph.is_stored();
                Arc::strong_count(loaded) == 1 && loaded.graph.as_ref().is_none_or(is_unused)
            }
        }
    }

    pub(super) fn loaded(&self) -> Option<Arc<LoadedNamespace>> {
        match &*self.state.read() {
            State::Loaded(loaded) => Some(Arc::clone(loaded)),
            _ => None,
        }
    }

    /// Returns the loaded namespace; if it is not loaded, calls `read` first. Of several threads one loads, the others
    /// wait.
    pub(super) fn load(&self, read: impl FnOnce() -> Result<LoadedNamespace>) -> Result<Arc<LoadedNamespace>> {
        if let Some(loaded) = self.loaded() {
            return Ok(loaded);
        }
        let _one_at_a_time = self.loading.lock();
        if let Some(loaded) = self.loaded() {
            return Ok(loaded);
        }
        // Before a snapshot is taken: commits after the snapshot must be queued.
        *self.state.write() = State::Loading(Vec::new());
        let read = read();
        let mut state = self.state.write();
        let queue = std::mem::take(&mut *state);
        let loaded = read?;
        if let State::Loading(queue) = queue {
            queue.iter().for_each(|change| loaded.apply(change));
        }
        let loaded = Arc::new(loaded);
        *state = State::Loaded(Arc::clone(&loaded));
        Ok(loaded)
    }

    /// Applies a commit. Called by one thread, in the order of the commits. Returns true if the namespace is loaded.
    pub(super) fn publish(&self, change: NamespaceChange) -> bool {
        let loaded = match &mut *self.state.write() {
            State::Unloaded => return false,
            State::Loading(queue) => {
                queue.push(change);
                return false;
            }
            State::Loaded(loaded) => Arc::clone(loaded),
        };
        loaded.apply(&change);
        loaded.recharge();
        true
    }
}

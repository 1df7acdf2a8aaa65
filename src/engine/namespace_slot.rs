//! A namespace of a loaded generation: unloaded, being loaded by one thread while others wait, or loaded.
//!
//! Commits are published to the slot. A commit that arrives while the namespace is being loaded is queued and applied
//! after, so the writer never waits for a load.
//!
//! Each loaded namespace holds a [`Charge`] of its bytes, which ends with it. When the sum is over the [`MemoryBudget`],
//! the generation that loaded last unloads the namespaces that were not used for the longest time. One that a recall or
//! background work uses stays.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use parking_lot::{Mutex, RwLock};

use super::stored_graph::StoredGraph;
use crate::{
    error::Result,
    recall::{LoadedMessages, NamespaceChange},
};

/// Unloading ends at this share of the budget, so that a full budget is not sorted again for each load.
const KEPT: (usize, usize) = (7, 8);

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
    pub(super) messages: LoadedMessages,
    pub(super) graph: Option<Arc<StoredGraph>>,
    charge: Charge,
}

impl LoadedNamespace {
    pub(super) fn new(messages: LoadedMessages, graph: Option<Arc<StoredGraph>>, budget: &Arc<MemoryBudget>) -> Self {
        let charge = budget.charge(memory_bytes(&messages));
        LoadedNamespace { messages, graph, charge }
    }

    /// Counts the memory that the namespace takes now.
    pub(super) fn recharge(&self) {
        self.charge.set(memory_bytes(&self.messages));
    }
}

impl AsRef<LoadedMessages> for LoadedNamespace {
    fn as_ref(&self) -> &LoadedMessages {
        &self.messages
    }
}

/// The bytes that a namespace takes however few messages it has, in the nodes of its maps, its locks and its slot: resident memory for
/// each of 20,000 namespaces of one message, less what is counted.
const FIXED: usize = 3500;

/// The bytes of a loaded namespace, with what the allocator needs beside them: an eighth, measured with `mnemon bench
/// users` as resident memory for each byte of the budget.
fn memory_bytes(messages: &LoadedMessages) -> usize {
    let bytes = size_of::<LoadedNamespace>() + FIXED + messages.memory_bytes();
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
            queue.iter().for_each(|change| loaded.messages.apply(change));
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
        loaded.messages.apply(&change);
        loaded.recharge();
        true
    }
}

/// The memory of the loaded namespaces of all generations.
#[derive(Default)]
pub(super) struct MemoryBudget {
    limit: usize,
    used: AtomicUsize,
    namespaces: AtomicUsize,
    loads: AtomicU64,
    unloads: AtomicU64,
    /// The time of the last use of a namespace, counted in uses.
    uses: AtomicU64,
    /// Held while namespaces are unloaded.
    unloading: Mutex<()>,
}

/// The part of the budget that a loaded namespace takes.
pub(super) struct Charge {
    budget: Arc<MemoryBudget>,
    bytes: AtomicUsize,
}

/// The memory of an engine's loaded namespaces.
///
/// Returned by [`Engine::stats`](crate::Engine::stats).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct EngineStats {
    /// The bytes that loaded namespaces may take.
    ///
    /// See [`Config::memory_budget`](field@crate::Config::memory_budget).
    pub memory_budget: usize,
    /// The bytes that they take. Above the budget if recalls use more at the moment, or if a single namespace is
    /// larger.
    pub memory_used: usize,
    /// Number of loaded namespaces. During a reindex a namespace may be loaded twice.
    pub namespaces_loaded: usize,
    /// Number of loads since the engine was opened.
    pub loads: u64,
    /// Number of namespaces that were unloaded since the engine was opened.
    pub unloads: u64,
}

impl MemoryBudget {
    pub(super) fn new(limit: usize) -> Self {
        MemoryBudget { limit, ..MemoryBudget::default() }
    }

    pub(super) fn stats(&self) -> EngineStats {
        EngineStats {
            memory_budget: self.limit,
            memory_used: self.used.load(Ordering::Relaxed),
            namespaces_loaded: self.namespaces.load(Ordering::Relaxed),
            loads: self.loads.load(Ordering::Relaxed),
            unloads: self.unloads.load(Ordering::Relaxed),
        }
    }

    /// Returns the time of a use that happens now.
    pub(super) fn now(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    /// The number of uses so far.
    pub(super) fn uses(&self) -> u64 {
        self.uses.load(Ordering::Relaxed)
    }

    /// Returns true if a namespace can be loaded without another being unloaded, unless it is large.
    pub(super) fn has_room(&self) -> bool {
        self.used.load(Ordering::Relaxed) < self.kept()
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.limit
    }

    /// The bytes that stay when namespaces are unloaded.
    fn kept(&self) -> usize {
        self.limit / KEPT.1 * KEPT.0
    }

    /// Unloads namespaces until the used memory is well below the budget. `loaded` lists those that are loaded, with
    /// the times of their last uses. `unload` unloads one, unless it is in use.
    pub(super) fn enforce<N>(&self, loaded: impl FnOnce() -> Vec<(u64, N)>, unload: impl Fn(&N)) {
        let _one_at_a_time = self.unloading.lock();
        if !self.is_exceeded() {
            return;
        }
        let mut loaded = loaded();
        loaded.sort_unstable_by_key(|(used, _)| *used);
        let kept = self.kept();
        for (_, namespace) in loaded {
            if self.used.load(Ordering::Relaxed) <= kept {
                break;
            }
            unload(&namespace);
        }
    }

    /// Counts a namespace that was loaded.
    pub(super) fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        if bytes > self.limit {
            let limit = self.limit;
            tracing::warn!(bytes, limit, "a namespace is larger than the memory budget; it is loaded all the same");
        }
        self.loads.fetch_add(1, Ordering::Relaxed);
        self.namespaces.fetch_add(1, Ordering::Relaxed);
        self.used.fetch_add(bytes, Ordering::Relaxed);
        Charge { budget: Arc::clone(self), bytes: AtomicUsize::new(bytes) }
    }
}

impl Charge {
    /// Sets the bytes that the namespace takes.
    pub(super) fn set(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        // Wraps around: the sum is right once both are added.
        self.budget.used.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.unloads.fetch_add(1, Ordering::Relaxed);
        self.budget.namespaces.fetch_sub(1, Ordering::Relaxed);
        self.budget.used.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

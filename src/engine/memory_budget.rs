//! The memory that loaded namespaces may take together.
//!
//! Each loaded namespace holds a [`Charge`] of its bytes, which ends with it. When the sum is over the budget, the
//! generation that loaded last unloads the namespaces that were not used for the longest time. One that a recall or
//! background work uses stays.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

use parking_lot::Mutex;

/// Unloading ends at this share of the budget, so that a full budget is not sorted again for each load.
const KEPT: (usize, usize) = (7, 8);

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

/// The memory of an engine's loaded namespaces. Returned by [`Engine::stats`](crate::Engine::stats).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct EngineStats {
    /// The bytes that loaded namespaces may take ([`Config::memory_budget`](field@crate::Config::memory_budget)).
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

    pub(super) fn is_exceeded(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.limit
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
        let kept = self.limit / KEPT.1 * KEPT.0;
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

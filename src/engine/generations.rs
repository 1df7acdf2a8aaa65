//! The generations in memory: the serving one and, during a reindex or a rollback, the one that is to serve next.
//!
//! A commit is published to the generation that it was made for. A recall takes the serving generation once, and uses
//! it to its end, whichever serves then.

use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use super::loaded_generation::LoadedGeneration;
use crate::ids::GenerationId;

/// The generations in memory.
pub(super) struct Generations(RwLock<State>);

struct State {
    serving: Arc<LoadedGeneration>,
    /// The generation that a reindex builds, or that a rollback goes back to.
    target: Option<Arc<LoadedGeneration>>,
    /// The last generation that was removed.
    removed: Weak<LoadedGeneration>,
}

impl Generations {
    pub(super) fn new(serving: LoadedGeneration) -> Self {
        Generations(RwLock::new(State { serving: Arc::new(serving), target: None, removed: Weak::new() }))
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
        let State { serving, target, removed } = &*self.0.read();
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

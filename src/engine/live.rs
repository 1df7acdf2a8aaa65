//! The generations that are in memory: the one that serves and, while one is built or gone back to, that one beside it.
//!
//! What is committed is published to each, by the generation that it was committed for. A recall takes the serving one once, and
//! keeps to it to its end, whatever serves then.

use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use super::spaces::Spaces;
use crate::ids::GenerationId;

pub(super) struct Live(RwLock<Generations>);

struct Generations {
    serving: Arc<Spaces>,
    beside: Option<Arc<Spaces>>,
    /// The last that was taken out.
    left: Weak<Spaces>,
}

impl Live {
    pub(super) fn new(serving: Spaces) -> Self {
        Live(RwLock::new(Generations { serving: Arc::new(serving), beside: None, left: Weak::new() }))
    }

    pub(super) fn serving(&self) -> Arc<Spaces> {
        Arc::clone(&self.0.read().serving)
    }

    /// The serving one, and the one beside it.
    pub(super) fn all(&self) -> Vec<Arc<Spaces>> {
        let generations = self.0.read();
        [&generations.serving].into_iter().chain(&generations.beside).cloned().collect()
    }

    /// Also one that was taken out and is still used: it may be storing its graphs.
    pub(super) fn of(&self, generation: GenerationId) -> Option<Arc<Spaces>> {
        let Generations { serving, beside, left } = &*self.0.read();
        let all = [Some(serving), beside.as_ref()].into_iter().flatten().cloned().chain(left.upgrade());
        all.into_iter().find(|spaces| spaces.generation.id == generation)
    }

    pub(super) fn put_beside(&self, spaces: Arc<Spaces>) {
        self.0.write().beside = Some(spaces);
    }

    /// Takes the one beside out, if there is one.
    pub(super) fn drop_beside(&self) {
        let mut generations = self.0.write();
        let beside = generations.beside.take();
        if let Some(beside) = &beside {
            generations.left = Arc::downgrade(beside);
        }
    }

    /// The one beside serves from now on, and the one that served is taken out.
    pub(super) fn switch(&self) {
        let mut generations = self.0.write();
        if let Some(new) = generations.beside.take() {
            let old = std::mem::replace(&mut generations.serving, new);
            generations.left = Arc::downgrade(&old);
        }
    }

    /// Whether the one that was taken out last is still used, by a recall that began before.
    pub(super) fn is_left_in_use(&self) -> bool {
        self.0.read().left.strong_count() > 0
    }
}

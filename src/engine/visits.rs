//! Work that uses an engine without keeping it open.
//!
//! Who drops the last handle on an engine expects its file to be closed then. What still uses the engine at that moment is
//! waited for: so it must be short, or look whether the engine is being closed.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use parking_lot::{Condvar, Mutex};

use super::core::Core;

/// How many are using an engine just now.
#[derive(Default)]
pub(super) struct Visits {
    count: Mutex<usize>,
    ended: Condvar,
    /// The last handle is being dropped.
    is_over: AtomicBool,
}

/// A use of an engine, until it is dropped: after the handle that it uses.
pub(super) struct Visit(Arc<Visits>);

impl Visits {
    pub(super) fn begin(self: &Arc<Self>) -> Visit {
        *self.count.lock() += 1;
        Visit(Arc::clone(self))
    }

    /// Whether the engine is being closed: a visit that is long must end.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.ended.notify_all();
    }
}

/// Waits, when dropped, for those who use the engine.
pub(super) struct LastHandle(pub(super) Arc<Visits>);

impl Drop for LastHandle {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
        // What a visitor itself drops cannot wait for the visitor.
        let visitor = thread::current().name().is_some_and(|name| name.starts_with("mnemon-"));
        if !visitor {
            let mut count = self.0.count.lock();
            while *count > 0 {
                self.0.ended.wait(&mut count);
            }
        }
    }
}

/// A way to an engine that does not keep it open: for what may take longer than the engine lives.
#[derive(Clone)]
pub(crate) struct Visitor {
    core: Weak<Core>,
    visits: Arc<Visits>,
}

impl Visitor {
    pub(super) fn new(core: &Arc<Core>, visits: &Arc<Visits>) -> Self {
        Visitor { core: Arc::downgrade(core), visits: Arc::clone(visits) }
    }

    /// Uses the engine, for a short time; `None`: it is closed.
    pub(crate) fn visit<T>(&self, work: impl FnOnce(&Core) -> T) -> Option<T> {
        let _visit = self.visits.begin();
        let core = self.core.upgrade()?;
        Some(work(&core))
    }
}

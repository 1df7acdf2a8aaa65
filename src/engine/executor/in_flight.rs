//! Counts the operations that use the engine at the moment.
//!
//! Closing waits until the count is zero. No operation begins after closing has begun. A file of its own, because the
//! model checks in `loom` compile it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::{Condvar, Mutex};

#[derive(Default)]
pub(super) struct InFlight {
    count: Mutex<usize>,
    ended: Condvar,
    is_closing: AtomicBool,
}

/// One operation in flight. Closing waits until it is dropped.
pub(crate) struct Operation(Arc<InFlight>);

impl InFlight {
    /// Begins an operation. Returns `None` once closing has begun.
    pub(super) fn begin(self: &Arc<Self>) -> Option<Operation> {
        let mut count = self.count.lock();
        // Read under the lock: `wait` must see every operation that was let in.
        if self.is_closing() {
            return None;
        }
        *count += 1;
        Some(Operation(Arc::clone(self)))
    }

    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    pub(super) fn begin_closing(&self) {
        let _count = self.count.lock();
        self.is_closing.store(true, Ordering::Relaxed);
    }

    /// Waits until no operation is in flight.
    pub(super) fn wait(&self) {
        let mut count = self.count.lock();
        while *count > 0 {
            self.ended.wait(&mut count);
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.ended.notify_all();
    }
}

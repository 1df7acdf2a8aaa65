//! The hold of a program on a session's memory.

use std::sync::{Arc, Weak};

use super::{
    batch_jobs,
    inner::Inner,
    live_session::{FlushObserver, OpenMemories},
    put,
};
use crate::engine::Lane;

/// The hold of a memory's handles on its session. When the last hold of the session is dropped, its buffer is flushed,
/// if a memory asked for it.
pub(super) struct OpenMemory(Arc<Inner>);

impl OpenMemory {
    pub(super) fn new(inner: &Arc<Inner>) -> Arc<Self> {
        let observer: Weak<Inner> = Arc::downgrade(inner);
        let mut open = inner.live.open.lock();
        open.count += 1;
        open.flush_on_drop |= inner.settings.flush_on_drop;
        open.observers.retain(|observer| observer.strong_count() > 0);
        open.observers.push(observer);
        Arc::new(OpenMemory(Arc::clone(inner)))
    }
}

impl Drop for OpenMemory {
    fn drop(&mut self) {
        let is_due = {
            let OpenMemories { count, flush_on_drop, .. } = &mut *self.0.live.open.lock();
            *count -= 1;
            *count == 0 && *flush_on_drop
        };
        if !is_due {
            return;
        }
        // An operation in flight, which closing the engine waits for. The handle on the engine is dropped after this
        // one.
        let inner = Arc::clone(&self.0);
        let flush = move || {
            if let Err(error) = put::flush(&inner) {
                tracing::error!(%error, "the buffer of a session was not flushed when its last handle was dropped");
            }
        };
        if let Err(error) = self.0.stored.executor().spawn(Lane::Store, flush) {
            tracing::error!(%error, "the buffer of a session was not flushed when its last handle was dropped");
        }
    }
}

impl FlushObserver for Inner {
    /// Hands the batch to the blocks of this memory.
    fn flushed(&self) {
        batch_jobs::take_batches(self, false);
    }
}

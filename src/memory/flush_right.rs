//! The right to flush a session: one thread at a time, which looks again if another thread wanted to flush meanwhile.

use std::sync::atomic::{AtomicU8, Ordering};

const FREE: u8 = 0;
const TAKEN: u8 = 1;
const WANTED: u8 = 2;

/// State of a session's flushing.
#[derive(Default)]
pub(super) struct Flushing(AtomicU8);

/// The right to flush a session, until it is dropped.
pub(super) struct FlushRight<'a>(&'a Flushing);

impl Flushing {
    /// Takes the right. Returns `None` if another thread has it; that one looks again before it ends.
    pub(super) fn begin(&self) -> Option<FlushRight<'_>> {
        let next = |now| Some(if now == FREE { TAKEN } else { WANTED });
        let was = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).expect("there is always a next state");
        (was == FREE).then(|| FlushRight(self))
    }
}

impl FlushRight<'_> {
    /// Gives the right back. Returns it if another thread wanted to flush meanwhile and left the work to this one.
    pub(super) fn end(self) -> Option<Self> {
        let state = &self.0.0;
        if state.compare_exchange(TAKEN, FREE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            // Another thread may have it already: dropping this one must not free it.
            std::mem::forget(self);
            return None;
        }
        state.store(TAKEN, Ordering::Release);
        Some(self)
    }
}

impl Drop for FlushRight<'_> {
    fn drop(&mut self) {
        self.0.0.store(FREE, Ordering::Release);
    }
}

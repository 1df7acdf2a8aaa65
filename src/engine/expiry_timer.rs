//! Deletes expired documents.
//!
//! One thread waits for the document that expires next. It runs only while there is one. The store knows the order: the
//! timer knows only the time at which it looks again.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::executor::{Executor, Lane};
use crate::{
    error::{Error, Result},
    message::Timestamp,
};

/// The longest wait at a time: the system's clock may be set meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// Time after which a deletion that failed is tried again, in microseconds.
const RETRY_MICROS: i64 = 60_000_000;

/// Deletes documents that have expired, a bounded number of them. Returns when the next one expires.
type Sweep = Box<dyn Fn() -> Result<Option<Timestamp>> + Send + Sync>;

#[derive(Default)]
pub(super) struct ExpiryTimer {
    state: Mutex<State>,
    changed: Condvar,
    started: OnceLock<(Arc<Executor>, Sweep)>,
}

#[derive(Default)]
struct State {
    /// The time at which to look again, in microseconds.
    next: Option<i64>,
    has_thread: bool,
    is_closed: bool,
}

impl ExpiryTimer {
    /// Lets the timer run. What expired while the engine was closed is deleted at once, in the background.
    pub(super) fn start(self: &Arc<Self>, executor: Arc<Executor>, first: Option<Timestamp>, sweep: Sweep) {
        let _ = self.started.set((executor, sweep));
        first.into_iter().for_each(|first| self.schedule(first));
    }

    /// Looks for expired documents at this time, or earlier if an earlier one is scheduled.
    pub(super) fn schedule(self: &Arc<Self>, at: Timestamp) {
        let Some((executor, _)) = self.started.get() else { return };
        let mut state = self.state.lock();
        if state.is_closed || state.next.is_some_and(|next| next <= at.as_micros()) {
            return;
        }
        state.next = Some(at.as_micros());
        if state.has_thread {
            self.changed.notify_one();
            return;
        }
        let this = Arc::clone(self);
        // Ended by `close`, which comes before the wait for operations in flight.
        match executor.spawn(Lane::Long, move || this.run()) {
            Ok(()) => state.has_thread = true,
            Err(error) => {
                state.next = None;
                tracing::warn!(%error, "no thread was started for expired documents; the next put tries again");
            }
        }
    }

    /// Ends the thread.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_all();
    }

    fn run(&self) {
        let (_, sweep) = self.started.get().expect("a timer that was started runs");
        let mut state = self.state.lock();
        while !state.is_closed
            && let Some(next) = state.next
        {
            let wait = next.saturating_sub(Timestamp::now().as_micros());
            if wait > 0 {
                let wait = Duration::from_micros(wait.unsigned_abs()).min(LONGEST_WAIT);
                self.changed.wait_for(&mut state, wait);
                continue;
            }
            state.next = None;
            let later = match MutexGuard::unlocked(&mut state, sweep) {
                Ok(next) => next.map(Timestamp::as_micros),
                Err(Error::Closed) => None,
                Err(error) => {
                    tracing::error!(%error, "expired documents were not deleted and will be tried again");
                    Some(Timestamp::now().as_micros().saturating_add(RETRY_MICROS))
                }
            };
            // Documents may have been put meanwhile.
            state.next = state.next.into_iter().chain(later).min();
        }
        state.has_thread = false;
    }
}

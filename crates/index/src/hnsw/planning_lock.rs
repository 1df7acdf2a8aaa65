//! The lock that allows one plan of a graph change at a time.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// How often [`PlanningLock::try_lock`] may take the lock ahead of a thread that waits in [`PlanningLock::lock`].
/// Commits call only `try_lock`, and link their rows themselves if they get the lock. They may go ahead a few times,
/// but do not starve a background step.
const MAX_OVERTAKES: u32 = 4;

/// A lock whose guard owns its share of the lock, so that the guard can travel with a commit to the thread that
/// finishes it. (The guards of `parking_lot` can do that only with a feature that allows it to every guard of the
/// program.)
#[derive(Debug, Default)]
pub(super) struct PlanningLock {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_held: bool,
    /// Number of threads in [`PlanningLock::lock`].
    waiting: usize,
    /// How often the lock was taken by `try_lock` while a thread waited, since a waiting thread last got it.
    overtakes: u32,
}

/// A guard of the lock on planning and applying a change of a graph. Only one thread holds the lock at a time, because
/// a plan is wrong once another one has been applied.
#[derive(Debug)]
pub struct PlanningGuard(Arc<PlanningLock>);

impl PlanningLock {
    /// Takes the lock, unless it is held, or a waiting thread has been overtaken [`MAX_OVERTAKES`] times.
    pub(super) fn try_lock(self: &Arc<Self>) -> Option<PlanningGuard> {
        let mut state = self.state.lock();
        if state.waiting > 0 && !state.is_held {
            if state.overtakes == MAX_OVERTAKES {
                return None;
            }
            state.overtakes += 1;
        }
        let is_free = !std::mem::replace(&mut state.is_held, true);
        is_free.then(|| PlanningGuard(Arc::clone(self)))
    }

    /// Waits for the lock and takes it.
    pub(super) fn lock(self: &Arc<Self>) -> PlanningGuard {
        let mut state = self.state.lock();
        state.waiting += 1;
        self.released.wait_while(&mut state, |state| state.is_held);
        state.waiting -= 1;
        state.overtakes = 0;
        state.is_held = true;
        PlanningGuard(Arc::clone(self))
    }
}

impl Drop for PlanningGuard {
    fn drop(&mut self) {
        self.0.state.lock().is_held = false;
        self.0.released.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering},
        thread,
        time::Duration,
    };

    use super::*;

    #[test]
    fn the_lock_is_held_until_its_guard_is_dropped_on_any_thread() {
        let lock = Arc::new(PlanningLock::default());
        let guard = lock.try_lock().unwrap();
        assert!(lock.try_lock().is_none());
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(5));
                drop(guard);
            });
            drop(lock.lock());
        });
        assert!(lock.try_lock().is_some());
    }

    /// Commits that follow each other at once must not keep the background step from its turn.
    #[test]
    fn a_waiting_thread_gets_the_lock_between_holders_that_only_try() {
        let lock = Arc::new(PlanningLock::default());
        let has_had_its_turn = AtomicBool::new(false);
        let mut held = lock.try_lock();
        thread::scope(|scope| {
            scope.spawn(|| {
                let _guard = lock.lock();
                has_had_its_turn.store(true, Ordering::Release);
            });
            for _ in 0..200 {
                thread::sleep(Duration::from_millis(1));
                drop(held.take());
                held = lock.try_lock();
                if has_had_its_turn.load(Ordering::Acquire) {
                    break;
                }
            }
            let was_in_time = has_had_its_turn.load(Ordering::Acquire);
            drop(held.take());
            assert!(was_in_time, "the lock was handed over 200 times, and never to the thread that waited");
        });
    }
}

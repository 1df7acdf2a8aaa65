//! A bounded pool of threads that starts a thread when all others are busy.
//!
//! The work may block: it waits for commits or runs code of the program. Idle threads end after a while. All threads
//! carry the mark of their executor.

use std::{
    cell::Cell,
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::{Builder, JoinHandle},
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};

/// Time after which an idle thread ends.
const KEEP_IDLE: Duration = Duration::from_secs(10);

pub(super) type Job = Box<dyn FnOnce() + Send>;

pub(super) struct WorkerPool {
    name: &'static str,
    max_threads: usize,
    owner: Owner,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
    handles: Vec<JoinHandle<()>>,
    is_closed: bool,
}

impl WorkerPool {
    pub(super) fn new(name: &'static str, max_threads: usize, owner: Owner) -> Arc<Self> {
        Arc::new(WorkerPool { name, max_threads, owner, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Queues a job.
    ///
    /// # Errors
    /// [`Error::Closed`]; [`Error::ThreadNotStarted`] if the pool has no thread and cannot start one.
    pub(super) fn submit(self: &Arc<Self>, job: Job) -> Result<()> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(Error::Closed);
        }
        state.queue.push_back(job);
        if state.idle < state.queue.len() && state.threads < self.max_threads {
            let this = Arc::clone(self);
            match self.owner.start(self.name, move || this.work()) {
                Ok(handle) => {
                    state.threads += 1;
                    state.handles.retain(|handle| !handle.is_finished());
                    state.handles.push(handle);
                }
                Err(error) if state.threads == 0 => {
                    let job = state.queue.pop_back();
                    // Its captures may need the lock.
                    drop(state);
                    drop(job);
                    return Err(error);
                }
                Err(error) => tracing::warn!(%error, threads = state.threads, "the engine goes on with fewer threads"),
            }
        }
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Drops the jobs that no thread has begun and lets the threads end. Returns the handles of the threads.
    pub(super) fn close(&self) -> Vec<JoinHandle<()>> {
        let (jobs, handles) = {
            let mut state = self.state.lock();
            state.is_closed = true;
            (std::mem::take(&mut state.queue), std::mem::take(&mut state.handles))
        };
        self.changed.notify_all();
        drop(jobs);
        handles
    }

    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                // A job reports panics to its caller; one that does not costs only itself.
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    tracing::error!(lane = self.name, "a job panicked");
                }
                state = self.state.lock();
                continue;
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let timed_out = self.changed.wait_for(&mut state, KEEP_IDLE).timed_out();
            state.idle -= 1;
            if timed_out && state.queue.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

thread_local! {
    static OWNER: Cell<Option<Owner>> = const { Cell::new(None) };
}

/// Identifies one executor and marks its threads. A thread is known by its mark, never by its name: a program may give
/// its own threads any name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner(u64);

impl Owner {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Owner(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn mark_current_thread(self) {
        OWNER.set(Some(self));
    }

    pub(super) fn owns_current_thread(self) -> bool {
        // A thread that is ending may have lost its mark; it holds nothing of the engine then.
        OWNER.try_with(|owner| owner.get() == Some(self)).unwrap_or(false)
    }

    /// Starts a marked thread.
    ///
    /// # Errors
    /// [`Error::ThreadNotStarted`].
    pub(super) fn start(self, name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
        let thread = Builder::new().name(name.to_owned()).spawn(move || {
            self.mark_current_thread();
            run();
        });
        thread.map_err(|source| Error::ThreadNotStarted { name: name.to_owned(), source: source.into() })
    }
}

//! Work that may take long, fail, and be tried again: on a few threads of its own, by key.
//!
//! One task a key runs at a time. A task that was asked for again while it ran runs once more. What is waiting when the
//! engine closes is forgotten: who submitted it must know to submit it again.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};

/// What is left of a task after a run.
pub(crate) enum Next {
    /// Nothing.
    Done,
    /// More of the same.
    More,
    /// It failed so, and is to be tried again after this time.
    Retry(Duration, String),
}

type Work = Box<dyn FnMut() -> Next + Send>;

struct Task {
    due: Instant,
    /// `None` while it runs.
    work: Option<Work>,
    again: bool,
    failure: Option<String>,
}

struct State<K> {
    tasks: HashMap<K, Task>,
    threads: usize,
    idle: usize,
    closed: bool,
}

pub(crate) struct Background<K> {
    state: Mutex<State<K>>,
    changed: Condvar,
    max_threads: usize,
}

impl<K: Clone + Eq + Hash + Send + 'static> Background<K> {
    pub(crate) fn new(max_threads: usize) -> Arc<Self> {
        let state = State { tasks: HashMap::new(), threads: 0, idle: 0, closed: false };
        Arc::new(Background { state: Mutex::new(state), changed: Condvar::new(), max_threads })
    }

    /// Runs `work` soon, until it is done. If the key has a task already, that one runs again instead; at once, even if it
    /// waits to be tried again, if there is `hurry`.
    pub(crate) fn submit(self: &Arc<Self>, key: K, hurry: bool, work: impl FnMut() -> Next + Send + 'static) {
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        match state.tasks.get_mut(&key) {
            Some(task) if task.work.is_none() => task.again = true,
            Some(task) if hurry => task.due = Instant::now(),
            Some(_) => {}
            None => {
                let task = Task { due: Instant::now(), work: Some(Box::new(work)), again: false, failure: None };
                state.tasks.insert(key, task);
            }
        }
        let now = Instant::now();
        let due = state.tasks.values().filter(|task| task.work.is_some() && task.due <= now).count();
        if state.idle < due && state.threads < self.max_threads {
            state.threads += 1;
            let this = Arc::clone(self);
            thread::Builder::new()
                .name("mnemon-blocks".into())
                .spawn(move || this.run())
                .expect("the system can start a thread");
        }
        self.changed.notify_all();
    }

    /// Waits until the key has no task.
    ///
    /// # Errors
    /// [`Error::Block`]: its task failed, and waits to be tried again.
    pub(crate) fn wait(&self, key: &K, name: &str) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            match state.tasks.get(key) {
                _ if state.closed => return Err(Error::Closed),
                None => return Ok(()),
                Some(Task { failure: Some(reason), work: Some(_), .. }) => {
                    return Err(Error::Block { name: name.to_owned(), reason: reason.clone() });
                }
                Some(_) => self.changed.wait(&mut state),
            }
        }
    }

    /// Why a key's task failed when it last did, if it waits to be tried again.
    pub(crate) fn failure(&self, key: &K) -> Option<String> {
        self.state.lock().tasks.get(key).and_then(|task| task.failure.clone())
    }

    /// Forgets what waits. What runs ends by itself.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        // Their work may hold what must be dropped outside of the lock.
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        self.changed.notify_all();
        drop(tasks);
    }

    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return;
            }
            let waiting = state.tasks.iter().filter(|(_, task)| task.work.is_some());
            let Some((key, due)) = waiting.min_by_key(|(_, task)| task.due).map(|(key, task)| (key.clone(), task.due))
            else {
                state.idle += 1;
                self.changed.wait(&mut state);
                state.idle -= 1;
                continue;
            };
            if due > Instant::now() {
                state.idle += 1;
                self.changed.wait_until(&mut state, due);
                state.idle -= 1;
                continue;
            }
            let task = state.tasks.get_mut(&key).expect("just found");
            let mut work = task.work.take().expect("just seen");
            let next = parking_lot::MutexGuard::unlocked(&mut state, || {
                // A panic costs the run, not the thread.
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut work))
                    .unwrap_or_else(|_| Next::Retry(Duration::from_secs(60), "it panicked".into()))
            });
            let Some(task) = state.tasks.get_mut(&key) else {
                // It may hold the last handle on the engine, which asks for the lock.
                parking_lot::MutexGuard::unlocked(&mut state, || drop(work));
                continue;
            };
            let again = std::mem::take(&mut task.again);
            match next {
                Next::Done if !again => {
                    state.tasks.remove(&key);
                    parking_lot::MutexGuard::unlocked(&mut state, || drop(work));
                }
                Next::Done | Next::More => {
                    (task.due, task.work, task.failure) = (Instant::now(), Some(work), None);
                }
                Next::Retry(after, reason) => {
                    (task.due, task.work, task.failure) = (now_and(after), Some(work), Some(reason));
                }
            }
            self.changed.notify_all();
        }
    }
}

/// As far ahead as a clock goes, at most.
fn now_and(after: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(after).unwrap_or_else(|| now + Duration::from_secs(86_400))
}

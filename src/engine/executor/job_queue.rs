//! A queue of jobs that may take long, fail, and be tried again. Each job has a key.
//!
//! Invariants: no two jobs of one key run at the same time; a job that was submitted again while it ran runs once more.
//! Jobs that wait when the engine is closed are dropped: their submitter submits them again after the next opening.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{Executor, Lane};
use crate::error::{Error, Result};

/// Time after which a job that panicked is tried again.
const RETRY_PANICKED: Duration = Duration::from_secs(60);

/// Outcome of a run of a job.
pub(crate) enum JobOutcome {
    /// The job is done.
    Done,
    /// The job has more to do and runs again at once.
    More,
    /// The job cannot run yet, and is tried after this time.
    Later(Duration),
    /// The job failed for this reason and is tried again after this time.
    Retry(Duration, String),
}

type Work = Box<dyn FnMut() -> JobOutcome + Send>;

struct Job {
    due: Instant,
    /// `None` while it runs.
    work: Option<Work>,
    /// True if it was submitted again while it ran.
    again: bool,
    failure: Option<String>,
}

struct State<K> {
    jobs: HashMap<K, Job>,
    workers: usize,
    /// Workers that wait until a job is due.
    idle: usize,
    is_closed: bool,
}

pub(crate) struct JobQueue<K> {
    state: Mutex<State<K>>,
    changed: Condvar,
    executor: Arc<Executor>,
    max_workers: usize,
}

impl<K: Clone + Eq + Hash + Send + 'static> JobQueue<K> {
    pub(in crate::engine) fn new(executor: Arc<Executor>, max_workers: usize) -> Arc<Self> {
        let state = State { jobs: HashMap::new(), workers: 0, idle: 0, is_closed: false };
        Arc::new(JobQueue { state: Mutex::new(state), changed: Condvar::new(), executor, max_workers })
    }

    /// Runs `work` soon, again and again until it is done. If the key has a job already, that one runs again instead;
    /// at once, even if it waits to be tried again, if `now` is true: [`JobQueue::wait`] then waits for this try.
    pub(crate) fn submit(self: &Arc<Self>, key: K, now: bool, work: impl FnMut() -> JobOutcome + Send + 'static) {
        let mut state = self.state.lock();
        if state.is_closed {
            return;
        }
        let time = Instant::now();
        match state.jobs.get_mut(&key) {
            Some(job) if job.work.is_none() => job.again = true,
            Some(job) if now => (job.due, job.failure) = (time, None),
            Some(_) => {}
            None => {
                let job = Job { due: time, work: Some(Box::new(work)), again: false, failure: None };
                state.jobs.insert(key, job);
            }
        }
        let due = state.jobs.values().filter(|job| job.work.is_some() && job.due <= time).count();
        if state.idle < due && state.workers < self.max_workers {
            let this = Arc::clone(self);
            match self.executor.spawn(Lane::BlockJobs, move || this.work()) {
                Ok(()) => state.workers += 1,
                Err(error) => {
                    tracing::warn!(%error, workers = state.workers, "no thread was started for a block's job")
                }
            }
        }
        self.changed.notify_all();
    }

    /// Waits until the key has no job.
    ///
    /// # Errors
    /// [`Error::Block`]: its job failed, and waits to be tried again. [`Error::Closed`].
    pub(crate) fn wait(&self, key: &K, name: &str) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            match state.jobs.get(key) {
                _ if state.is_closed => return Err(Error::Closed),
                None => return Ok(()),
                Some(Job { failure: Some(reason), work: Some(_), .. }) => {
                    return Err(Error::Block { name: name.to_owned(), reason: reason.clone() });
                }
                Some(_) => self.changed.wait(&mut state),
            }
        }
    }

    /// Returns the reason of the last failure of a key's job, if the job waits for another attempt.
    pub(crate) fn failure(&self, key: &K) -> Option<String> {
        self.state.lock().jobs.get(key).and_then(|job| job.failure.clone())
    }

    /// Waits until no job runs or is due, up to `limit`. Jobs that failed, or cannot run yet, are not waited for. Returns the
    /// number of jobs that are left.
    pub(in crate::engine) fn wait_for_work(&self, limit: Duration) -> usize {
        let until = now_and(limit);
        let mut state = self.state.lock();
        loop {
            let now = Instant::now();
            let is_at_work = |job: &Job| job.work.is_none() || job.due <= now;
            if now >= until || !state.jobs.values().any(is_at_work) {
                return state.jobs.len();
            }
            self.changed.wait_until(&mut state, until);
        }
    }

    /// Drops the jobs that wait. Running jobs end by themselves.
    pub(in crate::engine) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        let jobs = std::mem::take(&mut state.jobs);
        drop(state);
        self.changed.notify_all();
        // Outside of the lock: a job may hold what asks for the lock when it is dropped.
        drop(jobs);
    }

    /// Runs jobs until none waits.
    fn work(&self) {
        let mut state = self.state.lock();
        while !state.is_closed {
            let waiting = state.jobs.iter().filter(|(_, job)| job.work.is_some());
            let next = waiting.min_by_key(|(_, job)| job.due).map(|(key, job)| (key.clone(), job.due));
            match next {
                None => break,
                Some((_, due)) if due > Instant::now() => {
                    state.idle += 1;
                    self.changed.wait_until(&mut state, due);
                    state.idle -= 1;
                }
                Some((key, _)) => self.run(&mut state, key),
            }
        }
        state.workers -= 1;
    }

    fn run(&self, state: &mut MutexGuard<'_, State<K>>, key: K) {
        let job = state.jobs.get_mut(&key).expect("found under the same lock");
        let mut work = job.work.take().expect("found waiting under the same lock");
        let outcome = MutexGuard::unlocked(state, || {
            // A panic costs the run, not the worker.
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut work))
                .unwrap_or_else(|_| JobOutcome::Retry(RETRY_PANICKED, "it panicked".into()))
        });
        let Some(job) = state.jobs.get_mut(&key) else {
            // It may hold the last handle on the engine, which asks for the lock.
            MutexGuard::unlocked(state, || drop(work));
            return;
        };
        let again = std::mem::take(&mut job.again);
        match outcome {
            JobOutcome::Done if !again => {
                state.jobs.remove(&key);
                self.changed.notify_all();
                MutexGuard::unlocked(state, || drop(work));
            }
            JobOutcome::Done | JobOutcome::More => {
                (job.due, job.work, job.failure) = (Instant::now(), Some(work), None);
            }
            JobOutcome::Later(after) => {
                (job.due, job.work, job.failure) = (now_and(after), Some(work), None);
            }
            JobOutcome::Retry(after, reason) => {
                (job.due, job.work, job.failure) = (now_and(after), Some(work), Some(reason));
            }
        }
        self.changed.notify_all();
    }
}

/// Returns the time after this duration, or a day from now if the clock does not go that far.
fn now_and(after: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(after).unwrap_or_else(|| now + Duration::from_secs(86_400))
}

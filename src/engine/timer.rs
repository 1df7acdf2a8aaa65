//! A timer for work that is due at times which are known in advance: sessions that become idle, messages and
//! documents that expire.
//!
//! One thread waits for the key that is due next. It runs only while a key is scheduled. A later time never moves a
//! key back: when the first time is up, the work reads the store and returns the keys that it must look at again. So
//! scheduling costs no commit, and a session in use costs the thread one look in each idle time.
//!
//! The timer knows neither sessions nor what expires. It loses what it knows when the engine is closed: its users schedule
//! their keys again from the store after the next opening.

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::executor::{Executor, Lane};
use crate::{
    error::{Error, Result},
    message::Timestamp,
};

/// The most keys that are handed to the work at a time, which does all of them in one commit.
const MAX_KEYS: usize = 64;
/// The longest wait at a time: the system's clock may be set meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// Time after which work that failed is tried again, in microseconds.
const RETRY_MICROS: i64 = 60_000_000;

/// Does what is due for these keys. Returns the keys to look at again, with the times.
type Work<K> = Box<dyn Fn(&[K]) -> Result<Vec<(K, Timestamp)>> + Send + Sync>;

pub(super) struct Timer<K> {
    /// What the work does, for the log.
    name: &'static str,
    executor: Arc<Executor>,
    work: OnceLock<Work<K>>,
    state: Mutex<State<K>>,
    changed: Condvar,
}

struct State<K> {
    /// The time at which a key is due, in microseconds.
    due: HashMap<K, i64>,
    /// The same, in the order of time.
    order: BTreeSet<(i64, K)>,
    has_thread: bool,
    is_closed: bool,
}

impl<K: Clone + Ord + Hash + Send + Sync + 'static> Timer<K> {
    /// Makes a timer that ignores what is scheduled until [`Timer::start`].
    pub(super) fn new(name: &'static str, executor: &Arc<Executor>) -> Arc<Self> {
        let state = State { due: HashMap::new(), order: BTreeSet::new(), has_thread: false, is_closed: false };
        let (executor, state) = (Arc::clone(executor), Mutex::new(state));
        Arc::new(Timer { name, executor, work: OnceLock::new(), state, changed: Condvar::new() })
    }

    /// Starts the timer with these keys. What became due while the engine was closed is done at once, in the
    /// background.
    ///
    /// `work` is called on a thread of the engine, which closing waits for.
    pub(super) fn start(
        self: &Arc<Self>,
        first: impl IntoIterator<Item = (K, Timestamp)>,
        work: impl Fn(&[K]) -> Result<Vec<(K, Timestamp)>> + Send + Sync + 'static,
    ) {
        let _ = self.work.set(Box::new(work));
        first.into_iter().for_each(|(key, at)| self.schedule(key, at));
    }

    pub(super) fn is_started(&self) -> bool {
        self.work.get().is_some()
    }

    /// Does the work for a key at this time, or earlier if the key is scheduled for an earlier time.
    pub(super) fn schedule(self: &Arc<Self>, key: K, at: Timestamp) {
        if !self.is_started() {
            return;
        }
        let mut state = self.state.lock();
        if state.is_closed || !state.add(key, at.as_micros()) && state.has_thread {
            return;
        }
        if state.has_thread {
            self.changed.notify_one();
            return;
        }
        let this = Arc::clone(self);
        // Ended by `close`, which comes before the wait for operations in flight.
        match self.executor.spawn(Lane::Long, move || this.run()) {
            Ok(()) => state.has_thread = true,
            Err(error) => tracing::warn!(%error, "no thread was started to {}; the next put tries again", self.name),
        }
    }

    /// Forgets all keys and ends the thread.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        (state.due, state.order) = Default::default();
        drop(state);
        self.changed.notify_all();
    }

    fn run(&self) {
        let mut state = self.state.lock();
        while !state.is_closed
            && let Some((first, _)) = state.order.first()
        {
            let wait = first.saturating_sub(Timestamp::now().as_micros());
            if wait > 0 {
                let wait = Duration::from_micros(wait.unsigned_abs()).min(LONGEST_WAIT);
                self.changed.wait_for(&mut state, wait);
                continue;
            }
            let due = state.take_due();
            let later = MutexGuard::unlocked(&mut state, || self.work(&due));
            for (key, at) in later {
                state.add(key, at);
            }
        }
        state.has_thread = false;
    }

    /// Does the work for keys that are due. Returns those to look at again, with the times.
    fn work(&self, due: &[K]) -> Vec<(K, i64)> {
        let work = self.work.get().expect("only a timer that was started has a thread");
        match work(due) {
            Ok(later) => later.into_iter().map(|(key, at)| (key, at.as_micros())).collect(),
            Err(Error::Closed) => Vec::new(),
            // One key may be at fault: the work is done for each alone.
            Err(_) if due.len() > 1 => due.chunks(1).flat_map(|key| self.work(key)).collect(),
            Err(error) => {
                tracing::error!(%error, "a timer failed to {}, and will try again", self.name);
                let again = Timestamp::now().as_micros().saturating_add(RETRY_MICROS);
                due.iter().map(|key| (key.clone(), again)).collect()
            }
        }
    }
}

impl<K: Clone + Ord + Hash> State<K> {
    /// Adds a key. Returns false if it is there already with the same time or an earlier one.
    fn add(&mut self, key: K, at: i64) -> bool {
        let known = self.due.get(&key).copied();
        if known.is_some_and(|known| known <= at) {
            return false;
        }
        if let Some(known) = known {
            self.order.remove(&(known, key.clone()));
        }
        self.due.insert(key.clone(), at);
        self.order.insert((at, key))
    }

    /// Removes and returns the first keys whose time is up.
    fn take_due(&mut self) -> Vec<K> {
        let now = Timestamp::now().as_micros();
        let mut due = Vec::new();
        while due.len() < MAX_KEYS && self.order.first().is_some_and(|(at, _)| *at <= now) {
            let (_, key) = self.order.pop_first().expect("just seen");
            self.due.remove(&key);
            due.push(key);
        }
        due
    }
}

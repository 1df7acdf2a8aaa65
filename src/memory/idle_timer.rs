//! Flushes the buffers of idle sessions.
//!
//! One thread waits for the session that is due next. It runs only while there is one. A put does not move its session
//! back in the queue: when the time is up, the store says whether the session is idle or when it will be. So a put
//! costs a look, and a session in use costs the thread one look in each idle time.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::live_session::LiveSessions;
use crate::{
    engine::{Executor, Lane, WeakEngine},
    error::Error,
    ids::Namespace,
    message::Timestamp,
    store::IdleFlush,
};

/// The most sessions that are flushed in one commit.
const MAX_SESSIONS: usize = 64;
/// The longest wait at a time.
const LONGEST_WAIT: Duration = Duration::from_secs(86_400);
/// Time after which a flush that failed is tried again, in microseconds.
const RETRY_MICROS: i64 = 60_000_000;

type Session = (Namespace, String);

pub(super) struct IdleTimer {
    state: Mutex<State>,
    changed: Condvar,
    executor: Arc<Executor>,
    engine: WeakEngine,
    sessions: Arc<LiveSessions>,
}

#[derive(Default)]
struct State {
    /// The time at which a session is looked at, in microseconds.
    due: HashMap<Session, i64>,
    /// The same, in the order of time.
    order: BTreeSet<(i64, Session)>,
    has_thread: bool,
    is_closed: bool,
}

impl IdleTimer {
    /// Starts the timer of an engine, with the sessions that the store knows. Those that became idle while the engine
    /// was closed are flushed at once, in the background.
    pub(super) fn start(executor: Arc<Executor>, engine: WeakEngine, sessions: Arc<LiveSessions>) -> Arc<Self> {
        let state = Mutex::new(State::default());
        let timer = Arc::new(IdleTimer { state, changed: Condvar::new(), executor, engine, sessions });
        match timer.engine.idle_sessions() {
            Ok(stored) => {
                stored.into_iter().for_each(|(namespace, session, at)| timer.schedule((namespace, session), at))
            }
            Err(error) => {
                tracing::error!(%error, "idle sessions were not read; they are flushed after the next opening")
            }
        }
        timer
    }

    /// Looks at a session at this time, or earlier if it is to be looked at earlier anyway.
    pub(super) fn schedule(self: &Arc<Self>, session: Session, at: Timestamp) {
        let mut state = self.state.lock();
        if state.is_closed || !state.add(session, at.as_micros()) {
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
            Err(error) => tracing::warn!(%error, "no thread was started for idle sessions; the next put tries again"),
        }
    }

    /// Forgets all sessions and ends the thread.
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
            let later = MutexGuard::unlocked(&mut state, || self.flush(due));
            for (session, at) in later {
                state.add(session, at);
            }
        }
        state.has_thread = false;
    }

    /// Flushes those of the sessions that are idle. Returns the others with the time at which to look again.
    fn flush(&self, due: Vec<Session>) -> Vec<(Session, i64)> {
        let outcomes = match self.engine.flush_idle(due.clone()) {
            Ok(outcomes) => outcomes,
            Err(Error::Closed) => return Vec::new(),
            // One session may be at fault: each is flushed alone.
            Err(_) if due.len() > 1 => return due.into_iter().flat_map(|session| self.flush(vec![session])).collect(),
            Err(error) => {
                tracing::error!(%error, sessions = due.len(), "idle sessions were not flushed and will be tried again");
                let again = Timestamp::now().as_micros().saturating_add(RETRY_MICROS);
                return due.into_iter().map(|session| (session, again)).collect();
            }
        };
        let mut later = Vec::new();
        for (session, outcome) in due.into_iter().zip(outcomes) {
            match outcome {
                IdleFlush::Later(at) => later.push((session, at.as_micros())),
                IdleFlush::Flushed(0) => {}
                IdleFlush::Flushed(_) => self.sessions.flushed(session.0, session.1),
            }
        }
        later
    }
}

impl State {
    /// Adds a session. Returns false if it is there already with the same time or an earlier one.
    fn add(&mut self, session: Session, at: i64) -> bool {
        let known = self.due.get(&session).copied();
        if known.is_some_and(|known| known <= at) {
            return false;
        }
        if let Some(known) = known {
            self.order.remove(&(known, session.clone()));
        }
        self.due.insert(session.clone(), at);
        self.order.insert((at, session))
    }

    /// Removes and returns the first sessions whose time is up.
    fn take_due(&mut self) -> Vec<Session> {
        let now = Timestamp::now().as_micros();
        let mut due = Vec::new();
        while due.len() < MAX_SESSIONS && self.order.first().is_some_and(|(at, _)| *at <= now) {
            let (_, session) = self.order.pop_first().expect("just seen");
            self.due.remove(&session);
            due.push(session);
        }
        due
    }
}

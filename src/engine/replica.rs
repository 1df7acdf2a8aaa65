//! The engine's side of a shared database: what it knows of it, and commits that the primary gets first.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::questions::Questions;
use crate::{
    config::Freshness,
    error::{Error, Result},
    ids::ModelIdentity,
    shared::{Lease, Pushed, Upstream},
    store::{COMMON, Effects, Names, Outcome, Sharing, Store, Target, Transaction},
};

/// The number of attempts of a change after which the machine asks for its turn, before other machines are first once more.
const ATTEMPTS: u32 = 2;
/// How long the versions of a namespace are asked for in the background after it was last read.
const IN_USE: Duration = Duration::from_secs(60);
/// How long reads that need not be the latest do not ask a shared database that did not answer. From then on they ask, and
/// wait for no answer until there was one again.
const DOWN: Duration = Duration::from_secs(1);
/// The time after which others may have the work of a machine that died.
pub(super) const LEASE: Duration = Duration::from_secs(20);
/// The time after which a machine tries again to move to the model that serves on the others.
const FOLLOW: Duration = Duration::from_secs(60);
/// The least and the longest time between two rounds of asking for versions.
const POLL: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(5)];

/// The time without a call after which nothing is sent to the shared database, so that one that is paid by the hour may
/// stop.
const ASLEEP: Duration = Duration::from_secs(120);
/// The time between two questions which model serves.
const MODEL: Duration = Duration::from_secs(5);

/// The engine's file as a replica of a shared database.
pub(super) struct Replica {
    pub(super) upstream: Arc<dyn Upstream>,
    pub(super) freshness: Freshness,
    names: Names,
    pub(super) questions: Questions,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    namespaces: HashMap<String, Served>,
    /// Leases that are renewed as long as they are here.
    kept: Vec<Lease>,
    /// When the shared database last failed to answer, unless it has answered since.
    failed: Option<Instant>,
    /// When the engine last asked the shared database, or stored something in it, for a call.
    called: Option<Instant>,
    /// When it was last asked which model serves.
    asked_model: Option<Instant>,
    /// Whether this machine follows the model that serves on the others.
    follows: bool,
    /// The model that this machine last began to move to, and when.
    followed: Option<(ModelIdentity, Instant)>,
}

impl State {
    fn served(&mut self, upstream: &dyn Upstream, name: &str, now: Instant) -> &mut Served {
        if !self.namespaces.contains_key(name) {
            let served = Served { used: now, fresh: None, bucket: upstream.bucket(name) };
            self.namespaces.insert(name.to_owned(), served);
        }
        self.namespaces.get_mut(name).expect("inserted above")
    }
}

impl State {
    /// Returns what a read of a namespace needs first about which nothing is known.
    fn need(&self, freshness: Freshness, now: Instant) -> Need {
        match (freshness, self.failed) {
            (Freshness::Local, _) => Need::Nothing,
            (Freshness::Latest, _) | (Freshness::Within(_), None) => Need::Answer,
            (Freshness::Within(_), Some(failed)) if now < failed + DOWN => Need::Nothing,
            (Freshness::Within(_), Some(_)) => Need::Attempt,
        }
    }
}

/// A namespace that was read lately.
struct Served {
    used: Instant,
    /// Nothing that was acknowledged before this time is missing here.
    fresh: Option<Instant>,
    /// Its bucket in announcements.
    bucket: u8,
}

/// What a read needs before it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing: what is here is fresh enough, or the shared database failed to answer just now.
    Nothing,
    /// Nothing to wait for, as the shared database did not answer lately; but it is to be asked.
    Attempt,
    /// An answer of the shared database.
    Answer,
}

impl Replica {
    pub(super) fn new(upstream: Arc<dyn Upstream>, freshness: Freshness) -> Self {
        let called = (freshness != Freshness::Local).then(Instant::now);
        let state = Mutex::new(State { called, ..State::default() });
        let (names, questions) = Default::default();
        Replica { upstream, freshness, names, questions, state }
    }

    /// Checks that the file is a replica of this shared database, or makes it one if it is empty.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: it is a replica of another one, or has data of its own.
    pub(super) fn adopt(&self, store: &Store) -> Result<()> {
        let origin = self.upstream.origin();
        let snapshot = store.read()?;
        let invalid = |reason: &str| Err(Error::InvalidConfig { reason: reason.into() });
        match snapshot.versions().origin()? {
            Some(found) if found == origin => return Ok(()),
            Some(_) => {
                return invalid(
                    "the file is a copy of another shared database; delete it, or open it with the address of that database",
                );
            }
            None => {}
        }
        let totals = snapshot.namespaces().totals(None)?;
        if totals.namespaces > 0 || snapshot.audit().entries()? > 0 {
            return invalid(
                "the file has data of its own, which the shared database does not have; move it there with `mnemon share`, or give the path of a new file",
            );
        }
        drop(snapshot);
        // What one machine sealed in a prompt, another one recognises.
        let key = self.upstream.seal_key();
        store.write(|transaction| {
            transaction.set_seal_key(key)?;
            transaction.versions().set_origin(origin)
        })
    }

    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Commits a change to the primary, and then to the replica. While other machines are first, pulls what they changed,
    /// whose effects are passed to `publish`, and applies the change again, unless it `is_once`.
    pub(super) fn commit(
        &self,
        store: &Store,
        is_once: bool,
        change: &mut dyn FnMut(&Transaction) -> Result<()>,
        publish: &dyn Fn(Effects),
    ) -> Result<()> {
        self.is_called();
        let until = Instant::now() + self.upstream.timeout();
        let (mut attempts, mut turn) = (0, None);
        loop {
            let mut behind = Vec::new();
            let mut push = |sharing: Sharing| {
                let pushed = match turn.take() {
                    Some(turn) => self.upstream.push_in_turn(turn, &sharing),
                    None => self.upstream.push(&sharing),
                };
                let is_first = self.record_answer(pushed)? == Pushed::Committed;
                if !is_first {
                    behind.extend(sharing.changes.into_iter().map(|change| change.namespace));
                    behind.extend(sharing.lookups.into_iter().map(|(name, _)| name));
                }
                Ok(is_first)
            };
            if let Outcome::Committed(()) = store.commit(Target::Primary(&self.names, &mut push), &mut *change)? {
                return Ok(());
            }
            attempts += 1;
            if attempts >= ATTEMPTS && !is_once {
                // Nobody else is first while this machine pulls and tries again.
                turn = self.upstream.take_turn(&behind).unwrap_or_default();
            }
            behind.iter().try_for_each(|namespace| self.pull_here(store, namespace, publish))?;
            if is_once || Instant::now() > until {
                let reason = "other machines changed the same namespace meanwhile, each time it was tried".into();
                return Err(Error::SharedDatabase { reason, transient: true });
            }
        }
    }

    /// Pulls a namespace on the writer's thread.
    fn pull_here(&self, store: &Store, namespace: &str, publish: &dyn Fn(Effects)) -> Result<()> {
        let history = store.read()?.versions().history(namespace)?;
        let Some(change) = self.record_answer(self.upstream.pull(namespace, &history))? else { return Ok(()) };
        let pulled = store.commit(Target::Replica, |transaction| {
            transaction.apply_changes().apply(&change)?;
            Ok(transaction.take_effects())
        })?;
        if let Outcome::Committed(effects) = pulled {
            publish(effects);
        }
        Ok(())
    }

    /// Notes that the machine serves the model that all serve, or is to: from now on it follows.
    pub(super) fn start_following(&self) {
        self.state.lock().follows = true;
    }

    /// Notes that the machine begins to move to a model. Returns false if it began to lately, or serves a model of its
    /// own.
    pub(super) fn begins_to_follow(&self, model: &ModelIdentity) -> bool {
        let mut state = self.state.lock();
        let is_new =
            state.follows && state.followed.as_ref().is_none_or(|(last, at)| last != model || at.elapsed() > FOLLOW);
        if is_new {
            state.followed = Some((model.clone(), Instant::now()));
        }
        is_new
    }

    /// Notes that a call needs the shared database.
    fn is_called(&self) {
        self.state.lock().called = Some(Instant::now());
        self.upstream.set_awake(true);
    }

    /// Returns false if nobody has called for long, and no work is under way: then nothing is sent.
    pub(super) fn is_awake(&self) -> bool {
        let state = self.state.lock();
        let is_awake = !state.kept.is_empty() || state.called.is_some_and(|called| called.elapsed() < ASLEEP);
        drop(state);
        self.upstream.set_awake(is_awake);
        is_awake
    }

    /// Returns true if it is time to ask which model serves, and notes it.
    pub(super) fn asks_model(&self) -> bool {
        let mut state = self.state.lock();
        let is_time = state.asked_model.is_none_or(|asked| asked.elapsed() >= MODEL);
        if is_time {
            state.asked_model = Some(Instant::now());
        }
        is_time
    }

    /// Notes whether the shared database answered.
    pub(super) fn record_answer<T>(&self, answer: Result<T>) -> Result<T> {
        self.state.lock().failed = match &answer {
            Err(Error::SharedDatabase { transient: true, .. }) => Some(Instant::now()),
            _ => None,
        };
        answer
    }
}

impl Replica {
    /// Notes that a namespace is read. Returns what the read needs first.
    pub(super) fn need(&self, name: &str, freshness: Freshness, now: Instant) -> Need {
        if freshness != Freshness::Local {
            self.is_called();
        }
        let mut state = self.state.lock();
        let served = state.served(&*self.upstream, name, now);
        served.used = now;
        let fresh = served.fresh;
        match freshness {
            Freshness::Within(limit) if fresh.is_some_and(|fresh| now.duration_since(fresh) <= limit) => Need::Nothing,
            freshness => state.need(freshness, now),
        }
    }

    /// Returns what a read of many namespaces needs first.
    pub(super) fn need_of_all(&self, freshness: Freshness, now: Instant) -> Need {
        if freshness != Freshness::Local {
            self.is_called();
        }
        self.state.lock().need(freshness, now)
    }

    /// Notes that the shared database says nothing.
    pub(super) fn is_silent(&self) {
        self.state.lock().failed = Some(Instant::now());
    }

    /// The replica has every write to the namespace that was acknowledged before this instant.
    pub(super) fn fresh_since(&self, name: &str) -> Option<Instant> {
        self.state.lock().namespaces.get(name).and_then(|served| served.fresh)
    }

    /// The namespaces in some buckets that were read lately, and the common rows if they are in one.
    pub(super) fn used(&self, now: Instant, buckets: impl Fn(u8) -> bool) -> Vec<String> {
        let mut state = self.state.lock();
        state.namespaces.retain(|_, served| now.duration_since(served.used) < IN_USE);
        let names = state.namespaces.iter().filter(|(name, served)| *name != COMMON && buckets(served.bucket));
        let common = buckets(self.upstream.bucket(COMMON)).then(|| COMMON.to_owned());
        names.map(|(name, _)| name.clone()).chain(common).collect()
    }

    /// Notes that nothing that was acknowledged before a time is missing in a namespace.
    pub(super) fn mark_fresh(&self, name: &str, since: Instant) {
        if let Some(served) = self.state.lock().namespaces.get_mut(name) {
            served.fresh = served.fresh.max(Some(since));
        }
    }

    /// Renews leases until [`Replica::stop_renewing`].
    pub(super) fn keep(&self, leases: &[Lease]) {
        self.state.lock().kept.extend(leases.iter().cloned());
    }

    pub(super) fn stop_renewing(&self, leases: &[Lease]) {
        self.state.lock().kept.retain(|lease| !leases.contains(lease));
    }

    pub(super) fn renew(&self) -> Result<()> {
        let kept = self.state.lock().kept.clone();
        kept.iter().try_for_each(|Lease { namespace, work }| {
            self.record_answer(self.upstream.lease(work, std::slice::from_ref(namespace), LEASE)).map(drop)
        })
    }

    /// The time between two rounds of asking for versions.
    pub(super) fn poll(&self) -> Duration {
        match self.freshness {
            Freshness::Within(limit) => (limit / 2).clamp(POLL[0], POLL[1]),
            _ => POLL[1],
        }
    }
}

/// Checks that a file is opened as what it is: a replica of the shared database, or a file of its own.
///
/// # Errors
/// [`Error::InvalidConfig`].
pub(super) fn check_origin(store: &Store, replica: Option<&Replica>) -> Result<()> {
    match replica {
        Some(replica) => replica.adopt(store),
        None if store.is_read_only() || store.read()?.versions().origin()?.is_none() => Ok(()),
        None => {
            let reason = "the file is a copy of a shared database, where changes belong; open it with \
                          the address of that database (`mnemon --shared`), open it for reading, or take a namespace \
                          out with `mnemon unshare`";
            Err(Error::InvalidConfig { reason: reason.into() })
        }
    }
}

//! The one thread that writes. Changes that wait at the same time share a transaction and its fsync.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock, mpsc},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use super::{executor::Executor, replica::Replica};
use crate::{
    calls::{Timed, block_on, call_span},
    error::{Error, Result},
    store::{Effects, Store, Target, Transaction},
};

/// The most changes in one transaction. Bounds the time that the first of them waits.
const GROUP: usize = 256;

/// The longest time that a group waits for more changes.
const MAX_WAIT: Duration = Duration::from_millis(1);

/// How long nothing must be written before a replica is made durable.
const QUIET: Duration = Duration::from_millis(200);

/// How long the disk may have an older state of a replica.
const MAX_BEHIND: Duration = Duration::from_secs(2);

pub(super) struct Writer {
    jobs: mpsc::Sender<Message>,
    listener: Arc<OnceLock<Listener>>,
}

/// What the engine does with commits. Called on the writer's thread, in the order of commits.
pub(super) struct Listener {
    /// Publishes the effects of a committed change.
    pub(super) publish: Box<dyn Fn(Effects) + Send + Sync>,
    /// Forgets what was read from the file: a commit failed, and may be in the file all the same.
    pub(super) reset: Box<dyn Fn() + Send + Sync>,
}

/// How a change is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commit {
    /// In one transaction with the changes that wait at the same time. The change is applied again, alone, if the group
    /// fails.
    Grouped,
    /// In a transaction of its own. The change is applied once.
    Alone,
    /// As [`Commit::Alone`], to the replica only: the change came from the primary.
    Pulled,
}

/// A change of the database. It may be applied more than once, until a transaction with it is committed.
///
/// A closure is a change that is answered with what it returns; [`then`] adds what follows the commit.
pub(super) trait Change: Send + 'static {
    type Applied: Send + 'static;
    type Answer: Send + 'static;

    fn apply(&self, transaction: &Transaction) -> Result<Self::Applied>;

    /// Called once on the writer's thread: after the commit and before any later one, or with the error that prevented
    /// it.
    fn finish(self, committed: Result<Self::Applied>) -> Result<Self::Answer>;
}

impl<T: Send + 'static, F: Fn(&Transaction) -> Result<T> + Send + 'static> Change for F {
    type Applied = T;
    type Answer = T;

    fn apply(&self, transaction: &Transaction) -> Result<T> {
        self(transaction)
    }

    fn finish(self, committed: Result<T>) -> Result<T> {
        committed
    }
}

/// A change and what follows its commit.
pub(super) struct Then<A, F> {
    apply: A,
    finish: F,
}

/// Adds to a change what follows its commit, see [`Change::finish`].
pub(super) fn then<T, U, A, F>(apply: A, finish: F) -> Then<A, F>
where
    A: Fn(&Transaction) -> Result<T> + Send + 'static,
    F: FnOnce(Result<T>) -> Result<U> + Send + 'static,
{
    Then { apply, finish }
}

impl<T, U, A, F> Change for Then<A, F>
where
    T: Send + 'static,
    U: Send + 'static,
    A: Fn(&Transaction) -> Result<T> + Send + 'static,
    F: FnOnce(Result<T>) -> Result<U> + Send + 'static,
{
    type Applied = T;
    type Answer = U;

    fn apply(&self, transaction: &Transaction) -> Result<T> {
        (self.apply)(transaction)
    }

    fn finish(self, committed: Result<T>) -> Result<U> {
        (self.finish)(committed)
    }
}

/// A change that was handed to the writer. It is committed even if nobody waits.
pub(super) struct Committing<T>(oneshot::Receiver<Result<T>>);

impl<T> Committing<T> {
    /// Waits on the calling thread.
    pub(super) fn wait(self) -> Result<T> {
        block_on(self)
    }
}

impl<T> Future for Committing<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        Pin::new(&mut self.0).poll(context).map(|answer| answer.map_err(|_| Error::Closed)?)
    }
}

enum Message {
    Change(Box<dyn Job>),
    /// Ends the thread. Changes submitted later are not committed.
    Stop,
}

/// A change that waits for its transaction.
trait Job: Send {
    fn how(&self) -> Commit;
    fn apply(&mut self, transaction: &Transaction) -> Result<()>;
    /// Publishes the effects of a committed change, and answers its caller.
    fn finish(self: Box<Self>, committed: Result<()>, listener: Option<&Listener>);
}

struct Queued<C: Change> {
    how: Commit,
    change: C,
    /// Set by the last attempt.
    applied: Option<(C::Applied, Effects)>,
    answer: oneshot::Sender<Result<C::Answer>>,
}

impl<C: Change> Job for Queued<C> {
    fn how(&self) -> Commit {
        self.how
    }

    fn apply(&mut self, transaction: &Transaction) -> Result<()> {
        let applied = self.change.apply(transaction)?;
        self.applied = Some((applied, transaction.take_effects()));
        Ok(())
    }

    fn finish(self: Box<Self>, committed: Result<()>, listener: Option<&Listener>) {
        let Queued { change, applied, answer, .. } = *self;
        let committed = committed.map(|()| {
            let (applied, effects) = applied.expect("a change is applied before its commit");
            if let Some(listener) = listener {
                (listener.publish)(effects);
            }
            applied
        });
        // Nobody may wait.
        let _ = answer.send(change.finish(committed));
    }
}

impl Writer {
    /// Starts the thread as a service of the executor. Changes submitted before it is stopped are committed.
    ///
    /// # Errors
    /// [`Error::ThreadNotStarted`].
    pub(super) fn start(store: Arc<Store>, replica: Option<Arc<Replica>>, executor: &Executor) -> Result<Self> {
        let (jobs, receiver) = mpsc::channel();
        let stop = {
            let jobs = jobs.clone();
            move || drop(jobs.send(Message::Stop))
        };
        let listener = Arc::<OnceLock<Listener>>::default();
        let told = Arc::clone(&listener);
        let run = move || Run { store: &store, replica: replica.as_deref(), listener: &told }.run(&receiver);
        executor.serve("mnemon-writer", stop, run)?;
        Ok(Writer { jobs, listener })
    }

    /// Sets what the engine does with commits, before the first change.
    pub(super) fn listen(&self, listener: Listener) {
        let _ = self.listener.set(listener);
    }

    /// Queues a change. When it is durable, its effects are published, its [`Change::finish`] is called, and the returned
    /// future has its answer. Changes are finished in the order of their commits; one that failed has left nothing.
    pub(super) fn commit<C: Change>(&self, how: Commit, change: C) -> Committing<C::Answer> {
        let (answer, committing) = oneshot::channel();
        let job = Box::new(Queued { how, change, applied: None, answer });
        if let Err(mpsc::SendError(Message::Change(job))) = self.jobs.send(Message::Change(job)) {
            job.finish(Err(Error::Closed), None);
        }
        Committing(committing)
    }
}

/// The thread's own.
struct Run<'a> {
    store: &'a Store,
    replica: Option<&'a Replica>,
    listener: &'a OnceLock<Listener>,
}

impl Run<'_> {
    fn run(&self, receiver: &mpsc::Receiver<Message>) {
        let store = self.store;
        // The sizes of the last two groups, and how long the last commit took.
        let (mut sizes, mut took) = ([1, 1], Duration::ZERO);
        let mut is_stopped = false;
        let mut disk = Disk { behind: None, is_replica: self.replica.is_some() };
        // A change with a transaction of its own, which came after the changes of the last group.
        let mut alone: Option<Box<dyn Job>> = None;
        loop {
            let first = match (alone.take(), is_stopped) {
                (Some(alone), _) => alone,
                (None, true) => break,
                (None, false) => match next(&mut disk, store, receiver) {
                    Some(Message::Change(job)) => job,
                    Some(Message::Stop) | None => break,
                },
            };
            let mut group = vec![first];
            // First takes the queued changes. Then waits a short time for the callers that the last commit answered: they
            // are likely to submit again. Otherwise the first of them would get a commit of its own, and all others would
            // wait for it.
            let (expected, until) = (sizes[0].max(sizes[1]), Instant::now() + (took / 2).min(MAX_WAIT));
            while group.len() < GROUP && group[0].how() == Commit::Grouped && alone.is_none() {
                let next = match receiver.try_recv() {
                    Err(_) if group.len() < expected => {
                        receiver.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
                    }
                    queued => queued.ok(),
                };
                match next {
                    Some(Message::Change(job)) if job.how() != Commit::Grouped => alone = Some(job),
                    Some(Message::Change(job)) => group.push(job),
                    Some(Message::Stop) => is_stopped = true,
                    None => break,
                }
                if is_stopped {
                    break;
                }
            }
            sizes = [sizes[1], group.len()];
            let started = Instant::now();
            let committed = self.commit(&mut group);
            took = started.elapsed();
            disk.committed(store);
            match committed {
                Ok(()) => group.into_iter().for_each(|job| self.finish(job, Ok(()))),
                // They must not be applied twice.
                Err(Error::OutcomeUnknown { cause }) => {
                    group
                        .into_iter()
                        .for_each(|job| self.finish(job, Err(Error::OutcomeUnknown { cause: cause.clone() })));
                }
                // It would answer each of them the same.
                Err(Error::SharedDatabase { reason, transient }) => {
                    let error = || Error::SharedDatabase { reason: reason.clone(), transient };
                    group.into_iter().for_each(|job| self.finish(job, Err(error())));
                }
                Err(error) if group.len() == 1 && group[0].how() != Commit::Grouped => {
                    self.finish(group.remove(0), Err(error));
                }
                // One change is at fault, or the disk is: each is committed alone and gets its own result.
                Err(_) => {
                    for job in group {
                        let mut alone = [job];
                        let committed = self.commit(&mut alone);
                        let [job] = alone;
                        self.finish(job, committed);
                    }
                }
            }
        }
        disk.sync(store);
    }

    fn finish(&self, job: Box<dyn Job>, committed: Result<()>) {
        job.finish(committed, self.listener.get());
    }

    fn commit(&self, group: &mut [Box<dyn Job>]) -> Result<()> {
        let _span = Timed::enter(call_span!(DEBUG "commit", changes = group.len()));
        let how = group[0].how();
        let mut apply = |transaction: &Transaction| group.iter_mut().try_for_each(|job| job.apply(transaction));
        let publish = |effects| {
            if let Some(listener) = self.listener.get() {
                (listener.publish)(effects);
            }
        };
        let committed = match self.replica {
            None => self.store.write(apply),
            Some(_) if how == Commit::Pulled => self.store.commit(Target::Replica, apply).map(drop),
            Some(replica) => replica.commit(self.store, how == Commit::Alone, &mut apply, &publish),
        };
        if let (Err(Error::OutcomeUnknown { .. }), Some(listener)) = (&committed, self.listener.get()) {
            (listener.reset)();
        }
        committed
    }
}

/// The next message.
fn next(disk: &mut Disk, store: &Store, receiver: &mpsc::Receiver<Message>) -> Option<Message> {
    if disk.behind.is_some() {
        match receiver.recv_timeout(QUIET) {
            Err(mpsc::RecvTimeoutError::Timeout) => disk.sync(store),
            message => return message.ok(),
        }
    }
    receiver.recv().ok()
}

/// Tracks how old the state on the disk is: the commits of a replica are not durable one by one.
struct Disk {
    is_replica: bool,
    /// Since when the disk has an older state.
    behind: Option<Instant>,
}

impl Disk {
    fn committed(&mut self, store: &Store) {
        if self.is_replica {
            let since = *self.behind.get_or_insert_with(Instant::now);
            if since.elapsed() > MAX_BEHIND {
                self.sync(store);
            }
        }
    }

    fn sync(&mut self, store: &Store) {
        if self.behind.take().is_some()
            && let Err(error) = store.write(|_| Ok(()))
        {
            tracing::error!(%error, "the file is an older copy of the shared database than it could be");
        }
    }
}

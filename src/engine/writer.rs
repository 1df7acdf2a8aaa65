//! The one thread that writes. Changes that wait at the same time share a transaction and its fsync.

use std::{
    sync::{Arc, OnceLock, mpsc},
    time::{Duration, Instant},
};

use super::{
    executor::Executor,
    replica::{Replica, commit_shared},
};
use crate::{
    calls::{Timed, call_span},
    error::{Error, Result},
    store::{Store, Transaction},
};

/// The most changes in one transaction. Bounds the time that the first of them waits.
const GROUP: usize = 256;

/// The longest time that a group waits for more changes.
const MAX_WAIT: Duration = Duration::from_millis(1);

/// How long nothing must be written before the copy of a shared database is made durable.
const QUIET: Duration = Duration::from_millis(200);

/// How long the disk may have an older copy.
const MAX_BEHIND: Duration = Duration::from_secs(2);

pub(super) struct Writer {
    jobs: mpsc::Sender<Message>,
    on_unknown: Arc<OnUnknown>,
}

/// Called on the writer's thread after a commit that may be in the file although it failed.
type OnUnknown = OnceLock<Box<dyn Fn() + Send + Sync>>;

enum Message {
    Change(Box<dyn Job>),
    /// Ends the thread. Changes submitted later are not committed.
    Stop,
}

/// A change that waits for its transaction.
trait Job: Send {
    fn apply(&mut self, transaction: &mut Transaction) -> Result<()>;
    fn kind(&self) -> Kind;
    /// Returns true if the change has a transaction of its own.
    fn is_alone(&self) -> bool {
        self.kind() != Kind::Grouped
    }
    /// Called once: after the commit, or with the error that prevented it.
    fn finish(self: Box<Self>, committed: Result<()>);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The change shares its transaction with others.
    Grouped,
    /// The change has a transaction of its own, and is applied once.
    Alone,
    /// The change came from the shared database.
    Pulled,
}

struct Change<T, A, F> {
    apply: A,
    value: Option<T>,
    finish: F,
    kind: Kind,
}

impl<T, A, F> Job for Change<T, A, F>
where
    T: Send,
    A: FnMut(&mut Transaction) -> Result<T> + Send,
    F: FnOnce(Result<T>) + Send,
{
    fn apply(&mut self, transaction: &mut Transaction) -> Result<()> {
        self.value = Some((self.apply)(transaction)?);
        Ok(())
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn finish(self: Box<Self>, committed: Result<()>) {
        let Change { value, finish, .. } = *self;
        finish(committed.map(|()| value.expect("a change is applied before its commit")));
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
        let on_unknown = Arc::<OnUnknown>::default();
        let called = Arc::clone(&on_unknown);
        executor.serve("mnemon-writer", stop, move || run(&store, replica.as_deref(), &receiver, &called))?;
        Ok(Writer { jobs, on_unknown })
    }

    /// Sets what is called after a commit that may be in the file although it failed, before its changes hear of it.
    pub(super) fn on_unknown(&self, call: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_unknown.set(Box::new(call));
    }

    /// Queues a change. `apply` may run twice: alone, if the group it was in failed. `finish` runs on the writer's
    /// thread when the change is durable, in the order of submission, or has failed and left nothing.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        apply: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
        finish: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        self.queue(Box::new(Change { apply, value: None, finish, kind: Kind::Grouped }));
    }

    /// Same as [`Writer::submit`], for a change that has a transaction of its own: `apply` runs once.
    pub(super) fn submit_alone<T: Send + 'static>(
        &self,
        apply: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
        finish: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        self.queue(Box::new(Change { apply, value: None, finish, kind: Kind::Alone }));
    }

    /// Same as [`Writer::submit_alone`], for a change that came from the shared database.
    pub(super) fn submit_pulled<T: Send + 'static>(
        &self,
        apply: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
        finish: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        self.queue(Box::new(Change { apply, value: None, finish, kind: Kind::Pulled }));
    }

    fn queue(&self, job: Box<dyn Job>) {
        if let Err(mpsc::SendError(Message::Change(job))) = self.jobs.send(Message::Change(job)) {
            job.finish(Err(Error::Closed));
        }
    }

    /// Commits a change and waits for it. Calls `made` on the writer's thread, before any later commit, and returns its
    /// result.
    pub(super) fn commit<T: Send + 'static, U: Send + 'static>(
        &self,
        apply: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
        made: impl FnOnce(T) -> U + Send + 'static,
    ) -> Result<U> {
        let (reply, done) = mpsc::sync_channel(1);
        self.submit(apply, move |result| drop(reply.send(result.map(made))));
        done.recv().map_err(|_| Error::Closed)?
    }
}

fn run(store: &Store, replica: Option<&Replica>, receiver: &mpsc::Receiver<Message>, on_unknown: &OnUnknown) {
    // The sizes of the last two groups, and how long the last commit took.
    let (mut sizes, mut took) = ([1, 1], Duration::ZERO);
    let mut is_stopped = false;
    let mut disk = Disk { behind: None, is_copy: replica.is_some() };
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
        while group.len() < GROUP && !group[0].is_alone() && alone.is_none() {
            let next = match receiver.try_recv() {
                Err(_) if group.len() < expected => {
                    receiver.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
                }
                queued => queued.ok(),
            };
            match next {
                Some(Message::Change(job)) if job.is_alone() => alone = Some(job),
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
        let committed = commit(store, replica, &mut group, on_unknown);
        took = started.elapsed();
        disk.committed(store);
        match committed {
            Ok(()) => group.into_iter().for_each(|job| job.finish(Ok(()))),
            // They must not be applied twice.
            Err(Error::OutcomeUnknown { cause }) => {
                group.into_iter().for_each(|job| job.finish(Err(Error::OutcomeUnknown { cause: cause.clone() })));
            }
            // It would answer each of them the same.
            Err(Error::SharedDatabase { reason, transient }) => {
                let error = || Error::SharedDatabase { reason: reason.clone(), transient };
                group.into_iter().for_each(|job| job.finish(Err(error())));
            }
            Err(error) if group.len() == 1 && group[0].is_alone() => group.remove(0).finish(Err(error)),
            // One change is at fault, or the disk is: each is committed alone and gets its own result.
            Err(_) => {
                for job in group {
                    let mut alone = [job];
                    let committed = commit(store, replica, &mut alone, on_unknown);
                    let [job] = alone;
                    job.finish(committed);
                }
            }
        }
    }
    disk.sync(store);
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

/// Tracks how old the state on the disk is: the commits of a copy of a shared database are not durable one by one.
struct Disk {
    is_copy: bool,
    /// Since when the disk has an older state.
    behind: Option<Instant>,
}

impl Disk {
    fn committed(&mut self, store: &Store) {
        if self.is_copy {
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

fn commit(store: &Store, replica: Option<&Replica>, group: &mut [Box<dyn Job>], on_unknown: &OnUnknown) -> Result<()> {
    let _span = Timed::enter(call_span!(DEBUG "commit", changes = group.len()));
    let kind = group[0].kind();
    let mut apply = |transaction: &mut Transaction| group.iter_mut().try_for_each(|job| job.apply(transaction));
    let committed = match replica {
        None => store.write(apply),
        Some(_) if kind == Kind::Pulled => store.write_copy(apply),
        Some(replica) => commit_shared(replica, store, kind == Kind::Alone, &mut apply),
    };
    if let (Err(Error::OutcomeUnknown { .. }), Some(call)) = (&committed, on_unknown.get()) {
        call();
    }
    committed
}

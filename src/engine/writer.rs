//! The one thread that writes. Changes that wait at the same time share a transaction and its fsync.

use std::{
    sync::{Arc, OnceLock, mpsc},
    time::{Duration, Instant},
};

use super::executor::Executor;
use crate::{
    error::{Error, Result},
    span::{Timed, call_span},
    store::{Store, Transaction},
};

/// The most changes in one transaction. Bounds the time that the first of them waits.
const GROUP: usize = 256;

/// The longest time that a group waits for more changes.
const MAX_WAIT: Duration = Duration::from_millis(1);

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
    /// Returns true if the change has a transaction of its own.
    fn is_alone(&self) -> bool;
    /// Called once: after the commit, or with the error that prevented it.
    fn finish(self: Box<Self>, committed: Result<()>);
}

struct Change<T, A, F> {
    apply: A,
    value: Option<T>,
    finish: F,
    is_alone: bool,
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

    fn is_alone(&self) -> bool {
        self.is_alone
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
    pub(super) fn start(store: Arc<Store>, executor: &Executor) -> Result<Self> {
        let (jobs, receiver) = mpsc::channel();
        let stop = {
            let jobs = jobs.clone();
            move || drop(jobs.send(Message::Stop))
        };
        let on_unknown = Arc::<OnUnknown>::default();
        let called = Arc::clone(&on_unknown);
        executor.serve("mnemon-writer", stop, move || run(&store, &receiver, &called))?;
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
        self.queue(Box::new(Change { apply, value: None, finish, is_alone: false }));
    }

    /// Same as [`Writer::submit`], for a change that has a transaction of its own: `apply` runs once.
    pub(super) fn submit_alone<T: Send + 'static>(
        &self,
        apply: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
        finish: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        self.queue(Box::new(Change { apply, value: None, finish, is_alone: true }));
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

fn run(store: &Store, receiver: &mpsc::Receiver<Message>, on_unknown: &OnUnknown) {
    // The sizes of the last two groups, and how long the last commit took.
    let (mut sizes, mut took) = ([1, 1], Duration::ZERO);
    let mut is_stopped = false;
    // A change with a transaction of its own, which came after the changes of the last group.
    let mut alone: Option<Box<dyn Job>> = None;
    loop {
        let first = match (alone.take(), is_stopped) {
            (Some(alone), _) => alone,
            (None, true) => break,
            (None, false) => match receiver.recv() {
                Ok(Message::Change(job)) => job,
                Ok(Message::Stop) | Err(_) => break,
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
        let committed = commit(store, &mut group, on_unknown);
        took = started.elapsed();
        match committed {
            Ok(()) => group.into_iter().for_each(|job| job.finish(Ok(()))),
            // They must not be applied twice.
            Err(Error::OutcomeUnknown { cause }) => {
                group.into_iter().for_each(|job| job.finish(Err(Error::OutcomeUnknown { cause: cause.clone() })));
            }
            Err(error) if group.len() == 1 && group[0].is_alone() => group.remove(0).finish(Err(error)),
            // One change is at fault, or the disk is: each is committed alone and gets its own result.
            Err(_) => {
                for job in group {
                    let mut alone = [job];
                    let committed = commit(store, &mut alone, on_unknown);
                    let [job] = alone;
                    job.finish(committed);
                }
            }
        }
    }
}

fn commit(store: &Store, group: &mut [Box<dyn Job>], on_unknown: &OnUnknown) -> Result<()> {
    let _span = Timed::enter(call_span!(DEBUG "commit", changes = group.len()));
    let committed = store.write(|transaction| group.iter_mut().try_for_each(|job| job.apply(transaction)));
    if let (Err(Error::OutcomeUnknown { .. }), Some(call)) = (&committed, on_unknown.get()) {
        call();
    }
    committed
}

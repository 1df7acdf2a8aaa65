//! The one thread that writes: what is waiting goes into one transaction, and costs one fsync.

use std::{
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::{
    error::{Error, Result},
    store::{Store, Transaction},
};

/// The most jobs of one transaction: bounds the time that the first of them waits.
const GROUP: usize = 256;

/// The longest that a group waits for more.
const MAX_WAIT: Duration = Duration::from_millis(1);

pub(super) struct Writer {
    jobs: Option<mpsc::Sender<Box<dyn Job>>>,
    thread: Option<JoinHandle<()>>,
}

/// A change that waits for its transaction.
trait Job: Send {
    fn apply(&mut self, transaction: &mut Transaction) -> Result<()>;
    /// Told once, after the commit or instead of it.
    fn finish(self: Box<Self>, committed: Result<()>);
}

struct Change<T, A, F> {
    apply: A,
    value: Option<T>,
    finish: F,
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

    fn finish(self: Box<Self>, committed: Result<()>) {
        let Change { value, finish, .. } = *self;
        finish(committed.map(|()| value.expect("committed after it was applied")));
    }
}

impl Writer {
    pub(super) fn start(store: Arc<Store>) -> Self {
        let (sender, receiver) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("mnemon-writer".into())
            .spawn(move || run(&store, &receiver))
            .expect("the system can start a thread");
        Writer { jobs: Some(sender), thread: Some(thread) }
    }

    /// Queues a change. `apply` may run twice: alone, if the group it was in failed. `finish` runs on the writer's
    /// thread when the change is durable, in the order of submission, or has failed and left nothing.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        apply: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
        finish: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        let job = Box::new(Change { apply, value: None, finish });
        let jobs = self.jobs.as_ref().expect("open until dropped");
        if let Err(mpsc::SendError(job)) = jobs.send(job) {
            job.finish(Err(Error::Closed));
        }
    }

    /// Commits a change, waiting, and calls `made` on the writer's thread, before any later commit. Returns what that returns.
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

impl Drop for Writer {
    fn drop(&mut self) {
        // Ends the loop, after all that was submitted.
        self.jobs.take();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            // A panic of the thread was reported by its own message.
            let _ = thread.join();
        }
    }
}

fn run(store: &Store, receiver: &mpsc::Receiver<Box<dyn Job>>) {
    // The sizes of the last two groups, and how long the last commit took.
    let (mut sizes, mut took) = ([1, 1], Duration::ZERO);
    while let Ok(first) = receiver.recv() {
        let mut group = vec![first];
        group.extend(receiver.try_iter().take(GROUP - 1));
        // Those whom the last commit has answered are coming back: without a short wait the first of them has a commit alone,
        // and all others wait for it.
        let (expected, until) = (sizes[0].max(sizes[1]), Instant::now() + (took / 2).min(MAX_WAIT));
        while group.len() < expected
            && let Ok(job) = receiver.recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            group.push(job);
        }
        sizes = [sizes[1], group.len()];
        let started = Instant::now();
        let committed = commit(store, &mut group);
        took = started.elapsed();
        if committed.is_ok() {
            group.into_iter().for_each(|job| job.finish(Ok(())));
        } else {
            // One of them is at fault, or the disk is: each gets its own answer.
            for job in group {
                let mut alone = [job];
                let committed = commit(store, &mut alone);
                let [job] = alone;
                job.finish(committed);
            }
        }
    }
}

fn commit(store: &Store, group: &mut [Box<dyn Job>]) -> Result<()> {
    store.write(|transaction| group.iter_mut().try_for_each(|job| job.apply(transaction)))
}

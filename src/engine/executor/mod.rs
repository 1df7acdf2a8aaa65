//! Owns all threads of an engine.
//!
//! Work runs on a [`Lane`]. Every lane has threads of its own, so recalls that hang in an embedder, and blocks that
//! hang, keep no thread from operations that need neither. [`Executor::close`] waits for all operations in flight and
//! joins the threads. It does not wait for two lanes: they run code of blocks, which may hang for ever, and use the
//! engine only in short operations ([`Executor::begin_operation`]).
//!
//! The executor knows nothing of what the work does. [`JobQueue`] repeats work on it that may fail.

mod in_flight;
mod job_queue;
mod worker_pool;

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
    thread::JoinHandle,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use self::{
    in_flight::InFlight,
    worker_pool::{Owner, WorkerPool},
};
pub(crate) use self::{
    in_flight::Operation,
    job_queue::{JobOutcome, JobQueue},
};
use crate::error::{Error, Result};

/// The most threads of a lane that embeds queries, reads the store, waits for commits or makes prompts.
const MAX_WORKERS: usize = 32;
/// The most threads that call blocks for the content of prompts.
const MAX_BLOCK_CALLS: usize = 64;
/// The most long operations at a time.
const MAX_LONG: usize = 16;

/// A kind of work, with threads of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Recalls. They are bound by the processor and have [`Config::threads`](crate::Config::threads) threads.
    Recalls,
    /// Embedding of queries that have a deadline, beside the recall that waits for it.
    Queries,
    /// Short operations, which read the store, wait for a commit or count tokens.
    Store,
    /// Prompts, which wait for blocks until a deadline.
    Prompts,
    /// Changes of other machines, which are applied by the writer, with vectors that a shared database sends.
    Pulls,
    /// Operations that may take minutes, and the threads of timers.
    Long,
    /// Calls of blocks and other code of the program that may hang. Not waited for at close.
    BlockCalls,
    /// Jobs of blocks that take batches. Not waited for at close.
    BlockJobs,
}

pub(crate) struct Executor {
    owner: Owner,
    in_flight: Arc<InFlight>,
    recalls: rayon::ThreadPool,
    planners: Arc<Planners>,
    queries: Arc<WorkerPool>,
    store: Arc<WorkerPool>,
    prompts: Arc<WorkerPool>,
    pulls: Arc<WorkerPool>,
    long: Arc<WorkerPool>,
    block_calls: Arc<WorkerPool>,
    block_jobs: Arc<WorkerPool>,
    services: Mutex<Vec<Service>>,
    explain: Box<dyn Fn(Error) -> Error + Send + Sync>,
}

/// A thread that runs until the engine is closed.
struct Service {
    stop: Box<dyn FnOnce() + Send>,
    thread: JoinHandle<()>,
}

impl Executor {
    /// `explain` is called on each error of work that is waited for.
    ///
    /// # Errors
    /// [`Error::ThreadNotStarted`].
    pub(super) fn new(
        threads: usize,
        block_threads: usize,
        explain: impl Fn(Error) -> Error + Send + Sync + 'static,
    ) -> Result<Self> {
        let owner = Owner::new();
        Ok(Executor {
            owner,
            in_flight: Arc::default(),
            recalls: rayon_pool("mnemon-recall", threads, owner)?,
            planners: Arc::new(Planners::new(threads, owner)?),
            queries: WorkerPool::new("mnemon-query", MAX_WORKERS, owner),
            store: WorkerPool::new("mnemon-store", MAX_WORKERS, owner),
            prompts: WorkerPool::new("mnemon-prompt", MAX_WORKERS, owner),
            pulls: WorkerPool::new("mnemon-apply", MAX_WORKERS, owner),
            long: WorkerPool::new("mnemon-long", MAX_LONG, owner),
            block_calls: WorkerPool::new("mnemon-block", MAX_BLOCK_CALLS, owner),
            block_jobs: WorkerPool::new("mnemon-jobs", block_threads, owner),
            services: Mutex::default(),
            explain: Box::new(explain),
        })
    }

    /// Returns the threads that plan changes of graphs.
    pub(super) fn planners(&self) -> Arc<Planners> {
        Arc::clone(&self.planners)
    }

    /// Starts a thread that runs until `stop` is called. Services are stopped and joined in reverse order of their
    /// start.
    ///
    /// # Errors
    /// [`Error::ThreadNotStarted`].
    pub(super) fn serve(
        &self,
        name: &str,
        stop: impl FnOnce() + Send + 'static,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<()> {
        let thread = self.owner.start(name, run)?;
        self.services.lock().push(Service { stop: Box::new(stop), thread });
        Ok(())
    }

    /// Runs `work` on a lane and waits for its result. Runs it on the calling thread if that is in [`block_on`].
    /// Work that has begun goes on if the future is dropped.
    ///
    /// # Errors
    /// Those of `work`; [`Error::Panicked`]; [`Error::ThreadNotStarted`].
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let work = move || catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(&*panic)));
        if MAY_BLOCK.get() {
            return work().map_err(&self.explain);
        }
        let (reply, answer) = oneshot::channel();
        // The spans of the work belong to the caller's.
        let span = tracing::Span::current();
        let work = move || span.in_scope(work);
        // If the caller is gone, the result is dropped here, before the operation ends.
        self.spawn(lane, move || drop(reply.send(work())))?;
        answer.await.map_err(|_| Error::Closed)?.map_err(&self.explain)
    }

    /// Runs `work` on a lane.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::ThreadNotStarted`].
    pub(crate) fn spawn(&self, lane: Lane, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let pool = match lane {
            Lane::BlockCalls => return self.block_calls.submit(Box::new(work)),
            Lane::BlockJobs => return self.block_jobs.submit(Box::new(work)),
            Lane::Recalls => None,
            Lane::Queries => Some(&self.queries),
            Lane::Store => Some(&self.store),
            Lane::Prompts => Some(&self.prompts),
            Lane::Pulls => Some(&self.pulls),
            Lane::Long => Some(&self.long),
        };
        let operation = self.begin_operation().ok_or(Error::Closed)?;
        let job = move || {
            // Drops all that it captured, before the operation ends.
            work();
            drop(operation);
        };
        match pool {
            Some(pool) => pool.submit(Box::new(job)),
            None => {
                self.recalls.spawn(job);
                Ok(())
            }
        }
    }

    /// Begins an operation that [`Executor::close`] waits for. Returns `None` once closing has begun.
    pub(crate) fn begin_operation(&self) -> Option<Operation> {
        self.in_flight.begin()
    }

    /// Returns true once the last handle on the engine is dropped: long operations must end.
    pub(crate) fn is_closing(&self) -> bool {
        self.in_flight.is_closing()
    }

    /// Returns true if the current thread belongs to this executor, so must not wait for its end.
    pub(super) fn owns_current_thread(&self) -> bool {
        self.owner.owns_current_thread()
    }

    /// Refuses new operations from now on and asks long ones to end.
    pub(super) fn begin_closing(&self) {
        self.in_flight.begin_closing();
    }

    /// Waits for the operations in flight, then stops and joins the threads. Must not be called on one of them.
    pub(super) fn close(&self) {
        self.begin_closing();
        self.in_flight.wait();
        let joined = [&self.queries, &self.store, &self.prompts, &self.pulls, &self.long].map(|pool| pool.close());
        joined.into_iter().flatten().for_each(join);
        // Their threads may hang in code of the program: they end when that does.
        drop([&self.block_calls, &self.block_jobs].map(|pool| pool.close()));
        while let Some(Service { stop, thread }) = { self.services.lock().pop() } {
            stop();
            join(thread);
        }
    }
}

fn join(thread: JoinHandle<()>) {
    // A panic of the thread was reported by the panic hook.
    let _ = thread.join();
}

/// Threads that plan changes of graphs and do nothing else. A planning thread holds the graph's lock while it waits for its
/// subtasks, and meanwhile runs other tasks of its pool: a recall among them could wait for the writer, which waits for
/// that lock. Rayon's global pool is no alternative: the writer would wait for the program's threads, which may wait for
/// the writer.
pub(crate) struct Planners {
    all: rayon::ThreadPool,
    /// One thread fewer, made when they are first needed. `None`: there is only one thread, or they were not started.
    fewer: OnceLock<Option<rayon::ThreadPool>>,
    owner: Owner,
}

impl Planners {
    fn new(threads: usize, owner: Owner) -> Result<Self> {
        Ok(Planners { all: rayon_pool("mnemon-plan", threads, owner)?, fewer: OnceLock::new(), owner })
    }

    /// Runs `plan` on all threads, or on one fewer if others want a processor.
    pub(super) fn plan<T: Send>(&self, leaves_one: bool, plan: impl FnOnce() -> T + Send) -> T {
        let threads = self.all.current_num_threads() - 1;
        let make = || (threads > 0).then(|| rayon_pool("mnemon-plan-less", threads, self.owner).ok())?;
        let fewer = if leaves_one { self.fewer.get_or_init(make).as_ref() } else { None };
        fewer.unwrap_or(&self.all).install(plan)
    }
}

fn rayon_pool(name: &'static str, threads: usize, owner: Owner) -> Result<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .start_handler(move |_| owner.mark_current_thread())
        // Without a handler rayon aborts the process.
        .panic_handler(|_| tracing::error!("a job panicked"))
        .thread_name(move |number| format!("{name}-{number}"))
        .build()
        .map_err(|source| Error::ThreadNotStarted { name: name.to_owned(), source: source.into() })
}

fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Error::Panicked { message: text.unwrap_or("no message").to_owned() }
}

thread_local! {
    /// True while the thread is in [`block_on`].
    static MAY_BLOCK: Cell<bool> = const { Cell::new(false) };
}

/// Runs a future of this crate to its end, as the blocking methods do. Work that it would hand to a thread of the
/// engine runs on the calling thread, so that a blocking recall costs no change of threads: the thread is marked
/// meanwhile. `pollster` and `futures-lite` have no such mark.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let _mark = Mark(MAY_BLOCK.replace(true));
    crate::calls::block_on(future)
}

/// Sets the mark back when dropped.
struct Mark(bool);

impl Drop for Mark {
    fn drop(&mut self) {
        MAY_BLOCK.set(self.0);
    }
}

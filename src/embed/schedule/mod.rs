//! Batching across calls: the texts of all callers are embedded in common batches, by one worker for each session of a
//! model.
//!
//! A call's texts are tokenized, a few at a time, by the caller or by an idle worker, and wait in a [`pool`]. Workers
//! take batches of texts of one length from it, across calls; calls take turns. Queries are not batched: they have a
//! session of their own, and while a query runs no batch of documents is started ([`QueryPriority`]). The memory of
//! long rows is bounded by running few of them at once.
//!
//! This module knows neither tokenizers nor ONNX Runtime: the embedder implements [`Tokenize`] and [`Execute`].
//!
//! Invariant: no text waits for others to fill a batch. A text that finds an idle worker is embedded at once, and
//! further texts gather meanwhile.

mod pool;
#[cfg(test)]
mod tests;

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use self::pool::{Call, Part, Pool, Run, Task, TokenizeTask};
pub(crate) use self::pool::{CallKind, Chunk, Limits};
use super::embedder::Passage;
use crate::error::{Error, Result, impl_debug};

/// Calls of up to this many texts are tokenized by the calling thread at once, because waking a worker takes longer.
const FEW_TEXTS: usize = 8;

/// Tokenizes texts.
pub(crate) trait Tokenize: Send + Sync {
    /// Returns the chunks that a text is embedded as, at least one.
    fn tokenize(&self, text: &str, kind: CallKind) -> Result<Vec<Chunk>>;
}

/// Runs a model on tokens.
pub(crate) trait Execute: Send {
    /// Returns one vector for each row.
    fn execute(&mut self, rows: &[&[u32]]) -> Result<Vec<Vec<f32>>>;
}

/// The workers of an embedder, and the pool that they take work from. Dropping it waits for running batches.
pub(crate) struct Scheduler {
    state: Arc<SchedulerState>,
    workers: Vec<JoinHandle<()>>,
}

/// State that the workers and the calls share.
struct SchedulerState {
    tokenizer: Arc<dyn Tokenize>,
    priority: Arc<QueryPriority>,
    pool: Mutex<Pool>,
    /// Signalled when the pool has a task, or is closed.
    work: Condvar,
}

impl Scheduler {
    /// Starts a worker for each of `executors`.
    ///
    /// # Errors
    /// [`Error::Embedding`]: the system cannot start a thread.
    pub(crate) fn start(
        executors: Vec<impl Execute + 'static>,
        tokenizer: Arc<dyn Tokenize>,
        limits: Limits,
        priority: Arc<QueryPriority>,
    ) -> Result<Self> {
        let (pool, work) = (Mutex::new(Pool::new(limits)), Condvar::new());
        let state = Arc::new(SchedulerState { tokenizer, priority, pool, work });
        let mut scheduler = Scheduler { state, workers: Vec::new() };
        for (number, executor) in executors.into_iter().enumerate() {
            let state = Arc::clone(&scheduler.state);
            let thread = thread::Builder::new().name(format!("mnemon-embed-{number}"));
            let worker = thread.spawn(move || state.work(executor)).map_err(|error| Error::Embedding {
                reason: "the system cannot start a thread".into(),
                source: Some(error.into()),
            })?;
            scheduler.workers.push(worker);
        }
        Ok(scheduler)
    }

    /// Starts to embed texts. Returns without waiting for vectors.
    pub(crate) fn submit(&self, texts: &[&str], kind: CallKind) -> Submitted {
        let state = Arc::clone(&self.state);
        let call = Arc::new(Call::new(texts, kind));
        let at_once = texts.len() <= FEW_TEXTS && !state.pool.lock().is_full();
        let parts = if at_once { state.parts(&call, 0..texts.len()) } else { Some(Vec::new()) };
        if let Some(parts) = parts {
            state.pool.lock().enter(&call, parts);
            state.work.notify_all();
        }
        Submitted { state, call }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let unfinished = self.state.pool.lock().close();
        self.state.work.notify_all();
        unfinished.into_iter().for_each(|call| call.fail(dropped()));
        for worker in self.workers.drain(..) {
            worker.join().expect("workers catch the panics of their tasks");
        }
    }
}

/// A running call. Dropping it cancels the call and removes its waiting parts.
pub(crate) struct Submitted {
    state: Arc<SchedulerState>,
    call: Arc<Call>,
}

impl_debug!(Submitted, self { texts: self.call.texts().len() });

impl Submitted {
    /// Waits for the call and returns the passages of each text, in order.
    ///
    /// # Errors
    /// The error of the first text that failed.
    pub(crate) fn wait(self) -> Result<Vec<Vec<Passage>>> {
        // This thread tokenizes as far as the pool has room; workers do the rest.
        while let Some(task) = self.next_task() {
            self.state.tokenize(&task);
        }
        self.call.wait()
    }

    /// Takes texts that this thread may tokenize.
    fn next_task(&self) -> Option<TokenizeTask> {
        self.state.pool.lock().take_texts(&self.call)
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        self.state.pool.lock().leave(&self.call);
    }
}

impl SchedulerState {
    fn work(&self, mut executor: impl Execute) {
        let mut pool = self.pool.lock();
        while !pool.is_closed() {
            if !pool.has_work() {
                self.work.wait(&mut pool);
                continue;
            }
            if pool.has_run() {
                MutexGuard::unlocked(&mut pool, || self.priority.yield_to_queries());
            }
            let Some(task) = pool.take() else { continue };
            if pool.has_work() {
                self.work.notify_one();
            }
            match task {
                Task::Tokenize(task) => MutexGuard::unlocked(&mut pool, || self.tokenize(&task)),
                Task::Run(run) => {
                    MutexGuard::unlocked(&mut pool, || self.run(&mut executor, &run));
                    if run.pairs > 0 {
                        pool.give_back(run.pairs);
                        self.work.notify_all();
                    }
                }
            }
        }
    }

    fn tokenize(&self, task: &TokenizeTask) {
        if let Some(parts) = self.parts(&task.call, task.texts.clone()) {
            self.pool.lock().put(task, parts);
            self.work.notify_all();
        }
    }

    /// Tokenizes texts and returns their parts. If a text fails, the call fails and the result is `None`.
    fn parts(&self, call: &Arc<Call>, texts: Range<usize>) -> Option<Vec<Part>> {
        let mut parts = Vec::with_capacity(texts.len());
        for text in texts {
            let chunks = guarded("the tokenizer", || self.tokenizer.tokenize(&call.texts()[text], call.kind));
            match chunks {
                Ok(chunks) => parts.extend(call.split(text, chunks)),
                Err(error) => {
                    self.fail(call, error);
                    return None;
                }
            }
        }
        Some(parts)
    }

    /// Runs a batch. If that fails, its parts are run one by one, so that only the text at fault fails its call.
    fn run(&self, executor: &mut impl Execute, run: &Run) {
        let run = &run.parts;
        let rows: Vec<&[u32]> = run.iter().map(|(_, part)| part.tokens.as_slice()).collect();
        match execute(executor, &rows) {
            Ok(vectors) => {
                for ((call, part), vector) in run.iter().zip(vectors) {
                    call.deliver(part, vector);
                }
            }
            Err(error) => match run.as_slice() {
                [(call, _)] => self.fail(call, error),
                _ => run.iter().zip(rows).for_each(|((call, part), row)| match execute(executor, &[row]) {
                    Ok(mut vector) => call.deliver(part, vector.remove(0)),
                    Err(error) => self.fail(call, error),
                }),
            },
        }
    }

    fn fail(&self, call: &Arc<Call>, error: Error) {
        self.pool.lock().leave(call);
        call.fail(error);
    }
}

/// Runs the model and checks that there are as many vectors as rows.
fn execute(executor: &mut impl Execute, rows: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
    let vectors = guarded("the model", || executor.execute(rows))?;
    if vectors.len() == rows.len() {
        return Ok(vectors);
    }
    let reason = format!("the model returned {} vectors for {} texts", vectors.len(), rows.len());
    Err(Error::Embedding { reason, source: None })
}

/// Returns the error of a call that was not finished before the embedder was dropped.
fn dropped() -> Error {
    let reason = "the embedder was dropped before the texts were embedded; keep it until `wait` has returned";
    Error::Embedding { reason: reason.into(), source: None }
}

/// Turns a panic into an error, so that it fails the call and does not end the worker.
fn guarded<T>(component: &str, call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(Error::Embedding { reason: format!("{component} panicked"), source: None }))
}

/// Maximum time that a worker waits for queries before each batch. During a continuous stream of queries a worker runs
/// one batch in this time.
const MAX_WAIT: Duration = Duration::from_millis(50);

/// Counts the queries that run or wait, so that they go before documents.
#[derive(Default)]
pub(crate) struct QueryPriority {
    queries: Mutex<usize>,
    /// Signalled when the last query ends.
    idle: Condvar,
}

/// A guard for a running query. Dropping it ends the query.
pub(crate) struct RunningQuery<'a>(&'a QueryPriority);

impl QueryPriority {
    /// Counts a query. Workers start no batch of documents until the result is dropped, or [`MAX_WAIT`] is over.
    pub(crate) fn begin_query(&self) -> RunningQuery<'_> {
        *self.queries.lock() += 1;
        RunningQuery(self)
    }

    /// Waits until no query runs, up to [`MAX_WAIT`].
    pub(super) fn yield_to_queries(&self) {
        let mut queries = self.queries.lock();
        if *queries > 0 {
            let until = Instant::now() + MAX_WAIT;
            self.idle.wait_while_until(&mut queries, |queries| *queries > 0, until);
        }
    }
}

impl Drop for RunningQuery<'_> {
    fn drop(&mut self) {
        let mut queries = self.0.queries.lock();
        *queries -= 1;
        if *queries == 0 {
            self.0.idle.notify_all();
        }
    }
}

//! The scheduler of an embedder: it starts the workers, accepts calls, and hands the tasks of the pool to the workers.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::{
    super::{embedder::Passage, token_windows::Window},
    call::{Call, Kind, Part},
    pool::{Limits, Pool, Run, Task, TokenizeTask},
    query_priority::QueryPriority,
};
use crate::error::{Error, Result, impl_debug};

#[cfg(test)]
mod tests;

/// Calls of up to this many texts are tokenized by the calling thread at once, because waking a worker takes longer.
const FEW_TEXTS: usize = 8;

/// Tokenizes texts.
pub(crate) trait Tokenize: Send + Sync {
    /// Returns the windows that a text is embedded as, at least one.
    fn tokenize(&self, text: &str, kind: Kind) -> Result<Vec<Window>>;
}

/// Runs a model on tokens.
pub(crate) trait Execute: Send {
    /// Returns one vector for each row.
    fn execute(&mut self, rows: &[&[u32]]) -> Result<Vec<Vec<f32>>>;
}

/// The workers of an embedder, and the pool that they take work from. Dropping it waits for running batches.
pub(crate) struct Scheduler {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

/// State that the workers and the calls share.
struct Shared {
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
        let shared = Arc::new(Shared { tokenizer, priority, pool, work });
        let mut scheduler = Scheduler { shared, workers: Vec::new() };
        for (number, executor) in executors.into_iter().enumerate() {
            let shared = Arc::clone(&scheduler.shared);
            let thread = thread::Builder::new().name(format!("mnemon-embed-{number}"));
            let worker = thread.spawn(move || shared.work(executor)).map_err(|error| Error::Embedding {
                reason: "the system cannot start a thread".into(),
                source: Some(error.into()),
            })?;
            scheduler.workers.push(worker);
        }
        Ok(scheduler)
    }

    /// Starts to embed texts. Returns without waiting for vectors.
    pub(crate) fn submit(&self, texts: &[&str], kind: Kind) -> Submitted {
        let shared = Arc::clone(&self.shared);
        let call = Arc::new(Call::new(texts, kind));
        let at_once = texts.len() <= FEW_TEXTS && !shared.pool.lock().is_full();
        let parts = if at_once { shared.parts(&call, 0..texts.len()) } else { Some(Vec::new()) };
        if let Some(parts) = parts {
            shared.pool.lock().enter(&call, parts);
            shared.work.notify_all();
        }
        Submitted { shared, call }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let unfinished = self.shared.pool.lock().close();
        self.shared.work.notify_all();
        unfinished.into_iter().for_each(|call| call.fail(dropped()));
        for worker in self.workers.drain(..) {
            worker.join().expect("workers catch the panics of their tasks");
        }
    }
}

/// A running call. Dropping it cancels the call and removes its waiting parts.
pub(crate) struct Submitted {
    shared: Arc<Shared>,
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
            self.shared.tokenize(&task);
        }
        self.call.wait()
    }

    /// Takes texts that this thread may tokenize.
    fn next_task(&self) -> Option<TokenizeTask> {
        self.shared.pool.lock().take_texts(&self.call)
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        self.shared.pool.lock().leave(&self.call);
    }
}

impl Shared {
    /// Runs a worker until the pool is closed.
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

    /// Tokenizes the texts of a task and adds their parts to the pool.
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
            let windows = guarded("the tokenizer", || self.tokenizer.tokenize(&call.texts()[text], call.kind));
            match windows {
                Ok(windows) => parts.extend(call.split(text, windows)),
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

    /// Fails a call and removes it from the pool.
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

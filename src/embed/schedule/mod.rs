//! Who runs what, and when: texts of all calls end in common runs of the document sessions.
//!
//! A call's texts are tokenised, a few at a time, by whoever is free, and wait in a [`Pool`]; workers, one a session, take
//! runs of texts of one length from it, whosesoever they are. Calls take turns. Questions do not come here: they have a
//! session of their own, and while one is asked no run of documents is begun ([`Turns`]). Of rows that are long few run at once.
//!
//! Nothing waits for company: a text that finds a worker idle is run at once, and others gather meanwhile.

mod call;
mod pool;
#[cfg(test)]
mod tests;
mod turns;

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{self, JoinHandle},
};

use parking_lot::{Condvar, Mutex, MutexGuard};

pub(super) use self::{call::Kind, pool::Limits, turns::Turns};
use self::{
    call::{Call, Part},
    pool::{Pool, Reading, Run, Task},
};
use super::{Passage, windows::Window};
use crate::error::{Error, Result, impl_debug};

/// A call of so few texts has them tokenised before it is known to others: waking a worker takes longer.
const FEW: usize = 8;

/// What makes tokens of a text.
pub(super) trait Read: Send + Sync {
    /// The parts that a text is embedded as: at least one.
    fn read(&self, text: &str, kind: Kind) -> Result<Vec<Window>>;
}

/// What makes vectors of tokens.
pub(super) trait Execute: Send {
    /// One vector a row.
    fn execute(&mut self, rows: &[&[u32]]) -> Result<Vec<Vec<f32>>>;
}

/// The workers of an embedder, and what waits for them. Dropped, it waits for the end of their runs.
pub(super) struct Scheduler {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    reader: Arc<dyn Read>,
    turns: Arc<Turns>,
    pool: Mutex<Pool>,
    /// There is something in the pool to do, or it is closed.
    work: Condvar,
}

impl Scheduler {
    /// Starts a worker for each of `executors`.
    ///
    /// # Errors
    /// [`Error::Embedding`]: the system gives no thread.
    pub(super) fn start(
        executors: Vec<impl Execute + 'static>,
        reader: Arc<dyn Read>,
        limits: Limits,
        turns: Arc<Turns>,
    ) -> Result<Self> {
        let (pool, work) = (Mutex::new(Pool::new(limits)), Condvar::new());
        let shared = Arc::new(Shared { reader, turns, pool, work });
        let mut scheduler = Scheduler { shared, workers: Vec::new() };
        for (number, executor) in executors.into_iter().enumerate() {
            let shared = Arc::clone(&scheduler.shared);
            let thread = thread::Builder::new().name(format!("mnemon-embed-{number}"));
            let worker = thread.spawn(move || shared.work(executor)).map_err(|error| Error::Embedding {
                reason: "the system gives no thread".into(),
                source: Some(error.into()),
            })?;
            scheduler.workers.push(worker);
        }
        Ok(scheduler)
    }

    /// Begins to embed texts.
    pub(super) fn submit(&self, texts: &[&str], kind: Kind) -> Submitted {
        let shared = Arc::clone(&self.shared);
        let call = Arc::new(Call::new(texts, kind));
        let at_once = texts.len() <= FEW && !shared.pool.lock().is_full();
        let parts = if at_once { shared.tokenise(&call, 0..texts.len()) } else { Some(Vec::new()) };
        if let Some(parts) = parts {
            shared.pool.lock().enter(&call, parts);
            shared.work.notify_all();
        }
        Submitted { shared, call }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        let given_up = self.shared.pool.lock().close();
        self.shared.work.notify_all();
        given_up.into_iter().for_each(|call| call.fail(dropped()));
        for worker in self.workers.drain(..) {
            worker.join().expect("panics of a task are caught");
        }
    }
}

/// A call that is under way. Dropped, it is given up: what waits of it is taken out.
pub(super) struct Submitted {
    shared: Arc<Shared>,
    call: Arc<Call>,
}

impl_debug!(Submitted, self { texts: self.call.texts().len() });

impl Submitted {
    /// The passages of each text, in order. Blocks until they are there.
    ///
    /// # Errors
    /// Those of the first text that failed.
    pub(super) fn wait(self) -> Result<Vec<Vec<Passage>>> {
        // As far as there is room; workers do the rest.
        while let Some(reading) = self.next_reading() {
            self.shared.read(&reading);
        }
        self.call.wait()
    }

    fn next_reading(&self) -> Option<Reading> {
        self.shared.pool.lock().take_reading(&self.call)
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        self.shared.pool.lock().leave(&self.call);
    }
}

impl Shared {
    fn work(&self, mut executor: impl Execute) {
        let mut pool = self.pool.lock();
        while !pool.is_closed() {
            if !pool.has_work() {
                self.work.wait(&mut pool);
                continue;
            }
            if pool.has_run() {
                MutexGuard::unlocked(&mut pool, || self.turns.step_back());
            }
            let Some(task) = pool.take() else { continue };
            if pool.has_work() {
                self.work.notify_one();
            }
            match task {
                Task::Read(reading) => MutexGuard::unlocked(&mut pool, || self.read(&reading)),
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

    fn read(&self, reading: &Reading) {
        if let Some(parts) = self.tokenise(&reading.call, reading.texts.clone()) {
            self.pool.lock().put(reading, parts);
            self.work.notify_all();
        }
    }

    /// `None`: a text failed, and the call with it.
    fn tokenise(&self, call: &Arc<Call>, texts: Range<usize>) -> Option<Vec<Part>> {
        let mut parts = Vec::with_capacity(texts.len());
        for at in texts {
            let read = guarded("the tokenizer", || self.reader.read(&call.texts()[at], call.kind));
            match read {
                Ok(windows) => parts.extend(call.split(at, windows)),
                Err(error) => {
                    self.fail(call, error);
                    return None;
                }
            }
        }
        Some(parts)
    }

    /// Runs parts together; if that fails, one by one, so that only the text at fault fails its call.
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

/// As many vectors as rows.
fn execute(executor: &mut impl Execute, rows: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
    let vectors = guarded("the model", || executor.execute(rows))?;
    if vectors.len() == rows.len() {
        return Ok(vectors);
    }
    let reason = format!("{} vectors for {} texts", vectors.len(), rows.len());
    Err(Error::Embedding { reason, source: None })
}

fn dropped() -> Error {
    let reason = "the embedder was dropped before the texts had their turn; keep it until they are there";
    Error::Embedding { reason: reason.into(), source: None }
}

/// A panic costs the call, not the worker.
fn guarded<T>(what: &str, call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(Error::Embedding { reason: format!("{what} panicked"), source: None }))
}

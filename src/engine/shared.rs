//! What the engine's threads share, and what two of them do: one embeds what is pending, one improves indexes.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
    mpsc,
};

use parking_lot::Mutex;

use super::{
    FlushReport,
    asked::Asked,
    drain::{Drained, drain},
    graph::{Committed, Workers},
    lexical::Added,
    live::Live,
    sessions::Sessions,
    spaces::{Change, Improve, Spaces},
    visits::Visits,
};
use crate::{
    cache::Cache,
    config::Config,
    embed::Reranker,
    error::{Error, Result},
    store::{Generation, GenerationState, Store},
};

/// Blocks of an old generation deleted in one commit, beside others' writes: 4 MiB.
const SWEEP_BLOCKS: usize = 64;

/// What the engine's threads hold.
pub(super) struct Shared {
    pub(super) store: Arc<Store>,
    pub(super) live: Live,
    /// Before the embedders, if there is one. Not with an embedder: one that serves no more is dropped.
    pub(super) cache: Option<Arc<Cache>>,
    pub(super) reranker: Option<Arc<dyn Reranker>>,
    pub(super) asked: Asked,
    pub(super) sessions: Sessions,
    pub(super) config: Config,
    /// Messages put since the last drain began, about: it only decides when the next begins.
    pub(super) unflushed: AtomicU64,
    pub(super) closing: AtomicBool,
    pub(super) visits: Arc<Visits>,
    /// Held by who moves the engine to another generation.
    pub(super) moving: Mutex<()>,
}

type Reply = Box<dyn FnOnce(Result<FlushReport>) + Send>;
type Work = Box<dyn FnOnce(&Arc<Shared>, &Workers) + Send>;

/// Why the draining thread gets up.
pub(super) enum Wake {
    Pending,
    Flush(Reply),
    /// Work between drains.
    Between(Work),
    Close,
}

impl Shared {
    /// Whether the engine is being closed: what is long must end.
    pub(super) fn is_over(&self) -> bool {
        self.visits.is_over() || self.closing.load(Ordering::Relaxed)
    }

    /// Deletes retired generations, in steps, until the engine is closed: what a reindex leaves, or has left that was killed.
    pub(super) fn sweep(&self, workers: &Workers) -> Result<()> {
        let retired = |generation: &Generation| generation.state == GenerationState::Retired;
        // Nearly always none: opening must not cost a commit.
        if !self.store.read()?.generations()?.iter().any(retired) {
            return Ok(());
        }
        while !self.is_over() {
            let (reply, done) = mpsc::sync_channel(1);
            workers
                .writer
                .submit(|transaction| transaction.sweep(SWEEP_BLOCKS), move |result| drop(reply.send(result)));
            if !done.recv().map_err(|_| Error::Closed)?? {
                break;
            }
        }
        Ok(())
    }

    fn flush(self: &Arc<Self>, workers: &Workers) -> Result<FlushReport> {
        self.unflushed.store(0, Ordering::Relaxed);
        let drained = self.drain(&self.live.serving(), None, workers, |_| !self.is_over())?;
        match drained.refused.into_iter().next() {
            Some(refused) => Err(refused.error),
            None => Ok(FlushReport { embedded: drained.embedded }),
        }
    }

    /// Embeds and commits all that is pending in a generation. The next batch is embedded while the last one is committed. `go_on` is
    /// told how many messages are committed or about to be.
    pub(super) fn drain(
        self: &Arc<Self>,
        to: &Arc<Spaces>,
        source: Option<&Generation>,
        workers: &Workers,
        mut go_on: impl FnMut(u64) -> bool,
    ) -> Result<Drained> {
        let generation = to.generation.id;
        let mut committing: Option<mpsc::Receiver<Result<()>>> = None;
        let wait = |committing: &mut Option<mpsc::Receiver<Result<()>>>| {
            committing.take().map_or(Ok(()), |done| done.recv().map_err(|_| Error::Closed)?)
        };
        let handed = std::cell::Cell::new(0);
        let drained = drain(
            &self.store,
            to,
            source,
            || go_on(handed.get()),
            |batch| {
                wait(&mut committing)?;
                handed.set(handed.get() + batch.embedded.len() as u64);
                let (reply, done) = mpsc::sync_channel(1);
                let apply = {
                    let (to, planners) = (Arc::clone(to), workers.planners.clone());
                    move |transaction: &mut _| {
                        let added = batch.store(transaction, generation)?;
                        let linked = to.link(transaction, &added, &planners)?;
                        Ok((added, linked))
                    }
                };
                let to = Arc::clone(to);
                workers.writer.submit(apply, move |result| {
                    let published = result.map(|(added, linked): (Vec<Added>, Vec<Committed>)| {
                        added.into_iter().map(Change::Added).for_each(|change| to.publish(change));
                        linked.into_iter().for_each(Committed::make);
                    });
                    // The drain may have failed meanwhile: then nobody waits.
                    let _ = reply.send(published);
                });
                committing = Some(done);
                Ok(())
            },
        );
        wait(&mut committing)?;
        drained
    }
}

pub(super) fn run_drain(shared: &Arc<Shared>, workers: &Workers, wakes: &mpsc::Receiver<Wake>) {
    if let Err(error) = shared.sweep(workers) {
        tracing::error!(%error, "an old generation was not deleted; the next opening tries again");
    }
    while let Ok(wake) = wakes.recv() {
        match wake {
            Wake::Close => return,
            Wake::Flush(reply) => reply(shared.flush(workers)),
            Wake::Between(work) => work(shared, workers),
            Wake::Pending if shared.unflushed.load(Ordering::Relaxed) == 0 => {}
            Wake::Pending => {
                if let Err(error) = shared.flush(workers) {
                    tracing::error!(%error, "a flush in the background failed; what is pending stays so");
                }
            }
        }
    }
}

pub(super) fn run_improve(shared: &Shared, workers: &Workers, improvable: &mpsc::Receiver<Improve>) {
    while let Ok(Some((generation, namespace))) = improvable.recv() {
        // Asked before each step: many entries may be waiting when the engine closes, and another generation may serve by then. One that
        // is beside has its indexes improved by who builds it.
        let serving = || Some(shared.live.serving()).filter(|serving| serving.generation.id == generation);
        while let Some(serving) = serving().filter(|_| !shared.is_over()) {
            let more = serving.improve(namespace, workers, false).unwrap_or_else(|error| {
                tracing::error!(%error, "an index was not improved; search goes on without");
                false
            });
            if !more {
                break;
            }
            std::thread::yield_now();
        }
    }
    shared.live.serving().close(workers);
}

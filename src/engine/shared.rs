//! State that the engine's threads share, and the loops of two of them: one embeds pending messages, one improves
//! indexes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{
    drain::{Drained, Sources, drain},
    executor::Executor,
    live_sessions::LiveSessions,
    loaded_generation::{Generations, Improve, LoadedGeneration},
    namespace_slot::MemoryBudget,
    notes::Notes,
    recent_queries::RecentQueries,
    replica::Replica,
    reports::FlushReport,
    shared_vectors::Unmade,
    stored_graph::{Committed, Workers},
    timer::Timer,
    writer::{Commit, Committing, then},
};
use crate::{
    cache::{Cache, CacheStats},
    calls::{Timed, call_span},
    config::Config,
    embed::Reranker,
    error::{Error, Result},
    ids::NamespaceId,
    recall::{AddedRows, NamespaceChange},
    store::{Effects, Generation, GenerationState, PendingCursor, Store, Transaction, UnindexedChange},
};

/// Number of blocks of an old generation that one commit deletes, so that other writes do not wait for long: 4 MiB.
const SWEEP_BLOCKS: usize = 64;

/// The time after which a flush in the background is tried again, if the embedder did not answer.
const RETRY: Duration = Duration::from_secs(60);

/// The time after which messages are looked at again that were left to another machine.
const LEFT: Duration = Duration::from_millis(500);

/// State that the engine's threads share.
pub(super) struct Shared {
    pub(super) store: Arc<Store>,
    pub(super) generations: Generations,
    /// The embedding cache, if it is on. It outlives the embedders, which are dropped when their generation stops
    /// serving.
    pub(super) cache: Option<Arc<Cache>>,
    pub(super) reranker: Option<Arc<dyn Reranker>>,
    pub(super) recent_queries: RecentQueries,
    /// The recalls that the journal does not have yet.
    pub(super) notes: Notes,
    pub(super) config: Config,
    pub(super) memory: Arc<MemoryBudget>,
    /// Approximate number of messages put since the last flush began. It only decides when the next one begins.
    pub(super) unflushed: AtomicU64,
    /// When messages were last put; `None` before the first.
    pub(super) last_put: Mutex<Option<Instant>>,
    pub(super) executor: Arc<Executor>,
    /// Deletes expired messages and documents. It knows only when the next one expires: the store knows which.
    pub(super) expiry: Arc<Timer<()>>,
    pub(super) sessions: LiveSessions,
    /// Held while the engine is moved to another generation.
    pub(super) moving: Mutex<()>,
    /// Set if the file is a copy of a shared database.
    pub(super) replica: Option<Arc<Replica>>,
}

type Reply = Box<dyn FnOnce(Result<FlushReport>) + Send>;
type Work = Box<dyn FnOnce(&Arc<Shared>, &Workers) + Send>;

/// A request to the thread that embeds.
pub(super) enum Wake {
    /// Enough messages are pending for a flush in the background.
    Pending,
    /// A message was put, the first since the last flush: [`Config::idle_flush`] begins.
    Put,
    Flush(Reply),
    /// Runs between two flushes.
    Between(Work),
    Close,
}

impl Shared {
    pub(super) fn cache_stats(&self) -> Option<CacheStats> {
        self.cache.as_ref().map(|cache| cache.stats())
    }

    /// Returns true if the engine is being closed: long work must end.
    pub(super) fn is_over(&self) -> bool {
        self.executor.is_closing()
    }

    /// Publishes the effects of a commit. Called on the writer's thread, in the order of commits.
    pub(super) fn publish(&self, wake: &mpsc::Sender<Wake>, effects: Effects) {
        // Before the rows are removed, so that a recall finds a replaced message at every moment.
        self.publish_unindexed(&effects.unindexed);
        for removed in effects.removed {
            if let Some(generation) = self.generations.get(removed.generation) {
                generation.publish(NamespaceChange::Removed(removed));
            }
        }
        self.sessions.publish(effects.buffers, effects.histories);
        effects.flushed.iter().for_each(|session| self.sessions.flushed(session));
        if let Some(cache) = &self.cache
            && !effects.replaced.is_empty()
        {
            cache.drop_replaced(&effects.replaced);
        }
        for namespace in effects.languages {
            // Loaded again, it is analysed again.
            self.generations.all().iter().for_each(|generation| generation.reload(namespace));
        }
        if let Some(at) = effects.next_expiry {
            self.expiry.schedule((), at);
        }
        if effects.pending > 0 {
            let last_put = self.last_put.lock().replace(Instant::now());
            let before = self.unflushed.fetch_add(effects.pending, Ordering::Relaxed);
            // Sending fails only when the engine is closing.
            if before + effects.pending >= self.config.flush_size as u64 {
                let _ = wake.send(Wake::Pending);
            } else if before == 0 || last_put.is_none() {
                let _ = wake.send(Wake::Put);
            }
        }
    }

    /// Publishes the changes of unindexed messages by a commit.
    pub(super) fn publish_unindexed(&self, changes: &[UnindexedChange]) {
        if changes.is_empty() {
            return;
        }
        let generations = self.generations.all();
        for changes in changes.chunk_by(|a, b| a.namespace == b.namespace) {
            for generation in &generations {
                generation.publish_unindexed(changes[0].namespace, changes.to_vec());
            }
        }
    }

    /// Forgets everything that was read from the store. This is for a commit that failed and may be in the file all the
    /// same: it was not published.
    pub(super) fn reset(&self) {
        self.generations.all().iter().for_each(|generation| generation.unload_all());
        self.sessions.reset();
    }

    /// Deletes retired generations, left by a reindex, also by one that was killed. Works in steps until the engine is
    /// closed.
    pub(super) fn sweep(&self, workers: &Workers) -> Result<()> {
        let retired = |generation: &Generation| generation.state == GenerationState::Retired;
        // There is rarely one, and opening must not cost a commit.
        if !self.store.read()?.generations().all()?.iter().any(retired) {
            return Ok(());
        }
        let sweep = |transaction: &Transaction| transaction.sweep(SWEEP_BLOCKS);
        while !self.is_over() {
            let has_more = workers.writer.commit(Commit::Grouped, sweep).wait()?;
            if !has_more {
                break;
            }
        }
        Ok(())
    }

    /// Flushes unless nothing was put since the last flush. Returns when to try again, if the embedder does not answer.
    fn flush_in_background(self: &Arc<Self>, workers: &Workers) -> Option<Instant> {
        if self.unflushed.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let error = match self.flush(workers, Unmade::Share) {
            Ok((_, 0)) => return None,
            Ok(_) => {
                self.unflushed.fetch_add(1, Ordering::Relaxed);
                return Some(Instant::now() + LEFT);
            }
            Err(error) => error,
        };
        tracing::error!(%error, "a flush in the background failed; its messages stay pending until the next one");
        let is_temporary = matches!(error, Error::EmbedderUnavailable { .. });
        is_temporary.then(|| {
            self.unflushed.fetch_add(1, Ordering::Relaxed);
            Instant::now() + RETRY
        })
    }

    /// Embeds the pending messages of the serving generation. Returns the number of those that were left to other
    /// machines, too.
    fn flush(self: &Arc<Self>, workers: &Workers, unmade: Unmade) -> Result<(FlushReport, u64)> {
        let span = Timed::enter(call_span!(INFO "flush", embedded));
        self.unflushed.store(0, Ordering::Relaxed);
        self.guess_languages(workers)?;
        let sources = self.sources(None, unmade);
        let cursor = PendingCursor::default();
        let drained = self.drain(&self.generations.serving(), sources, cursor, workers, |_| !self.is_over())?;
        span.record("embedded", drained.embedded as usize);
        match drained.refused.into_iter().next() {
            Some(refused) => Err(refused.error),
            None => Ok((FlushReport { embedded: drained.embedded + drained.fetched }, drained.left)),
        }
    }

    /// Where a drain gets vectors from.
    pub(super) fn sources<'s>(&'s self, generation: Option<&'s Generation>, unmade: Unmade) -> Sources<'s> {
        Sources { generation, replica: self.replica.as_deref().map(|replica| (replica, unmade)) }
    }

    /// Stores the vectors that other machines made of a namespace's pending messages.
    pub(super) fn fetch_vectors(self: &Arc<Self>, namespace: NamespaceId, workers: &Workers) -> Result<()> {
        let (serving, sources) = (self.generations.serving(), self.sources(None, Unmade::Leave));
        self.drain(&serving, sources, PendingCursor::of(namespace), workers, |_| !self.is_over()).map(drop)
    }

    /// Embeds and commits all pending messages of a generation, and publishes them. The next batch is embedded while
    /// the last one is committed. `go_on` gets the number of messages that are committed or handed to the writer;
    /// returning false ends the drain.
    pub(super) fn drain(
        self: &Arc<Self>,
        to: &Arc<LoadedGeneration>,
        sources: Sources<'_>,
        cursor: PendingCursor,
        workers: &Workers,
        mut go_on: impl FnMut(u64) -> bool,
    ) -> Result<Drained> {
        let generation = to.generation.id;
        let mut committing: Option<Committing<()>> = None;
        let wait = |committing: &mut Option<Committing<()>>| committing.take().map_or(Ok(()), Committing::wait);
        let handed = std::cell::Cell::new(0);
        let drained = drain(
            &self.store,
            to,
            sources,
            cursor,
            || go_on(handed.get()),
            |batch| {
                wait(&mut committing)?;
                handed.set(handed.get() + batch.embedded.len() as u64);
                let apply = {
                    let (to, planners) = (Arc::clone(to), workers.planners.clone());
                    move |transaction: &Transaction| {
                        let added = batch.store(transaction, generation)?;
                        let linked = to.link(transaction, &added, &planners)?;
                        Ok((added, linked))
                    }
                };
                let to = Arc::clone(to);
                let publish = move |stored: Result<(Vec<AddedRows>, Vec<Committed>)>| {
                    let (added, linked) = stored?;
                    added.into_iter().map(NamespaceChange::Added).for_each(|change| to.publish(change));
                    linked.into_iter().for_each(Committed::apply);
                    Ok(())
                };
                committing = Some(workers.writer.commit(Commit::Grouped, then(apply, publish)));
                Ok(())
            },
        );
        wait(&mut committing)?;
        drained
    }
}

/// Runs the thread that embeds, until [`Wake::Close`].
pub(super) fn run_drain(shared: &Arc<Shared>, workers: &Workers, wakes: &mpsc::Receiver<Wake>) {
    if let Err(error) = shared.sweep(workers) {
        tracing::error!(%error, "an old generation was not deleted; the next opening tries again");
    }
    let idle = shared.config.idle_flush;
    // When to flush, unless messages are put until then.
    let mut due: Option<Instant> = None;
    loop {
        let wake = match due {
            None => wakes.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(due) => wakes.recv_timeout(due.saturating_duration_since(Instant::now())),
        };
        match wake {
            Ok(Wake::Close) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(Wake::Flush(reply)) => {
                let flushed = shared.flush(workers, Unmade::Make).map(|(report, _)| report);
                reply(flushed.map_err(|error| shared.store.explain(error)));
            }
            Ok(Wake::Between(work)) => work(shared, workers),
            Ok(Wake::Put) => due = due.or_else(|| Instant::now().checked_add(idle?)),
            Ok(Wake::Pending) => due = shared.flush_in_background(workers),
            Err(RecvTimeoutError::Timeout) => {
                let last_put = *shared.last_put.lock();
                due = idle.and_then(|idle| last_put?.checked_add(idle)).filter(|due| *due > Instant::now());
                if due.is_none() {
                    due = shared.flush_in_background(workers);
                }
            }
        }
    }
}

/// Runs the thread that improves indexes, until it receives `None`.
pub(super) fn run_improve(shared: &Shared, workers: &Workers, improvable: &mpsc::Receiver<Improve>) {
    while let Ok(Some((generation, namespace))) = improvable.recv() {
        // Looked up before each step: many entries may be waiting when the engine closes, and another generation may
        // serve by then. A generation that is being built is improved by the reindex.
        let serving = || Some(shared.generations.serving()).filter(|serving| serving.generation.id == generation);
        while let Some(serving) = serving().filter(|_| !shared.is_over()) {
            let more = serving.improve(namespace, workers, false).unwrap_or_else(|error| {
                tracing::error!(%error, "an index was not improved; searches use it as it is");
                false
            });
            if !more {
                break;
            }
            std::thread::yield_now();
        }
        if let Some(serving) = serving() {
            serving.unload_if_empty(namespace);
            serving.enforce_budget();
        }
    }
    shared.generations.serving().close(workers);
}

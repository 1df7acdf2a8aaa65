//! What the async and the blocking surface share.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
};

use super::{
    FlushReport, IndexStats, PutReport,
    background::Background,
    drain::drain,
    graph::{Committed, Planners, Workers},
    lexical::Added,
    sessions::{Session, Sessions},
    spaces::{Change, Improve, Spaces},
    visits::{Visitor, Visits},
    writer::Writer,
};
use crate::{
    config::{Config, Precision},
    embed::{self, Embedder, Reranker},
    error::{Error, Result},
    ids::{ModelIdentity, Namespace},
    lexical::Language,
    message::Message,
    recall::{Hits, Query},
    store::{BlockKey, Effects, Generation, GenerationState, Options, Store, Transaction},
};

pub(crate) struct Core {
    shared: Arc<Shared>,
    /// Blocks at work on their batches.
    background: Arc<Background<BlockKey>>,
    visits: Arc<Visits>,
    writer: Arc<Writer>,
    pool: rayon::ThreadPool,
    planners: Planners,
    wake: mpsc::Sender<Wake>,
    improve: mpsc::Sender<Improve>,
    threads: Vec<JoinHandle<()>>,
}

/// Blocks of an old generation deleted in one commit, beside others' writes: 4 MiB.
const SWEEP_BLOCKS: usize = 64;

/// What the engine's threads hold.
pub(super) struct Shared {
    pub(super) store: Arc<Store>,
    generation: Generation,
    pub(super) embedder: Arc<dyn Embedder>,
    pub(super) reranker: Option<Arc<dyn Reranker>>,
    pub(super) spaces: Spaces,
    sessions: Sessions,
    config: Config,
    /// Messages put since the last drain began, about: it only decides when the next begins.
    unflushed: AtomicU64,
    closing: AtomicBool,
}

type Reply = Box<dyn FnOnce(Result<FlushReport>) + Send>;

/// Why the draining thread gets up.
enum Wake {
    Pending,
    Flush(Reply),
    /// Between batches, which are analysed by the language of their namespace.
    Language(Namespace, Language, Box<dyn FnOnce(Result<()>) + Send>),
    Close,
}

impl Core {
    pub(super) fn open(
        path: &Path,
        config: Config,
        create: bool,
        reranker: Option<Arc<dyn Reranker>>,
        resolve: impl FnOnce(Option<&ModelIdentity>) -> Result<Arc<dyn Embedder>>,
    ) -> Result<Self> {
        let options = Options { create, cache_bytes: config.cache_bytes, two_phase_commit: config.two_phase_commit };
        let store = Arc::new(Store::open(path, options)?);
        let (generation, embedder) = serving(&store, config.precision, resolve)?;
        let leftover = store.read()?.pending_count(generation.id)?;

        let (improve, improvable) = mpsc::channel();
        let writer = Arc::new(Writer::start(Arc::clone(&store)));
        let shared = Arc::new(Shared {
            spaces: Spaces::new(
                Arc::clone(&store),
                Arc::downgrade(&writer),
                generation.clone(),
                Arc::clone(&embedder),
                config.clone(),
                improve.clone(),
            ),
            sessions: Sessions::default(),
            generation,
            embedder,
            reranker,
            unflushed: AtomicU64::new(leftover),
            closing: AtomicBool::new(false),
            config,
            store,
        });
        let (wake, wakes) = mpsc::channel();
        let pool = pool("mnemon-recall", shared.config.threads)?;
        let planners = Planners(Arc::new(self::pool("mnemon-plan", shared.config.threads)?));
        let threads = vec![
            spawn("mnemon-drain", {
                let (shared, writer, planners) = (Arc::clone(&shared), Arc::clone(&writer), planners.clone());
                move || run_drain(&shared, &writer, &planners, &wakes)
            }),
            spawn("mnemon-index", {
                let shared = Arc::clone(&shared);
                let workers = Workers { writer: Arc::clone(&writer), planners: planners.clone() };
                move || run_improve(&shared, &workers, &improvable)
            }),
        ];
        let background = Background::new(shared.config.block_threads);
        let core = Core { shared, background, visits: Arc::default(), writer, pool, planners, wake, improve, threads };
        if leftover > 0 && core.shared.config.drain_on_open {
            core.wake(Wake::Pending)?;
        }
        Ok(core)
    }

    pub(super) fn model(&self) -> &ModelIdentity {
        self.shared.embedder.identity()
    }

    pub(super) fn precision(&self) -> Precision {
        self.shared.generation.precision
    }

    /// `reply` is called on the writer's thread.
    pub(super) fn put(
        &self,
        messages: Vec<(Namespace, Message)>,
        reply: impl FnOnce(Result<PutReport>) + Send + 'static,
    ) -> Result<()> {
        messages.iter().try_for_each(|(_, message)| message.check())?;
        let apply = move |transaction: &mut Transaction| {
            let mut put = transaction.put(&messages)?;
            let effects = std::mem::take(&mut put.effects);
            Ok((PutReport { new: put.new, replaced: put.replaced, unchanged: put.unchanged }, effects))
        };
        self.write(apply, reply);
        Ok(())
    }

    /// Queues a change, and publishes its effects once it is committed. `reply` is called on the writer's thread.
    pub(crate) fn write<T: Send + 'static>(
        &self,
        apply: impl FnMut(&mut Transaction) -> Result<(T, Effects)> + Send + 'static,
        reply: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        let shared = Arc::clone(&self.shared);
        let wake = self.wake.clone();
        self.writer.submit(apply, move |result| {
            reply(result.map(|(value, effects)| {
                effects.removed.into_iter().map(Change::Removed).for_each(|change| shared.spaces.publish(change));
                shared.sessions.publish(effects.buffers);
                let waiting = shared.unflushed.fetch_add(effects.pending, Ordering::Relaxed) + effects.pending;
                if waiting >= shared.config.flush_size as u64 {
                    // Fails only when the engine is closing.
                    let _ = wake.send(Wake::Pending);
                }
                value
            }));
        });
    }

    /// [`Core::write`], waiting.
    pub(crate) fn write_now<T: Send + 'static>(
        &self,
        apply: impl FnMut(&mut Transaction) -> Result<(T, Effects)> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.write(apply, move |result| drop(reply.send(result)));
        answer.recv().map_err(|_| Error::Closed)?
    }

    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    pub(crate) fn config(&self) -> &Config {
        &self.shared.config
    }

    pub(crate) fn session(&self, namespace: &Namespace, session: &str) -> Arc<Session> {
        self.shared.sessions.get(namespace, session)
    }

    pub(crate) fn visitor(self: &Arc<Self>) -> Visitor {
        Visitor::new(self, &self.visits)
    }

    pub(super) fn visits(&self) -> &Arc<Visits> {
        &self.visits
    }

    pub(crate) fn background(&self) -> &Arc<Background<BlockKey>> {
        &self.background
    }

    /// `reply` is called on the draining thread.
    pub(super) fn flush(&self, reply: impl FnOnce(Result<FlushReport>) + Send + 'static) -> Result<()> {
        self.wake(Wake::Flush(Box::new(reply)))
    }

    /// `reply` is called on the draining thread.
    pub(super) fn set_language(
        &self,
        namespace: &Namespace,
        language: Language,
        reply: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Result<()> {
        self.wake(Wake::Language(namespace.clone(), language, Box::new(reply)))
    }

    fn wake(&self, wake: Wake) -> Result<()> {
        self.wake.send(wake).map_err(|_| Error::Closed)
    }

    pub(crate) fn recall(&self, namespace: &Namespace, query: &Query) -> Result<Hits> {
        self.shared.recall(namespace, query)
    }

    pub(super) fn get(&self, namespace: &Namespace, id: &str) -> Result<Option<Message>> {
        let snapshot = self.shared.store.read()?;
        snapshot.namespace(namespace)?.map_or(Ok(None), |namespace| snapshot.message_by_id(namespace, id))
    }

    pub(super) fn pending(&self) -> Result<u64> {
        self.shared.store.read()?.pending_count(self.shared.generation.id)
    }

    pub(super) fn optimize(&self, namespace: &Namespace) -> Result<()> {
        // In the condition the snapshot would be held meanwhile, and with it all pages that are written again.
        let known = self.shared.store.read()?.namespace(namespace)?;
        let Some(namespace) = known else { return Ok(()) };
        let workers = Workers { writer: Arc::clone(&self.writer), planners: self.planners.clone() };
        self.shared.spaces.optimize(namespace, &workers)
    }

    pub(super) fn index_stats(&self, namespace: &Namespace) -> Result<IndexStats> {
        match self.shared.store.read()?.namespace(namespace)? {
            Some(namespace) => self.shared.spaces.index_stats(namespace),
            None => Ok(IndexStats::default()),
        }
    }

    /// Runs work on the recall pool.
    pub(crate) fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.pool.spawn(work);
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        self.background.close();
        // These fail if the thread is gone, as is wanted.
        let _ = self.wake.send(Wake::Close);
        let _ = self.improve.send(None);
        let threads = std::mem::take(&mut self.threads);
        let join = move || threads.into_iter().for_each(|thread| drop(thread.join()));
        // A callback may drop the last handle on one of these, which cannot wait for itself, nor for what waits for it.
        match thread::current().name() {
            Some("mnemon-writer" | "mnemon-drain" | "mnemon-index") => drop(spawn("mnemon-closer", join)),
            _ => join(),
        }
    }
}

impl Shared {
    /// Deletes what a reindex that was killed after its switch has left.
    fn sweep(&self, writer: &Writer) -> Result<()> {
        let retired = |generation: &Generation| generation.state == GenerationState::Retired;
        // Nearly always none: opening must not cost a commit.
        if !self.store.read()?.generations()?.iter().any(retired) {
            return Ok(());
        }
        while !self.closing.load(Ordering::Relaxed) {
            let (reply, done) = mpsc::sync_channel(1);
            writer.submit(|transaction| transaction.sweep(SWEEP_BLOCKS), move |result| drop(reply.send(result)));
            if !done.recv().map_err(|_| Error::Closed)?? {
                break;
            }
        }
        Ok(())
    }

    fn set_language(&self, namespace: &Namespace, language: Language, workers: &Workers) -> Result<()> {
        let known = self.store.read()?.namespace(namespace)?;
        let namespace =
            known.map_or_else(|| self.store.write(|transaction| transaction.make_namespace(namespace)), Ok)?;
        self.spaces.set_language(namespace, language, workers)
    }

    /// Embeds and commits all that is pending. The next batch is embedded while the last one is committed.
    fn drain(self: &Arc<Self>, writer: &Writer, planners: &Planners) -> Result<FlushReport> {
        self.unflushed.store(0, Ordering::Relaxed);
        let generation = self.generation.id;
        let mut committing: Option<mpsc::Receiver<Result<()>>> = None;
        let wait = |committing: &mut Option<mpsc::Receiver<Result<()>>>| {
            committing.take().map_or(Ok(()), |done| done.recv().map_err(|_| Error::Closed)?)
        };
        let cancelled = || self.closing.load(Ordering::Relaxed);
        let embedded = drain(&self.store, generation, &*self.embedder, cancelled, |batch| {
            wait(&mut committing)?;
            let (reply, done) = mpsc::sync_channel(1);
            let shared = Arc::clone(self);
            writer.submit(
                {
                    let (shared, planners) = (Arc::clone(self), planners.clone());
                    move |transaction| {
                        let added = batch.store(transaction, generation)?;
                        let linked = shared.spaces.link(transaction, &added, &planners)?;
                        Ok((added, linked))
                    }
                },
                move |result| {
                    let published = result.map(|(added, linked): (Vec<Added>, Vec<Committed>)| {
                        added.into_iter().map(Change::Added).for_each(|change| shared.spaces.publish(change));
                        linked.into_iter().for_each(Committed::make);
                    });
                    // The drain may have failed meanwhile: then nobody waits.
                    let _ = reply.send(published);
                },
            );
            committing = Some(done);
            Ok(())
        });
        wait(&mut committing)?;
        Ok(FlushReport { embedded: embedded? })
    }
}

fn run_drain(shared: &Arc<Shared>, writer: &Arc<Writer>, planners: &Planners, wakes: &mpsc::Receiver<Wake>) {
    if let Err(error) = shared.sweep(writer) {
        tracing::error!(%error, "an old generation was not deleted; the next opening tries again");
    }
    while let Ok(wake) = wakes.recv() {
        match wake {
            Wake::Close => return,
            Wake::Flush(reply) => reply(shared.drain(writer, planners)),
            Wake::Language(namespace, language, reply) => {
                let workers = Workers { writer: Arc::clone(writer), planners: planners.clone() };
                reply(shared.set_language(&namespace, language, &workers));
            }
            Wake::Pending if shared.unflushed.load(Ordering::Relaxed) == 0 => {}
            Wake::Pending => {
                if let Err(error) = shared.drain(writer, planners) {
                    tracing::error!(%error, "a flush in the background failed; what is pending stays so");
                }
            }
        }
    }
}

fn run_improve(shared: &Shared, workers: &Workers, improvable: &mpsc::Receiver<Improve>) {
    while let Ok(Some(namespace)) = improvable.recv() {
        // Asked before each step: many entries may be waiting when the engine closes.
        let go_on = || !shared.closing.load(Ordering::Relaxed);
        let mut more = true;
        while go_on() && more {
            more = shared.spaces.improve(namespace, workers, false).unwrap_or_else(|error| {
                tracing::error!(%error, "an index was not improved; search goes on without");
                false
            });
            std::thread::yield_now();
        }
    }
    shared.spaces.close(workers);
}

/// The serving generation and its embedder; a new database gets its first generation, of this precision.
fn serving(
    store: &Store,
    precision: Precision,
    resolve: impl FnOnce(Option<&ModelIdentity>) -> Result<Arc<dyn Embedder>>,
) -> Result<(Generation, Arc<dyn Embedder>)> {
    let found = store.read()?.serving()?;
    let embedder = resolve(found.as_ref().map(|generation| &generation.identity))?;
    let given = embedder.identity();
    embed::check_identity(given)?;
    let generation = match found {
        Some(generation)
            if generation.identity.hash != given.hash || generation.identity.dimension != given.dimension =>
        {
            return Err(Error::ModelMismatch { stored: generation.identity.to_string(), given: given.to_string() });
        }
        Some(generation) => generation,
        None => {
            let id = store.write(|transaction| transaction.create_serving(given, precision))?;
            Generation { id, identity: given.clone(), precision, state: GenerationState::Serving }
        }
    };
    Ok((generation, embedder))
}

fn pool(name: &'static str, threads: usize) -> Result<rayon::ThreadPool> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        // Without it rayon aborts the process; the caller is told that the engine is closed.
        .panic_handler(|_| tracing::error!("a recall panicked"))
        .thread_name(move |i| format!("{name}-{i}"))
        .build()
        .map_err(|error| Error::InvalidConfig { reason: format!("{threads} threads: {error}") })
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).expect("the system can start a thread")
}

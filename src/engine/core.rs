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

use parking_lot::Mutex;

use super::{
    FlushReport, IndexStats, PutReport,
    asked::Asked,
    background::Background,
    graph::{Planners, Workers},
    live::Live,
    sessions::{Session, Sessions},
    shared::{Shared, Wake, run_drain, run_improve},
    spaces::{Change, Improve, Spaces},
    visits::{Visitor, Visits},
    writer::Writer,
};
use crate::{
    cache::{Cache, CacheStats, CachedEmbedder},
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
    pub(super) shared: Arc<Shared>,
    /// Blocks at work on their batches.
    background: Arc<Background<BlockKey>>,
    writer: Arc<Writer>,
    pool: rayon::ThreadPool,
    planners: Planners,
    wake: mpsc::Sender<Wake>,
    improve: mpsc::Sender<Improve>,
    threads: Vec<JoinHandle<()>>,
}

impl Core {
    pub(crate) fn open(
        path: &Path,
        config: Config,
        create: bool,
        reranker: Option<Arc<dyn Reranker>>,
        resolve: impl FnOnce(Option<&ModelIdentity>) -> Result<Arc<dyn Embedder>>,
    ) -> Result<Self> {
        let options = Options { create, cache_bytes: config.cache_bytes, two_phase_commit: config.two_phase_commit };
        let store = Arc::new(Store::open(path, options)?);
        let (generation, embedder) = serving(&store, config.precision, resolve)?;
        let cache = Cache::configured(&config)?.map(Arc::new);
        let embedder = cached(embedder, cache.as_ref());
        let leftover = store.read()?.pending_count(generation.id)?;

        let (improve, improvable) = mpsc::channel();
        let writer = Arc::new(Writer::start(Arc::clone(&store)));
        let weak = Arc::downgrade(&writer);
        let serving = Spaces::new(Arc::clone(&store), weak, generation, embedder, config.clone(), improve.clone());
        let shared = Arc::new(Shared {
            live: Live::new(serving),
            sessions: Sessions::default(),
            cache,
            reranker,
            asked: Asked::default(),
            unflushed: AtomicU64::new(leftover),
            closing: AtomicBool::new(false),
            visits: Arc::default(),
            moving: Mutex::default(),
            config,
            store,
        });
        let (wake, wakes) = mpsc::channel();
        let pool = pool("mnemon-recall", shared.config.threads)?;
        let planners = Planners(Arc::new(self::pool("mnemon-plan", shared.config.threads)?));
        let threads = vec![
            spawn("mnemon-drain", {
                let shared = Arc::clone(&shared);
                let workers = Workers { writer: Arc::clone(&writer), planners: planners.clone() };
                move || run_drain(&shared, &workers, &wakes)
            }),
            spawn("mnemon-index", {
                let shared = Arc::clone(&shared);
                let workers = Workers { writer: Arc::clone(&writer), planners: planners.clone() };
                move || run_improve(&shared, &workers, &improvable)
            }),
        ];
        let background = Background::new(shared.config.block_threads);
        let core = Core { shared, background, writer, pool, planners, wake, improve, threads };
        if leftover > 0 && core.shared.config.drain_on_open {
            core.wake(Wake::Pending)?;
        }
        Ok(core)
    }

    pub(super) fn model(&self) -> ModelIdentity {
        self.shared.live.serving().embedder.identity().clone()
    }

    pub(super) fn cache_stats(&self) -> Option<CacheStats> {
        self.shared.cache.as_ref().map(|cache| cache.stats())
    }

    pub(super) fn precision(&self) -> Precision {
        self.shared.live.serving().generation.precision
    }

    pub(super) fn workers(&self) -> Workers {
        Workers { writer: Arc::clone(&self.writer), planners: self.planners.clone() }
    }

    /// A generation with no namespace loaded. Its embedder shares the cache.
    pub(super) fn spaces(&self, generation: Generation, embedder: Arc<dyn Embedder>) -> Spaces {
        let embedder = cached(embedder, self.shared.cache.as_ref());
        let (store, writer) = (Arc::clone(&self.shared.store), Arc::downgrade(&self.writer));
        Spaces::new(store, writer, generation, embedder, self.shared.config.clone(), self.improve.clone())
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
                for removed in effects.removed {
                    if let Some(spaces) = shared.live.of(removed.generation) {
                        spaces.publish(Change::Removed(removed));
                    }
                }
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
        Visitor::new(self, self.visits())
    }

    pub(super) fn visits(&self) -> &Arc<Visits> {
        &self.shared.visits
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
        let namespace = namespace.clone();
        let work = move |shared: &Arc<Shared>, workers: &Workers| {
            reply(shared.set_language(&namespace, language, workers));
        };
        self.wake(Wake::Between(Box::new(work)))
    }

    pub(super) fn wake(&self, wake: Wake) -> Result<()> {
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
        self.shared.store.read()?.pending_count(self.shared.live.serving().generation.id)
    }

    pub(super) fn optimize(&self, namespace: &Namespace) -> Result<()> {
        // In the condition the snapshot would be held meanwhile, and with it all pages that are written again.
        let known = self.shared.store.read()?.namespace(namespace)?;
        let Some(namespace) = known else { return Ok(()) };
        self.shared.live.serving().optimize(namespace, &self.workers())
    }

    pub(super) fn index_stats(&self, namespace: &Namespace) -> Result<IndexStats> {
        match self.shared.store.read()?.namespace(namespace)? {
            Some(namespace) => self.shared.live.serving().index_stats(namespace),
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

/// With the engine's cache before it, if there is one.
fn cached(embedder: Arc<dyn Embedder>, cache: Option<&Arc<Cache>>) -> Arc<dyn Embedder> {
    match cache {
        Some(cache) => Arc::new(CachedEmbedder::new(embedder, Arc::clone(cache))),
        None => embedder,
    }
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

pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).expect("the system can start a thread")
}

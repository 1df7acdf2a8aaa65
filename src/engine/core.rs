//! The open engine: its state, its threads, and the operations that its surfaces share.

use std::sync::{Arc, OnceLock, Weak, atomic::AtomicU64, mpsc};

use parking_lot::Mutex;

use super::{
    executor::{Executor, Lane, Planners},
    live_sessions::LiveSessions,
    loaded_generation::{Generations, Improve, LoadedGeneration, Services},
    namespace_slot::{EngineStats, MemoryBudget},
    notes::Notes,
    recent_queries::RecentQueries,
    replica::{Replica, check_origin},
    reports::IndexStats,
    shared::{Shared, Wake, run_drain, run_improve},
    stored_graph::Workers,
    timer::Timer,
    writer::{Listener, Writer},
};
use crate::{
    cache::{Cache, CachedEmbedder},
    calls::{Timed, block_on, call_span},
    config::{Config, Freshness, Precision},
    embed::{self, Embedder, Reranker},
    error::{Error, Result},
    ids::{ModelIdentity, Namespace},
    recall::{Hits, Query, Scope, Seen},
    shared::Upstream,
    store::{Generation, Store},
};

/// An open database, and the settings of the engine that is to be opened on it.
pub(crate) struct Opening {
    pub(crate) store: Arc<Store>,
    pub(crate) config: Config,
    pub(crate) reranker: Option<Arc<dyn Reranker>>,
    /// Whether the embedder was chosen by the caller.
    pub(crate) has_own_embedder: bool,
    /// The shared database that the file is to be a copy of.
    pub(crate) upstream: Option<(Arc<dyn Upstream>, Freshness)>,
}

/// An open engine, without its handles.
pub(crate) struct Core {
    pub(super) shared: Arc<Shared>,
    pub(super) writer: Arc<Writer>,
    planners: Arc<Planners>,
    wake: mpsc::Sender<Wake>,
    improve: mpsc::Sender<Improve>,
    this: OnceLock<Weak<Core>>,
}

impl Core {
    /// `cache` is the embedding cache that the embedder of `resolve` uses already, if any; without it, the cache is
    /// made by the configuration and put before the embedder.
    pub(super) fn open(
        Opening { store, config, reranker, has_own_embedder, upstream }: Opening,
        cache: Option<Option<Arc<Cache>>>,
        resolve: impl FnOnce(Option<&ModelIdentity>) -> Result<Arc<dyn Embedder>>,
    ) -> Result<Self> {
        let replica = upstream.map(|(upstream, freshness)| Arc::new(Replica::new(upstream, freshness)));
        check_origin(&store, replica.as_deref())?;
        let upstream = replica.as_deref().map(|replica| &replica.upstream);
        // A copy that is opened while the shared database does not answer goes on with the model that it has.
        let upstream = upstream.filter(|upstream| upstream.is_connected());
        let shared_model = upstream.map(|upstream| upstream.serving_model()).transpose()?.flatten();
        let resolve = |stored: Option<&ModelIdentity>| resolve(stored.or(shared_model.as_ref()));
        let (generation, mut embedder) = serving(&store, config.precision, resolve)?;
        if let Some(upstream) = upstream.filter(|_| shared_model.is_none()) {
            upstream.set_first_model(&generation.identity)?;
        }
        let is_theirs = shared_model.as_ref().is_none_or(|model| generation.is_of(model));
        if let Some(replica) = replica.as_deref().filter(|_| is_theirs || !has_own_embedder) {
            replica.start_following();
        }
        let cache = match cache {
            Some(cache) => cache,
            None => {
                let cache = Cache::configured(&config)?.map(Arc::new);
                embedder = cached(embedder, cache.as_ref());
                cache
            }
        };
        let leftover = store.read()?.pending().count(generation.id)?;

        // The executor may outlive the engine, and must not keep the file open.
        let weak = Arc::downgrade(&store);
        let explain = move |error| match weak.upgrade() {
            Some(store) => store.explain(error),
            None => error,
        };
        let executor = Arc::new(Executor::new(config.threads, config.block_threads, explain)?);
        let planners = executor.planners();
        let (improve, improvable) = mpsc::channel();
        let (wake, wakes) = mpsc::channel();
        let writer = Arc::new(Writer::start(Arc::clone(&store), replica.clone(), &executor)?);
        let memory = Arc::new(MemoryBudget::new(config.memory_budget));
        let services = Services {
            store: Arc::clone(&store),
            writer: Arc::downgrade(&writer),
            config: config.clone(),
            budget: Arc::clone(&memory),
            improve: improve.clone(),
        };
        let serving = LoadedGeneration::new(generation, embedder, services);
        let shared = Arc::new(Shared {
            generations: Generations::new(serving),
            cache,
            reranker,
            recent_queries: RecentQueries::default(),
            notes: Notes::default(),
            unflushed: AtomicU64::new(leftover),
            moving: Mutex::default(),
            last_put: Mutex::default(),
            expiry: Timer::new("delete what has expired", &executor),
            sessions: LiveSessions::new(&executor, config.block_threads),
            executor,
            config,
            memory,
            store,
            replica,
        });
        writer.listen(listener(&shared, wake.clone()));
        let core = Core { shared, writer, planners, wake, improve, this: OnceLock::new() };
        if core.shared.store.is_read_only() {
            // All that the services do ends in a commit.
            return Ok(core);
        }
        // The threads that did start hold the file open.
        core.start_services(wakes, improvable).inspect_err(|_| core.close())?;
        if leftover > 0 && core.shared.config.drain_on_open {
            core.wake(Wake::Pending)?;
        }
        Ok(core)
    }

    /// Starts the threads that embed pending messages and improve indexes. They are stopped before the writer.
    fn start_services(&self, wakes: mpsc::Receiver<Wake>, improvable: mpsc::Receiver<Improve>) -> Result<()> {
        let (shared, workers, improve) = (Arc::clone(&self.shared), self.workers(), self.improve.clone());
        // Sending fails only if the thread has ended.
        self.executor().serve(
            "mnemon-index",
            move || improve.send(None).unwrap_or_default(),
            move || run_improve(&shared, &workers, &improvable),
        )?;
        let (shared, workers, wake) = (Arc::clone(&self.shared), self.workers(), self.wake.clone());
        self.executor().serve(
            "mnemon-drain",
            move || wake.send(Wake::Close).unwrap_or_default(),
            move || run_drain(&shared, &workers, &wakes),
        )
    }

    /// Lets answers that come later find the engine.
    pub(super) fn set_this(self: &Arc<Self>) {
        let _ = self.this.set(Arc::downgrade(self));
    }

    /// Returns the engine itself; `None` while it is being opened.
    pub(super) fn this(&self) -> Option<Arc<Core>> {
        self.this.get()?.upgrade()
    }

    pub(crate) fn executor(&self) -> &Arc<Executor> {
        &self.shared.executor
    }

    /// Runs `work` on a lane; see [`Executor::run`].
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        lane: Lane,
        work: impl FnOnce(&Core) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let core = Arc::clone(self);
        self.executor().run(lane, move || work(&core)).await
    }

    /// Waits for the blocks that work on batches, as long as the configuration says.
    pub(super) fn wait_for_blocks(&self) {
        let left = self.shared.sessions.jobs.wait_for_work(self.shared.config.block_close_wait);
        if left > 0 {
            tracing::warn!(
                blocks = left,
                "the engine is closed before memory blocks have taken all batches; they get them after the next opening"
            );
        }
    }

    /// Runs `work` on the calling thread. As with [`Core::run`], an error of the file that another call met is named.
    pub(super) fn run_here<T>(&self, work: impl FnOnce(&Core) -> Result<T>) -> Result<T> {
        work(self).map_err(|error| self.store().explain(error))
    }

    /// Refuses new operations. [`Core::close`] must follow.
    pub(super) fn begin_closing(&self) {
        self.executor().begin_closing();
        self.shared.expiry.close();
        self.shared.sessions.close();
    }

    /// Waits for the operations in flight and ends the threads. Dropping the core then closes the file.
    pub(super) fn close(&self) {
        self.finish_notes();
        self.executor().close();
    }

    pub(super) fn stats(&self) -> EngineStats {
        self.shared.memory.stats()
    }

    pub(crate) fn store(&self) -> &Store {
        &self.shared.store
    }

    pub(super) fn workers(&self) -> Workers {
        Workers { writer: Arc::clone(&self.writer), planners: Arc::clone(&self.planners) }
    }

    /// Makes a generation with no namespace loaded. Its embedder shares the engine's cache.
    pub(super) fn load_generation(&self, generation: Generation, embedder: Arc<dyn Embedder>) -> LoadedGeneration {
        let embedder = cached(embedder, self.shared.cache.as_ref());
        let services = Services {
            store: Arc::clone(&self.shared.store),
            writer: Arc::downgrade(&self.writer),
            config: self.shared.config.clone(),
            budget: Arc::clone(&self.shared.memory),
            improve: self.improve.clone(),
        };
        LoadedGeneration::new(generation, embedder, services)
    }

    /// Sends a request to the thread that embeds.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Closed`].
    pub(super) fn wake(&self, wake: Wake) -> Result<()> {
        self.check_writable()?;
        self.wake.send(wake).map_err(|_| Error::Closed)
    }

    /// # Errors
    /// [`Error::ReadOnly`].
    pub(super) fn check_writable(&self) -> Result<()> {
        match self.shared.store.is_read_only() {
            true => Err(Error::ReadOnly { path: self.shared.store.path().to_path_buf() }),
            false => Ok(()),
        }
    }

    /// Answers a query, and notes it in the journal.
    pub(super) async fn recall(self: &Arc<Self>, namespace: &Namespace, query: Query) -> Result<Hits> {
        let seen = self.refresh_for(namespace, &query).await?;
        let namespace = namespace.clone();
        self.run(Lane::Recalls, move |core| core.recall_here(&namespace, &query, seen)).await
    }

    /// Answers a query from what is here, on the calling thread, and notes it in the journal.
    pub(super) fn recall_here(&self, namespace: &Namespace, query: &Query, seen: Option<Seen>) -> Result<Hits> {
        let begun = self.begin_note(namespace)?;
        let hits = self.answer(namespace, query, seen)?;
        if let Some(begun) = begun {
            self.note(begun, namespace, query, &hits);
        }
        Ok(hits)
    }

    /// Answers a query from what is here, on the calling thread.
    pub(super) fn answer(&self, namespace: &Namespace, query: &Query, seen: Option<Seen>) -> Result<Hits> {
        let span = Timed::enter(call_span!(INFO "recall", hits));
        let mut hits = self.shared.recall(namespace, query)?;
        hits.seen = seen;
        span.record("hits", hits.len());
        Ok(hits)
    }

    /// Answers a query to several namespaces.
    pub(super) async fn recall_in(self: &Arc<Self>, scope: &Scope, query: Query) -> Result<Hits> {
        for namespace in scope.namespaces() {
            self.refresh(namespace, query.freshness).await?;
        }
        for prefix in scope.prefixes() {
            self.refresh_under(Some(prefix), query.freshness).await?;
        }
        let scope = scope.clone();
        let recall = move |core: &Core| {
            let span = Timed::enter(call_span!(INFO "recall_in", hits));
            let hits = core.shared.recall_in(&scope, &query)?;
            span.record("hits", hits.len());
            Ok(hits)
        };
        self.run(Lane::Recalls, recall).await
    }

    pub(super) fn optimize(&self, namespace: &Namespace) -> Result<()> {
        block_on(self.refresh(namespace, None))?;
        // A statement of its own: in the condition below, the snapshot would live on and keep all pages that are
        // rewritten meanwhile.
        let known = self.shared.store.read()?.namespaces().id(namespace)?;
        let Some(namespace) = known else { return Ok(()) };
        self.shared.generations.serving().optimize(namespace, &self.workers())
    }

    pub(super) fn index_stats(&self, namespace: &Namespace) -> Result<IndexStats> {
        match self.shared.store.read()?.namespaces().id(namespace)? {
            Some(namespace) => self.shared.generations.serving().index_stats(namespace),
            None => Ok(IndexStats::default()),
        }
    }
}

/// Returns what the engine does with commits.
fn listener(shared: &Arc<Shared>, wake: mpsc::Sender<Wake>) -> Listener {
    let (published, reset) = (Arc::downgrade(shared), Arc::downgrade(shared));
    Listener {
        publish: Box::new(move |effects| {
            if let Some(shared) = published.upgrade() {
                shared.publish(&wake, effects);
            }
        }),
        reset: Box::new(move || reset.upgrade().into_iter().for_each(|shared| shared.reset())),
    }
}

/// Returns the serving generation and its embedder. A new database gets its first generation, of this precision.
fn serving(
    store: &Store,
    precision: Precision,
    resolve: impl FnOnce(Option<&ModelIdentity>) -> Result<Arc<dyn Embedder>>,
) -> Result<(Generation, Arc<dyn Embedder>)> {
    let found = store.read()?.generations().serving()?;
    let embedder = resolve(found.as_ref().map(|generation| &generation.identity))?;
    let given = embedder.identity();
    embed::check_identity(given)?;
    let generation = match found {
        Some(generation) if !embedder.is_same_model(&generation.identity) => {
            return Err(Error::ModelMismatch { stored: generation.identity.to_string(), given: given.to_string() });
        }
        Some(generation) => generation,
        None => store.write(|transaction| transaction.generations().create_serving(given, precision))?,
    };
    Ok((generation, embedder))
}

/// Puts the engine's cache before an embedder, if there is one.
fn cached(embedder: Arc<dyn Embedder>, cache: Option<&Arc<Cache>>) -> Arc<dyn Embedder> {
    match cache {
        Some(cache) => Arc::new(CachedEmbedder::new(embedder, Arc::clone(cache))),
        None => embedder,
    }
}

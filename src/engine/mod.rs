//! The engine: puts, flushes and recalls over one database file.
//!
//! Joins store, embedder and index, which do not know each other. Its threads: one writes (`writer`), one embeds what is
//! pending (`drain`), one improves indexes, and a pool recalls. Invariants: what `put` has acknowledged is in the
//! file; the index shows nothing that is not committed.

mod asked;
mod background;
mod blocking;
mod core;
mod drain;
mod graph;
pub(crate) mod lexical;
mod live;
pub(crate) mod load;
mod recall;
pub(crate) mod reindex;
mod sampling;
mod search;
mod segments;
mod sessions;
mod shared;
mod spaces;
mod visits;
mod writer;

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Serialize;
use tokio::sync::oneshot;

pub(crate) use self::{
    background::Next,
    core::Core,
    sessions::{Buffered, Given, Origin, Session},
    visits::Visitor,
};
use self::{
    reindex::{ReindexOptions, ReindexProgress, ReindexReport},
    visits::LastHandle,
};
pub use blocking::Blocking;

use crate::{
    cache::CacheStats,
    config::{Config, Precision},
    embed::{Embedder, Model, OnnxEmbedder, OnnxOptions, Reranker},
    error::{Error, Result, impl_debug},
    ids::{ModelIdentity, Namespace},
    lexical::Language,
    message::Message,
    recall::{Hits, Query},
};

/// A long-term memory in one file.
///
/// Cheap to clone; clones share everything. Every async method only waits for the engine's own threads, so it runs on
/// any executor and blocks none of its workers; [`Engine::blocking`] has the same methods for programs without one.
/// When the last clone is dropped, what was put is committed already and what is pending stays so: the next opening
/// goes on with it.
///
/// ```
/// # fn main() -> mnemon::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("memory.redb");
/// use mnemon::{Engine, Message, Query};
/// let engine = Engine::open(&path)?;
/// let namespace = "acme/user-42".parse()?;
/// engine.blocking().put(&namespace, vec![Message::user("my bike is in the cellar")])?;
/// engine.blocking().flush()?;
/// let hits = engine.blocking().recall(&namespace, Query::new("where is the bicycle?").k(1))?;
/// assert_eq!(hits[0].message.text(), "my bike is in the cellar");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Engine {
    // Dropped in this order: first the handle, then the wait for those who are using the engine just then.
    core: Arc<Core>,
    _last: Arc<LastHandle>,
}

impl_debug!(Engine, self { model: self.model().name });

/// What a put did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PutReport {
    /// Messages with an id that was not there.
    pub new: u64,
    /// Messages whose id was there, with something else in it.
    pub replaced: u64,
    /// Messages that were there just so; nothing was written for them.
    pub unchanged: u64,
}

/// What a flush did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FlushReport {
    /// Messages that were embedded and are found from now on, by this flush or one that ran just before.
    pub embedded: u64,
}

/// What the index of a namespace is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct IndexStats {
    /// Vectors that can be found.
    pub vectors: usize,
    /// Of these, those in the graph: the others are compared with every query. 0 where there is no graph of our own.
    pub linked: usize,
    /// Candidates that a search keeps now; [`Config::target_recall`] changes it.
    pub ef_search: usize,
    /// The share of the truly nearest that searches find, estimated from samples since the namespace was loaded: of one search
    /// in 64, in the background.
    pub recall: Option<f64>,
    /// Samples taken.
    pub samples: u64,
}

/// How to open an [`Engine`].
pub struct Builder {
    path: PathBuf,
    config: Config,
    create: bool,
    embedder: Option<Arc<dyn Embedder>>,
    reranker: Option<Arc<dyn Reranker>>,
}

impl_debug!(Builder { path, config, create });

impl Builder {
    /// These settings. Default: [`Config::default`].
    pub fn config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// This embedder. Default: [`OnnxEmbedder`] with the model that the database was made with, found by its name as
    /// by [`Model::find`]; for a new database, [`Model::DEFAULT`].
    pub fn embedder(mut self, embedder: Arc<dyn Embedder>) -> Self {
        self.embedder = Some(embedder);
        self
    }

    /// What [`Query::rerank`] asks. Default: none.
    pub fn reranker(mut self, reranker: Arc<dyn Reranker>) -> Self {
        self.reranker = Some(reranker);
        self
    }

    /// Whether a missing file is made. Default: true.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens the database, and begins to embed what was left pending. Blocks for file and model: about 50 ms with the
    /// bundled model.
    ///
    /// # Errors
    /// The database's: [`Error::DatabaseNotFound`], [`Error::DatabaseLocked`], [`Error::NotADatabase`],
    /// [`Error::NewerSchema`]. The model's: [`Error::ModelMismatch`], and those of [`OnnxEmbedder::new`]. Those of
    /// [`CachedEmbedderBuilder::open`](crate::CachedEmbedderBuilder::open). [`Error::InvalidConfig`].
    pub fn open(self) -> Result<Engine> {
        self.config.check()?;
        let mut options = OnnxOptions::default();
        (options.threads, options.device) = (self.config.threads, self.config.device.clone());
        let embedder = self.embedder;
        let resolve = move |stored: Option<&ModelIdentity>| -> Result<Arc<dyn Embedder>> {
            match embedder {
                Some(embedder) => Ok(embedder),
                None => {
                    let model = Model::find(stored.map_or(Model::DEFAULT, |identity| &identity.name))?;
                    Ok(Arc::new(OnnxEmbedder::open(model, options)?))
                }
            }
        };
        let core = Core::open(&self.path, self.config, self.create, self.reranker, resolve)?;
        Ok(Engine { _last: Arc::new(LastHandle(Arc::clone(core.visits()))), core: Arc::new(core) })
    }
}

impl Engine {
    /// Opens the database at `path`, or makes it, with default settings. See [`Builder::open`].
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Engine::builder(path).open()
    }

    /// To open a database with other than default settings.
    pub fn builder(path: impl AsRef<Path>) -> Builder {
        Builder {
            path: path.as_ref().to_path_buf(),
            config: Config::default(),
            create: true,
            embedder: None,
            reranker: None,
        }
    }

    /// The same methods for threads without an executor. Do not call them from an async task: they block it.
    pub fn blocking(&self) -> Blocking<'_> {
        Blocking(&self.core)
    }

    /// The model that answers: after a [`Engine::reindex`], the new one.
    pub fn model(&self) -> ModelIdentity {
        self.core.model()
    }

    /// How the database stores vectors. [`Config::precision`] says it of a new one, [`Engine::reindex`] changes it.
    pub fn precision(&self) -> Precision {
        self.core.precision()
    }

    /// Stores messages durably, in order, in one commit. They are embedded later: by [`Engine::flush`], or by
    /// themselves once [`Config::flush_size`] are pending. A known id is replaced in its place.
    ///
    /// Puts that wait at the same time share one commit. Cost: one fsync.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`], before anything is stored; [`Error::Storage`], and nothing is stored.
    pub async fn put(&self, namespace: &Namespace, messages: Vec<Message>) -> Result<PutReport> {
        let messages = messages.into_iter().map(|message| (namespace.clone(), message)).collect();
        self.put_all(messages).await
    }

    /// [`Engine::put`] for messages of several namespaces, in one commit.
    ///
    /// # Errors
    /// As [`Engine::put`].
    pub async fn put_all(&self, messages: Vec<(Namespace, Message)>) -> Result<PutReport> {
        let (reply, answer) = oneshot::channel();
        self.core.put(messages, move |result| drop(reply.send(result)))?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// Embeds and indexes all that is pending; when it returns, all that was put before is found.
    ///
    /// # Errors
    /// [`Error::Embedding`]: the messages that failed stay stored and pending, all others are found.
    /// [`Error::EmbedderUnavailable`]: so does all that is not embedded yet.
    pub async fn flush(&self) -> Result<FlushReport> {
        let (reply, answer) = oneshot::channel();
        self.core.flush(move |result| drop(reply.send(result)))?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// The messages of a namespace that are best for the query, best first: `k`, or all that match if they are fewer. Messages
    /// that are pending are not found yet. An unknown namespace or session has no messages.
    ///
    /// # Errors
    /// [`Error::InvalidQuery`], [`Error::Embedding`], [`Error::EmbedderUnavailable`], [`Error::Reranking`], [`Error::Corrupted`].
    pub async fn recall(&self, namespace: &Namespace, query: Query) -> Result<Hits> {
        let namespace = namespace.clone();
        self.on_pool(move |core| core.recall(&namespace, &query)).await
    }

    /// Says in which language a namespace's text is analysed for its terms; makes the namespace if it is new. If it was another,
    /// all that is stored is analysed anew, in one commit: some microseconds a message. Default: [`Language::English`].
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn set_language(&self, namespace: &Namespace, language: Language) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.core.set_language(namespace, language, move |result| drop(reply.send(result)))?;
        answer.await.map_err(|_| Error::Closed)?
    }

    /// What the index of a namespace is like, and how much of the truth its searches find. Loads the namespace.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn index_stats(&self, namespace: &Namespace) -> Result<IndexStats> {
        let namespace = namespace.clone();
        self.on_pool(move |core| core.index_stats(&namespace)).await
    }

    /// Moves the database to another model or precision while it is in use; [`Engine::model`] says the new one after.
    ///
    /// A new generation of vectors is made beside the serving one, which goes on answering; what is put and deleted meanwhile goes to
    /// both. When all is embedded, the namespaces that are in memory are loaded and linked in the new generation, both are tried with
    /// questions ([`ReindexOptions::samples`]), and one commit switches: no recall fails or waits for it, and none misses what was found
    /// before. `progress` is called a few times a second or after each step, and may stop it; so does closing the engine. Stopped or
    /// killed, the old generation serves, and the next call with the same model and precision goes on; one with others drops what was
    /// begun. Moving to the model that serves, in another precision, copies vectors where they are stored in 32 bits.
    ///
    /// A new generation that does not pass the gate is kept and does not serve: [`ReindexReport::gate`] says why, and what to do.
    /// The old one is kept for [`Engine::rollback`], unless [`ReindexOptions::keep_previous`] says otherwise.
    ///
    /// Cost: the embedding and the linking; until the switch, the memory of the loaded namespaces once more, and the new model's; room in
    /// the file for a generation more. Flushes wait, for half a second or a batch, while the last messages are embedded. Works on a
    /// thread of its own, and goes on if the future is dropped.
    ///
    /// # Errors
    /// [`Error::ReindexRunning`]; [`Error::InvalidConfig`]; [`Error::Embedding`] if the model fails, or a message that is found now cannot
    /// be embedded: replace or delete it, or move to another model; [`Error::EmbedderUnavailable`]; [`Error::InvalidVector`];
    /// [`Error::Storage`], [`Error::Corrupted`]; [`Error::Closed`] if the engine is closed meanwhile. In all cases the old generation goes
    /// on serving, and what is built is kept. To give it up, reindex to the model that serves.
    pub async fn reindex(
        &self,
        embedder: Arc<dyn Embedder>,
        options: ReindexOptions,
        mut progress: impl FnMut(ReindexProgress) -> ControlFlow<()> + Send + 'static,
    ) -> Result<ReindexReport> {
        self.off_thread(move |core| core.reindex_and_sweep(embedder, &options, &mut progress)).await
    }

    /// Goes back to the generation that served before the last switch; the one that serves now is the previous one then. What was put
    /// since is embedded for it first: so nothing is missing. `embedder` is of its model. `progress` may stop it.
    ///
    /// # Errors
    /// [`Error::NoPrevious`]: none is kept, or it is of another model. [`Error::ReindexRunning`]; [`Error::Embedding`] or
    /// [`Error::EmbedderUnavailable`] if the model fails on all; a message that it never took stays pending. [`Error::Storage`],
    /// [`Error::Corrupted`], [`Error::Closed`].
    pub async fn rollback(
        &self,
        embedder: Arc<dyn Embedder>,
        mut progress: impl FnMut(ReindexProgress) -> ControlFlow<()> + Send + 'static,
    ) -> Result<ReindexReport> {
        self.off_thread(move |core| core.rollback(embedder, &mut progress)).await
    }

    /// Deletes the generation that is kept for a rollback. Returns whether there was one.
    ///
    /// # Errors
    /// [`Error::ReindexRunning`], [`Error::Storage`].
    pub async fn drop_previous(&self) -> Result<bool> {
        self.off_thread(Core::drop_previous).await
    }

    /// How the cache of what was embedded was used since the engine was opened, and what is in it; `None` if it is off
    /// ([`Config::embedding_cache`]).
    ///
    /// # Errors
    /// [`Error::Closed`].
    pub async fn cache_stats(&self) -> Result<Option<CacheStats>> {
        self.on_pool(|core| Ok(core.cache_stats())).await
    }

    /// The message with this id, pending or not.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn get(&self, namespace: &Namespace, id: &str) -> Result<Option<Message>> {
        let (namespace, id) = (namespace.clone(), id.to_owned());
        self.on_pool(move |core| core.get(&namespace, &id)).await
    }

    /// Messages that wait to be embedded: stored, and not found by recall yet. Cost: a pass over their keys.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn pending(&self) -> Result<u64> {
        self.on_pool(Core::pending).await
    }

    /// Drops this handle and waits, without blocking, until the file is closed, if it was the last. Dropping the last
    /// handle does the same on the calling thread; both wait for a batch that is being embedded, about a second at most.
    pub async fn close(self) {
        let (reply, closed) = oneshot::channel();
        std::thread::spawn(move || {
            drop(self);
            let _ = reply.send(());
        });
        // An error only says that the thread is gone, and with it the handle.
        let _ = closed.await;
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Runs what may wait long on a thread of its own.
    pub(crate) async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Core) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let (visit, core) = (self.core.visits().begin(), Arc::clone(&self.core));
        // By its name it is known as a visitor: what it drops may be the last handle.
        core::spawn("mnemon-visit", move || {
            let result = work(&core);
            drop(core);
            drop(visit);
            let _ = reply.send(result);
        });
        answer.await.map_err(|_| Error::Closed)?
    }

    async fn on_pool<T: Send + 'static>(&self, work: impl FnOnce(&Core) -> Result<T> + Send + 'static) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        let (visit, core) = (self.core.visits().begin(), Arc::clone(&self.core));
        self.core.spawn(move || {
            let result = work(&core);
            // Before the answer: who gets it may close the engine and open it again.
            drop(core);
            drop(visit);
            // The caller may be gone: then nobody waits for the answer.
            let _ = reply.send(result);
        });
        answer.await.map_err(|_| Error::Closed)?
    }
}

//! The handle on an open engine. Dropping the last one closes the engine.

use std::{sync::Arc, thread};

use tokio::sync::oneshot;

use super::{
    core::{Core, Opening},
    pulls,
    weak::WeakEngine,
};
use crate::{
    cache::Cache,
    config::Precision,
    embed::Embedder,
    error::{Result, impl_debug},
    ids::{Anchor, ModelIdentity},
    read_budget::ReadBudget,
};

/// A long-term memory in one file.
///
/// Cheap to clone; clones share everything. Async methods only wait for the engine's own threads, so they run on any
/// executor and block none of its workers; [`Engine::blocking`] has the same methods for programs without an executor.
/// Dropping the last clone waits for the operations in flight and closes the file. Messages that are pending then stay
/// pending: the next opening embeds them. Memory blocks that work on flushed batches are waited for up to
/// [`Config::block_close_wait`](field@crate::Config::block_close_wait).
///
#[cfg_attr(feature = "bundled-model", doc = "```")]
#[cfg_attr(not(feature = "bundled-model"), doc = "```ignore")]
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
    // Dropped in this order: whoever drops the last handle finds the core used by operations in flight alone.
    core: Arc<Core>,
    read_budget: Option<ReadBudget>,
    _last: Arc<LastHandle>,
}

impl_debug!(Engine, self { model: self.model().name });

impl Engine {
    /// Opens an engine on a database. `resolve` is given the model that it was made with and returns the embedder; same
    /// for `cache` as in [`Core::open`].
    pub(crate) fn open_core(
        opening: Opening,
        cache: Option<Option<Arc<Cache>>>,
        resolve: impl FnOnce(Option<&ModelIdentity>) -> Result<Arc<dyn Embedder>>,
    ) -> Result<Self> {
        let core = Arc::new(Core::open(opening, cache, resolve)?);
        core.set_this();
        start_expiry(&core)?;
        pulls::start(&core)?;
        Ok(Engine { _last: Arc::new(LastHandle(Some(Arc::clone(&core)))), core, read_budget: None })
    }

    /// Returns a handle whose recalls, its reads and searches of messages and of documents, and its lists of versions fail with
    /// [`Error::AnswerTooLarge`](crate::Error::AnswerTooLarge) before they return more bytes than the budget has left.
    #[doc(hidden)]
    pub fn within(&self, budget: &ReadBudget) -> Engine {
        Engine { read_budget: Some(budget.clone()), ..self.clone() }
    }

    /// Returns the model of the serving generation: after an [`Engine::reindex`], the new one.
    pub fn model(&self) -> ModelIdentity {
        self.core.shared.generations.serving().embedder.identity().clone()
    }

    /// Returns the embedder of the serving generation, for uses beside the engine, such as a
    /// [`SemanticSimilarityExampleSelector`](crate::SemanticSimilarityExampleSelector). After an [`Engine::reindex`]
    /// the engine uses another one.
    pub fn embedder(&self) -> Arc<dyn Embedder> {
        Arc::clone(&self.core.shared.generations.serving().embedder)
    }

    /// Returns the precision of stored vectors. [`Config::precision`](field@crate::Config::precision) sets it for a new
    /// database, [`Engine::reindex`] changes it.
    pub fn precision(&self) -> Precision {
        self.core.shared.generations.serving().generation.precision
    }

    /// Checks that the path by which the database was opened leads to its file. Each commit does so too; a program that
    /// holds a database open for long, such as a server, can end when the file was moved, removed or replaced. Cost: a few
    /// microseconds. A database in memory, or one that is open for reading alone, is always in its place.
    ///
    /// # Errors
    /// [`Error::DatabaseMoved`](crate::Error::DatabaseMoved).
    pub fn check_file(&self) -> Result<()> {
        self.core.shared.store.check_name()
    }

    /// Returns the number and the id of the last commit, which [`Config::anchor`](field@crate::Config::anchor) expects at a
    /// later opening. The last call before the engine is closed leaves the fewest commits unchecked.
    ///
    /// # Errors
    /// [`Error::Corrupted`](crate::Error::Corrupted), [`Error::Storage`](crate::Error::Storage).
    pub fn anchor(&self) -> Result<Anchor> {
        self.core.shared.store.view(|snapshot| snapshot.anchor())
    }

    /// Drops this handle. If it was the last, waits, without blocking, until the file is closed. Dropping the last
    /// handle waits on the calling thread instead. Both wait for operations in flight and for a batch that is being
    /// embedded, about a second at most, and for memory blocks, up to
    /// [`Config::block_close_wait`](field@crate::Config::block_close_wait).
    pub async fn close(self) {
        let (reply, closed) = oneshot::channel();
        // If the system starts no thread, the handle is dropped right here, with the closure.
        let thread = thread::Builder::new().name("mnemon-closer".into()).spawn(move || {
            drop(self);
            let _ = reply.send(());
        });
        drop(thread);
        // An error only says that the thread is gone, and with it the handle.
        let _ = closed.await;
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(super) fn read_budget(&self) -> Option<&ReadBudget> {
        self.read_budget.as_ref()
    }
}

/// Starts the timer that deletes expired messages and documents. An engine that is open for reading deletes none.
fn start_expiry(core: &Arc<Core>) -> Result<()> {
    if core.shared.store.is_read_only() {
        return Ok(());
    }
    let started = core.shared.store.read().and_then(|snapshot| snapshot.expiry().next());
    // The engine's threads hold the file open.
    let first = started.inspect_err(|_| core.close())?;
    let weak = WeakEngine::new(core);
    let delete = move |_: &[()]| Ok(weak.delete_expired()?.map(|next| ((), next)).into_iter().collect());
    core.shared.expiry.start(first.map(|first| ((), first)), delete);
    Ok(())
}

/// Closes the engine when it is dropped: the one place that decides how.
struct LastHandle(Option<Arc<Core>>);

impl Drop for LastHandle {
    fn drop(&mut self) {
        let core = self.0.take().expect("dropped once");
        let is_own_thread = core.executor().owns_current_thread();
        let close = move || {
            core.wait_for_blocks();
            core.begin_closing();
            core.close();
            // The last reference: the file is closed here.
            drop(core);
        };
        if is_own_thread {
            // A callback or a block dropped the handle on a thread of the engine, which cannot wait for itself.
            drop(thread::Builder::new().name("mnemon-closer".into()).spawn(close));
        } else {
            close();
        }
    }
}

//! The engine.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use mnemon::{BlockingEngine, Error, Forget, Language, Namespace};
use pyo3::{exceptions::PyRuntimeError, exceptions::PyTypeError, prelude::*, types::PyDict};

use crate::{
    config::Config,
    documents::Documents,
    embedder::embedder,
    errors::raised,
    memory::{BlockLike, Memory, MemorySlot, open_memory},
    message::{Message, MessageLike, unwrapped, wrapped},
    operation::{DocumentOperation, outcome},
    query::{Hits, QueryLike, filter},
    values::{from_python, namespace, to_python},
};

/// An engine, and the sessions that were opened on it, until it is closed.
pub(crate) struct Shared {
    engine: Mutex<Option<mnemon::Engine>>,
    memories: Mutex<Vec<Weak<MemorySlot>>>,
    process: u32,
}

impl Shared {
    /// Raises an error in a child of the process that opened the engine: its threads are not there.
    pub(crate) fn check_process(&self) -> PyResult<()> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(
            "the engine was opened before this process was forked; open it after the fork, in one of the processes",
        ))
    }

    pub(crate) fn engine(&self) -> PyResult<mnemon::Engine> {
        self.check_process()?;
        let engine = lock(&self.engine).clone();
        engine.ok_or_else(|| Python::attach(|py| raised(py, Error::Closed)))
    }

    /// Calls the engine without the GIL.
    pub(crate) fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(BlockingEngine<'_>) -> mnemon::Result<T> + Send,
    ) -> PyResult<T> {
        let engine = self.engine()?;
        // The last handle is dropped without the GIL too: that waits for threads that may need it.
        py.detach(move || call(engine.blocking())).map_err(|error| raised(py, error))
    }

    fn close(&self, py: Python<'_>) {
        if self.process != std::process::id() {
            // The threads and locks of the parent are not here: there is nothing to wait for, or to release.
            std::mem::forget(lock(&self.engine).take());
            return;
        }
        let (engine, memories) = (lock(&self.engine).take(), std::mem::take(&mut *lock(&self.memories)));
        let memories: Vec<_> = memories.iter().filter_map(Weak::upgrade).filter_map(|memory| memory.take()).collect();
        py.detach(move || drop((memories, engine)));
    }
}

/// The engines that are open.
static OPEN: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// Closes all engines. Called before the interpreter ends, while the engines' threads can still call Python.
#[pyfunction]
pub(crate) fn close_all(py: Python<'_>) {
    let open = std::mem::take(&mut *lock(&OPEN));
    open.iter().filter_map(Weak::upgrade).for_each(|engine| engine.close(py));
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A long-term memory in one file.
///
/// `Engine(path)` opens the file, or creates it unless `create` is false; without a path the memory is kept in this
/// process alone. `read_only` reads a file that another process may have open. `embedder` is an object as
/// `mnemon.Embedder` describes it; default: the model that the file was made with, or the one that is built in.
///
/// Use it in a `with` statement, or call `close`. All calls may be made from any thread, and release the GIL. A process
/// that was forked after the opening cannot use it.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct Engine(Arc<Shared>);

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (path = None, *, config = None, embedder = None, create = true, read_only = false))]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        config: Option<Config>,
        embedder: Option<&Bound<'_, PyAny>>,
        create: bool,
        read_only: bool,
    ) -> PyResult<Self> {
        if path.is_none() && read_only {
            return Err(PyTypeError::new_err("read_only needs a path"));
        }
        let builder = path.map_or_else(mnemon::Engine::builder_in_memory, mnemon::Engine::builder);
        let mut builder = builder.config(config.unwrap_or_default().0).create(create);
        if let Some(object) = embedder {
            builder = builder.embedder(self::embedder(object)?);
        }
        let opened = py.detach(move || if read_only { builder.open_read_only() } else { builder.open() });
        let engine = Mutex::new(Some(opened.map_err(|error| raised(py, error))?));
        let shared = Arc::new(Shared { engine, memories: Mutex::default(), process: std::process::id() });
        let mut open = lock(&OPEN);
        open.retain(|engine| engine.strong_count() > 0);
        open.push(Arc::downgrade(&shared));
        Ok(Engine(shared))
    }

    /// Stores messages; they are durable when this returns. Returns how many were new, replaced and unchanged.
    fn put<'py>(&self, py: Python<'py>, namespace: &str, messages: Vec<MessageLike>) -> PyResult<Bound<'py, PyAny>> {
        let (namespace, messages) = (self::namespace(py, namespace)?, unwrapped(messages));
        to_python(py, &self.0.call(py, move |engine| engine.put(&namespace, messages))?)
    }

    /// Stores messages of several namespaces, pairs of a namespace and a message, in one commit.
    fn put_all<'py>(&self, py: Python<'py>, messages: Vec<(String, MessageLike)>) -> PyResult<Bound<'py, PyAny>> {
        let pair = |(namespace, message): (String, MessageLike)| Ok((self::namespace(py, &namespace)?, message.0));
        let messages: Vec<(Namespace, mnemon::Message)> = messages.into_iter().map(pair).collect::<PyResult<_>>()?;
        to_python(py, &self.0.call(py, move |engine| engine.put_all(messages))?)
    }

    /// Embeds all pending messages now. Returns how many were embedded.
    fn flush(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.0.call(py, |engine| engine.flush())?.embedded)
    }

    /// Returns the number of messages that wait to be embedded.
    fn pending(&self, py: Python<'_>) -> PyResult<u64> {
        self.0.call(py, |engine| engine.pending())
    }

    /// Returns the messages of a namespace that answer a query best. `query` is a `Query` or text; `k`, if given,
    /// replaces the query's.
    #[pyo3(signature = (namespace, query, *, k = None))]
    fn recall(&self, py: Python<'_>, namespace: &str, query: QueryLike, k: Option<usize>) -> PyResult<Hits> {
        let (namespace, query) = (self::namespace(py, namespace)?, query.with_k(k));
        Hits::new(py, self.0.call(py, move |engine| engine.recall(&namespace, query))?)
    }

    /// Returns the message with this id, or `None`.
    fn get(&self, py: Python<'_>, namespace: &str, id: &str) -> PyResult<Option<Message>> {
        let namespace = self::namespace(py, namespace)?;
        Ok(self.0.call(py, |engine| engine.get(&namespace, id))?.map(Message))
    }

    /// Replaces the metadata of a message. Returns false if there is no such message.
    fn set_metadata(&self, py: Python<'_>, namespace: &str, id: &str, metadata: &Bound<'_, PyDict>) -> PyResult<bool> {
        let (namespace, metadata) = (self::namespace(py, namespace)?, from_python(metadata)?);
        self.0.call(py, |engine| engine.set_metadata(&namespace, id, metadata))
    }

    /// Deletes messages by their ids. Returns how many there were.
    fn delete(&self, py: Python<'_>, namespace: &str, ids: Vec<String>) -> PyResult<u64> {
        let namespace = self::namespace(py, namespace)?;
        self.0.call(py, |engine| engine.delete(&namespace, ids))
    }

    /// Returns the sessions of a namespace, as dicts.
    fn sessions<'py>(&self, py: Python<'py>, namespace: &str) -> PyResult<Bound<'py, PyAny>> {
        let namespace = self::namespace(py, namespace)?;
        to_python(py, &self.0.call(py, |engine| engine.sessions(&namespace))?)
    }

    /// Returns the messages of a session, in order.
    fn history(&self, py: Python<'_>, namespace: &str, session: &str) -> PyResult<Vec<Message>> {
        let namespace = self::namespace(py, namespace)?;
        Ok(wrapped(self.0.call(py, |engine| engine.history(&namespace, session))?))
    }

    /// Deletes a session with its messages.
    fn delete_session(&self, py: Python<'_>, namespace: &str, session: &str) -> PyResult<()> {
        let namespace = self::namespace(py, namespace)?;
        self.0.call(py, |engine| engine.delete_session(&namespace, session))
    }

    /// Returns the namespaces under a prefix, itself included, or all, in their order, as dicts with their sizes.
    #[pyo3(signature = (prefix = None))]
    fn namespaces<'py>(&self, py: Python<'py>, prefix: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
        const PAGE: usize = 1000;
        let prefix = prefix.map(|prefix| self::namespace(py, prefix)).transpose()?;
        let all = self.0.call(py, |engine| {
            let (mut all, mut after) = (Vec::new(), None);
            loop {
                let page = engine.namespaces(prefix.as_ref(), after.as_ref(), PAGE)?;
                all.extend(page.namespaces);
                after = page.next;
                if after.is_none() {
                    return Ok(all);
                }
            }
        })?;
        to_python(py, &all)
    }

    /// Deletes everything in a namespace. Returns the number of its messages.
    fn delete_namespace(&self, py: Python<'_>, namespace: &str) -> PyResult<u64> {
        let namespace = self::namespace(py, namespace)?;
        self.0.call(py, |engine| engine.delete_namespace(&namespace))
    }

    /// Deletes everything in all namespaces under a prefix, itself included. Returns how many namespaces, messages and
    /// documents there were, as a dict.
    fn delete_namespaces<'py>(&self, py: Python<'py>, prefix: &str) -> PyResult<Bound<'py, PyAny>> {
        let prefix = self::namespace(py, prefix)?;
        to_python(py, &self.0.call(py, |engine| engine.delete_namespaces(&prefix))?)
    }

    /// Deletes and leaves nothing behind, with a receipt, which is returned as a dict. One of the keywords says what of
    /// the namespace: `ids` of messages, `keys` of documents, a `session`, messages that match a filter (`where`), or
    /// all namespaces `below` this one, itself included. None of them: the whole namespace.
    #[pyo3(signature = (namespace, *, ids = None, keys = None, session = None, r#where = None, below = false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn forget<'py>(
        &self,
        py: Python<'py>,
        namespace: &str,
        ids: Option<Vec<String>>,
        keys: Option<Vec<String>>,
        session: Option<String>,
        r#where: Option<&Bound<'_, PyDict>>,
        below: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let namespace = self::namespace(py, namespace)?;
        let what = match (ids, keys, session, r#where, below) {
            (Some(ids), None, None, None, false) => Forget::messages(&namespace, ids),
            (None, Some(keys), None, None, false) => Forget::documents(&namespace, keys),
            (None, None, Some(session), None, false) => Forget::session(&namespace, session),
            (None, None, None, Some(matching), false) => Forget::matching(&namespace, filter(matching)?),
            (None, None, None, None, true) => Forget::prefix(&namespace),
            (None, None, None, None, false) => Forget::namespace(&namespace),
            _ => return Err(PyTypeError::new_err("forget takes one of ids, keys, session, where and below")),
        };
        to_python(py, &self.0.call(py, |engine| engine.forget(what))?)
    }

    /// Returns the receipts of what was forgotten and held, as a dict.
    fn audit<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.call(py, |engine| engine.audit())?)
    }

    /// Sets the language of a namespace's words, by its English name.
    fn set_language(&self, py: Python<'_>, namespace: &str, language: &str) -> PyResult<()> {
        let namespace = self::namespace(py, namespace)?;
        let language: Language = language.parse().map_err(|error| raised(py, error))?;
        self.0.call(py, |engine| engine.set_language(&namespace, language))
    }

    /// Writes the database, as of this moment, to a new file; other calls go on.
    fn backup(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.0.call(py, |engine| engine.backup(path))
    }

    /// Replaces the file by a copy without the bytes of what was deleted. Returns its sizes before and after.
    fn purge<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.call(py, |engine| engine.purge())?)
    }

    /// The model of the vectors, as a dict with its name, dimension and hash.
    #[getter]
    fn model<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0.engine()?.model())
    }

    /// Returns the documents of a namespace: JSON values under keys.
    fn documents(&self, py: Python<'_>, namespace: &str) -> PyResult<Documents> {
        Ok(Documents::new(Arc::clone(&self.0), self::namespace(py, namespace)?))
    }

    /// Runs operations on documents, reads first and then all changes in one commit. Returns their outcomes, in order.
    fn document_batch<'py>(
        &self,
        py: Python<'py>,
        operations: Vec<DocumentOperation>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let operations = operations.into_iter().map(|operation| operation.0).collect();
        let outcomes = self.0.call(py, |engine| engine.document_batch(operations))?;
        outcomes.into_iter().map(|outcome| self::outcome(py, outcome)).collect()
    }

    /// Opens an agent's session, or creates it: a short-term buffer of recent messages within `token_limit`, and
    /// prompts made from it and from long-term memory.
    ///
    /// `chat_history_token_ratio` is the part of the limit that recent messages may take, `token_flush_size` how many
    /// tokens of the oldest leave the buffer at a time. `tokens` names the encoding that tokens are counted with:
    /// `"o200k_base"` or `"cl100k_base"`, or `"approximate"`. `blocks` are `StaticBlock` and `VectorBlock`. Raises
    /// `InvalidConfigError`.
    #[pyo3(signature = (namespace, session, *, blocks = Vec::new(), token_limit = 30_000,
        chat_history_token_ratio = 0.7, token_flush_size = 3_000, tokens = "o200k_base"))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn memory(
        &self,
        py: Python<'_>,
        namespace: &str,
        session: String,
        blocks: Vec<BlockLike>,
        token_limit: usize,
        chat_history_token_ratio: f64,
        token_flush_size: usize,
        tokens: &str,
    ) -> PyResult<Memory> {
        let namespace = self::namespace(py, namespace)?;
        let limits = mnemon::BufferLimits::new(token_limit, chat_history_token_ratio, token_flush_size)
            .map_err(|error| raised(py, error))?;
        let builder = self.0.engine()?.memory(&namespace, session).limits(limits);
        let memory = open_memory(py, Arc::clone(&self.0), builder, blocks, tokens)?;
        let mut memories = lock(&self.0.memories);
        memories.retain(|memory| memory.strong_count() > 0);
        memories.push(memory.slot());
        Ok(memory)
    }

    /// Waits for what runs, and closes the file and the sessions that were opened here. A closed engine may be closed
    /// again.
    fn close(&self, py: Python<'_>) {
        self.0.close(py);
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, pyo3::types::PyTuple>) {
        self.0.close(py);
    }

    fn __repr__(&self) -> String {
        match self.0.engine() {
            Ok(engine) => format!("<mnemon.Engine with {}>", engine.model()),
            Err(_) => "<mnemon.Engine, closed>".to_owned(),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        Python::try_attach(|py| self.0.close(py));
    }
}

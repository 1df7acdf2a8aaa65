//! The class: opening and closing, and the handles that an engine makes.

use std::sync::Arc;

use mnemon::MemoryBuilder;
use pyo3::{
    prelude::*,
    pyclass::{PyClass, PyTraverseError, PyVisit},
    types::PyString,
};

use crate::{
    blocks::BlockLike,
    callback::Kept,
    config::ConfigLike,
    documents::Documents,
    errors::{not_a, raised, wrong_type},
    memory::{Memory, MemoryOptions, open_memory},
    models::ModelOptions,
    operation::{DocumentOperation, outcome},
    query::{FreshnessLike, seconds},
    secrets::SecretRemoval,
    shared::Shared,
    values::{Count, FilePath, List, Real, Space, Text, count, number, switch, text, to_python},
    wait::apart,
};

/// A long-term memory in one file.
///
/// `Engine(path)` opens the file, or creates it unless `create` is false; without a path the memory is kept in this
/// process alone. `read_only` reads a file that another process may have open. `embedder` is the name or folder of a
/// model, an `OpenAiEmbedder`, `GivenVectors`, or an object as `mnemon.Embedder` describes it; default: the model that the file was
/// made with, or the one that is built in. `reranker` is the name or folder of one, or an object as `mnemon.Reranker`
/// describes it; queries with `rerank` use it.
///
/// `shared` is the address of a database of Postgres that several machines share, such as
/// `"postgres://mnemon:secret@db.example/memory?sslmode=verify-full"`. The file is then a copy of it, of the namespaces that
/// this engine was asked for, and may be deleted once the engine is closed. What a call stores is stored there when it
/// returns. `freshness` says how far reads may be behind what other machines stored: `"latest"`, nothing, for a round trip
/// each; a number of seconds, at no cost, and reads go on while Postgres is away; or `"local"`, whatever the copy has.
/// Default: 1 second. A write that Postgres does not take raises `SharedDatabaseError` within
/// `Config(shared_timeout=...)`, or twice that behind another write.
///
/// `remove_secrets` replaces keys, tokens, passwords beside their names and numbers of cards by marks, such as `[key removed]`, in the
/// messages, documents, metadata and tool arguments that calls are given, before anything else is done with them; ids, questions, files
/// that are imported, and what a chat model answers stay as they are.
///
/// Use it in a `with` statement, or call `close`. All calls may be made from any thread, and release the GIL. A process
/// that was forked after the opening cannot use it. Ctrl-C ends the waiting of every call with `KeyboardInterrupt`: what
/// the engine has begun for it, it does to the end, but for `reindex`, `rollback`, `export` and `import_from`, which stop.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct Engine {
    pub(super) shared: Arc<Shared>,
    pub(super) kept: Kept,
    read_only: bool,
}

/// An `Engine`, or the one of an `AsyncEngine`; and its object.
pub(crate) struct EngineLike(pub(crate) Arc<Shared>, pub(crate) Py<PyAny>);

impl<'py> FromPyObject<'_, 'py> for EngineLike {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let engine =
            plain_or::<Engine>(&object, "engine").ok_or_else(|| not_a("an Engine or an AsyncEngine", &object))?;
        Ok(EngineLike(Arc::clone(&engine.get().shared), engine.into_any()))
    }
}

/// Returns an object of a class, or the one that an object of the class with `await` has as an attribute.
pub(crate) fn plain_or<T: PyClass>(object: &Bound<'_, PyAny>, attribute: &str) -> Option<Py<T>> {
    if let Ok(plain) = object.cast::<T>() {
        return Some(plain.clone().unbind());
    }
    let is_ours = object.get_type().module().is_ok_and(|module| module == "mnemon._async");
    let plain = object.getattr_opt(attribute).ok()?.filter(|_| is_ours)?;
    Some(plain.cast_into::<T>().ok()?.unbind())
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (path = None, *, config = None, embedder = None, reranker = None, create = true, read_only = false,
        shared = None, freshness = None, remove_secrets = false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        py: Python<'_>,
        path: Option<FilePath>,
        config: Option<ConfigLike>,
        embedder: Option<&Bound<'_, PyAny>>,
        reranker: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = switch)] create: bool,
        #[pyo3(from_py_with = switch)] read_only: bool,
        shared: Option<Text>,
        freshness: Option<FreshnessLike>,
        #[pyo3(from_py_with = switch)] remove_secrets: bool,
    ) -> PyResult<Self> {
        let refused = match (&path, read_only, &shared) {
            (None, true, _) => Some("read_only needs a path"),
            (None, _, Some(_)) => Some("shared needs the path of a file, which becomes a copy of the shared database"),
            (_, true, Some(_)) => {
                Some("read_only shows a copy without asking the shared database; leave out one of the two")
            }
            _ => None,
        };
        if let Some(reason) = refused {
            return Err(wrong_type(py, reason));
        }
        let config = config.unwrap_or_default().0;
        let models = ModelOptions::of(&config);
        let builder = path.map_or_else(mnemon::Engine::builder_in_memory, |path| mnemon::Engine::builder(path.0));
        let (mut builder, kept) = (builder.config(config).create(create), Kept::default());
        if let Some(address) = shared {
            builder = builder.shared(address.0).freshness(freshness.map(|freshness| freshness.0).unwrap_or_default());
        }
        if let Some(object) = embedder {
            builder = builder.embedder(models.embedder(object, &kept)?);
        }
        if let Some(object) = reranker {
            builder = builder.reranker(models.reranker(object, &kept)?);
        }
        let opened = apart(py, move || if read_only { builder.open_read_only() } else { builder.open() })?;
        let shared =
            Shared::new(opened.map_err(|error| raised(py, error))?, models, SecretRemoval::new(remove_secrets));
        Ok(Engine { shared, kept, read_only })
    }

    /// Returns an engine that shows the file as it is now, for an engine that was opened with `read_only`: that one goes
    /// on showing the file as of its opening. Another engine shows every commit, and returns itself. Close both.
    fn reopen(this: Bound<'_, Self>) -> PyResult<Py<Self>> {
        let (py, engine) = (this.py(), this.get());
        if !engine.read_only {
            return Ok(this.unbind());
        }
        let opened = engine.shared.run_apart(py, mnemon::Engine::reopen)?;
        let Shared { models, secrets, .. } = &*engine.shared;
        let (shared, kept) = (Shared::new(opened, models.clone(), secrets.clone()), engine.kept.clone_ref(py));
        Py::new(py, Engine { shared, kept, read_only: true })
    }

    /// The model of the vectors, as a dict with its name, dimension and hash, and whether they are `given`, as those of
    /// `GivenVectors` are.
    #[getter]
    fn model<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let model = self.shared.run(py, |engine| Ok(engine.model()))?;
        let fields = to_python(py, &model)?;
        fields.set_item("given", model.is_given())?;
        Ok(fields)
    }

    /// Returns the number and the random id of the last commit, such as "1204-9f86d081884c7d65". `Config(anchor=...)` has a
    /// later opening fail if an older copy of the database was put in its place.
    fn anchor(&self, py: Python<'_>) -> PyResult<String> {
        self.shared.run(py, |engine| Ok(engine.anchor()?.to_string()))
    }

    /// Returns sizes and counts of what is in memory, as a dict.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.shared.call(py, async |engine| engine.stats().await)?)
    }

    /// Returns the documents of a namespace: JSON values under keys.
    fn documents(this: Bound<'_, Self>, namespace: Space) -> Documents {
        Documents::new(Arc::clone(&this.get().shared), this.into_any().unbind(), namespace.0)
    }

    /// Runs operations on documents, reads first and then all changes in one commit. Returns their outcomes, in order.
    fn document_batch<'py>(
        &self,
        py: Python<'py>,
        operations: List<DocumentOperation>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let outcomes = self.shared.call(py, async |engine| {
            let operations = operations.0.into_iter().map(|operation| self.shared.secrets.operation(operation.0));
            engine.document_batch(operations.collect::<mnemon::Result<_>>()?).await
        })?;
        outcomes.into_iter().map(|outcome| self::outcome(py, outcome)).collect()
    }

    /// Opens an agent's session, or creates it: a short-term buffer of recent messages within `token_limit`, and
    /// prompts made from it and from long-term memory.
    ///
    /// `chat_history_token_ratio` is the part of the limit that recent messages may take, `token_flush_size` how many
    /// tokens of the oldest leave the buffer at a time; default: a tenth of the limit. `tokens` names the encoding that tokens are counted with,
    /// `"o200k_base"` or `"cl100k_base"`, or is `"approximate"`, or a function of a text. `blocks` are those of this
    /// package, or objects as `mnemon.Block` describes them. `insert` says into which message of the prompt the blocks
    /// go, `"system"`, `"user"`, or with `"split"` the system message and, of what is recalled for the prompt, the user's, so
    /// that a provider's prompt cache keeps the system message and the history; and `renderer` in which form, `"xml"` or `"markdown"`. A prompt waits
    /// `block_deadline` seconds for its blocks. `keep_checkpoints` is how many of the session's newest checkpoints stay when
    /// another one is made, and `keep_checkpoints_within` for how many seconds, at least the newest; with both, one stays if
    /// either keeps it. Default: all. Raises `InvalidConfigError`.
    #[pyo3(signature = (namespace, session, *, blocks = List::default(), token_limit = 30_000,
        chat_history_token_ratio = 0.7, token_flush_size = None, tokens = None, insert = "system".to_owned(),
        renderer = "xml".to_owned(), block_deadline = 2.0, checkpoint_each_put = false, keep_checkpoints = None,
        keep_checkpoints_within = None, flush_on_drop = false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn memory(
        this: Bound<'_, Self>,
        py: Python<'_>,
        namespace: Space,
        session: Text,
        blocks: List<BlockLike>,
        #[pyo3(from_py_with = count)] token_limit: usize,
        #[pyo3(from_py_with = number)] chat_history_token_ratio: f64,
        token_flush_size: Option<Count<usize>>,
        tokens: Option<Bound<'_, PyAny>>,
        #[pyo3(from_py_with = text)] insert: String,
        #[pyo3(from_py_with = text)] renderer: String,
        #[pyo3(from_py_with = number)] block_deadline: f64,
        #[pyo3(from_py_with = switch)] checkpoint_each_put: bool,
        keep_checkpoints: Option<Count<usize>>,
        keep_checkpoints_within: Option<Real>,
        #[pyo3(from_py_with = switch)] flush_on_drop: bool,
    ) -> PyResult<Memory> {
        let namespace = namespace.0;
        let limits = mnemon::BufferLimits::default().token_limit(token_limit);
        let mut limits = limits.chat_history_token_ratio(chat_history_token_ratio);
        limits.token_flush_size = token_flush_size.map(|tokens| tokens.0);
        let tokens = tokens.unwrap_or_else(|| PyString::new(py, "o200k_base").into_any());
        let blocks = blocks.0;
        let options =
            MemoryOptions { blocks, tokens, insert, renderer, block_deadline, checkpoint_each_put, flush_on_drop };
        let within = keep_checkpoints_within.map(|time| seconds(py, time.0)).transpose()?;
        let builder = move |engine: &mnemon::Engine| {
            let builder = engine.memory(&namespace, session.0).limits(limits);
            let builder = keep_checkpoints.into_iter().fold(builder, |builder, last| builder.keep_checkpoints(last.0));
            within.into_iter().fold(builder, MemoryBuilder::keep_checkpoints_within)
        };
        open_memory(py, Arc::clone(&this.get().shared), this.into_any().unbind(), builder, options)
    }

    /// Waits for what runs, and closes the file and the sessions that were opened here. A closed engine may be closed
    /// again. After Ctrl-C the closing goes on.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.close(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.kept.traverse(&visit)
    }

    fn __clear__(&self) {
        self.kept.clear();
    }

    fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.shared.close(py)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        match self.shared.run(py, |engine| Ok(engine.model())) {
            Ok(model) => format!("<mnemon.Engine with {model}>"),
            Err(_) => "<mnemon.Engine, closed>".to_owned(),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        Python::try_attach(|py| self.shared.dropped(py));
    }
}

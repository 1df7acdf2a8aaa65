//! The engine.

use std::{
    fs::{self, File},
    io::{self, BufReader, BufWriter, Read, Write},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
};

use mnemon::{Forget, Language, MemoryBuilder, Scope};
use pyo3::{
    prelude::*,
    pyclass::{PyClass, PyTraverseError, PyVisit},
    types::{PyDict, PyString},
};

use crate::{
    blocks::BlockLike,
    callback::Kept,
    config::Config,
    documents::Documents,
    errors::{not_a, of_file, raised, wrong_type},
    journal::{JournalEntry, replay_dict},
    memory::{Memory, MemoryOptions, open_memory},
    message::{Message, MessageLike, metadata, unwrapped, wrapped},
    models::ModelOptions,
    operation::{DocumentOperation, outcome},
    query::{Hits, QueryLike, filter, seconds},
    reindex::{Progress, options},
    shared::Shared,
    values::{Count, List, Pair, Real, Space, Text, count, datetime, number, text, texts, to_python},
    vectors::{Vectors, vector_of_query, vectors_of},
    wait::apart,
};

/// A long-term memory in one file.
///
/// `Engine(path)` opens the file, or creates it unless `create` is false; without a path the memory is kept in this
/// process alone. `read_only` reads a file that another process may have open. `embedder` is the name or folder of a
/// model, an `OpenAiEmbedder`, or an object as `mnemon.Embedder` describes it; default: the model that the file was
/// made with, or the one that is built in. `reranker` is the name or folder of one, or an object as `mnemon.Reranker`
/// describes it; queries with `rerank` use it.
///
/// Use it in a `with` statement, or call `close`. All calls may be made from any thread, and release the GIL. A process
/// that was forked after the opening cannot use it. Ctrl-C ends the waiting of every call with `KeyboardInterrupt`: what
/// the engine has begun for it, it does to the end, but for `reindex`, `rollback`, `export` and `import_from`, which stop.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct Engine {
    shared: Arc<Shared>,
    kept: Kept,
    read_only: bool,
}

/// An `Engine`, or the one of an `AsyncEngine`.
pub(crate) struct EngineLike(pub(crate) Arc<Shared>);

impl<'py> FromPyObject<'_, 'py> for EngineLike {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let engine =
            plain_or::<Engine>(&object, "engine").ok_or_else(|| not_a("an Engine or an AsyncEngine", &object))?;
        Ok(EngineLike(Arc::clone(&engine.get().shared)))
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

/// A file that cannot be read or written any more once the flag is set: the call was ended by a signal.
struct Stoppable<F>(F, Arc<AtomicBool>);

impl<F> Stoppable<F> {
    fn check(&self) -> io::Result<()> {
        match self.1.load(SeqCst) {
            true => Err(io::Error::other("the call was interrupted")),
            false => Ok(()),
        }
    }
}

impl<F: Write> Write for Stoppable<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl<F: Read> Read for Stoppable<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.check()?;
        self.0.read(bytes)
    }
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (path = None, *, config = None, embedder = None, reranker = None, create = true, read_only = false))]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        config: Option<Config>,
        embedder: Option<&Bound<'_, PyAny>>,
        reranker: Option<&Bound<'_, PyAny>>,
        create: bool,
        read_only: bool,
    ) -> PyResult<Self> {
        if path.is_none() && read_only {
            return Err(wrong_type(py, "read_only needs a path"));
        }
        let config = config.unwrap_or_default().config;
        let models = ModelOptions::of(&config);
        let builder = path.map_or_else(mnemon::Engine::builder_in_memory, mnemon::Engine::builder);
        let (mut builder, kept) = (builder.config(config).create(create), Kept::default());
        if let Some(object) = embedder {
            builder = builder.embedder(models.embedder(object, &kept)?);
        }
        if let Some(object) = reranker {
            builder = builder.reranker(models.reranker(object, &kept)?);
        }
        let opened = apart(py, move || if read_only { builder.open_read_only() } else { builder.open() })?;
        let shared = Shared::new(opened.map_err(|error| raised(py, error))?, models);
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
        let (shared, kept) = (Shared::new(opened, engine.shared.models.clone()), engine.kept.clone_ref(py));
        Py::new(py, Engine { shared, kept, read_only: true })
    }

    /// Stores messages; they are durable when this returns. Returns how many were new, replaced and unchanged.
    fn put<'py>(&self, py: Python<'py>, namespace: Space, messages: List<MessageLike>) -> PyResult<Bound<'py, PyAny>> {
        let (namespace, messages) = (namespace.0, unwrapped(messages));
        to_python(py, &self.shared.call(py, async move |engine| engine.put(&namespace, messages).await)?)
    }

    /// Stores messages of several namespaces, pairs of a namespace and a message, in one commit.
    fn put_all<'py>(&self, py: Python<'py>, messages: List<Pair<Space, MessageLike>>) -> PyResult<Bound<'py, PyAny>> {
        let messages: Vec<_> = messages.0.into_iter().map(|Pair(space, message)| (space.0, message.0)).collect();
        to_python(py, &self.shared.call(py, async move |engine| engine.put_all(messages).await)?)
    }

    /// Embeds all pending messages now. Returns how many were embedded.
    fn flush(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.check_not_embedding(py, "flush")?;
        Ok(self.shared.call(py, async |engine| engine.flush().await)?.embedded)
    }

    /// Links the vectors of all namespaces that are large enough for a graph, which otherwise is done in the background
    /// once they are queried: after very many messages were stored, and before closing. Returns the number of vectors in
    /// graphs.
    fn link(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.shared.call(py, async |engine| engine.link().await)?.linked)
    }

    /// Returns the number of messages that wait to be embedded.
    fn pending(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.call(py, async |engine| engine.pending().await)
    }

    /// Returns the messages of a namespace that answer a query best. `query` is a `Query` or text; `k`, if given,
    /// replaces the query's.
    #[pyo3(signature = (namespace, query, *, k = None))]
    fn recall(&self, py: Python<'_>, namespace: Space, query: QueryLike, k: Option<Count<usize>>) -> PyResult<Hits> {
        let (namespace, query) = (namespace.0, query.with_k(k));
        Hits::new(py, self.shared.call(py, async move |engine| engine.recall(&namespace, query).await)?)
    }

    /// Returns the messages of several namespaces that answer a query best: of `namespaces`, and of all namespaces
    /// `under` prefixes. `weights` says how much likelier than others (1) the namespaces under a prefix have the
    /// answer.
    #[pyo3(signature = (query, *, namespaces = List::default(), under = List::default(), weights = List::default(), k = None))]
    fn recall_in(
        &self,
        py: Python<'_>,
        query: QueryLike,
        namespaces: List<Space>,
        under: List<Space>,
        weights: List<Pair<Space, Real>>,
        k: Option<Count<usize>>,
    ) -> PyResult<Hits> {
        let mut scope = Scope::new();
        for name in &namespaces.0 {
            scope = scope.namespace(&name.0);
        }
        for prefix in &under.0 {
            scope = scope.under(&prefix.0);
        }
        for Pair(prefix, weight) in &weights.0 {
            scope = scope.weight(&prefix.0, weight.0 as f32);
        }
        let query = query.with_k(k);
        Hits::new(py, self.shared.call(py, async move |engine| engine.recall_in(&scope, query).await)?)
    }

    /// Returns up to `limit` entries of the journal of a namespace, the newest first; `before` a number, for the next
    /// page. There are none unless `Config(journal=...)` says how many recalls the database keeps.
    #[pyo3(signature = (namespace, *, limit = 100, before = None))]
    fn journal(
        &self,
        py: Python<'_>,
        namespace: Space,
        #[pyo3(from_py_with = count)] limit: usize,
        before: Option<Count<u64>>,
    ) -> PyResult<Vec<JournalEntry>> {
        let (namespace, before) = (namespace.0, before.map(|before| before.0));
        let entries = self.shared.call(py, async |engine| engine.journal(&namespace, limit, before).await)?;
        Ok(entries.into_iter().map(JournalEntry).collect())
    }

    /// Asks the question of an entry of the journal again and returns what became of each hit, as a dict. A message
    /// that is stored and no hit any more is `"outranked"`, one that was deleted is `"gone"`. The recall is not noted.
    fn replay<'py>(&self, py: Python<'py>, entry: &JournalEntry) -> PyResult<Bound<'py, PyDict>> {
        replay_dict(py, &self.shared.call(py, async |engine| engine.replay(&entry.0).await)?)
    }

    /// Returns the message with this id, or `None`.
    fn get(&self, py: Python<'_>, namespace: Space, id: Text) -> PyResult<Option<Message>> {
        let namespace = namespace.0;
        Ok(self.shared.call(py, async |engine| engine.get(&namespace, &id).await)?.map(Message))
    }

    /// Returns what a message was before each change of its text, role or name, and the time of the change, as pairs, oldest
    /// first. `Config(keep_versions=True)` keeps them; a change of the metadata alone makes none. Empty for an unknown message.
    fn versions<'py>(
        &self,
        py: Python<'py>,
        namespace: Space,
        id: Text,
    ) -> PyResult<Vec<(Message, Bound<'py, PyAny>)>> {
        let namespace = namespace.0;
        let versions = self.shared.call(py, async |engine| engine.versions(&namespace, &id).await)?;
        let pair = |version: mnemon::MessageVersion| Ok((Message(version.message), datetime(py, version.until)?));
        versions.into_iter().map(pair).collect()
    }

    /// Replaces the metadata of a message. Returns false if there is no such message.
    fn set_metadata(&self, py: Python<'_>, namespace: Space, id: Text, metadata: &Bound<'_, PyDict>) -> PyResult<bool> {
        let (namespace, metadata) = (namespace.0, self::metadata(metadata)?);
        self.shared.call(py, async |engine| engine.set_metadata(&namespace, &id, metadata).await)
    }

    /// Deletes messages by their ids. Returns how many there were.
    fn delete(&self, py: Python<'_>, namespace: Space, ids: List<Text>) -> PyResult<u64> {
        let (namespace, ids) = (namespace.0, texts(ids));
        self.shared.call(py, async |engine| engine.delete(&namespace, ids).await)
    }

    /// Returns the sessions of a namespace, as dicts.
    fn sessions<'py>(&self, py: Python<'py>, namespace: Space) -> PyResult<Bound<'py, PyAny>> {
        let namespace = namespace.0;
        to_python(py, &self.shared.call(py, async |engine| engine.sessions(&namespace).await)?)
    }

    /// Returns what the memory blocks of a namespace's sessions have made, as dicts.
    fn blocks<'py>(&self, py: Python<'py>, namespace: Space) -> PyResult<Bound<'py, PyAny>> {
        let namespace = namespace.0;
        to_python(py, &self.shared.call(py, async |engine| engine.blocks(&namespace).await)?)
    }

    /// Returns the messages of a session, in order.
    fn history(&self, py: Python<'_>, namespace: Space, session: Text) -> PyResult<Vec<Message>> {
        let namespace = namespace.0;
        Ok(wrapped(self.shared.call(py, async |engine| engine.history(&namespace, &session).await)?))
    }

    /// Copies a session under another name. Returns the number of its messages.
    fn copy_session(&self, py: Python<'_>, namespace: Space, source: Text, target: Text) -> PyResult<u64> {
        let namespace = namespace.0;
        self.shared.call(py, async |engine| engine.copy_session(&namespace, &source, &target).await)
    }

    /// Deletes a session with its messages.
    fn delete_session(&self, py: Python<'_>, namespace: Space, session: Text) -> PyResult<()> {
        let namespace = namespace.0;
        self.shared.call(py, async |engine| engine.delete_session(&namespace, &session).await)
    }

    /// Returns the namespaces under a prefix, itself included, or all, in their order, as dicts with their sizes and
    /// languages.
    #[pyo3(signature = (prefix = None))]
    fn namespaces<'py>(&self, py: Python<'py>, prefix: Option<Space>) -> PyResult<Bound<'py, PyAny>> {
        const PAGE: usize = 1000;
        let prefix = prefix.map(|prefix| prefix.0);
        let all = self.shared.call(py, async |engine| {
            let (mut all, mut after) = (Vec::new(), None);
            loop {
                let page = engine.namespaces(prefix.as_ref(), after.as_ref(), PAGE).await?;
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
    fn delete_namespace(&self, py: Python<'_>, namespace: Space) -> PyResult<u64> {
        let namespace = namespace.0;
        self.shared.call(py, async |engine| engine.delete_namespace(&namespace).await)
    }

    /// Deletes everything in all namespaces under a prefix, itself included. Returns how many namespaces, messages and
    /// documents there were, as a dict.
    fn delete_namespaces<'py>(&self, py: Python<'py>, prefix: Space) -> PyResult<Bound<'py, PyAny>> {
        let prefix = prefix.0;
        to_python(py, &self.shared.call(py, async |engine| engine.delete_namespaces(&prefix).await)?)
    }

    /// Deletes and leaves nothing behind, with a receipt, which is returned as a dict. One of the keywords says what of
    /// the namespace: `ids` of messages, `keys` of documents, a `session`, messages that match a filter (`where`), or
    /// all namespaces `below` this one, itself included. None of them: the whole namespace.
    #[pyo3(signature = (namespace, *, ids = None, keys = None, session = None, r#where = None, below = false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn forget<'py>(
        &self,
        py: Python<'py>,
        namespace: Space,
        ids: Option<List<Text>>,
        keys: Option<List<Text>>,
        session: Option<Text>,
        r#where: Option<&Bound<'_, PyDict>>,
        below: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.shared.check_not_embedding(py, "forget")?;
        let namespace = namespace.0;
        let what = match (ids, keys, session, r#where, below) {
            (Some(ids), None, None, None, false) => Forget::messages(&namespace, texts(ids)),
            (None, Some(keys), None, None, false) => Forget::documents(&namespace, texts(keys)),
            (None, None, Some(session), None, false) => Forget::session(&namespace, session.0),
            (None, None, None, Some(matching), false) => Forget::matching(&namespace, filter(matching)?),
            (None, None, None, None, true) => Forget::prefix(&namespace),
            (None, None, None, None, false) => Forget::namespace(&namespace),
            _ => return Err(wrong_type(py, "forget takes one of ids, keys, session, where and below")),
        };
        to_python(py, &self.shared.call(py, async |engine| engine.forget(what).await)?)
    }

    /// Returns the receipts of what was forgotten and held, as a dict.
    fn audit<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.shared.call(py, async |engine| engine.audit().await)?)
    }

    /// Forbids deletions in a namespace until `release`. Returns the receipt as a dict.
    fn hold<'py>(&self, py: Python<'py>, namespace: Space, reason: Text) -> PyResult<Bound<'py, PyAny>> {
        let namespace = namespace.0;
        to_python(py, &self.shared.call(py, async |engine| engine.hold(&namespace, reason.0).await)?)
    }

    /// Ends the hold of a namespace. Returns the receipt as a dict, or `None` if it was not held.
    fn release<'py>(&self, py: Python<'py>, namespace: Space) -> PyResult<Bound<'py, PyAny>> {
        let namespace = namespace.0;
        to_python(py, &self.shared.call(py, async |engine| engine.release(&namespace).await)?)
    }

    /// Returns the holds as dicts.
    fn holds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.shared.call(py, async |engine| engine.holds().await)?)
    }

    /// Writes a namespace, or all of them, to a new file of JSON lines. Returns counts as a dict.
    #[pyo3(signature = (path, namespace = None))]
    fn export<'py>(&self, py: Python<'py>, path: PathBuf, namespace: Option<Space>) -> PyResult<Bound<'py, PyAny>> {
        let namespace = namespace.map(|namespace| namespace.0);
        let stop = Arc::<AtomicBool>::default();
        let file = File::create_new(&path).map_err(|error| of_file(py, &path, &error))?;
        let file = Stoppable(BufWriter::new(file), Arc::clone(&stop));
        let exported = self.shared.call(py, async |engine| {
            let (mut file, report) = match &namespace {
                Some(namespace) => engine.export(namespace, file).await?,
                None => engine.export_all(file).await?,
            };
            Ok(file.flush().map(|()| report))
        });
        let flushed = exported.and_then(|flushed| flushed.map_err(|error| of_file(py, &path, &error)));
        let exported = flushed.inspect_err(|_| {
            stop.store(true, SeqCst);
            // A part is no export, and another call could not make the file again.
            let _ = fs::remove_file(&path);
        });
        to_python(py, &exported?)
    }

    /// Reads what `export` wrote into namespaces that are empty; `namespace` gives the only one another name. Returns
    /// counts as a dict.
    #[pyo3(signature = (path, namespace = None))]
    fn import_from<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        namespace: Option<Space>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let namespace = namespace.map(|namespace| namespace.0);
        let stop = Arc::<AtomicBool>::default();
        let file = File::open(&path).map_err(|error| of_file(py, &path, &error))?;
        let file = BufReader::new(Stoppable(file, Arc::clone(&stop)));
        let report = self.shared.call(py, async |engine| match &namespace {
            Some(namespace) => engine.import_as(namespace, file).await,
            None => engine.import(file).await,
        });
        to_python(py, &report.inspect_err(|_| stop.store(true, SeqCst))?)
    }

    /// Returns sizes and counts of what is in memory, as a dict.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.shared.call(py, async |engine| engine.stats().await)?)
    }

    /// Returns the vectors of texts, by the engine's model; of a text that is too long for the model, the mean of its
    /// parts.
    fn embed_documents(&self, py: Python<'_>, texts: List<Text>) -> PyResult<Vectors> {
        let texts = self::texts(texts);
        self.shared.run_apart(py, move |engine| vectors_of(&*engine.embedder(), &texts))
    }

    /// Returns the vector of a query, by the engine's model; of one that is too long, the mean of its parts.
    fn embed_query(&self, py: Python<'_>, text: Text) -> PyResult<Vec<f32>> {
        self.shared.run_apart(py, move |engine| vector_of_query(&*engine.embedder(), &text))
    }

    /// Moves the database to another model or precision while it is in use, and returns a report as a dict. If the new
    /// vectors find less than `min_recall` of what exact search finds, the old ones go on serving, and `gate` in the
    /// report says why.
    ///
    /// `embedder` as of the engine. `precision` is `"f32"`, `"f16"` or `"i8"`. `queries` are pairs of a namespace and a text
    /// that are tried in addition to `samples` of the messages. `keep_previous` keeps the old vectors for `rollback`.
    /// `duty` is the part of the time that it works, 0.01 to 1. `progress` is called with a dict a few times a second;
    /// if it returns `False` the work stops, and a later call goes on.
    #[pyo3(signature = (embedder, *, precision = None, min_recall = 0.8, min_overlap = None, queries = List::default(),
        samples = 128, keep_previous = true, duty = 1.0, progress = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn reindex<'py>(
        &self,
        py: Python<'py>,
        embedder: &Bound<'py, PyAny>,
        precision: Option<Text>,
        #[pyo3(from_py_with = number)] min_recall: f64,
        min_overlap: Option<Real>,
        queries: List<Pair<Space, Text>>,
        #[pyo3(from_py_with = count)] samples: usize,
        keep_previous: bool,
        #[pyo3(from_py_with = number)] duty: f64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.shared.check_not_embedding(py, "reindex")?;
        let mut options = options(py, precision.as_deref(), queries)?;
        let embedder = self.shared.models.embedder(embedder, &self.kept)?;
        options.min_recall = min_recall;
        options.min_overlap = min_overlap.map(|overlap| overlap.0);
        options.samples = samples;
        options.keep_previous = keep_previous;
        options.duty = duty;
        let progress = Progress::new(progress);
        let told = progress.clone();
        let report =
            self.shared.call(py, async |engine| engine.reindex(embedder, options, move |step| told.call(step)).await);
        progress.result(py, report)
    }

    /// Returns to the vectors that served before the last `reindex`. `embedder` is the one of that time.
    #[pyo3(signature = (embedder, *, progress = None))]
    fn rollback<'py>(
        &self,
        py: Python<'py>,
        embedder: &Bound<'py, PyAny>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.shared.check_not_embedding(py, "rollback")?;
        let embedder = self.shared.models.embedder(embedder, &self.kept)?;
        let progress = Progress::new(progress);
        let told = progress.clone();
        let report = self.shared.call(py, async |engine| engine.rollback(embedder, move |step| told.call(step)).await);
        progress.result(py, report)
    }

    /// Deletes the vectors that are kept for `rollback`. Returns whether there were any.
    fn drop_previous(&self, py: Python<'_>) -> PyResult<bool> {
        self.shared.call(py, async |engine| engine.drop_previous().await)
    }

    /// Sets the time to live of the messages that are put into a namespace from now on, in minutes: one that is put without
    /// `expires_at` expires so long after its put. `None` ends it. Messages that are stored already stay as they are.
    /// Raises `InvalidArgumentError` for less than a millisecond or more than a thousand years.
    fn set_ttl(&self, py: Python<'_>, namespace: Space, ttl_minutes: Option<f64>) -> PyResult<()> {
        let namespace = namespace.0;
        self.shared.call(py, async |engine| engine.set_ttl(&namespace, ttl_minutes).await)
    }

    /// Sets the language of a namespace's words, by its English name.
    fn set_language(&self, py: Python<'_>, namespace: Space, language: Text) -> PyResult<()> {
        self.shared.check_not_embedding(py, "set_language")?;
        let namespace = namespace.0;
        let language: Language = language.parse().map_err(|error| raised(py, error))?;
        self.shared.call(py, async |engine| engine.set_language(&namespace, language).await)
    }

    /// Writes the database, as of this moment, to a new file; other calls go on.
    fn backup(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.shared.call(py, async |engine| engine.backup(path).await)
    }

    /// Replaces the file by a copy without the bytes of what was deleted. Returns its sizes before and after.
    fn purge<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.shared.call(py, async |engine| engine.purge().await)?)
    }

    /// The model of the vectors, as a dict with its name, dimension and hash.
    #[getter]
    fn model<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.shared.run(py, |engine| Ok(engine.model()))?)
    }

    /// Returns the documents of a namespace: JSON values under keys.
    fn documents(&self, namespace: Space) -> Documents {
        Documents::new(Arc::clone(&self.shared), namespace.0)
    }

    /// Runs operations on documents, reads first and then all changes in one commit. Returns their outcomes, in order.
    fn document_batch<'py>(
        &self,
        py: Python<'py>,
        operations: List<DocumentOperation>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let operations = operations.0.into_iter().map(|operation| operation.0).collect();
        let outcomes = self.shared.call(py, async |engine| engine.document_batch(operations).await)?;
        outcomes.into_iter().map(|outcome| self::outcome(py, outcome)).collect()
    }

    /// Opens an agent's session, or creates it: a short-term buffer of recent messages within `token_limit`, and
    /// prompts made from it and from long-term memory.
    ///
    /// `chat_history_token_ratio` is the part of the limit that recent messages may take, `token_flush_size` how many
    /// tokens of the oldest leave the buffer at a time; default: a tenth of the limit. `tokens` names the encoding that tokens are counted with,
    /// `"o200k_base"` or `"cl100k_base"`, or is `"approximate"`, or a function of a text. `blocks` are those of this
    /// package, or objects as `mnemon.Block` describes them. `insert` says into which message of the prompt the blocks
    /// go, `"system"` or `"user"`, and `renderer` in which form, `"xml"` or `"markdown"`. A prompt waits
    /// `block_deadline` seconds for its blocks. `keep_checkpoints` is how many of the session's newest checkpoints stay when
    /// another one is made, and `keep_checkpoints_within` for how many seconds, at least the newest; with both, one stays if
    /// either keeps it. Default: all. Raises `InvalidConfigError`.
    #[pyo3(signature = (namespace, session, *, blocks = List::default(), token_limit = 30_000,
        chat_history_token_ratio = 0.7, token_flush_size = None, tokens = None, insert = "system".to_owned(),
        renderer = "xml".to_owned(), block_deadline = 2.0, checkpoint_each_put = false, keep_checkpoints = None,
        keep_checkpoints_within = None, flush_on_drop = false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn memory(
        &self,
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
        checkpoint_each_put: bool,
        keep_checkpoints: Option<Count<usize>>,
        keep_checkpoints_within: Option<f64>,
        flush_on_drop: bool,
    ) -> PyResult<Memory> {
        let namespace = namespace.0;
        let limits = mnemon::BufferLimits::default().token_limit(token_limit);
        let mut limits = limits.chat_history_token_ratio(chat_history_token_ratio);
        limits.token_flush_size = token_flush_size.map(|tokens| tokens.0);
        let tokens = tokens.unwrap_or_else(|| PyString::new(py, "o200k_base").into_any());
        let blocks = blocks.0;
        let options =
            MemoryOptions { blocks, tokens, insert, renderer, block_deadline, checkpoint_each_put, flush_on_drop };
        let within = keep_checkpoints_within.map(|time| seconds(py, time)).transpose()?;
        let builder = move |engine: &mnemon::Engine| {
            let builder = engine.memory(&namespace, session.0).limits(limits);
            let builder = keep_checkpoints.into_iter().fold(builder, |builder, last| builder.keep_checkpoints(last.0));
            within.into_iter().fold(builder, MemoryBuilder::keep_checkpoints_within)
        };
        open_memory(py, Arc::clone(&self.shared), builder, options)
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

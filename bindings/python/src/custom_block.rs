//! Blocks that are written in Python.

use mnemon::{AfterForget, BlockScope, ContentChange, Error, MemoryBlock, TokenExcess};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList, PyString},
};
use serde_json::Value;

use crate::{
    blocks::block_scope,
    callback::{Callee, Kept, attribute, call},
    errors::{invalid, not_a, raised},
    message::{Message, MessageLike, unwrapped, wrapped},
    query::{Hit, QueryLike},
    values::{Count, List, Text, bad_document, bad_message, count, from_python, to_python},
};

/// The content that a block gives to a prompt, made by one of the static methods. Plain text may be given as a `str`.
#[pyclass(frozen, from_py_object, module = "mnemon")]
#[derive(Clone)]
pub(crate) struct BlockContent(mnemon::BlockContent);

#[pymethods]
impl BlockContent {
    #[staticmethod]
    fn text(text: Text) -> Self {
        BlockContent(mnemon::BlockContent::Text(text.0))
    }

    /// Texts and media as dicts, one per line, as `Message.content` has them.
    #[staticmethod]
    fn parts(parts: &Bound<'_, PyAny>) -> PyResult<Self> {
        let parts = parts.cast::<PyList>().map_err(|_| not_a("a list", parts))?;
        Ok(BlockContent(mnemon::BlockContent::Parts(from_python(parts, bad_message)?)))
    }

    /// Earlier messages, quoted inside the memory.
    #[staticmethod]
    fn quoted(messages: List<MessageLike>) -> Self {
        BlockContent(mnemon::BlockContent::Quoted(unwrapped(messages)))
    }

    /// Messages that precede all others in the prompt, as messages of their own.
    #[staticmethod]
    fn messages(messages: List<MessageLike>) -> Self {
        BlockContent(mnemon::BlockContent::Messages(unwrapped(messages)))
    }

    /// `"text"`, `"parts"`, `"quoted"` or `"messages"`.
    #[getter]
    fn kind(&self) -> &'static str {
        match &self.0 {
            mnemon::BlockContent::Parts(_) => "parts",
            mnemon::BlockContent::Quoted(_) => "quoted",
            mnemon::BlockContent::Messages(_) => "messages",
            _ => "text",
        }
    }

    /// The text, or a list of parts or messages.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.0 {
            mnemon::BlockContent::Text(text) => Ok(PyString::new(py, text).into_any()),
            mnemon::BlockContent::Parts(parts) => to_python(py, parts),
            mnemon::BlockContent::Quoted(messages) | mnemon::BlockContent::Messages(messages) => {
                wrapped(messages.clone()).into_pyobject(py)
            }
            _ => Ok(py.None().into_bound(py)),
        }
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Returns the content that a block gave.
fn content(given: &Bound<'_, PyAny>) -> PyResult<mnemon::BlockContent> {
    match given.cast::<PyString>() {
        Ok(_) => Ok(given.extract::<Text>()?.0.into()),
        Err(_) => given
            .cast::<BlockContent>()
            .map(|content| content.get().0.clone())
            .map_err(|_| not_a("a str or a BlockContent", given)),
    }
}

/// The prompt that a block is asked for, and access to the messages of the namespace.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct BlockQuery(mnemon::BlockQuery);

#[pymethods]
impl BlockQuery {
    #[getter]
    fn namespace(&self) -> &str {
        self.0.namespace.as_str()
    }

    #[getter]
    fn session(&self) -> &str {
        &self.0.session
    }

    /// The messages in the prompt, oldest first; the input is the last one.
    #[getter]
    fn messages(&self) -> Vec<Message> {
        self.0.messages.iter().map(|message| Message((**message).clone())).collect()
    }

    /// Recalls messages of the namespace, as `Engine.recall` does.
    #[pyo3(signature = (query, *, k = None))]
    fn recall(&self, py: Python<'_>, query: QueryLike, k: Option<Count<usize>>) -> PyResult<Vec<Hit>> {
        let query = query.with_k(k);
        let hits = py.detach(|| self.0.recall(&query)).map_err(|error| raised(py, error))?;
        Ok(hits.into_iter().map(Hit).collect())
    }

    /// Returns the messages that left the buffer together with this one, itself included.
    fn batch_of(&self, py: Python<'_>, message: MessageLike) -> PyResult<Vec<Message>> {
        Ok(wrapped(py.detach(|| self.0.batch_of(&message.0)).map_err(|error| raised(py, error))?))
    }
}

/// Messages that left the buffer together. `number` is the batch's number in its session, from 0.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct FlushedBatch {
    #[pyo3(get)]
    number: u32,
    messages: Vec<mnemon::Message>,
}

#[pymethods]
impl FlushedBatch {
    /// The messages, oldest first. They are whole turns.
    #[getter]
    fn messages(&self) -> Vec<Message> {
        wrapped(self.messages.clone())
    }
}

/// Calls an object with `name` and `get`, and with the methods that it has of the others.
pub(crate) struct PythonBlock {
    object: Callee,
    name: String,
    priority: u32,
    scope: BlockScope,
    after_forget: AfterForget,
    changes: ContentChange,
    has_put: bool,
    has_truncate: bool,
}

impl PythonBlock {
    pub(crate) fn new(object: &Bound<'_, PyAny>, kept: &Kept) -> PyResult<Self> {
        attribute(object, "get", "Block")?;
        let after_forget =
            match object.getattr_opt("after_forget")?.map(|found| found.extract::<Text>()).transpose()?.as_deref() {
                None => AfterForget::default(),
                Some("drop") => AfterForget::Drop,
                Some("rebuild") => AfterForget::Rebuild,
                Some(_) => return Err(invalid(object.py(), "after_forget is \"drop\" or \"rebuild\"")),
            };
        let changes = match object.getattr_opt("changes")?.map(|found| found.extract::<Text>()).transpose()?.as_deref()
        {
            None => ContentChange::default(),
            Some("never") => ContentChange::Never,
            Some("seldom") => ContentChange::Seldom,
            Some("each_prompt") => ContentChange::EachPrompt,
            Some(_) => return Err(invalid(object.py(), "changes is \"never\", \"seldom\" or \"each_prompt\"")),
        };
        Ok(PythonBlock {
            name: attribute(object, "name", "Block")?.extract::<Text>()?.0,
            priority: object.getattr_opt("priority")?.map_or(Ok(0), |found| count(&found))?,
            scope: object.getattr_opt("scope")?.map_or(Ok(BlockScope::default()), |found| block_scope(&found))?,
            after_forget,
            changes,
            has_put: object.hasattr("put")?,
            has_truncate: object.hasattr("truncate")?,
            object: kept.callee(object),
        })
    }

    fn call<T>(&self, method: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> mnemon::Result<T> {
        let failed = |py: Python<'_>, reason, error: PyErr| {
            self.log(py, &error);
            Error::Block { name: self.name.clone(), reason }
        };
        call(&self.object, method, failed)
    }

    /// Writes an error with its traceback to the log `mnemon`: no call of the program returns it.
    fn log(&self, py: Python<'_>, error: &PyErr) {
        let logged = || -> PyResult<()> {
            let logger = py.import("logging")?.call_method1("getLogger", ("mnemon",))?;
            let options = PyDict::new(py);
            options.set_item("exc_info", (error.get_type(py), error.value(py), error.traceback(py)))?;
            logger.call_method("warning", ("block %r failed", &self.name), Some(&options))?;
            Ok(())
        };
        if let Err(error) = logged() {
            error.write_unraisable(py, None);
        }
    }
}

impl MemoryBlock for PythonBlock {
    fn name(&self) -> &str {
        &self.name
    }

    fn priority(&self) -> u32 {
        self.priority
    }

    fn scope(&self) -> BlockScope {
        self.scope
    }

    fn takes_batches(&self) -> bool {
        self.has_put
    }

    fn changes(&self) -> ContentChange {
        self.changes
    }

    fn put(&self, state: &Value, batch: &mnemon::FlushedBatch<'_>) -> mnemon::Result<Value> {
        self.call(|object| {
            let state = to_python(object.py(), state)?;
            let batch = FlushedBatch { number: batch.number, messages: batch.messages.to_vec() };
            from_python(&object.call_method1("put", (state, batch))?, bad_document)
        })
    }

    fn get(&self, state: &Value, query: &mnemon::BlockQuery) -> mnemon::Result<mnemon::BlockContent> {
        self.call(|object| {
            let state = to_python(object.py(), state)?;
            content(&object.call_method1("get", (state, BlockQuery(query.clone())))?)
        })
    }

    fn after_forget(&self) -> AfterForget {
        self.after_forget
    }

    fn truncate(&self, content: mnemon::BlockContent, excess: &TokenExcess<'_>) -> mnemon::BlockContent {
        if !self.has_truncate {
            return mnemon::BlockContent::default();
        }
        let truncate = |object: &Bound<'_, PyAny>| {
            self::content(&object.call_method1("truncate", (BlockContent(content), excess.tokens))?)
        };
        self.call(truncate).unwrap_or_default()
    }
}

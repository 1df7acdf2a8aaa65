//! An agent's session.

use std::sync::{Arc, Mutex, Weak};

use mnemon::{ApproximateTokenCounter, BlockingMemory, Error, MemoryBuilder, Tiktoken};
use pyo3::{exceptions::PyValueError, prelude::*};

use crate::{
    engine::{Shared, lock},
    errors::raised,
    message::{Message, MessageLike, unwrapped, wrapped},
    query::{Hits, QueryLike},
    values::to_python,
};

/// An open session, until its engine is closed.
pub(crate) struct MemorySlot(Mutex<Option<Arc<mnemon::Memory>>>);

impl MemorySlot {
    pub(crate) fn take(&self) -> Option<Arc<mnemon::Memory>> {
        lock(&self.0).take()
    }
}

/// A block with fixed text. Blocks with a higher priority are shortened earlier; 0 is never shortened.
#[pyclass(frozen, from_py_object, module = "mnemon")]
#[derive(Clone)]
pub(crate) struct StaticBlock(mnemon::StaticBlock);

#[pymethods]
impl StaticBlock {
    #[new]
    #[pyo3(signature = (name, content, *, priority = 0))]
    fn new(name: String, content: String, priority: u32) -> Self {
        StaticBlock(mnemon::StaticBlock::new(name, content).with_priority(priority))
    }
}

/// A block with the messages of the namespace that are most relevant to the last messages of the prompt.
///
/// `top_k` is the greatest number of them, `threshold` the least similarity, `window` the number of last messages that
/// are the query; `own_session` recalls from this session alone.
#[pyclass(frozen, from_py_object, module = "mnemon")]
#[derive(Clone)]
pub(crate) struct VectorBlock(mnemon::VectorBlock);

#[pymethods]
impl VectorBlock {
    #[new]
    #[pyo3(signature = (name, *, priority = 0, top_k = None, threshold = None, window = None, own_session = false))]
    fn new(
        name: String,
        priority: u32,
        top_k: Option<usize>,
        threshold: Option<f32>,
        window: Option<usize>,
        own_session: bool,
    ) -> Self {
        let mut block = mnemon::VectorBlock::new(name).with_priority(priority);
        if let Some(top_k) = top_k {
            block = block.similarity_top_k(top_k);
        }
        if let Some(threshold) = threshold {
            block = block.similarity_threshold(threshold);
        }
        if let Some(window) = window {
            block = block.retrieval_context_window(window);
        }
        VectorBlock(if own_session { block.own_session() } else { block })
    }
}

/// A block of either kind.
#[derive(FromPyObject)]
pub(crate) enum BlockLike {
    Static(StaticBlock),
    Vector(VectorBlock),
}

pub(crate) fn open_memory(
    py: Python<'_>,
    engine: Arc<Shared>,
    builder: MemoryBuilder,
    blocks: Vec<BlockLike>,
    tokens: &str,
) -> PyResult<Memory> {
    let builder = match tokens {
        "o200k_base" => builder.token_counter(Tiktoken::o200k_base()),
        "cl100k_base" => builder.token_counter(Tiktoken::cl100k_base()),
        "approximate" => builder.token_counter(ApproximateTokenCounter),
        _ => return Err(PyValueError::new_err("tokens is one of \"o200k_base\", \"cl100k_base\", \"approximate\"")),
    };
    let builder = blocks.into_iter().fold(builder, |builder, block| match block {
        BlockLike::Static(StaticBlock(block)) => builder.block(block),
        BlockLike::Vector(VectorBlock(block)) => builder.block(block),
    });
    let memory = py.detach(|| builder.open()).map_err(|error| raised(py, error))?;
    Ok(Memory { slot: Arc::new(MemorySlot(Mutex::new(Some(Arc::new(memory))))), engine })
}

/// An agent's session: a short-term buffer under a token budget, long-term memory behind it, and prompts made from both.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct Memory {
    slot: Arc<MemorySlot>,
    engine: Arc<Shared>,
}

impl Memory {
    pub(crate) fn slot(&self) -> Weak<MemorySlot> {
        Arc::downgrade(&self.slot)
    }

    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(BlockingMemory<'_>) -> mnemon::Result<T> + Send,
    ) -> PyResult<T> {
        self.engine.check_process()?;
        let memory = lock(&self.slot.0).clone().ok_or_else(|| raised(py, Error::Closed))?;
        py.detach(move || call(memory.blocking())).map_err(|error| raised(py, error))
    }
}

#[pymethods]
impl Memory {
    /// Appends messages; they are durable when this returns. Old turns leave the buffer when the budget is full.
    fn put<'py>(&self, py: Python<'py>, messages: Vec<MessageLike>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.call(py, |memory| memory.put(unwrapped(messages)))?)
    }

    /// Makes the session equal to the client's list of messages.
    fn sync<'py>(&self, py: Python<'py>, chat: Vec<MessageLike>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.call(py, |memory| memory.sync(unwrapped(chat)))?)
    }

    /// Returns the prompt of recent messages and blocks, with `input` at its end.
    #[pyo3(signature = (input = None))]
    fn get(&self, py: Python<'_>, input: Option<MessageLike>) -> PyResult<Prompt> {
        Ok(Prompt(self.call(py, |memory| memory.get(input.map(|message| message.0)))?))
    }

    /// Returns the prompt for a message: what is recalled for it, blocks, recent messages, and the message.
    fn assemble(&self, py: Python<'_>, message: MessageLike) -> PyResult<Prompt> {
        Ok(Prompt(self.call(py, |memory| memory.assemble(message.0))?))
    }

    /// Returns the messages in the buffer.
    fn messages(&self, py: Python<'_>) -> PyResult<Vec<Message>> {
        Ok(wrapped(self.call(py, |memory| memory.messages())?))
    }

    /// Returns all messages of the session, in order.
    fn history(&self, py: Python<'_>) -> PyResult<Vec<Message>> {
        Ok(wrapped(self.call(py, |memory| memory.history())?))
    }

    /// Returns the session's messages that answer a query best.
    #[pyo3(signature = (query, *, k = None))]
    fn search(&self, py: Python<'_>, query: QueryLike, k: Option<usize>) -> PyResult<Hits> {
        Hits::new(py, self.call(py, |memory| memory.search(query.with_k(k)))?)
    }

    /// Moves all messages of the buffer to long-term memory. Returns their ids.
    fn flush(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.call(py, |memory| memory.flush())
    }

    /// Waits until the blocks have processed what was flushed.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |memory| memory.settle())
    }

    /// Deletes the session's messages and the states of its blocks.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |memory| memory.reset())
    }

    /// Notes the state of the session under a label. Returns its number.
    fn checkpoint(&self, py: Python<'_>, label: &str) -> PyResult<u32> {
        self.call(py, |memory| memory.checkpoint(label))
    }

    /// Returns the session to a checkpoint.
    fn restore(&self, py: Python<'_>, checkpoint: u32) -> PyResult<()> {
        self.call(py, |memory| memory.restore(checkpoint))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(memory) = self.slot.take()
            && self.engine.check_process().is_ok()
        {
            Python::try_attach(|py| py.detach(move || drop(memory)));
        }
    }
}

/// A prompt: messages for the model, within the token limit.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct Prompt(mnemon::Prompt);

#[pymethods]
impl Prompt {
    #[getter]
    fn messages(&self) -> Vec<Message> {
        wrapped(self.0.messages.clone())
    }

    #[getter]
    fn tokens(&self) -> usize {
        self.0.tokens
    }

    /// Everything about the prompt as a dict: its messages and sections, what was recalled, shortened, dropped, and
    /// which blocks failed.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.0)
    }

    /// The messages in the format of OpenAI's chat API.
    fn to_openai<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &mnemon::to_openai(&self.0.messages))
    }

    fn __repr__(&self) -> String {
        format!("<mnemon.Prompt of {} messages, {} tokens>", self.0.messages.len(), self.0.tokens)
    }
}

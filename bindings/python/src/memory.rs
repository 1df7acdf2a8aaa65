//! An agent's session.

use std::sync::{Arc, Mutex};

use mnemon::{AssembleRequest, Error, InsertMethod, MarkdownRenderer, MemoryBuilder, XmlRenderer};
use pyo3::{
    prelude::*,
    pyclass::{PyTraverseError, PyVisit},
    types::PyDict,
};

use crate::{
    blocks::BlockLike,
    callback::{Callee, Kept, call, is_called_back},
    errors::{ends_program, invalid, of_class},
    message::{Message, MessageLike, plain, unwrapped, wrapped},
    query::{Hits, QueryLike, parsed, seconds},
    shared::{Shared, lock},
    tokens::{CounterError, counter},
    values::{Count, List, Real, Text, bad_document, datetime, from_python, to_python},
};

/// An open session, until its engine is closed.
pub(crate) struct MemorySlot(Mutex<Option<Arc<mnemon::Memory>>>);

impl MemorySlot {
    pub(crate) fn take(&self) -> Option<Arc<mnemon::Memory>> {
        lock(&self.0).take()
    }
}

/// The settings of a session beside its limits.
pub(crate) struct MemoryOptions<'py> {
    pub(crate) blocks: Vec<BlockLike>,
    pub(crate) tokens: Bound<'py, PyAny>,
    pub(crate) insert: String,
    pub(crate) renderer: String,
    pub(crate) block_deadline: f64,
    pub(crate) checkpoint_each_put: bool,
    pub(crate) flush_on_drop: bool,
}

pub(crate) fn open_memory(
    py: Python<'_>,
    engine: Arc<Shared>,
    owner: Py<PyAny>,
    builder: impl FnOnce(&mnemon::Engine) -> MemoryBuilder + Send + 'static,
    options: MemoryOptions<'_>,
) -> PyResult<Memory> {
    let error = CounterError::default();
    let kept = Kept::default();
    let counter = counter(&options.tokens, &error, &kept)?;
    options.blocks.iter().for_each(|block| kept.append(&block.1));
    let deadline = seconds(py, options.block_deadline)?;
    let insert = match &*options.insert {
        "system" => InsertMethod::System,
        "user" => InsertMethod::User,
        "split" => InsertMethod::Split,
        _ => return Err(invalid(py, "insert is \"system\", \"user\" or \"split\"")),
    };
    let renderer: fn(MemoryBuilder) -> MemoryBuilder = match &*options.renderer {
        "xml" => |builder| builder.renderer(XmlRenderer),
        "markdown" => |builder| builder.renderer(MarkdownRenderer),
        _ => return Err(invalid(py, "renderer is \"xml\" or \"markdown\"")),
    };
    let MemoryOptions { blocks, checkpoint_each_put, flush_on_drop, .. } = options;
    let shared = Arc::clone(&engine);
    let opened = engine.run_apart(py, move |engine| {
        let builder = renderer(builder(engine)).token_counter(counter).insert_method(insert).block_deadline(deadline);
        let builder = builder.checkpoint_each_put(checkpoint_each_put).flush_on_drop(flush_on_drop);
        Ok(slot(blocks.into_iter().fold(builder, |builder, block| builder.block(block.0)).open()?, &shared))
    });
    let slot = opened.map_err(|raised| with_cause(py, raised, &error))?;
    Ok(Memory { slot, engine, owner, counter_error: error, kept })
}

/// Returns the place of a session that closes with its engine. Called while the call that opened it is running, which
/// the closing of the engine waits for.
fn slot(memory: mnemon::Memory, engine: &Shared) -> Arc<MemorySlot> {
    let slot = Arc::new(MemorySlot(Mutex::new(Some(Arc::new(memory)))));
    engine.closes(Arc::downgrade(&slot));
    slot
}

/// Returns an exception whose cause is what the token counter raised, if it raised something.
fn with_cause(py: Python<'_>, raised: PyErr, error: &CounterError) -> PyErr {
    if let Some(cause) = lock(error).take() {
        if ends_program(py, &cause) {
            return cause;
        }
        raised.set_cause(py, Some(cause));
    }
    raised
}

/// An agent's session: a short-term buffer under a token budget, long-term memory behind it, and prompts made from
/// both.
#[pyclass(frozen, module = "mnemon")]
pub(crate) struct Memory {
    slot: Arc<MemorySlot>,
    engine: Arc<Shared>,
    /// The object of the engine, which closes it when nothing refers to it.
    owner: Py<PyAny>,
    counter_error: CounterError,
    kept: Kept,
}

impl Memory {
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl AsyncFnOnce(Arc<mnemon::Memory>) -> mnemon::Result<T> + Send,
    ) -> PyResult<T> {
        let result = self.engine.call(py, async move |_: &mnemon::Engine| {
            let memory = lock(&self.slot.0).clone().ok_or(Error::Closed)?;
            call(memory).await
        });
        result.map_err(|raised| with_cause(py, raised, &self.counter_error))
    }
}

#[pymethods]
impl Memory {
    /// Appends messages; they are durable when this returns. Old turns leave the buffer when the budget is full.
    fn put<'py>(&self, py: Python<'py>, messages: List<MessageLike>) -> PyResult<Bound<'py, PyAny>> {
        to_python(
            py,
            &self.call(py, async |memory| memory.put(self.engine.secrets.messages(unwrapped(messages))?).await)?,
        )
    }

    /// Makes the session equal to the client's list of messages.
    fn sync<'py>(&self, py: Python<'py>, chat: List<MessageLike>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.call(py, async |memory| memory.sync(self.engine.secrets.messages(unwrapped(chat))?).await)?)
    }

    /// Returns the prompt of blocks and recent messages. `input`, the message to be answered, is part of the blocks'
    /// query and not in the prompt.
    #[pyo3(signature = (input = None))]
    fn get(&self, py: Python<'_>, input: Option<MessageLike>) -> PyResult<Prompt> {
        Ok(Prompt(self.call(py, async |memory| memory.get(input.map(|message| message.0)).await)?))
    }

    /// Returns the prompt for a message: what is recalled for it, blocks, recent messages, and the message. `recall` is
    /// the greatest number of messages that are recalled. Default: 3, and none if a block recalls already. `min_score` is the
    /// least relevance (see `Hit`) of the best of them, below which nothing is recalled. Default: an answerability of 0.3 decides. `time_zone` is
    /// that of the days that the message names, such as `"Europe/Berlin"` or `"+02:00"`. Default: that of the machine. `after` is the id of the last
    /// message that the model's context no longer holds: recent messages up to it are recalled as those of other sessions are.
    #[pyo3(signature = (message, *, recall = None, min_score = None, time_zone = None, after = None))]
    fn assemble(
        &self,
        py: Python<'_>,
        message: MessageLike,
        recall: Option<Count<usize>>,
        min_score: Option<Real>,
        time_zone: Option<Text>,
        after: Option<Text>,
    ) -> PyResult<Prompt> {
        let request = AssembleRequest::new(message.0);
        let request = recall.into_iter().fold(request, |request, Count(k)| request.recall(k));
        let request = min_score.into_iter().fold(request, |request, least| request.min_score(least.0 as f32));
        let request = parsed(py, time_zone)?.into_iter().fold(request, AssembleRequest::time_zone);
        let request = after.into_iter().fold(request, |request, Text(id)| request.after(id));
        Ok(Prompt(self.call(py, async |memory| memory.assemble(request).await)?))
    }

    /// Adds a completed step of the turn, such as a call of a tool or its result: `assemble` places the steps after its
    /// message. They are not stored: put them with the answer. A message with another id begins a new turn.
    fn add_step(&self, py: Python<'_>, step: MessageLike) -> PyResult<()> {
        self.call(py, async |memory| {
            memory.add_step(self.engine.secrets.message(step.0)?);
            Ok(())
        })
    }

    /// Returns the steps of the turn so far.
    fn steps(&self, py: Python<'_>) -> PyResult<Vec<Message>> {
        Ok(wrapped(self.call(py, async |memory| Ok(memory.steps()))?))
    }

    /// Replaces all messages of the session.
    fn set<'py>(&self, py: Python<'py>, messages: List<MessageLike>) -> PyResult<Bound<'py, PyAny>> {
        to_python(
            py,
            &self.call(py, async |memory| memory.set(self.engine.secrets.messages(unwrapped(messages))?).await)?,
        )
    }

    /// Deletes the messages of the session. Returns how many there were.
    fn clear(&self, py: Python<'_>) -> PyResult<u64> {
        self.call(py, async |memory| memory.clear().await)
    }

    /// Returns the messages in the buffer.
    fn messages(&self, py: Python<'_>) -> PyResult<Vec<Message>> {
        Ok(wrapped(self.call(py, async |memory| memory.messages().await)?))
    }

    /// Returns all messages of the session, in order.
    fn history(&self, py: Python<'_>) -> PyResult<Vec<Message>> {
        Ok(wrapped(self.call(py, async |memory| memory.history().await)?))
    }

    /// Returns the session's messages that answer a query best.
    #[pyo3(signature = (query, *, k = None))]
    fn search(&self, py: Python<'_>, query: QueryLike, k: Option<Count<usize>>) -> PyResult<Hits> {
        Hits::new(py, self.call(py, async |memory| memory.search(query.with_k(k)).await)?)
    }

    /// Moves all messages of the buffer to long-term memory. Returns their ids.
    fn flush(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.call(py, async |memory| memory.flush().await)
    }

    /// Waits until the blocks have processed what was flushed.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        if is_called_back() {
            let reason =
                "settle waits for what the engine calls, such as a block, and was called by it; call it elsewhere";
            return Err(of_class(py, "DeadlockError", reason));
        }
        self.call(py, async |memory| memory.settle().await)
    }

    /// Deletes the session's messages and the states of its blocks.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, async |memory| memory.reset().await)
    }

    /// Notes the state of the session under a label. Returns its number.
    fn checkpoint(&self, py: Python<'_>, label: Text) -> PyResult<u32> {
        self.call(py, async |memory| memory.checkpoint(label.0).await)
    }

    /// Returns the checkpoints of the session as dicts, oldest first.
    fn checkpoints<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let all = self.call(py, async |memory| memory.checkpoints().await)?;
        let dict = |one: mnemon::Checkpoint| {
            let dict = PyDict::new(py);
            dict.set_item("number", one.number)?;
            dict.set_item("label", one.label)?;
            dict.set_item("created_at", datetime(py, one.created_at)?)?;
            dict.set_item("messages", one.messages)?;
            Ok(dict)
        };
        all.into_iter().map(dict).collect()
    }

    /// Returns the messages that the session had at a checkpoint.
    fn messages_at(&self, py: Python<'_>, checkpoint: Count<u32>) -> PyResult<Vec<Message>> {
        Ok(wrapped(self.call(py, async |memory| memory.messages_at(checkpoint.0).await)?))
    }

    /// Makes a new session `to` as this one was at a checkpoint, or is now. Returns it, with the settings of this one.
    #[pyo3(signature = (to, *, checkpoint = None))]
    fn fork(&self, py: Python<'_>, to: Text, checkpoint: Option<Count<u32>>) -> PyResult<Memory> {
        let checkpoint = checkpoint.map(|checkpoint| checkpoint.0);
        let slot = self.call(py, async |memory| Ok(slot(memory.fork(checkpoint, to.0).await?, &self.engine)))?;
        let (engine, counter_error) = (Arc::clone(&self.engine), Arc::clone(&self.counter_error));
        Ok(Memory { slot, engine, owner: self.owner.clone_ref(py), counter_error, kept: self.kept.clone_ref(py) })
    }

    /// Returns how far each block is, as dicts: `behind` batches, those that `failed`, and why it is `retrying`.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.call(py, async |memory| memory.status().await)?)
    }

    /// Lets a block try the batches again that it failed on. Returns how many there are.
    fn retry_failed(&self, py: Python<'_>, block: Text) -> PyResult<u64> {
        self.call(py, async |memory| memory.retry_failed(&block).await)
    }

    /// Returns the state of a block.
    fn block_state<'py>(&self, py: Python<'py>, block: Text) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.call(py, async |memory| memory.block_state(&block).await)?)
    }

    /// Replaces the state of a block by what `change` returns for it; it is called again if a batch came between.
    fn change_block(&self, py: Python<'_>, block: Text, change: Py<PyAny>) -> PyResult<()> {
        let failed = Arc::new(Mutex::new(None));
        let (called, secrets) = (block.to_string(), self.engine.secrets.clone());
        let (name, failure, change) = (called.clone(), Arc::clone(&failed), Callee::strong(change));
        let change = move |state: &serde_json::Value| {
            let changed = |change: &Bound<'_, PyAny>| {
                let state = from_python(&change.call1((to_python(change.py(), state)?,))?, bad_document)?;
                Ok(secrets.value(state))
            };
            call(&change, changed, |_, reason, error| {
                *lock(&failure) = Some((reason.clone(), error));
                Error::Block { name: name.clone(), reason }
            })
        };
        let changed = self.call(py, async |memory| memory.change_block(&block, change).await);
        changed.map_err(|raised: PyErr| match lock(&failed).take() {
            Some((_, cause)) if ends_program(py, &cause) => cause,
            Some((reason, cause)) => {
                let text = format!("block {called:?}: change failed, and the state is as it was: {reason}");
                let raised = of_class(py, "BlockError", text);
                raised.set_cause(py, Some(cause));
                raised
            }
            None => raised,
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.owner)?;
        self.kept.traverse(&visit)
    }

    fn __clear__(&self) {
        self.kept.clear();
    }

    /// Returns the session to a checkpoint.
    fn restore(&self, py: Python<'_>, checkpoint: Count<u32>) -> PyResult<()> {
        self.call(py, async |memory| memory.restore(checkpoint.0).await)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(memory) = self.slot.take()
            && self.engine.is_of_this_process()
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
    /// which blocks failed. Messages are as of `Message.to_dict`.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let fields = to_python(py, &self.0)?;
        let messages = self.0.messages.iter().map(|message| plain(py, message)).collect::<PyResult<Vec<_>>>()?;
        fields.set_item("messages", messages)?;
        for (section, report) in fields.get_item("sections")?.try_iter()?.zip(&self.0.sections) {
            section?.set_item("elapsed", report.elapsed)?;
        }
        Ok(fields)
    }

    /// The messages in OpenAI's chat format.
    fn to_openai<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &mnemon::to_openai(&self.0.messages))
    }

    /// The messages as the fields `messages` and `system` of a request to Anthropic's API.
    fn to_anthropic<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &mnemon::to_anthropic(&self.0.messages))
    }

    /// The messages as the fields `contents` and `systemInstruction` of a request to Gemini's API.
    fn to_gemini<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &mnemon::to_gemini(&self.0.messages))
    }

    fn __repr__(&self) -> String {
        format!("<mnemon.Prompt of {} messages, {} tokens>", self.0.messages.len(), self.0.tokens)
    }
}

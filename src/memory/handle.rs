//! The handle on a session's memory and its methods.

use std::sync::Arc;

use serde_json::Value;

use super::{
    batch_jobs::{self, BlockStatus},
    open_memory::{OpenMemory, Settings},
    prompt::AssembleRequest,
    put::{self, MemoryReport, SessionHold},
};
use crate::{
    block::{InstructionBlock, InstructionVersion, MemoryBlock},
    calls::{Timed, call_span},
    compose::{Prompt, SealKey},
    engine::{Engine, Lane, StoredSession, block_on, blocking_methods},
    error::{Error, Result, impl_debug},
    ids::Namespace,
    message::{Message, MessageUpdate},
    recall::{Hits, Query},
    store::Checkpoint,
};

/// The memory of one session. Made by [`Engine::memory`](crate::Engine::memory).
///
/// Recent messages stay in a short-term buffer. When the buffer exceeds its share of the token budget, whole turns are
/// flushed, the oldest first: to long-term memory, where every session of the namespace recalls them, and to the
/// memory's blocks. A session that is [idle](crate::BufferLimits::idle_time) is flushed as a whole. [`Memory::get`] and
/// [`Memory::assemble`] make prompts from recent messages and the content of blocks. Only the budget takes messages out
/// of the prompts: messages that were flushed for another reason, or that [`Engine::put`](crate::Engine::put) added to
/// the session, are shown as recent messages too.
///
/// Cheap to clone. Memories of one session share its buffer. Settings and blocks belong to each memory: a flush hands
/// the batch to the blocks of the memory that flushed; the blocks of other memories take it when theirs next flushes,
/// settles or is opened. Keep a memory for as long as the session is in use: it holds the buffer and the token counts
/// of its messages. As with [`Engine`](crate::Engine), async methods run on any executor and block none of its workers;
/// [`Memory::blocking`] has the same methods for programs without an executor.
///
#[cfg_attr(feature = "bundled-model", doc = "```")]
#[cfg_attr(not(feature = "bundled-model"), doc = "```ignore")]
/// # fn main() -> mnemon::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// use mnemon::{Engine, Message, Namespace, StaticBlock, VectorBlock};
/// let engine = Engine::open(folder.path().join("memory.redb"))?;
/// let memory = engine
///     .memory(&Namespace::from_context([("app", "chat"), ("user", "42")]), "monday")
///     .block(StaticBlock::new("about", "The user is Ada."))
///     .block(VectorBlock::new("memories").with_priority(1))
///     .open()?;
/// memory.blocking().put(vec![Message::user("I row on Thursdays."), Message::assistant("Noted.")])?;
/// let prompt = memory.blocking().get(None)?;
/// assert!(prompt.messages[0].text().contains("The user is Ada."));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Memory {
    // Dropped before the handle on the engine: its flush is an operation in flight, which closing waits for.
    _hold: Arc<SessionHold>,
    inner: Arc<OpenMemory>,
    engine: Engine,
}

impl_debug!(Memory, self { namespace: self.namespace(), session: self.session() });

impl Memory {
    /// Opens a session's memory on the calling thread.
    pub(super) fn open(engine: Engine, namespace: Namespace, session: String, mut settings: Settings) -> Result<Self> {
        // A file that is open for reading and has no key yet stores no prompts either.
        settings.composer.seal_key = engine.seal_key()?.map_or_else(SealKey::random, SealKey::new);
        let memory = Self::unread(engine, namespace, session, settings);
        block_on(memory.inner.stored.refresh())?;
        open(&memory.inner)?;
        Ok(memory)
    }

    fn unread(engine: Engine, namespace: Namespace, session: String, settings: Settings) -> Self {
        let stored = StoredSession::new(&engine, namespace, session, settings.limits.idle_time);
        let inner = Arc::new(OpenMemory::new(settings, stored));
        Memory { _hold: SessionHold::new(&inner), inner, engine }
    }

    /// Returns the namespace of the session.
    pub fn namespace(&self) -> &Namespace {
        &self.inner.stored.namespace
    }

    /// Returns the id of the session.
    pub fn session(&self) -> &str {
        &self.inner.stored.session
    }

    /// Appends messages to the session, in order and in one commit. They are durable when the call returns. A message
    /// whose id the session has replaces the stored one at its position; of several messages with one id the last
    /// counts. Their `session` is set to this one. The same call imports a long earlier conversation.
    ///
    /// If the buffer is over its budget afterwards, whole turns are flushed, in one more commit. Text that a prompt of
    /// this memory inserted into a message is removed from it; a message that consists only of such text is not stored.
    ///
    /// A chat without ids that begins with the session's last messages is recognized: its known beginning is not stored
    /// again, if it has at least two messages or is the whole session, system messages aside, and a message follows it.
    /// Ids that [`Message::new`] or [`from_openai`](crate::from_openai) made count as none. So a put of one message is
    /// always stored, and so is a repeated turn that is put alone. [`Memory::sync`] is for clients that send their
    /// whole chat each time.
    ///
    /// Cost: one commit, which is one fsync; two with a flush. Puts that wait at the same time, of any session, share their
    /// commits.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`], and nothing is stored: a message cannot be stored, or another session of the
    /// namespace has its id; ids are unique in a namespace. [`Error::Storage`]: the put failed and nothing is stored,
    /// or the flush after it failed and the messages are stored. [`Engine::get`](crate::Engine::get) tells which;
    /// putting stored messages again changes nothing. [`Error::Panicked`]: a token counter or a renderer panicked, with
    /// the same two outcomes.
    pub async fn put(&self, messages: Vec<Message>) -> Result<MemoryReport> {
        self.update(messages.into_iter().map(MessageUpdate::Put).collect()).await
    }

    /// Puts and removes messages in one commit, as [`add_messages`](crate::add_messages) does to a list. A removed
    /// message is deleted, from long-term memory too. [`MessageUpdate::RemoveAll`] deletes the messages in the buffer,
    /// and prompts no longer show the other messages of the session; [`Memory::clear`] deletes all.
    ///
    /// # Errors
    /// Those of [`Memory::put`]. [`Error::InvalidMessage`] also if the session does not have an id that is to be
    /// removed.
    pub async fn update(&self, updates: Vec<MessageUpdate>) -> Result<MemoryReport> {
        put::update(&self.inner, updates).await
    }

    /// Changes the session to match a client's chat, in one commit: for clients that send their whole chat each time,
    /// with ids or without. A second call with the same chat changes nothing, also after a restart.
    ///
    /// - Text that prompts inserted is removed first; a message that consists only of such text is ignored.
    /// - A message is known by its id if the session has it, otherwise by its role, content and tool call ids. As many
    ///   messages as possible are found in the session, in order, as late as possible; these are kept.
    /// - The chat may begin in the middle of the session, as prompts are shortened: earlier messages stay. If the
    ///   session has none of its messages, all of them are appended.
    /// - From its first known message on, the session follows the chat. A message in the place of another one of its
    ///   role replaces it, under the same id, unless it has an id of its own; any other is new and stored at its place.
    ///   Messages of the session that the chat lacks are removed, flushed ones too if they follow an edit or the chat's
    ///   last message. The chat may skip flushed messages between two that are known, and messages that a prompt left
    ///   out ([`Prompt::left_out`]): these stay.
    /// - The chat's leading system messages replace the session's; a chat without them leaves the session's as they
    ///   are.
    ///
    /// Give each chat a session of its own: another chat in the same session would be taken for an edit. Messages after
    /// a new one that is not the last are stored anew, and pass the buffer again if they were flushed.
    ///
    /// The report counts messages that were kept as `unchanged`.
    ///
    /// Cost: a read of the session; one commit if anything changed, two with a flush.
    ///
    /// # Errors
    /// Those of [`Memory::put`].
    ///
    #[cfg_attr(feature = "bundled-model", doc = "```")]
    #[cfg_attr(not(feature = "bundled-model"), doc = "```ignore")]
    /// # fn main() -> mnemon::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let engine = mnemon::Engine::open(folder.path().join("memory.redb"))?;
    /// use mnemon::{Message, from_openai, to_openai};
    /// let memory = engine.memory(&"chat".parse()?, "monday").open()?;
    /// let prompt = memory.blocking().assemble(Message::user("When do I row?"))?;
    /// // The client adds the answer to what it was sent, and sends all of it back.
    /// let mut chat = to_openai(&prompt.messages);
    /// chat.push(serde_json::json!({"role": "assistant", "content": "On Thursdays."}));
    /// assert_eq!(memory.blocking().sync(from_openai(&chat)?)?.new, 2);
    /// assert_eq!(memory.blocking().sync(from_openai(&chat)?)?.unchanged, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn sync(&self, chat: Vec<Message>) -> Result<MemoryReport> {
        put::sync(&self.inner, chat).await
    }

    /// Flushes the whole buffer except the leading system messages, as one batch. Call it when a conversation is over,
    /// so that other sessions recall it and blocks take it at once: a session that is
    /// [idle](crate::BufferLimits::idle_time) is flushed without it. The prompts of this session do not change: they
    /// show the flushed turns until the budget pushes them out. Returns the ids of the flushed messages, oldest first.
    ///
    /// # Errors
    /// [`Error::Storage`], [`Error::Corrupted`].
    pub async fn flush(&self) -> Result<Vec<String>> {
        self.run(Lane::Store, put::flush).await
    }

    /// Replaces the whole session by these messages, flushed ones too, in one commit, as LlamaIndex's `Memory.set`
    /// does. Messages with which the session begins in the same order, by id, stay where they are; of the others, the
    /// old ones are deleted, and the new ones are put into the buffer. The turn in progress ends. Checkpoints, batches
    /// and the states of blocks stay: see [`Memory::reset`].
    ///
    /// # Errors
    /// Those of [`Memory::put`].
    pub async fn set(&self, messages: Vec<Message>) -> Result<MemoryReport> {
        put::set(&self.inner, messages).await
    }

    /// Deletes all messages of the session, flushed ones too, and their vectors, in one commit, as Steamship's
    /// `ChatHistory.clear` and LangGraph's removal of all messages do. The turn in progress ends. Checkpoints stay, so
    /// the messages can be [restored](Memory::restore), and so do the states of blocks. Returns the number of messages
    /// deleted.
    ///
    /// # Errors
    /// [`Error::Storage`], [`Error::Corrupted`].
    pub async fn clear(&self) -> Result<u64> {
        put::clear(&self.inner).await
    }

    /// Deletes the session and its history, in one commit: its messages, its batches, its checkpoints and the states of
    /// its own blocks, as LangGraph's deletion of a thread does. LlamaIndex's `Memory.reset` leaves what its blocks
    /// made of the messages. States that blocks share with other sessions stay. Same as
    /// [`Engine::delete_session`](crate::Engine::delete_session), but not an error if the session does not exist.
    ///
    /// # Errors
    /// [`Error::Storage`], [`Error::Corrupted`].
    pub async fn reset(&self) -> Result<()> {
        put::reset(&self.inner).await
    }

    /// Recalls messages of this session, as Steamship's `ChatHistory.search` does:
    /// [`Engine::recall`](crate::Engine::recall) with [`Query::session`]. Messages that are not embedded yet, those in
    /// the buffer among them, are found by their words.
    ///
    /// # Errors
    /// Those of [`Engine::recall`](crate::Engine::recall).
    pub async fn search(&self, query: Query) -> Result<Hits> {
        self.inner.stored.recall(query).await
    }

    /// Returns the messages in the buffer, oldest first. Prompts may show others before them: see
    /// [`MemoryBuilder::open`](crate::MemoryBuilder::open).
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn messages(&self) -> Result<Vec<Message>> {
        let messages =
            |memory: &OpenMemory| Ok(memory.buffer()?.into_iter().map(|(_, message)| (*message).clone()).collect());
        self.run(Lane::Store, messages).await
    }

    /// Returns all messages of the session, flushed ones too, oldest first.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn history(&self) -> Result<Vec<Message>> {
        self.run(Lane::Store, |memory| memory.stored.history()).await
    }

    /// Makes a prompt of the recent messages with memory in them, as LlamaIndex's `Memory.get` does. Blocks get the
    /// recent messages and `input` as their query; `input` is not in the result. Messages that a provider would refuse
    /// before it are left out: see [`Prompt::left_out`]. Calls of the last turn may still wait for their results.
    ///
    /// A block that fails or misses the deadline is left out and named in [`Prompt::failed`].
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`], [`Error::Panicked`]. A prompt that is too long is not an error: see
    /// [`Prompt::over`].
    pub async fn get(&self, input: Option<Message>) -> Result<Prompt> {
        self.run(Lane::Prompts, |memory| memory.get(input)).await
    }

    /// Makes a whole agent prompt: system messages with memory and the messages recalled for the prompt, recent
    /// messages as selected, the prompt, and the steps completed since. No id occurs twice. Nothing is stored: put the
    /// prompt when it is answered, or before.
    ///
    /// A second call with the same prompt id includes the steps added meanwhile, and those that were put into the
    /// session since; a call with another prompt begins without steps. If the prompt is the result of a tool's call,
    /// the turn that it belongs to stays before it, over the budget too. Every provider accepts the messages: those
    /// that one would refuse are in [`Prompt::left_out`].
    ///
    /// # Errors
    /// [`Error::InvalidMessage`]: the prompt could not be stored, is empty, or is the result of a call that is not
    /// before it, or of which other results are missing. [`Error::InvalidConfig`]: a block has the name of the section
    /// of recalled messages. Those of [`Memory::get`].
    pub async fn assemble(&self, request: impl Into<AssembleRequest>) -> Result<Prompt> {
        let request = request.into();
        let assemble = move |inner: &OpenMemory| {
            let span = Timed::enter(call_span!(INFO "assemble", messages));
            inner.assemble(request).inspect(|prompt| span.record("messages", prompt.messages.len()))
        };
        self.run(Lane::Prompts, assemble).await
    }

    /// Adds a completed step of the turn, such as a tool call or its result. [`Memory::assemble`] places the steps
    /// after the prompt. Steps are never stored. Steps added before the first prompt belong to the first prompt.
    pub fn add_step(&self, step: Message) {
        self.inner.live.turn.lock().steps.push(step);
    }

    /// Returns the steps of the turn so far.
    pub fn steps(&self) -> Vec<Message> {
        self.inner.live.turn.lock().steps.clone()
    }

    /// Waits until all pending messages of the engine are embedded, and every block of this memory has taken its
    /// batches or failed. Blocks that wait for another attempt are tried now.
    ///
    /// # Errors
    /// [`Error::Block`]: the first block that failed; it is tried again later. Those of
    /// [`Engine::flush`](crate::Engine::flush).
    pub async fn settle(&self) -> Result<()> {
        batch_jobs::take_batches(&self.inner, true);
        self.engine.flush().await?;
        self.run(Lane::Long, batch_jobs::wait).await
    }

    /// Returns the progress of the blocks that take batches.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn status(&self) -> Result<Vec<BlockStatus>> {
        self.run(Lane::Store, batch_jobs::status).await
    }

    /// Hands a block those batches again that it gave up. Returns the number of batches that it took this time.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: the memory has no such block. Those of the block.
    pub async fn retry_failed(&self, block: &str) -> Result<u64> {
        batch_jobs::retry_failed(&self.inner, block).await
    }

    /// Returns the state that a block made from its batches; `Value::Null` before the first batch.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: the memory has no such block. [`Error::Corrupted`], [`Error::Storage`].
    pub async fn block_state(&self, block: &str) -> Result<Value> {
        let key = self.inner.key(&**self.inner.block(block)?);
        self.run(Lane::Store, move |memory| batch_jobs::value(&memory.stored.block_state(&key)?)).await
    }

    /// Changes the state of a block. `change` is called again with the newer state if a batch changed it meanwhile.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: the memory has no such block. Those of `change`.
    pub async fn change_block(
        &self,
        block: &str,
        mut change: impl FnMut(&Value) -> Result<Value> + Send + 'static,
    ) -> Result<()> {
        let (key, engine) = (self.inner.key(&**self.inner.block(block)?), self.inner.stored.weak_engine());
        let change =
            move || batch_jobs::change_state(&engine, &key, |state| Ok((change(state)?, Vec::new()))).map(drop);
        // On a lane that closing does not wait for: the program's code may take long.
        self.inner.stored.executor().run(Lane::BlockCalls, change).await
    }

    /// Has the model of a block of instructions write them anew, from feedback on the last messages of the session, up to
    /// `last`. Returns the new version and its number. If one of the messages is deleted or replaced while the model is
    /// asked, it is asked again with what is left.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: the memory has no such block. Those of [`InstructionBlock::refine`].
    pub async fn refine(
        &self,
        block: &InstructionBlock,
        feedback: impl Into<String>,
        last: usize,
    ) -> Result<(usize, InstructionVersion)> {
        let (key, engine) = (self.inner.key(&**self.inner.block(block.name())?), self.inner.stored.weak_engine());
        let (block, feedback) = (block.clone(), feedback.into());
        let refine = move || {
            let state = batch_jobs::refine(&engine, &key, &block, &feedback, last)?;
            Ok(block.versions(&state)?.pop().expect("a state has versions"))
        };
        self.inner.stored.executor().run(Lane::BlockCalls, refine).await
    }

    /// Makes a checkpoint of the session: messages, buffer, batches, and the states of its own blocks. Returns the
    /// number of the checkpoint. Cost: one small record. Messages that are replaced or deleted later are kept for it.
    /// The oldest checkpoints are deleted with it as [`MemoryBuilder::keep_checkpoints`](super::MemoryBuilder::keep_checkpoints) says.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`]: the session has no message yet.
    pub async fn checkpoint(&self, label: impl Into<String>) -> Result<u32> {
        self.inner.stored.checkpoint(label.into(), self.inner.settings.kept_checkpoints).await
    }

    /// Returns the session's checkpoints, oldest first.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        let list = |memory: &OpenMemory| {
            memory.stored.read(|snapshot, namespace, session| snapshot.checkpoints().list(namespace, session))
        };
        self.run(Lane::Store, list).await
    }

    /// Returns the messages of the session as they were at a checkpoint, flushed ones too, oldest first.
    ///
    /// # Errors
    /// [`Error::CheckpointNotFound`], [`Error::SessionNotFound`].
    pub async fn messages_at(&self, checkpoint: u32) -> Result<Vec<Message>> {
        let read = move |memory: &OpenMemory| {
            let found = memory.stored.read(|snapshot, namespace, session| {
                snapshot.checkpoints().messages_at(namespace, session, checkpoint).map(Some)
            })?;
            found.ok_or_else(|| Error::no_session(&memory.stored.namespace, &memory.stored.session))
        };
        self.run(Lane::Store, read).await
    }

    /// Restores the session to a checkpoint, in one commit. Messages, batches and checkpoints made since are deleted:
    /// [fork](Memory::fork) first to keep them. States that blocks share with other sessions stay as they are.
    ///
    /// # Errors
    /// [`Error::CheckpointNotFound`], [`Error::SessionNotFound`]. [`Error::InvalidMessage`]: a message to be restored
    /// was deleted since, and another session has its id now.
    pub async fn restore(&self, checkpoint: u32) -> Result<()> {
        self.run(Lane::Store, move |memory| put::restore(memory, checkpoint)).await
    }

    /// Copies the session to a new one, as it was at a checkpoint or, with `None`, as it is now. Opens the new
    /// session's memory with the same settings. See [`Engine::copy_session`](crate::Engine::copy_session).
    ///
    /// # Errors
    /// [`Error::CheckpointNotFound`], [`Error::SessionNotFound`]; [`Error::SessionExists`]: `to`. After an error of the
    /// store the new session may exist: the copy is stored before its memory is opened.
    pub async fn fork(&self, checkpoint: Option<u32>, to: impl Into<String>) -> Result<Memory> {
        let to = to.into();
        self.inner.stored.copy(checkpoint, &to).await?;
        let (namespace, settings) = (self.namespace().clone(), self.inner.settings.clone());
        let memory = Self::unread(self.engine.clone(), namespace, to, settings);
        memory.run(Lane::Store, open).await?;
        Ok(memory)
    }

    async fn run<T: Send + 'static>(
        &self,
        lane: Lane,
        work: impl FnOnce(&OpenMemory) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.inner.run(lane, work).await
    }
}

/// Reads the recent messages, schedules the idle flush, and hands blocks the batches that they have not taken yet.
fn open(memory: &OpenMemory) -> Result<()> {
    memory.recent()?;
    memory.stored.flush_when_idle()?;
    batch_jobs::take_batches(memory, false);
    Ok(())
}

impl Memory {
    /// Returns the same methods for threads without an executor. Do not call them from an async task: they block it.
    pub fn blocking(&self) -> BlockingMemory<'_> {
        BlockingMemory(self)
    }
}

/// The methods of [`Memory`], waiting on the calling thread. Made by [`Memory::blocking`].
pub struct BlockingMemory<'a>(&'a Memory);

impl_debug!(BlockingMemory<'_>, self { namespace: self.0.namespace(), session: self.0.session() });

impl BlockingMemory<'_> {
    blocking_methods! {
        Memory:
        fn put(messages: Vec<Message>) -> Result<MemoryReport>;
        fn sync(chat: Vec<Message>) -> Result<MemoryReport>;
        fn update(updates: Vec<MessageUpdate>) -> Result<MemoryReport>;
        fn flush() -> Result<Vec<String>>;
        fn set(messages: Vec<Message>) -> Result<MemoryReport>;
        fn clear() -> Result<u64>;
        fn reset() -> Result<()>;
        fn search(query: Query) -> Result<Hits>;
        fn messages() -> Result<Vec<Message>>;
        fn history() -> Result<Vec<Message>>;
        fn get(input: Option<Message>) -> Result<Prompt>;
        fn assemble(request: impl Into<AssembleRequest>) -> Result<Prompt>;
        fn settle() -> Result<()>;
        fn status() -> Result<Vec<BlockStatus>>;
        fn retry_failed(block: &str) -> Result<u64>;
        fn block_state(block: &str) -> Result<Value>;
        fn refine(block: &InstructionBlock, feedback: impl Into<String>, last: usize) -> Result<(usize, InstructionVersion)>;
        fn checkpoint(label: impl Into<String>) -> Result<u32>;
        fn checkpoints() -> Result<Vec<Checkpoint>>;
        fn messages_at(checkpoint: u32) -> Result<Vec<Message>>;
        fn restore(checkpoint: u32) -> Result<()>;
        fn fork(checkpoint: Option<u32>, to: impl Into<String>) -> Result<Memory>;
    }

    /// Same as [`Memory::change_block`], on the calling thread, so that `change` may borrow.
    ///
    /// # Errors
    /// Those of [`Memory::change_block`].
    pub fn change_block(&self, block: &str, mut change: impl FnMut(&Value) -> Result<Value>) -> Result<()> {
        let memory = &self.0.inner;
        let (engine, key) = (memory.stored.weak_engine(), memory.key(&**memory.block(block)?));
        batch_jobs::change_state(&engine, &key, |state| Ok((change(state)?, Vec::new()))).map(drop)
    }
}

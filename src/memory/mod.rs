//! The memory of one session: recent messages under a token budget, flushed to long-term memory, and prompts made of both.
//!
//! Joins buffer, blocks and compose on the engine. Its files: `builder` opens one, `buffer` counts what is in it, `put` changes it
//! and flushes, `echo` knows what comes back, `poll` asks blocks, `prompt` makes prompts, `work` has blocks take batches,
//! `state` is what they made of them, `sessions` is about whole sessions.
//! Invariants: what a put acknowledged is in the file; a flush is one commit; what is left in the buffer begins with a user
//! message, after the system prompt; a block takes each batch once.

mod blocking;
mod buffer;
mod builder;
mod echo;
mod history;
mod poll;
mod prompt;
mod put;
mod sessions;
mod state;
mod work;

use std::sync::{Arc, atomic::AtomicUsize};

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

use self::buffer::Counted;
pub use self::{blocking::BlockingMemory, builder::MemoryBuilder, history::EngineHistory, prompt::Assembly};
use crate::{
    block::MemoryBlock,
    compose::Prompt,
    engine::{Core, Session},
    error::{Error, Result, impl_debug},
    ids::Namespace,
    message::{Message, MessageUpdate},
    store::Checkpoint,
};

/// A session's memory. Made by [`Engine::memory`](crate::Engine::memory).
///
/// Recent messages stay in a short-term buffer. When they are over their share of the token budget, whole turns are flushed
/// from the old end: to long-term memory, where every session of the namespace recalls them, and to the memory's blocks.
/// [`Memory::get`] and [`Memory::assemble`] make prompts of recent messages and of what blocks say.
///
/// Cheap to clone. Memories of one session share its buffer; the settings are each one's own, and so are the blocks: a flush has
/// those of the memory that flushed take the batch, others when theirs next flushes, settles or is opened. Keep one for as long as the
/// session is in use: it holds the buffer in memory and its tokens counted. As with [`Engine`](crate::Engine), async methods run on any
/// executor and block none of its workers; [`Memory::blocking`] has the same methods for programs without one.
///
/// ```
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
    inner: Arc<Inner>,
}

impl_debug!(Memory, self { namespace: self.namespace(), session: self.session() });

struct Inner {
    settings: MemoryBuilder,
    live: Arc<Session>,
    blocks: Vec<Asked>,
    /// How many questions the memories like a prompt are late with.
    recalled_late: Arc<AtomicUsize>,
    /// By sequence number: a message and its tokens.
    tokens: Mutex<Counted>,
}

/// A block, and how many questions it is late with.
#[derive(Clone)]
struct Asked {
    block: Arc<dyn MemoryBlock>,
    late: Arc<AtomicUsize>,
}

/// What a put to a memory did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MemoryReport {
    /// Messages with an id that was not there.
    pub new: u64,
    /// Messages whose id the session had, or the same put, with something else in it.
    pub replaced: u64,
    /// Messages that were there just so.
    pub unchanged: u64,
    /// Messages that were removed.
    pub removed: u64,
    /// Messages left out or shortened, as they or a part of them are what a prompt of this memory was given: their ids, as
    /// they were put.
    pub echoes: Vec<String>,
    /// Messages that left the buffer for long-term memory: ids, a list each batch, oldest first.
    pub flushed: Vec<Vec<String>>,
}

/// How a block is doing in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BlockStatus {
    /// The block.
    pub name: String,
    /// Batches that it has not taken yet.
    pub behind: u64,
    /// Batches that it was unable to take, and why: see [`Memory::retry_failed`].
    pub failed: Vec<(u32, String)>,
    /// Why its last try failed, while it waits for the next.
    pub retrying: Option<String>,
}

impl Memory {
    /// The same methods for threads without an executor. Do not call them from an async task: they block it.
    pub fn blocking(&self) -> BlockingMemory<'_> {
        BlockingMemory(&self.inner)
    }

    /// Whose memory this is.
    pub fn namespace(&self) -> &Namespace {
        &self.inner.settings.namespace
    }

    /// Which session's.
    pub fn session(&self) -> &str {
        &self.inner.settings.session
    }

    /// Puts messages at the end of the session, in order: durable when it returns, in one commit. A known id is replaced in
    /// its place; of one that is given twice the last counts. Their `session` is set to this one. A long earlier
    /// conversation is fed by the same call.
    ///
    /// If the buffer is over its budget then, whole turns are flushed, in one more commit. What a prompt of this memory put
    /// into a message is taken out of it, and what is nothing else is left out.
    ///
    /// Cost: one fsync, two with a flush; puts that wait at the same time, of any session, share theirs.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`], and nothing is stored: a message that cannot be stored, or an id that another session of
    /// the namespace has: ids are unique there. [`Error::Storage`]: of the put, and nothing is stored; or of the flush after it,
    /// and the messages are, as [`Engine::get`](crate::Engine::get) tells: put them again, and they are unchanged.
    pub async fn put(&self, messages: Vec<Message>) -> Result<MemoryReport> {
        self.update(messages.into_iter().map(MessageUpdate::Put).collect()).await
    }

    /// Puts and removes messages in one commit, as [`add_messages`](crate::add_messages) does to a list. A message removed
    /// is deleted, from long-term memory too. [`MessageUpdate::RemoveAll`] deletes what is in the buffer.
    ///
    /// # Errors
    /// As [`Memory::put`]; [`Error::InvalidMessage`] for a removal of an id that the session does not have.
    pub async fn update(&self, updates: Vec<MessageUpdate>) -> Result<MemoryReport> {
        self.change(updates).await
    }

    /// Flushes the whole buffer but for the leading system messages, as one batch: when a conversation is over, so that other
    /// sessions recall it and blocks take it. Until then the last turns are in this session's prompts alone. Returns the ids
    /// that were flushed, oldest first.
    ///
    /// # Errors
    /// [`Error::Storage`], [`Error::Corrupted`].
    pub async fn flush(&self) -> Result<Vec<String>> {
        self.off_thread(Inner::flush).await
    }

    /// The messages in the buffer, oldest first.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn messages(&self) -> Result<Vec<Message>> {
        self.off_thread(Inner::messages).await
    }

    /// All messages of the session, those flushed too, oldest first.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn history(&self) -> Result<Vec<Message>> {
        self.off_thread(Inner::history).await
    }

    /// The recent messages with memory in them, as LlamaIndex's `Memory.get` gives them. Blocks are asked with the recent
    /// messages and `input`, which is not in the result. A tool result without its call before it is left out.
    ///
    /// A block that fails, or is not done by the deadline, is left out and named in [`Prompt::failed`].
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`]. A prompt that is too long is none: see [`Prompt::over`].
    pub async fn get(&self, input: Option<Message>) -> Result<Prompt> {
        self.off_thread(|inner| inner.get(input)).await
    }

    /// A whole agent prompt: system messages with memory and what the prompt recalls, recent messages as selected, the
    /// prompt, and the steps completed since. No id is there twice. Nothing is stored: put the prompt when it is answered,
    /// or before.
    ///
    /// Asked again with the same prompt id, it holds the steps added meanwhile; another prompt begins without steps.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`]: a prompt that could not be stored; [`Error::InvalidConfig`]: a block is named as the recalled
    /// memories are; those of [`Memory::get`].
    pub async fn assemble(&self, assembly: impl Into<Assembly>) -> Result<Prompt> {
        let assembly = assembly.into();
        self.off_thread(|inner| inner.assemble(assembly)).await
    }

    /// Adds a completed step of the turn, such as a tool call or its result, to what [`Memory::assemble`] puts after the
    /// prompt. Steps are never stored. Those added before the first prompt count as the first prompt's.
    pub fn add_step(&self, step: Message) {
        self.inner.live.turn.lock().steps.push(step);
    }

    /// The steps of the turn so far.
    pub fn steps(&self) -> Vec<Message> {
        self.inner.live.turn.lock().steps.clone()
    }

    /// Waits until all that was flushed, in the whole engine, is embedded, and every block of this memory has taken its batches
    /// or failed. Has blocks that wait to try again do so now.
    ///
    /// # Errors
    /// [`Error::Block`]: the first that failed; it goes on trying. [`Error::Embedding`].
    pub async fn settle(&self) -> Result<()> {
        self.off_thread(|inner| inner.settle()).await
    }

    /// How the blocks that take batches are doing.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn status(&self) -> Result<Vec<BlockStatus>> {
        self.off_thread(Inner::status).await
    }

    /// Gives a block the batches again that it was unable to take. Returns how many it has taken now.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: no such block. Those of the block.
    pub async fn retry_failed(&self, block: &str) -> Result<u64> {
        let block = block.to_owned();
        self.off_thread(move |inner| inner.retry_failed(&block)).await
    }

    /// What a block has made of its batches: `Value::Null` before the first.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: no such block. [`Error::Corrupted`], [`Error::Storage`].
    pub async fn block_state(&self, block: &str) -> Result<Value> {
        let block = block.to_owned();
        self.off_thread(move |inner| inner.block_state(&block)).await
    }

    /// Changes what a block has made. If that changed meanwhile, by a batch, `change` is called again with the newer state.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: no such block. Those of `change`.
    pub async fn change_block(
        &self,
        block: &str,
        change: impl FnMut(&Value) -> Result<Value> + Send + 'static,
    ) -> Result<()> {
        let block = block.to_owned();
        self.off_thread(move |inner| inner.change_block(&block, change)).await
    }

    /// Notes the session as it is now: messages, buffer, batches, and what its blocks have made. Returns the number of the
    /// checkpoint. Cost: one small record; what is replaced or deleted later is kept for it.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`]: it has no message yet.
    pub async fn checkpoint(&self, label: impl Into<String>) -> Result<u32> {
        let label = label.into();
        self.off_thread(move |inner| inner.checkpoint(&label)).await
    }

    /// The session's checkpoints, oldest first.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        self.off_thread(Inner::checkpoints).await
    }

    /// The messages of the session as they were at a checkpoint, oldest first, those flushed too.
    ///
    /// # Errors
    /// [`Error::CheckpointNotFound`], [`Error::SessionNotFound`].
    pub async fn messages_at(&self, checkpoint: u32) -> Result<Vec<Message>> {
        self.off_thread(move |inner| inner.messages_at(checkpoint)).await
    }

    /// Makes the session what it was at a checkpoint, in one commit. Messages, batches and checkpoints since are deleted:
    /// [fork](Memory::fork) first to keep them. What blocks share with other sessions stays.
    ///
    /// # Errors
    /// [`Error::CheckpointNotFound`], [`Error::SessionNotFound`]. [`Error::InvalidMessage`]: a message to be restored was deleted
    /// since, and its id given to another session's.
    pub async fn restore(&self, checkpoint: u32) -> Result<()> {
        self.off_thread(move |inner| inner.restore(checkpoint)).await
    }

    /// Copies the session as it was at a checkpoint, or `None`: as it is now, to a new session, and opens its memory with the
    /// same settings. See [`Engine::copy_session`](crate::Engine::copy_session).
    ///
    /// # Errors
    /// [`Error::CheckpointNotFound`], [`Error::SessionNotFound`]; [`Error::SessionExists`]: the new session.
    pub async fn fork(&self, checkpoint: Option<u32>, to: impl Into<String>) -> Result<Memory> {
        let to = to.into();
        self.off_thread(move |inner| inner.fork(checkpoint, &to)).await
    }

    async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, answer) = tokio::sync::oneshot::channel();
        let inner = Arc::clone(&self.inner);
        std::thread::spawn(move || {
            let result = work(&inner);
            // Before the answer: who gets it may close the engine and open it again.
            drop(inner);
            let _ = reply.send(result);
        });
        answer.await.map_err(|_| Error::Closed)?
    }
}

impl Inner {
    fn core(&self) -> &Arc<Core> {
        self.settings.engine.core()
    }

    fn messages(&self) -> Result<Vec<Message>> {
        Ok(self.buffer()?.into_iter().map(|(_, message, _)| (*message).clone()).collect())
    }
}

//! Memory blocks: named parts of a prompt beside its recent messages.
//!
//! This module owns the trait of blocks ([`MemoryBlock`]), what a block is given and returns, the blocks of this crate,
//! and their prompts for language models. It does not store, schedule or render: the memory does.
//!
//! A block is a function of its state. The state is JSON, which the memory stores together with the number of the last
//! batch that the block has processed. Only the state is safe against a crash: a change that a block makes elsewhere may
//! happen twice.

mod instruction_block;
mod model_blocks;
mod query;
mod vector_block;

use std::sync::Arc;

use serde_json::Value;

use crate::{
    error::{Error, Result, impl_debug},
    ids::Namespace,
    message::{ContentPart, Message},
};
pub use instruction_block::{InstructionBlock, InstructionVersion};
pub use model_blocks::{FactBlock, SummaryBlock};
pub(crate) use model_blocks::{json_in, most_facts, unusable};
pub use query::{BlockQuery, Retriever};
pub use vector_block::{HitProcessor, RetrievalUnit, VectorBlock};

/// A named part of memory that is updated from flushed messages and contributes content to prompts.
///
/// The memory calls [`put`](MemoryBlock::put) with each flushed batch of a session, in order, on a background thread. The
/// call may wait for a language model; nothing waits for the call. The new state and the number of the batch are stored
/// in one commit, so each batch counts once even if the process dies. The state is not stored, and `put` is called again
/// with what is left, if a message of the batch was deleted, replaced or forgotten during the call, or has expired. After
/// an error the batch is tried again later.
/// Effects outside of the state happen twice if the process dies before the commit: use [`FlushedBatch::number`] to
/// detect that.
pub trait MemoryBlock: Send + Sync {
    /// Returns the name, which is the block's element in the prompt and its key in the store. It consists of a letter or
    /// `_`, followed by up to 127 letters, digits, `_`, `-` or `.`, and must be unique in a memory.
    fn name(&self) -> &str;

    /// Returns the priority, which counts if a prompt is too long: blocks with the highest number are truncated first, and
    /// blocks with 0 never. Default: 0.
    fn priority(&self) -> u32 {
        0
    }

    /// Returns which sessions share the state. Default: [`BlockScope::Session`].
    fn scope(&self) -> BlockScope {
        BlockScope::Session
    }

    /// Returns true if the memory should call `put` with flushed batches. Default: true.
    fn takes_batches(&self) -> bool {
        true
    }

    /// Returns true if the content is recalled messages: then [`Memory::assemble`](crate::Memory::assemble) recalls none
    /// besides, unless it is asked to. Default: false.
    fn recalls(&self) -> bool {
        false
    }

    /// Returns how often the content changes. Prompts have what changes least first, so that a provider's prompt cache keeps
    /// as much as it can. Default: [`ContentChange::EachPrompt`] if the block [recalls](Self::recalls), otherwise
    /// [`ContentChange::Seldom`].
    fn changes(&self) -> ContentChange {
        if self.recalls() { ContentChange::EachPrompt } else { ContentChange::Seldom }
    }

    /// Returns the state before the first batch, which is stored before that is handed over. Default: `Value::Null`.
    #[doc(hidden)]
    fn first_state(&self) -> Value {
        Value::Null
    }

    /// Computes the state after a batch. The first state is `Value::Null`. Default: the state does not change.
    ///
    /// # Errors
    /// Any. The batch is kept and tried again later, unless the error is lasting: see [`Error::Chat`].
    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        let _ = batch;
        Ok(state.clone())
    }

    /// Returns the content for a prompt. If it is empty, the block does not appear in the prompt.
    ///
    /// # Errors
    /// Any. The prompt is composed without the block and reports the error.
    fn get(&self, state: &Value, query: &BlockQuery) -> Result<BlockContent>;

    /// Returns how the block continues after messages that its state was made of were forgotten. The state is dropped in
    /// the same commit as the messages. Default: [`AfterForget::Drop`].
    fn after_forget(&self) -> AfterForget {
        AfterForget::Drop
    }

    /// Shortens `content` so that the prompt fits its limit. If it still does not fit, the content is left out. Default:
    /// returns no content.
    fn truncate(&self, content: BlockContent, excess: &TokenExcess<'_>) -> BlockContent {
        let _ = (content, excess);
        BlockContent::default()
    }
}

impl<B: MemoryBlock + ?Sized> MemoryBlock for Arc<B> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn priority(&self) -> u32 {
        (**self).priority()
    }

    fn scope(&self) -> BlockScope {
        (**self).scope()
    }

    fn takes_batches(&self) -> bool {
        (**self).takes_batches()
    }

    fn recalls(&self) -> bool {
        (**self).recalls()
    }

    fn changes(&self) -> ContentChange {
        (**self).changes()
    }

    fn first_state(&self) -> Value {
        (**self).first_state()
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        (**self).put(state, batch)
    }

    fn get(&self, state: &Value, query: &BlockQuery) -> Result<BlockContent> {
        (**self).get(state, query)
    }

    fn after_forget(&self) -> AfterForget {
        (**self).after_forget()
    }

    fn truncate(&self, content: BlockContent, excess: &TokenExcess<'_>) -> BlockContent {
        (**self).truncate(content, excess)
    }
}

/// How often the content of a block changes, the least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContentChange {
    /// The content is always the same.
    Never,
    /// The content changes with what is remembered: a profile, facts, a summary.
    #[default]
    Seldom,
    /// The content depends on the prompt: what is recalled for it.
    EachPrompt,
}

/// The sessions that share a block's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockScope {
    /// Each session has its own state, which is deleted, copied and restored with the session.
    #[default]
    Session,
    /// All sessions of the namespace share one state. It is kept when a session is deleted.
    Namespace,
}

/// How a block continues after its state was dropped because messages that it was made of were
/// [forgotten](crate::Engine::forget).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterForget {
    /// The block begins with an empty state and gets only the batches that it has not processed yet.
    #[default]
    Drop,
    /// The block begins with an empty state and gets all batches of the session again, without the forgotten messages.
    /// This costs as much as the first time. A state that several sessions share is rebuilt from the batches of each
    /// session whose memory is opened.
    Rebuild,
}

/// The messages of one flush from the short-term buffer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FlushedBatch<'a> {
    /// The number of the batch in its session, from 0. A new block in an existing session gets all batches, from 0 on.
    pub number: u32,
    /// The messages, oldest first. They are whole turns.
    pub messages: &'a [Message],
    /// Where the batch is from; `None` if its messages are not stored.
    pub(crate) origin: Option<&'a BatchOrigin>,
}

/// The session of a batch and the block that it is handed to. What the block makes of the batch is stored only if both are
/// then as they were.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BatchOrigin {
    pub(crate) namespace: Namespace,
    pub(crate) session: String,
    pub(crate) block: String,
    /// Whether all sessions of the namespace share the block's state.
    pub(crate) shared: bool,
    /// The number of changes of the state.
    pub(crate) revision: u64,
    /// The number of times that the session was restored, or messages of it were forgotten.
    pub(crate) restores: u32,
}

impl<'a> FlushedBatch<'a> {
    /// Creates a batch, for tests of a block.
    pub fn new(number: u32, messages: &'a [Message]) -> Self {
        FlushedBatch { number, messages, origin: None }
    }

    /// Sets where the batch is from.
    pub(crate) fn of(self, origin: &'a BatchOrigin) -> Self {
        FlushedBatch { origin: Some(origin), ..self }
    }
}

/// The content that a block contributes to a prompt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BlockContent {
    /// A text.
    Text(String),
    /// Texts and media, one per line.
    Parts(Vec<ContentPart>),
    /// Earlier messages, quoted inside the memory.
    Quoted(Vec<Message>),
    /// Messages that precede all others in the prompt as separate messages.
    Messages(Vec<Message>),
}

impl Default for BlockContent {
    /// Empty content.
    fn default() -> Self {
        BlockContent::Text(String::new())
    }
}

impl BlockContent {
    /// Returns true if there is no content. White space counts as content.
    pub fn is_empty(&self) -> bool {
        match self {
            BlockContent::Text(text) => text.is_empty(),
            BlockContent::Parts(parts) => parts.is_empty(),
            BlockContent::Quoted(messages) | BlockContent::Messages(messages) => messages.is_empty(),
        }
    }
}

impl From<String> for BlockContent {
    fn from(text: String) -> Self {
        BlockContent::Text(text)
    }
}

impl From<&str> for BlockContent {
    fn from(text: &str) -> Self {
        BlockContent::Text(text.to_owned())
    }
}

/// The excess of a prompt over its token limit, with a test for shorter content of a block.
#[non_exhaustive]
pub struct TokenExcess<'a> {
    /// The number of tokens over the limit.
    pub tokens: usize,
    fits: &'a dyn Fn(&BlockContent) -> bool,
}

impl_debug!(TokenExcess<'_>, self { tokens: self.tokens });

impl<'a> TokenExcess<'a> {
    /// Creates an excess of `tokens`. `fits` must return true if the prompt is within its limit with the given content.
    pub fn new(tokens: usize, fits: &'a dyn Fn(&BlockContent) -> bool) -> Self {
        TokenExcess { tokens, fits }
    }

    /// Returns true if the prompt is within its limit with this content. Cost: renders and counts the memory.
    pub fn fits(&self, content: &BlockContent) -> bool {
        (self.fits)(content)
    }

    /// Finds by bisection the content with the most items that fits. `keep` returns the content with a number of items.
    /// Before truncation there are `items` items.
    pub(crate) fn keep_most(&self, items: usize, keep: impl Fn(usize) -> BlockContent) -> BlockContent {
        let counts: Vec<usize> = (1..items).collect();
        match counts.partition_point(|&count| self.fits(&keep(count))) {
            0 => BlockContent::default(),
            most => keep(most),
        }
    }
}

/// A block with fixed text or parts, such as a description of the agent's user.
#[derive(Clone, Debug)]
pub struct StaticBlock {
    name: String,
    priority: u32,
    content: BlockContent,
}

impl StaticBlock {
    /// Creates a block with this content.
    pub fn new(name: impl Into<String>, content: impl Into<BlockContent>) -> Self {
        StaticBlock { name: name.into(), priority: 0, content: content.into() }
    }

    /// Sets the [priority](MemoryBlock::priority). Default: 0.
    pub fn with_priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }
}

impl MemoryBlock for StaticBlock {
    fn name(&self) -> &str {
        &self.name
    }

    fn priority(&self) -> u32 {
        self.priority
    }

    fn takes_batches(&self) -> bool {
        false
    }

    fn changes(&self) -> ContentChange {
        ContentChange::Never
    }

    fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok(self.content.clone())
    }
}

/// Checks that the names of the blocks are valid and unique.
pub(crate) fn check_names<'a>(blocks: impl Iterator<Item = &'a dyn MemoryBlock>) -> Result<()> {
    let mut names: Vec<&str> = Vec::new();
    for block in blocks {
        let name = block.name();
        let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_later = |c: char| is_first(c) || c.is_ascii_digit() || c == '-' || c == '.';
        let fault = if !(name.starts_with(is_first) && name.chars().all(is_later) && name.len() <= 128) {
            "is invalid; use a letter or '_', followed by up to 127 letters, digits, '_', '-' or '.'"
        } else if names.contains(&name) {
            "is used twice; give each block its own name"
        } else {
            names.push(name);
            continue;
        };
        return Err(Error::InvalidConfig { reason: format!("block name {name:?} {fault}") });
    }
    Ok(())
}

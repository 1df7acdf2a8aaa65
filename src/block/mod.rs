//! Memory blocks: what a prompt is told beside its recent messages.
//!
//! Owns the trait, the blocks that come with the crate and what they say to a language model. Does not store, poll or
//! render: a block is a function of its state, and its state is JSON that the memory stores with its place in the batches.

mod content;
mod fact;
mod instruction;
mod statics;
mod summary;
mod vector;

use std::sync::Arc;

use serde_json::Value;

pub use content::BlockContent;
pub use fact::FactBlock;
pub use instruction::{InstructionBlock, InstructionVersion};
pub use statics::StaticBlock;
pub use summary::SummaryBlock;
pub use vector::{HitProcessor, RetrievalUnit, VectorBlock};

use crate::{
    error::{Error, Result, impl_debug},
    ids::Namespace,
    message::Message,
    recall::{Hit, Query},
};

/// A part of memory that fills itself from flushed messages and speaks in prompts.
///
/// `put` is called with each flushed batch of a session, in order, on a thread of the engine's own: it may wait for a
/// language model, and nothing waits for it. Its result is stored in one commit with the place in the batches, so a batch
/// counts once, whatever fails when; on an error it is called again later. Effects outside of the state may happen
/// twice, if the process dies before that commit: tell them apart by [`Batch::number`].
pub trait MemoryBlock: Send + Sync {
    /// Its element in the prompt and its key in the store: a letter or `_`, then letters, digits, `_`, `-` or `.`.
    /// Unique in a memory.
    fn name(&self) -> &str;

    /// What is cut when the prompt is too long: the highest number first; 0 never. Default: 0.
    fn priority(&self) -> u32 {
        0
    }

    /// Who shares its state. Default: [`BlockScope::Session`].
    fn scope(&self) -> BlockScope {
        BlockScope::Session
    }

    /// Whether it wants flushed batches. Default: true.
    fn takes_batches(&self) -> bool {
        true
    }

    /// The state after a batch, from the state before: `Value::Null` at first. Default: the same.
    ///
    /// # Errors
    /// Any; the batch is kept, and tried again later. See [`Error::Chat`] for what is given up.
    fn put(&self, state: &Value, batch: &Batch<'_>) -> Result<Value> {
        let _ = batch;
        Ok(state.clone())
    }

    /// What to say in a prompt. Empty: nothing.
    ///
    /// # Errors
    /// Any; the prompt goes without it, and says so.
    fn get(&self, state: &Value, query: &BlockQuery) -> Result<BlockContent>;

    /// As much of `content` as fits, if it can be shortened. What does not fit even so is left out whole. Default: nothing.
    fn truncate(&self, content: BlockContent, excess: &Excess<'_>) -> BlockContent {
        let _ = (content, excess);
        BlockContent::default()
    }
}

/// A block that others hold too.
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

    fn put(&self, state: &Value, batch: &Batch<'_>) -> Result<Value> {
        (**self).put(state, batch)
    }

    fn get(&self, state: &Value, query: &BlockQuery) -> Result<BlockContent> {
        (**self).get(state, query)
    }

    fn truncate(&self, content: BlockContent, excess: &Excess<'_>) -> BlockContent {
        (**self).truncate(content, excess)
    }
}

/// By how much a prompt is too long.
#[non_exhaustive]
pub struct Excess<'a> {
    /// Tokens over the limit.
    pub tokens: usize,
    fits: &'a dyn Fn(&BlockContent) -> bool,
}

impl_debug!(Excess<'_>, self { tokens: self.tokens });

impl<'a> Excess<'a> {
    /// `fits` says whether the prompt is within its limit with this content.
    pub fn new(tokens: usize, fits: &'a dyn Fn(&BlockContent) -> bool) -> Self {
        Excess { tokens, fits }
    }

    /// Whether the prompt is within its limit if the block says this instead. Cost: the memory is rendered and counted.
    pub fn fits(&self, content: &BlockContent) -> bool {
        (self.fits)(content)
    }

    /// The most of `items` that fit, of those that `keep` makes of a number of them; by bisection.
    pub(crate) fn most(&self, items: usize, keep: impl Fn(usize) -> BlockContent) -> BlockContent {
        let counts: Vec<usize> = (1..items).collect();
        match counts.partition_point(|&count| self.fits(&keep(count))) {
            0 => BlockContent::default(),
            most => keep(most),
        }
    }
}

/// Who shares a block's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockScope {
    /// Each session has its own; it is deleted, copied and restored with it.
    #[default]
    Session,
    /// All sessions of the namespace have one. It outlives each of them.
    Namespace,
}

/// Messages that left the short-term buffer together.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Batch<'a> {
    /// Its number in its session, from 0. A block that is new in a session gets all there are.
    pub number: u32,
    /// The messages, oldest first: whole turns.
    pub messages: &'a [Message],
}

impl<'a> Batch<'a> {
    /// For tests of a block.
    pub fn new(number: u32, messages: &'a [Message]) -> Self {
        Batch { number, messages }
    }
}

/// What a block is asked with. Cheap to clone.
#[derive(Clone)]
#[non_exhaustive]
pub struct BlockQuery {
    /// Whose memory.
    pub namespace: Namespace,
    /// Which session.
    pub session: String,
    /// The messages in the prompt, oldest first, and the input last.
    pub messages: Arc<[Arc<Message>]>,
    recall: Arc<dyn Recall>,
}

impl_debug!(BlockQuery { namespace, session });

/// What a block may ask of long-term memory.
pub trait Recall: Send + Sync {
    /// As [`Engine::recall`](crate::Engine::recall).
    ///
    /// # Errors
    /// As there.
    fn recall(&self, namespace: &Namespace, query: &Query) -> Result<Vec<Hit>>;

    /// As [`BlockQuery::batch_of`]; none, if the message was not flushed. Default: none.
    ///
    /// # Errors
    /// Those of the store.
    fn batch_of(&self, namespace: &Namespace, id: &str) -> Result<Vec<Message>> {
        let _ = (namespace, id);
        Ok(Vec::new())
    }
}

impl BlockQuery {
    /// For tests of a block; a memory makes its own.
    pub fn new(
        namespace: Namespace,
        session: impl Into<String>,
        messages: impl Into<Arc<[Arc<Message>]>>,
        recall: Arc<dyn Recall>,
    ) -> Self {
        BlockQuery { namespace, session: session.into(), messages: messages.into(), recall }
    }

    /// Long-term memories of the namespace. As [`Engine::recall`](crate::Engine::recall).
    ///
    /// # Errors
    /// As there.
    pub fn recall(&self, query: &Query) -> Result<Vec<Hit>> {
        self.recall.recall(&self.namespace, query)
    }

    /// The messages that were flushed together with this one, itself included; only itself, if it was not flushed.
    ///
    /// # Errors
    /// [`Error::Storage`], [`Error::Corrupted`].
    pub fn batch_of(&self, message: &Message) -> Result<Vec<Message>> {
        let batch = self.recall.batch_of(&self.namespace, &message.id)?;
        Ok(if batch.is_empty() { vec![message.clone()] } else { batch })
    }
}

/// Checks that names can be elements, and are unique.
pub(crate) fn check_names<'a>(blocks: impl Iterator<Item = &'a dyn MemoryBlock>) -> Result<()> {
    let mut names: Vec<&str> = Vec::new();
    for block in blocks {
        let name = block.name();
        let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
        let rest = |c: char| letter(c) || c.is_ascii_digit() || c == '-' || c == '.';
        let fault = if !(name.starts_with(letter) && name.chars().all(rest) && name.len() <= 128) {
            "is not a letter or '_', then up to 127 letters, digits, '_', '-' or '.'"
        } else if names.contains(&name) {
            "is used twice"
        } else {
            names.push(name);
            continue;
        };
        return Err(Error::InvalidConfig { reason: format!("block name {name:?} {fault}") });
    }
    Ok(())
}

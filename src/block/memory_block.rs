//! The trait of memory blocks.

use std::sync::Arc;

use serde_json::Value;

use super::{block_query::BlockQuery, content::BlockContent, token_excess::TokenExcess};
use crate::{
    error::{Error, Result},
    message::Message,
};

/// A named part of memory that is updated from flushed messages and contributes content to prompts.
///
/// [`put`](MemoryBlock::put) is called with each flushed batch of a session, in order, on a background thread of the
/// engine. It may wait for a language model; nothing waits for it. The new state and the number of the batch are stored
/// in one commit, so each batch counts once even if the process dies; after an error the batch is tried again later.
/// Effects outside of the state may happen twice, if the process dies before the commit: use [`FlushedBatch::number`]
/// to detect that.
pub trait MemoryBlock: Send + Sync {
    /// Returns the name, which is the block's element in the prompt and its key in the store: a letter or `_`, followed
    /// by up to 127 letters, digits, `_`, `-` or `.`. It must be unique in a memory.
    fn name(&self) -> &str;

    /// Returns the priority for prompts that are too long: blocks with the highest number are truncated first, blocks
    /// with 0 never. Default: 0.
    fn priority(&self) -> u32 {
        0
    }

    /// Returns which sessions share the state. Default: [`BlockScope::Session`].
    fn scope(&self) -> BlockScope {
        BlockScope::Session
    }

    /// Returns true if `put` is to be called with flushed batches. Default: true.
    fn takes_batches(&self) -> bool {
        true
    }

    /// Computes the state after a batch. The first state is `Value::Null`. Default: the state does not change.
    ///
    /// # Errors
    /// Any. The batch is kept and tried again later, unless the error is final: see [`Error::Chat`].
    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        let _ = batch;
        Ok(state.clone())
    }

    /// Returns the content for a prompt. The block does not appear in the prompt if the content is empty.
    ///
    /// # Errors
    /// Any. The prompt is composed without the block and reports the error.
    fn get(&self, state: &Value, query: &BlockQuery) -> Result<BlockContent>;

    /// Returns what follows when messages that the state was made of are forgotten. The state itself is dropped with
    /// them, at once. Default: [`AfterForget::Drop`].
    fn after_forget(&self) -> AfterForget {
        AfterForget::Drop
    }

    /// Shortens `content` so that it fits. Content that does not fit afterwards is left out. Default: returns no
    /// content.
    fn truncate(&self, content: BlockContent, excess: &TokenExcess<'_>) -> BlockContent {
        let _ = (content, excess);
        BlockContent::default()
    }
}

/// A shared block.
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

/// The sessions that share a block's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockScope {
    /// Each session has its own state, which is deleted, copied and restored with the session.
    #[default]
    Session,
    /// All sessions of the namespace share one state. It is kept when a session is deleted.
    Namespace,
}

/// What follows when a block's state was dropped, because messages that it was made of were
/// [forgotten](crate::Engine::forget).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AfterForget {
    /// The block begins with an empty state, and gets the batches that it did not take before.
    #[default]
    Drop,
    /// The block begins with an empty state, and gets the batches of the session again from the first on, as they are
    /// without the forgotten messages. This costs as much as it did the first time. A state that several sessions share
    /// is made again of the batches of each session whose memory is opened.
    Rebuild,
}

/// Messages that were flushed from the short-term buffer together.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct FlushedBatch<'a> {
    /// The number of the batch in its session, from 0. A block that is new in a session gets all batches from 0 on.
    pub number: u32,
    /// The messages, oldest first. They are whole turns.
    pub messages: &'a [Message],
}

impl<'a> FlushedBatch<'a> {
    /// Creates a batch, for tests of a block.
    pub fn new(number: u32, messages: &'a [Message]) -> Self {
        FlushedBatch { number, messages }
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

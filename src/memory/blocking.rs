//! The memory's methods for threads that may wait, made from the async ones.

use serde_json::Value;

use super::{
    handle::Memory,
    prompt::AssembleRequest,
    reports::{BlockStatus, MemoryReport},
};
use crate::{
    compose::Prompt,
    engine::{block_on, blocking_methods},
    error::{Result, impl_debug},
    message::{Message, MessageUpdate},
    recall::{Hits, Query},
    store::Checkpoint,
};

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
    pub fn change_block(&self, block: &str, change: impl FnMut(&Value) -> Result<Value>) -> Result<()> {
        self.0.change_block_now(block, change)
    }
}

//! The memory's methods for threads that may wait.

use serde_json::Value;

use super::{BlockStatus, Inner, Memory, MemoryReport, prompt::Assembly};
use crate::{
    compose::Prompt,
    error::{Result, impl_debug},
    message::{Message, MessageUpdate},
    store::Checkpoint,
};

/// [`Memory`](crate::Memory)'s methods, waiting on the calling thread. From [`Memory::blocking`](crate::Memory::blocking).
pub struct BlockingMemory<'a>(pub(super) &'a Inner);

impl_debug!(BlockingMemory<'_>, self { namespace: self.0.settings.namespace, session: self.0.settings.session });

impl BlockingMemory<'_> {
    /// As [`Memory::put`](crate::Memory::put).
    ///
    /// # Errors
    /// As there.
    pub fn put(&self, messages: Vec<Message>) -> Result<MemoryReport> {
        self.update(messages.into_iter().map(MessageUpdate::Put).collect())
    }

    /// As [`Memory::update`](crate::Memory::update).
    ///
    /// # Errors
    /// As there.
    pub fn update(&self, updates: Vec<MessageUpdate>) -> Result<MemoryReport> {
        self.0.change_now(updates)
    }

    /// As [`Memory::flush`](crate::Memory::flush).
    ///
    /// # Errors
    /// As there.
    pub fn flush(&self) -> Result<Vec<String>> {
        self.0.flush()
    }

    /// As [`Memory::messages`](crate::Memory::messages).
    ///
    /// # Errors
    /// As there.
    pub fn messages(&self) -> Result<Vec<Message>> {
        self.0.messages()
    }

    /// As [`Memory::history`](crate::Memory::history).
    ///
    /// # Errors
    /// As there.
    pub fn history(&self) -> Result<Vec<Message>> {
        self.0.history()
    }

    /// As [`Memory::get`](crate::Memory::get).
    ///
    /// # Errors
    /// As there.
    pub fn get(&self, input: Option<Message>) -> Result<Prompt> {
        self.0.get(input)
    }

    /// As [`Memory::assemble`](crate::Memory::assemble).
    ///
    /// # Errors
    /// As there.
    pub fn assemble(&self, assembly: impl Into<Assembly>) -> Result<Prompt> {
        self.0.assemble(assembly.into())
    }

    /// As [`Memory::settle`](crate::Memory::settle).
    ///
    /// # Errors
    /// As there.
    pub fn settle(&self) -> Result<()> {
        self.0.settle()
    }

    /// As [`Memory::status`](crate::Memory::status).
    ///
    /// # Errors
    /// As there.
    pub fn status(&self) -> Result<Vec<BlockStatus>> {
        self.0.status()
    }

    /// As [`Memory::retry_failed`](crate::Memory::retry_failed).
    ///
    /// # Errors
    /// As there.
    pub fn retry_failed(&self, block: &str) -> Result<u64> {
        self.0.retry_failed(block)
    }

    /// As [`Memory::block_state`](crate::Memory::block_state).
    ///
    /// # Errors
    /// As there.
    pub fn block_state(&self, block: &str) -> Result<Value> {
        self.0.block_state(block)
    }

    /// As [`Memory::change_block`](crate::Memory::change_block).
    ///
    /// # Errors
    /// As there.
    pub fn change_block(&self, block: &str, change: impl FnMut(&Value) -> Result<Value>) -> Result<()> {
        self.0.change_block(block, change)
    }

    /// As [`Memory::checkpoint`](crate::Memory::checkpoint).
    ///
    /// # Errors
    /// As there.
    pub fn checkpoint(&self, label: impl Into<String>) -> Result<u32> {
        self.0.checkpoint(&label.into())
    }

    /// As [`Memory::checkpoints`](crate::Memory::checkpoints).
    ///
    /// # Errors
    /// As there.
    pub fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        self.0.checkpoints()
    }

    /// As [`Memory::messages_at`](crate::Memory::messages_at).
    ///
    /// # Errors
    /// As there.
    pub fn messages_at(&self, checkpoint: u32) -> Result<Vec<Message>> {
        self.0.messages_at(checkpoint)
    }

    /// As [`Memory::restore`](crate::Memory::restore).
    ///
    /// # Errors
    /// As there.
    pub fn restore(&self, checkpoint: u32) -> Result<()> {
        self.0.restore(checkpoint)
    }

    /// As [`Memory::fork`](crate::Memory::fork).
    ///
    /// # Errors
    /// As there.
    pub fn fork(&self, checkpoint: Option<u32>, to: impl Into<String>) -> Result<Memory> {
        self.0.fork(checkpoint, &to.into())
    }
}

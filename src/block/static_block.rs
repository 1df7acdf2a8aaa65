//! A block with fixed content.

use serde_json::Value;

use super::{block_query::BlockQuery, content::BlockContent, memory_block::MemoryBlock};
use crate::error::Result;

/// A block with fixed text or parts, such as a description of the agent's user.
#[derive(Clone, Debug)]
pub struct StaticBlock {
    name: String,
    priority: u32,
    content: BlockContent,
}

impl StaticBlock {
    /// Creates a block whose content is in every prompt.
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

    fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok(self.content.clone())
    }
}

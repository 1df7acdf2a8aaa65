//! What is always said.

use serde_json::Value;

use super::{BlockContent, BlockQuery, MemoryBlock};
use crate::error::Result;

/// Fixed text or parts, such as who the agent works for.
#[derive(Clone, Debug)]
pub struct StaticBlock {
    name: String,
    priority: u32,
    content: BlockContent,
}

impl StaticBlock {
    /// With this name, always in the prompt.
    pub fn new(name: impl Into<String>, content: impl Into<BlockContent>) -> Self {
        StaticBlock { name: name.into(), priority: 0, content: content.into() }
    }

    /// As [`MemoryBlock::priority`]. Default: 0.
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

//! A profile in prompts, updated from flushed messages.

use std::sync::Arc;

use serde_json::Value;

use super::{blocking_model::BlockingModel, profile::Profile};
use crate::{
    block::{BlockContent, BlockQuery, FlushedBatch, MemoryBlock},
    chat::ChatModel,
    engine::block_on,
    error::{Result, impl_debug},
};

/// A [`Profile`] as a memory block: a model patches it by each flushed batch, in the background, and prompts show its
/// fields, one per line.
///
/// The profile is a document of its own. It is kept when a session is deleted or restored, and several memories may
/// share it. If the process dies after the patch and before the batch is marked as taken, the model is given the batch
/// a second time, with the patched profile.
#[derive(Clone)]
pub struct ProfileBlock {
    name: String,
    priority: u32,
    profile: Profile,
    model: Arc<dyn ChatModel>,
}

impl_debug!(ProfileBlock { name, priority, profile });

impl ProfileBlock {
    /// Creates a block for this profile, which `model` patches. The block does not keep the engine open.
    pub fn new(name: impl Into<String>, profile: &Profile, model: impl ChatModel + 'static) -> Self {
        ProfileBlock { name: name.into(), priority: 0, profile: profile.weak(), model: Arc::new(model) }
    }

    /// Sets the [priority](MemoryBlock::priority). Default: 0.
    pub fn with_priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }
}

impl MemoryBlock for ProfileBlock {
    fn name(&self) -> &str {
        &self.name
    }

    fn priority(&self) -> u32 {
        self.priority
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        block_on(self.profile.update(batch.messages, &BlockingModel(&*self.model)))?;
        Ok(state.clone())
    }

    fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
        let profile = block_on(self.profile.get())?;
        let fields = profile.as_object().into_iter().flatten();
        let lines = fields.map(|(name, value)| match value {
            Value::String(text) => format!("{name}: {text}"),
            other => format!("{name}: {other}"),
        });
        Ok(lines.collect::<Vec<_>>().join("\n").into())
    }
}

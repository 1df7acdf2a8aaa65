//! The related items of a collection in prompts; the collection is updated from flushed messages.

use std::sync::Arc;

use serde_json::Value;

use super::{blocking_model::BlockingModel, collection::Collection};
use crate::{
    block::{AfterForget, BlockContent, BlockQuery, FlushedBatch, MemoryBlock, TokenExcess},
    chat::ChatModel,
    documents::DocumentSearch,
    engine::block_on,
    error::{Result, impl_debug},
    message::ContentPart,
};

/// The number of messages at the end of a prompt that are the query for its items.
const QUERY_MESSAGES: usize = 5;

/// A [`Collection`] as a memory block: a model updates it by each flushed batch, in the background, and prompts show
/// the items that are related to their last five messages, the best first.
///
/// The items are documents of their own. They are kept when a session is deleted or restored, and several memories may
/// share them. Each batch updates the collection once, also if the process dies meanwhile.
#[derive(Clone)]
pub struct CollectionBlock {
    name: String,
    priority: u32,
    k: usize,
    collection: Collection,
    model: Arc<dyn ChatModel>,
}

impl_debug!(CollectionBlock { name, priority, k, collection });

impl CollectionBlock {
    /// Creates a block for this collection, which `model` updates. The block does not keep the engine open.
    pub fn new(name: impl Into<String>, collection: &Collection, model: impl ChatModel + 'static) -> Self {
        CollectionBlock { name: name.into(), priority: 0, k: 10, collection: collection.weak(), model: Arc::new(model) }
    }

    /// Sets the [priority](MemoryBlock::priority). Default: 0. Truncation drops the items with the lowest score first.
    pub fn with_priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    /// Sets the greatest number of items in a prompt. Default: 10.
    pub fn with_k(mut self, items: usize) -> Self {
        self.k = items;
        self
    }
}

impl MemoryBlock for CollectionBlock {
    fn name(&self) -> &str {
        &self.name
    }

    fn priority(&self) -> u32 {
        self.priority
    }

    /// Returns [`AfterForget::Rebuild`]. Items made of forgotten messages are forgotten too, where the collection is in
    /// the namespace of the messages or under it. Batches without forgotten messages change nothing again.
    fn after_forget(&self) -> AfterForget {
        AfterForget::Rebuild
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        block_on(self.collection.update(batch.messages, &BlockingModel(&*self.model)))?;
        Ok(state.clone())
    }

    fn get(&self, _: &Value, query: &BlockQuery) -> Result<BlockContent> {
        let text = query.last_texts(QUERY_MESSAGES);
        if text.is_empty() {
            return Ok(BlockContent::default());
        }
        let found = block_on(self.collection.search(DocumentSearch::default().query(text).limit(self.k)))?;
        Ok(BlockContent::Parts(found.iter().map(|item| ContentPart::Text { text: line(&item.value) }).collect()))
    }

    fn truncate(&self, content: BlockContent, excess: &TokenExcess<'_>) -> BlockContent {
        let BlockContent::Parts(parts) = content else { return BlockContent::default() };
        excess.keep_most(parts.len(), |count| BlockContent::Parts(parts[..count].to_vec()))
    }
}

/// Formats an item: the text of one that is a text alone, JSON for others.
fn line(item: &Value) -> String {
    match item.as_object().map(|fields| (fields.len(), fields.get("text"))) {
        Some((1, Some(Value::String(text)))) => text.clone(),
        _ => item.to_string(),
    }
}

//! Profiles and collections as memory blocks: a model updates them from flushed messages, and prompts show them.

use std::{future::ready, sync::Arc};

use serde_json::Value;

use super::{collection::Collection, profile::Profile};
use crate::{
    block::{AfterForget, BlockContent, BlockQuery, ContentChange, FlushedBatch, MemoryBlock, TokenExcess},
    chat::{ChatAnswer, ChatFuture, ChatModel, ChatRequest},
    documents::DocumentSearch,
    engine::block_on,
    error::{Result, impl_debug},
    message::ContentPart,
};

/// A [`Profile`] as a memory block. A model patches it after each flushed batch, in the background, and prompts show its
/// fields, one per line.
///
/// The profile is a separate document. It stays when a session is deleted or restored, and several memories may share it.
/// If the process dies after the patch and before the batch is recorded as processed, the model gets the batch a second
/// time, with the patched profile. If a message that the profile was made of is forgotten, the profile is forgotten as a
/// whole, where it is in the namespace of the messages or under it, and made again from the batches of all sessions that
/// made it, as each is opened.
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

    /// Returns [`AfterForget::Rebuild`].
    fn after_forget(&self) -> AfterForget {
        AfterForget::Rebuild
    }

    /// Returns what names the profile, by which a forgotten message finds it.
    fn first_state(&self) -> Value {
        self.profile.block_state()
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        block_on(self.profile.update_from(batch, &BlockingModel(&*self.model)))?;
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

/// The number of messages at the end of a prompt whose texts are the query for items.
const QUERY_MESSAGES: usize = 5;

/// A [`Collection`] as a memory block. A model updates it after each flushed batch, in the background, and prompts show
/// the items that are related to their last five messages, the best first.
///
/// The items are separate documents. They stay when a session is deleted or restored, and several memories may share
/// them. Each batch updates the collection once, even if the process dies meanwhile.
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

    /// Sets the maximum number of items in a prompt. Default: 10.
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

    /// Returns [`AfterForget::Rebuild`]. Items made of forgotten messages are forgotten too if the collection is in the
    /// namespace of the messages or under it. Repeated batches without forgotten messages change nothing.
    fn after_forget(&self) -> AfterForget {
        AfterForget::Rebuild
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        block_on(self.collection.update_from(batch, &BlockingModel(&*self.model)))?;
        Ok(state.clone())
    }

    fn changes(&self) -> ContentChange {
        ContentChange::EachPrompt
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

/// Formats an item: its text if it has no other field, or else its JSON.
fn line(item: &Value) -> String {
    match item.as_object().map(|fields| (fields.len(), fields.get("text"))) {
        Some((1, Some(Value::String(text)))) => text.clone(),
        _ => item.to_string(),
    }
}

/// A model whose future calls [`ChatModel::chat_blocking`], so that it answers on the block's own thread.
struct BlockingModel<'m>(&'m dyn ChatModel);

impl ChatModel for BlockingModel<'_> {
    fn chat<'a>(&'a self, request: &'a ChatRequest) -> ChatFuture<'a> {
        Box::pin(ready(self.chat_blocking(request)))
    }

    fn chat_blocking(&self, request: &ChatRequest) -> Result<ChatAnswer> {
        self.0.chat_blocking(request)
    }
}

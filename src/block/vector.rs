//! What long-term memory recalls for the last messages.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use parking_lot::Mutex;
use serde_json::Value;

use super::{BlockContent, BlockQuery, Excess, MemoryBlock};
use crate::{
    error::{Result, impl_debug},
    ids::Namespace,
    message::Message,
    recall::{Hit, MAX_K, Query, keep_places},
};

/// Changes what was found before it is used: reranks, drops, adds.
pub type HitProcessor = Arc<dyn Fn(Vec<Hit>) -> Result<Vec<Hit>> + Send + Sync>;

type Told = HashMap<(Namespace, String), Vec<String>>;

/// Sessions whose last answer is remembered; with more, all are forgotten once.
const MAX_TOLD: usize = 4096;

/// What is found and told as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetrievalUnit {
    /// A message.
    #[default]
    Message,
    /// All that was flushed together with a message that was found.
    Batch,
}

/// The memories most like the last messages, of all sessions of the namespace.
///
/// The query is the texts of the last messages of the prompt, joined by spaces; without text nothing is asked. What the
/// prompt shows already is left out, and so is a text that was found twice.
#[derive(Clone)]
pub struct VectorBlock {
    name: String,
    priority: u32,
    window: usize,
    top_k: usize,
    threshold: Option<f32>,
    unit: RetrievalUnit,
    own_session: bool,
    /// What was told last, by namespace and session.
    told: Option<Arc<Mutex<Told>>>,
    processors: Vec<HitProcessor>,
}

impl_debug!(VectorBlock { name, priority, window, top_k, threshold, unit, own_session });

impl VectorBlock {
    /// With this name.
    pub fn new(name: impl Into<String>) -> Self {
        VectorBlock {
            name: name.into(),
            priority: 0,
            window: 5,
            top_k: 2,
            threshold: None,
            unit: RetrievalUnit::Message,
            own_session: false,
            told: None,
            processors: Vec::new(),
        }
    }

    /// As [`MemoryBlock::priority`]. Default: 0. The worst hits go first.
    pub fn with_priority(mut self, priority: u32) -> Self {
        self.priority = priority;
        self
    }

    /// Messages that make the query; at least 1. Default: 5.
    pub fn retrieval_context_window(mut self, messages: usize) -> Self {
        self.window = messages.max(1);
        self
    }

    /// The most memories that are told. Default: 2.
    pub fn similarity_top_k(mut self, k: usize) -> Self {
        self.top_k = k;
        self
    }

    /// The least score, a cosine, -1 to 1. Default: none.
    pub fn similarity_threshold(mut self, score: f32) -> Self {
        self.threshold = Some(score);
        self
    }

    /// What is told for a hit. Default: the message.
    pub fn unit(mut self, unit: RetrievalUnit) -> Self {
        self.unit = unit;
        self
    }

    /// Memories that were told for the last prompt of a session keep their places while they still are about good enough,
    /// among the best k and half as many more, as by [`Query::previous`]: a prompt changes no more than it must, and a
    /// provider's cache of it holds. Remembered as long as the block is.
    pub fn sticky(mut self) -> Self {
        self.told = Some(Arc::default());
        self
    }

    /// Only memories of the session that asks.
    pub fn own_session(mut self) -> Self {
        self.own_session = true;
        self
    }

    /// Changes what was found, after threshold and duplicates and before it is cut to k; in the order added.
    pub fn processor(mut self, processor: impl Fn(Vec<Hit>) -> Result<Vec<Hit>> + Send + Sync + 'static) -> Self {
        self.processors.push(Arc::new(processor));
        self
    }

    /// The text that is asked with.
    fn question(&self, messages: &[Arc<Message>]) -> String {
        let last = &messages[messages.len().saturating_sub(self.window)..];
        last.iter().map(|message| message.text()).filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join(" ")
    }
}

impl MemoryBlock for VectorBlock {
    fn name(&self) -> &str {
        &self.name
    }

    fn priority(&self) -> u32 {
        self.priority
    }

    /// The engine's vectors are its state.
    fn takes_batches(&self) -> bool {
        false
    }

    fn get(&self, _: &Value, query: &BlockQuery) -> Result<BlockContent> {
        let question = self.question(&query.messages);
        if question.is_empty() || self.top_k == 0 {
            return Ok(BlockContent::default());
        }
        // Some are left out below.
        let more = self.top_k.saturating_mul(2).saturating_add(8).min(MAX_K);
        let mut request = Query::new(question).k(more);
        if self.own_session {
            request = request.session(&query.session);
        }
        let mut hits = query.recall(&request)?;
        let shown: HashSet<&str> = query.messages.iter().map(|message| message.id.as_str()).collect();
        hits.retain(|hit| {
            self.threshold.is_none_or(|least| hit.similarity >= least) && !shown.contains(&*hit.message.id)
        });
        let mut texts: Vec<String> = Vec::new();
        hits.retain(|hit| {
            let text = hit.message.text();
            let known = texts.contains(&text) || query.messages.iter().any(|message| message.says(&text));
            texts.push(text);
            !known
        });
        for processor in &self.processors {
            hits = processor(hits)?;
        }
        if let Some(told) = &self.told {
            let mut told = told.lock();
            let asker = (query.namespace.clone(), query.session.clone());
            hits = keep_places(hits, told.get(&asker).map_or(&[], Vec::as_slice), self.top_k);
            if told.len() >= MAX_TOLD && !told.contains_key(&asker) {
                told.clear();
            }
            told.insert(asker, hits.iter().map(|hit| hit.message.id.clone()).collect());
        }
        hits.truncate(self.top_k);
        let mut told: Vec<Message> = Vec::new();
        for hit in hits {
            let found = match self.unit {
                RetrievalUnit::Message => vec![hit.message],
                RetrievalUnit::Batch => query.batch_of(&hit.message)?,
            };
            for message in found {
                if !shown.contains(&*message.id) && told.iter().all(|other| other.id != message.id) {
                    told.push(message);
                }
            }
        }
        Ok(BlockContent::Quoted(told))
    }

    fn truncate(&self, content: BlockContent, excess: &Excess<'_>) -> BlockContent {
        let BlockContent::Quoted(messages) = content else { return BlockContent::default() };
        excess.most(messages.len(), |count| BlockContent::Quoted(messages[..count].to_vec()))
    }
}

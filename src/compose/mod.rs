//! A prompt out of messages and what blocks say, under one token budget.
//!
//! Owns rendering, inserting, truncating and counting. Pure: reads no store and asks no block. What is counted is what is
//! returned, frames included; a prompt that is too long is returned all the same, and says by how much and why.

mod insert;
mod render;

use std::{borrow::Borrow, sync::Arc};

use serde::Serialize;

use self::insert::insert;
pub use self::render::{Markdown, Renderer, Seal, Section, Xml};
use crate::{
    block::{BlockContent, Excess, MemoryBlock, check_names},
    error::{Result, impl_debug},
    message::{Message, MessageCounter, MessageTokens, Part, xml},
};

/// Where memory goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InsertMethod {
    /// Before the content of the first system message; without one, into a new one at the front.
    #[default]
    System,
    /// Before the content of the last user message; without one, into a new one at the end. Keeps the system message, and
    /// with it a provider's prompt cache, as it was.
    User,
}

/// Messages for a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Prompt {
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// Their tokens.
    pub tokens: usize,
    /// Set if they are over the limit.
    pub over: Option<Overflow>,
    /// Blocks that were shortened to fit.
    pub shortened: Vec<String>,
    /// Blocks that had something to say and were left out to fit.
    pub dropped: Vec<String>,
    /// Blocks that failed or were too slow, and are left out.
    pub failed: Vec<BlockFailure>,
    /// Messages of the buffer that are not in the prompt: tool results without their call before them, those that the
    /// selector passed over, and old turns left out to fit.
    pub left_out: Vec<String>,
}

/// By how much a prompt is too long, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Overflow {
    /// Tokens over the limit.
    pub tokens: usize,
    /// What could not be left out, in words.
    pub reason: String,
}

/// A block that has nothing in the prompt though it may have had something to say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BlockFailure {
    /// The block.
    pub name: String,
    /// What went wrong.
    pub reason: String,
}

/// A block and what it says.
pub type BlockOutput = (Arc<dyn MemoryBlock>, BlockContent);

/// Puts memory into messages. [`Memory`](crate::Memory) does it by itself; this is for messages from elsewhere.
#[derive(Clone)]
#[non_exhaustive]
pub struct Composer {
    /// The most tokens of a prompt. Default: 30,000.
    pub token_limit: usize,
    /// Where memory goes. Default: [`InsertMethod::System`].
    pub insert: InsertMethod,
    /// How memory is written. Default: [`Xml`].
    pub renderer: Arc<dyn Renderer>,
    /// How messages are counted. Default: [`MessageTokens::default`].
    pub tokens: Arc<dyn MessageCounter>,
}

impl_debug!(Composer { token_limit, insert });

impl Default for Composer {
    fn default() -> Self {
        Composer {
            token_limit: 30_000,
            insert: InsertMethod::System,
            renderer: Arc::new(Xml),
            tokens: Arc::new(MessageTokens::default()),
        }
    }
}

impl Composer {
    /// The messages with memory in them.
    ///
    /// Over the limit, blocks of a priority other than 0 are truncated, the highest number first, then they are
    /// left out whole. Cost: each message is counted once, and what memory is inserted into
    /// again after each truncation.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`](crate::Error::InvalidConfig): a block's name that is used twice, or can be no element.
    pub fn compose(&self, messages: &[Message], said: Vec<BlockOutput>) -> Result<Prompt> {
        check_names(said.iter().map(|(block, _)| &**block))?;
        let costs: Vec<usize> = messages.iter().map(|message| self.tokens.count(message)).collect();
        Ok(self.compose_counted(messages, &costs, said))
    }

    /// [`Composer::compose`] with the tokens of each message.
    pub(crate) fn compose_counted(
        &self,
        messages: &[impl Borrow<Message>],
        costs: &[usize],
        said: Vec<BlockOutput>,
    ) -> Prompt {
        let mut said: Vec<BlockOutput> = said.into_iter().filter(|(_, content)| !content.is_empty()).collect();
        let before: usize = costs.iter().sum();
        let mut prompt = Prompt::default();
        let mut composed = self.insert(messages, costs, &said);
        // By the index in `said`: the least important first.
        let mut order: Vec<usize> = (0..said.len()).filter(|&at| said[at].0.priority() != 0).collect();
        order.sort_by_key(|&at| std::cmp::Reverse(said[at].0.priority()));
        for whole in [false, true] {
            for &at in &order {
                let excess = composed.1.saturating_sub(self.token_limit);
                if excess == 0 || said[at].1.is_empty() {
                    continue;
                }
                let block = Arc::clone(&said[at].0);
                let old = std::mem::take(&mut said[at].1);
                if !whole {
                    let fits = |content: &BlockContent| {
                        let mut said = said.clone();
                        said[at].1 = content.clone();
                        self.insert(messages, costs, &said).1 <= self.token_limit
                    };
                    said[at].1 = block.truncate(old, &Excess::new(excess, &fits));
                }
                let name = block.name().to_owned();
                match said[at].1.is_empty() {
                    true => {
                        prompt.shortened.retain(|other| *other != name);
                        prompt.dropped.push(name);
                    }
                    false => prompt.shortened.push(name),
                }
                composed = self.insert(messages, costs, &said);
            }
        }
        (prompt.messages, prompt.tokens) = composed;
        if prompt.tokens > self.token_limit {
            let memory = prompt.tokens.saturating_sub(before);
            prompt.over = Some(Overflow {
                tokens: prompt.tokens - self.token_limit,
                reason: format!(
                    "the messages have {before} tokens and blocks of priority 0 with their frame {memory}, of {}",
                    self.token_limit
                ),
            });
        }
        prompt
    }

    /// The messages with what is said in them, and their tokens.
    fn insert(
        &self,
        messages: &[impl Borrow<Message>],
        costs: &[usize],
        said: &[BlockOutput],
    ) -> (Vec<Message>, usize) {
        let mut all = Vec::new();
        let mut sections: Vec<Section<'_>> = Vec::new();
        let mut tokens: usize = costs.iter().sum();
        for (block, content) in said.iter().filter(|(_, content)| !content.is_empty()) {
            match content {
                BlockContent::Messages(more) => {
                    tokens += more.iter().map(|message| self.tokens.count(message)).sum::<usize>();
                    all.extend(more.iter().cloned());
                }
                content => sections.push((block.name(), content)),
            }
        }
        let first = all.len();
        all.extend(messages.iter().map(|message| message.borrow().clone()));
        if !sections.is_empty() {
            let media = sections.iter().flat_map(|(_, content)| media(content)).collect();
            let at = insert(&mut all, self.insert, self.renderer.render(&sections), media);
            let (at, was) = match at {
                insert::At::New(at) => (at, 0),
                insert::At::Old(at, _) if at >= first => (at, costs[at - first]),
                insert::At::Old(at, was) => (at, self.tokens.count(&was)),
            };
            tokens = (tokens + self.tokens.count(&all[at])).saturating_sub(was);
        }
        (all, tokens)
    }
}

/// The media of a block's parts: they follow the text that names them.
fn media(content: &BlockContent) -> Vec<Part> {
    match content {
        BlockContent::Parts(parts) => parts.iter().filter(|part| xml::media(part).is_some()).cloned().collect(),
        _ => Vec::new(),
    }
}

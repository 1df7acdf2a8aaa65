//! Composition of a prompt from messages and the content of memory blocks, under one token budget.
//!
//! This module owns rendering, inserting, truncating and counting. It reads no store, and calls a block only to truncate
//! its content. The composer inserts the rendered content (`renderers`) into one of the messages, and returns a prompt
//! with a report (`prompt`). Rendered content carries a keyed checksum (`seal`), by which a memory recognises its own
//! text when a prompt comes back.
//!
//! Invariants: the token count is that of exactly the returned messages, including the text around the memory. A prompt
//! that is too long is returned nevertheless, and states by how much and why.

mod prompt;
mod renderers;
mod seal;

use std::{borrow::Borrow, cmp::Reverse, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    block::{BlockContent, ContentChange, MemoryBlock, TokenExcess, check_names},
    error::{Result, impl_debug},
    message::{ContentPart, Message, MessageTokenCounter, PerPartTokenCounter, Role},
};
pub use prompt::{BlockFailure, Prompt, PromptOverflow, PromptSectionReport, RecalledMessage};
use prompt::{recalled, superseded_messages};
use renderers::SupersededMessages;
pub use renderers::{MarkdownRenderer, PromptSection, Renderer, XmlRenderer};
pub use seal::{PromptSeal, SealKey};

/// A block and its content.
pub type BlockOutput = (Arc<dyn MemoryBlock>, BlockContent);

/// Composes prompts from messages and the content of blocks. A [`Memory`](crate::Memory) composes prompts of its own
/// messages; use a composer for messages from elsewhere.
#[derive(Clone)]
#[non_exhaustive]
pub struct Composer {
    /// The maximum number of tokens of a prompt. Default: 30,000.
    pub token_limit: usize,
    /// The position of memory in the prompt. Default: [`InsertMethod::System`].
    pub insert: InsertMethod,
    /// The format of memory. Default: [`XmlRenderer`].
    pub renderer: Arc<dyn Renderer>,
    /// The token counter for messages. Default: [`PerPartTokenCounter::default`].
    pub tokens: Arc<dyn MessageTokenCounter>,
    /// The key by which rendered memory is recognised when a prompt comes back. Default: a random key.
    pub seal_key: SealKey,
}

/// The position of memory in a prompt. In each message it is in the order in which it [changes](ContentChange), the least
/// first.
///
/// A [`Memory`](crate::Memory) whose messages contain none of the user inserts all into a system message: no provider accepts
/// a conversation that begins with the assistant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum InsertMethod {
    /// After the content of the first system message, or in a new system message at the front. What is recalled for a prompt
    /// changes the system message, and a provider's prompt cache keeps nothing behind it.
    #[default]
    System,
    /// Before the content of the last user message, or in a new user message at the end.
    User,
    /// Puts what changes with [each prompt](ContentChange::EachPrompt) where `User` does, and the rest where `System` does. The system
    /// message and the history stay as they are from prompt to prompt, so a provider's prompt cache keeps both.
    Split,
}

impl_debug!(Composer { token_limit, insert });

impl Default for Composer {
    fn default() -> Self {
        Composer {
            token_limit: 30_000,
            insert: InsertMethod::System,
            renderer: Arc::new(XmlRenderer),
            tokens: Arc::new(PerPartTokenCounter::default()),
            seal_key: SealKey::random(),
        }
    }
}

impl Composer {
    /// Composes a prompt from messages and the content of blocks.
    ///
    /// If the prompt exceeds the limit, blocks with a priority other than 0 are truncated, the highest number first. If
    /// that is not enough, they are left out in the same order. Cost: each message is counted once; the message that
    /// contains the memory is counted again after every truncation.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`](crate::Error::InvalidConfig) for a block name that is used twice or that is not a valid
    /// name of an XML element.
    pub fn compose(&self, messages: &[Message], outputs: Vec<BlockOutput>) -> Result<Prompt> {
        check_names(outputs.iter().map(|(block, _)| &**block))?;
        let costs: Vec<usize> = messages.iter().map(|message| self.tokens.count(message)).collect();
        Ok(self.compose_counted(messages, &costs, outputs))
    }

    /// Same as [`Composer::compose`], with the known token counts of the messages, and without the check of the names.
    pub(crate) fn compose_counted(
        &self,
        messages: &[impl Borrow<Message>],
        costs: &[usize],
        outputs: Vec<BlockOutput>,
    ) -> Prompt {
        let mut outputs: Vec<BlockOutput> = outputs.into_iter().filter(|(_, content)| !content.is_empty()).collect();
        outputs.sort_by_key(|(block, _)| block.changes());
        let mut prompt = Prompt::default();
        let mut joined = self.join(messages, costs, &outputs);
        // Indexes into `outputs`, the least important first.
        let mut order: Vec<usize> = (0..outputs.len()).filter(|&index| outputs[index].0.priority() != 0).collect();
        order.sort_by_key(|&index| Reverse(outputs[index].0.priority()));
        for drop_whole in [false, true] {
            for &index in &order {
                let excess = joined.tokens.saturating_sub(self.token_limit);
                if excess == 0 || outputs[index].1.is_empty() {
                    continue;
                }
                let block = Arc::clone(&outputs[index].0);
                let content = std::mem::take(&mut outputs[index].1);
                if !drop_whole {
                    let fits = |content: &BlockContent| {
                        let mut outputs = outputs.clone();
                        outputs[index].1 = content.clone();
                        self.join(messages, costs, &outputs).tokens <= self.token_limit
                    };
                    outputs[index].1 = block.truncate(content, &TokenExcess::new(excess, &fits));
                }
                let name = block.name().to_owned();
                if outputs[index].1.is_empty() {
                    prompt.shortened.retain(|other| *other != name);
                    prompt.dropped.push(name);
                } else {
                    prompt.shortened.push(name);
                }
                joined = self.join(messages, costs, &outputs);
            }
        }
        prompt.sections = self.section_reports(&outputs, &joined.superseded);
        prompt.recalled = recalled_messages(&outputs, &joined.superseded);
        (prompt.messages, prompt.tokens) = (joined.messages, joined.tokens);
        if prompt.tokens > self.token_limit {
            let message_tokens: usize = costs.iter().sum();
            let memory_tokens = prompt.tokens.saturating_sub(message_tokens);
            prompt.over = Some(PromptOverflow {
                tokens: prompt.tokens - self.token_limit,
                reason: format!(
                    "the messages have {message_tokens} tokens and the blocks of priority 0 have {memory_tokens}; the limit is {}",
                    self.token_limit
                ),
            });
        }
        prompt
    }

    /// Reports the tokens of each block with content. Counts each content once.
    fn section_reports(&self, outputs: &[BlockOutput], superseded: &SupersededMessages) -> Vec<PromptSectionReport> {
        let report = |(block, content): &BlockOutput| {
            let tokens = match content {
                BlockContent::Messages(messages) => messages.iter().map(|message| self.tokens.count(message)).sum(),
                content => {
                    let section = PromptSection::in_prompt(block.name(), content, superseded);
                    let text = ContentPart::Text { text: self.renderer.render(&[section], &self.seal_key) };
                    let parts = std::iter::once(text).chain(media_parts(content)).collect();
                    self.tokens.count(&Message::from_parts(Role::System, parts))
                }
            };
            PromptSectionReport { name: block.name().to_owned(), tokens, ..PromptSectionReport::default() }
        };
        outputs.iter().filter(|(_, content)| !content.is_empty()).map(report).collect()
    }

    /// Inserts the content of the blocks into the messages, without regard to the limit.
    fn join(&self, messages: &[impl Borrow<Message>], costs: &[usize], outputs: &[BlockOutput]) -> JoinedMessages {
        let superseded = superseded_messages(outputs.iter().map(|(_, content)| content), messages);
        let mut all = Vec::new();
        let (mut of_system, mut of_user) = (Vec::new(), Vec::new());
        let mut tokens: usize = costs.iter().sum();
        for (block, content) in outputs.iter().filter(|(_, content)| !content.is_empty()) {
            match content {
                BlockContent::Messages(added) => {
                    tokens += added.iter().map(|message| self.tokens.count(message)).sum::<usize>();
                    all.extend(added.iter().cloned());
                }
                content => {
                    let is_of_user = match self.insert {
                        InsertMethod::System => false,
                        InsertMethod::User => true,
                        InsertMethod::Split => block.changes() == ContentChange::EachPrompt,
                    };
                    let sections = if is_of_user { &mut of_user } else { &mut of_system };
                    sections.push(PromptSection::in_prompt(block.name(), content, &superseded));
                }
            }
        }
        let first = all.len();
        all.extend(messages.iter().map(|message| message.borrow().clone()));
        // The user's first: a new system message moves all others.
        for (role, sections) in [(Role::User, of_user), (Role::System, of_system)] {
            if sections.is_empty() {
                continue;
            }
            let media = sections.iter().flat_map(|section| media_parts(section.content)).collect();
            let inserted = insert_memory(&mut all, role, self.renderer.render(&sections, &self.seal_key), media);
            let before = match inserted.before {
                None => 0,
                Some(_) if inserted.index >= first => costs[inserted.index - first],
                Some(message) => self.tokens.count(&message),
            };
            tokens = (tokens + self.tokens.count(&all[inserted.index])).saturating_sub(before);
        }
        JoinedMessages { messages: all, tokens, superseded }
    }
}

/// Messages with the content of blocks in them.
struct JoinedMessages {
    messages: Vec<Message>,
    tokens: usize,
    superseded: SupersededMessages,
}

/// Reports the messages that blocks quote or add.
fn recalled_messages(outputs: &[BlockOutput], superseded: &SupersededMessages) -> Vec<RecalledMessage> {
    let mut all = Vec::new();
    for (block, content) in outputs {
        all.extend(recalled(content).iter().map(|message| RecalledMessage {
            block: block.name().to_owned(),
            id: message.id.clone(),
            score: None,
            superseded_by: superseded.get(&message.id).cloned().unwrap_or_default(),
        }));
    }
    all
}

/// Returns the media parts of a block's content. In the prompt they follow the rendered text, which mentions them.
fn media_parts(content: &BlockContent) -> Vec<ContentPart> {
    match content {
        BlockContent::Parts(parts) => parts.iter().filter(|part| part.media().is_some()).cloned().collect(),
        _ => Vec::new(),
    }
}

/// The message that memory was inserted into.
struct Insertion {
    index: usize,
    /// The message without the memory. `None` if the message is new.
    before: Option<Message>,
}

/// Inserts the text `memory` and the media that it mentions: after the content of the first system message, or before that
/// of the last message of the user.
fn insert_memory(messages: &mut Vec<Message>, role: Role, memory: String, media: Vec<ContentPart>) -> Insertion {
    let is_system = role == Role::System;
    let is_of_role = |message: &Message| message.role == role;
    let index = if is_system { messages.iter().position(is_of_role) } else { messages.iter().rposition(is_of_role) };
    let parts = std::iter::once(ContentPart::Text { text: memory }).chain(media);
    match index {
        Some(index) => {
            let before = messages[index].clone();
            let at = if is_system { before.content.len() } else { 0 };
            messages[index].content.splice(at..at, parts);
            Insertion { index, before: Some(before) }
        }
        None => {
            let index = if is_system { 0 } else { messages.len() };
            messages.insert(index, Message::from_parts(role, parts.collect()));
            Insertion { index, before: None }
        }
    }
}

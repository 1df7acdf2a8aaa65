//! The composer of prompts.

use std::{borrow::Borrow, cmp::Reverse, sync::Arc};

use super::{
    insertion::{InsertMethod, insert_memory},
    prompt::{Prompt, PromptOverflow, PromptSectionReport, RecalledMessage},
    renderer::{PromptSection, Renderer},
    seal_key::SealKey,
    superseded::{SupersededMessages, recalled, superseded_messages},
    xml_renderer::XmlRenderer,
};
use crate::{
    block::{BlockContent, MemoryBlock, TokenExcess, check_names},
    error::{Result, impl_debug},
    message::{ContentPart, Message, MessageTokenCounter, PerPartTokenCounter, Role},
};

/// A block and its content.
pub type BlockOutput = (Arc<dyn MemoryBlock>, BlockContent);

/// Composes prompts from messages and the content of blocks. A [`Memory`](crate::Memory) does this for its own
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
    /// The key by which memory is recognised when a prompt comes back. Default: a random one.
    pub seal_key: SealKey,
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

    /// Same as [`Composer::compose`], with the token count of each message. Does not check the names of the blocks.
    pub(crate) fn compose_counted(
        &self,
        messages: &[impl Borrow<Message>],
        costs: &[usize],
        outputs: Vec<BlockOutput>,
    ) -> Prompt {
        let mut outputs: Vec<BlockOutput> = outputs.into_iter().filter(|(_, content)| !content.is_empty()).collect();
        let mut prompt = Prompt::default();
        let mut superseded;
        (prompt.messages, prompt.tokens, superseded) = self.join(messages, costs, &outputs);
        // Indexes into `outputs`, the least important first.
        let mut order: Vec<usize> = (0..outputs.len()).filter(|&index| outputs[index].0.priority() != 0).collect();
        order.sort_by_key(|&index| Reverse(outputs[index].0.priority()));
        for drop_whole in [false, true] {
            for &index in &order {
                let excess = prompt.tokens.saturating_sub(self.token_limit);
                if excess == 0 || outputs[index].1.is_empty() {
                    continue;
                }
                let block = Arc::clone(&outputs[index].0);
                let content = std::mem::take(&mut outputs[index].1);
                if !drop_whole {
                    let fits = |content: &BlockContent| {
                        let mut outputs = outputs.clone();
                        outputs[index].1 = content.clone();
                        self.join(messages, costs, &outputs).1 <= self.token_limit
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
                (prompt.messages, prompt.tokens, superseded) = self.join(messages, costs, &outputs);
            }
        }
        prompt.sections = self.section_reports(&outputs, &superseded);
        prompt.recalled = recalled_messages(&outputs, &superseded);
        if prompt.tokens > self.token_limit {
            let of_messages: usize = costs.iter().sum();
            let of_memory = prompt.tokens.saturating_sub(of_messages);
            prompt.over = Some(PromptOverflow {
                tokens: prompt.tokens - self.token_limit,
                reason: format!(
                    "the messages have {of_messages} tokens and the blocks of priority 0 have {of_memory}; the limit is {}",
                    self.token_limit
                ),
            });
        }
        prompt
    }

    /// Returns the name and the tokens of each block with content. Counts each content once.
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

    /// Returns the messages with the content of the blocks in them, their tokens, and the recalled messages that are
    /// superseded.
    fn join(
        &self,
        messages: &[impl Borrow<Message>],
        costs: &[usize],
        outputs: &[BlockOutput],
    ) -> (Vec<Message>, usize, SupersededMessages) {
        let superseded = superseded_messages(outputs.iter().map(|(_, content)| content), messages);
        let mut all = Vec::new();
        let mut sections: Vec<PromptSection<'_>> = Vec::new();
        let mut tokens: usize = costs.iter().sum();
        for (block, content) in outputs.iter().filter(|(_, content)| !content.is_empty()) {
            match content {
                BlockContent::Messages(of_block) => {
                    tokens += of_block.iter().map(|message| self.tokens.count(message)).sum::<usize>();
                    all.extend(of_block.iter().cloned());
                }
                content => sections.push(PromptSection::in_prompt(block.name(), content, &superseded)),
            }
        }
        let first = all.len();
        all.extend(messages.iter().map(|message| message.borrow().clone()));
        if !sections.is_empty() {
            let media = sections.iter().flat_map(|section| media_parts(section.content)).collect();
            let inserted = insert_memory(&mut all, self.insert, self.renderer.render(&sections, &self.seal_key), media);
            let before = match inserted.before {
                None => 0,
                Some(_) if inserted.index >= first => costs[inserted.index - first],
                Some(message) => self.tokens.count(&message),
            };
            tokens = (tokens + self.tokens.count(&all[inserted.index])).saturating_sub(before);
        }
        (all, tokens, superseded)
    }
}

/// Returns the messages that blocks quote or add.
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

/// Returns the media of a block's parts. They follow the rendered text, which mentions them.
fn media_parts(content: &BlockContent) -> Vec<ContentPart> {
    match content {
        BlockContent::Parts(parts) => parts.iter().filter(|part| part.media().is_some()).cloned().collect(),
        _ => Vec::new(),
    }
}

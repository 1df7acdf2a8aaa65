//! Prompts out of the buffer, the blocks and the turn that is being worked on.

use std::{collections::HashSet, sync::Arc};

use super::{Asked, Inner};
use crate::{
    block::{BlockContent, VectorBlock},
    buffer::turn_starts,
    compose::{BlockOutput, Prompt},
    error::{Error, Result, impl_debug},
    message::{Message, MessageSelector, Role, answers, broken_calls},
};

/// The element of the memories that [`Memory::assemble`](super::Memory::assemble) recalls.
const RECALLED: &str = "recalled";

/// What [`Memory::assemble`](super::Memory::assemble) makes a prompt of. A message is one, with the defaults.
#[derive(Clone)]
pub struct Assembly {
    prompt: Message,
    selector: Option<Arc<dyn MessageSelector>>,
    recall: usize,
    recall_priority: u32,
}

impl_debug!(Assembly { recall, recall_priority });

impl Assembly {
    /// For this prompt: the message to be answered.
    pub fn new(prompt: Message) -> Self {
        Assembly { prompt, selector: None, recall: 3, recall_priority: 1 }
    }

    /// Which recent messages are in it. Default: all in the buffer.
    pub fn selector(mut self, selector: impl MessageSelector + 'static) -> Self {
        self.selector = Some(Arc::new(selector));
        self
    }

    /// How many memories like the prompt are told, in the element `recalled`. Default: 3.
    pub fn recall(mut self, k: usize) -> Self {
        self.recall = k;
        self
    }

    /// Their priority among the blocks. Default: 1.
    pub fn recall_priority(mut self, priority: u32) -> Self {
        self.recall_priority = priority;
        self
    }
}

impl From<Message> for Assembly {
    fn from(prompt: Message) -> Self {
        Assembly::new(prompt)
    }
}

/// Messages in the order of a prompt, and their tokens.
#[derive(Default)]
struct Parts {
    messages: Vec<Arc<Message>>,
    costs: Vec<usize>,
}

impl Inner {
    pub(super) fn get(&self, input: Option<Message>) -> Result<Prompt> {
        let (history, left_out) = self.valid_buffer(None)?;
        let messages = history.messages.iter().cloned().chain(input.map(Arc::new)).collect();
        let (mut said, failed) = self.poll(&self.blocks, messages)?;
        once_each(&mut said, &history.messages);
        let prompt = self.settings.composer.compose_counted(&history.messages, &history.costs, said);
        self.give(&prompt.messages, &history.messages, &[]);
        Ok(Prompt { failed, left_out, ..prompt })
    }

    pub(super) fn assemble(&self, assembly: Assembly) -> Result<Prompt> {
        let Assembly { mut prompt, selector, recall, recall_priority } = assembly;
        prompt.session.clone_from(&self.settings.session);
        prompt.check()?;
        let steps = {
            let mut turn = self.live.turn.lock();
            let before = turn.prompt.replace(prompt.id.clone());
            if before.is_some_and(|before| before != prompt.id) {
                turn.steps.clear();
            }
            turn.steps.clone()
        };
        let (buffer, mut left_out) = self.valid_buffer(Some(&prompt))?;
        let later: HashSet<&str> = steps.iter().map(|message| message.id.as_str()).collect();
        let (system, mut recent) = split(buffer, |message| !later.contains(message.id.as_str()));
        if let Some(selector) = selector {
            recent = self.selected(&recent, &*selector, &mut left_out);
        }

        let mut blocks = self.blocks.clone();
        if recall > 0 {
            if blocks.iter().any(|asked| asked.block.name() == RECALLED) {
                let reason = format!(
                    "a block is named {RECALLED:?}, as the memories like the prompt are; rename it, or `recall(0)`"
                );
                return Err(Error::InvalidConfig { reason });
            }
            let block = VectorBlock::new(RECALLED).with_priority(recall_priority);
            let block = block.retrieval_context_window(1).similarity_top_k(recall);
            blocks.push(Asked { block: Arc::new(block), late: Arc::clone(&self.recalled_late) });
        }
        let prompt = Arc::new(prompt);
        let asked_with = system.messages.iter().chain(&recent.messages).chain([&prompt]).cloned().collect();
        let (mut said, failed) = self.poll(&blocks, asked_with)?;

        let end = Parts::count(std::iter::once(prompt).chain(steps.into_iter().map(Arc::new)).collect(), |message| {
            self.settings.composer.tokens.count(message)
        });
        let mut dropped = Vec::new();
        loop {
            let all = Parts::join([&system, &recent, &end]);
            let mut now = said.clone();
            once_each(&mut now, &all.messages);
            let composed = self.settings.composer.compose_counted(&all.messages, &all.costs, now);
            let over = composed.over.as_ref().map_or(0, |over| over.tokens);
            let cut = if over > 0 { oldest_turns(&recent, over) } else { 0 };
            if cut == 0 {
                self.give(&composed.messages, &[&system.messages[..], &recent.messages].concat(), &end.messages);
                dropped.extend(composed.dropped);
                return Ok(Prompt { failed, left_out, dropped, ..composed });
            }
            recent.costs.drain(..cut);
            left_out.extend(recent.messages.drain(..cut).map(|message| message.id.clone()));
            // All blocks that can be left out are: they stay so, though they may fit now.
            dropped.extend(composed.dropped);
            said.retain(|(block, _)| block.priority() == 0);
        }
    }

    /// The messages in the buffer that a model takes before `prompt`, that one left out; and the ids of those that it does not
    /// take: see [`broken_calls`].
    fn valid_buffer(&self, prompt: Option<&Message>) -> Result<(Parts, Vec<String>)> {
        let mut buffer = self.buffer()?;
        buffer.retain(|(_, message, _)| prompt.is_none_or(|prompt| prompt.id != message.id));
        let messages: Vec<&Message> = buffer.iter().map(|(_, message, _)| &**message).chain(prompt).collect();
        let broken = broken_calls(&messages);
        let mut left_out = Vec::new();
        let mut valid = Parts::default();
        for (at, (_, message, cost)) in buffer.into_iter().enumerate() {
            if broken.contains(&at) {
                left_out.push(message.id.clone());
            } else {
                valid.messages.push(message);
                valid.costs.push(cost);
            }
        }
        Ok((valid, left_out))
    }

    /// What a selector chooses, and the results of the calls in it. Results whose call it passed over are left out.
    fn selected(&self, recent: &Parts, selector: &dyn MessageSelector, left_out: &mut Vec<String>) -> Parts {
        let messages: Vec<Message> = recent.messages.iter().map(|message| (**message).clone()).collect();
        let chosen = selector.select(&messages);
        let ids: HashSet<&str> = chosen.iter().map(|message| message.id.as_str()).collect();
        let answers = answers(&messages);
        let mut all: Vec<Message> = Vec::new();
        for message in &chosen {
            all.push(message.clone());
            let results =
                answers.iter().filter(|answer| answer.call.is_some_and(|call| messages[call].id == message.id));
            let results = results.map(|answer| &messages[answer.result]);
            all.extend(results.filter(|result| !ids.contains(result.id.as_str())).cloned());
        }
        let broken = broken_calls(&all);
        let mut parts = Parts::default();
        for (_, message) in all.into_iter().enumerate().filter(|(at, _)| !broken.contains(at)) {
            // A selector may have changed it.
            let known = messages.iter().position(|other| other.id == message.id && *other == message);
            let count = || self.settings.composer.tokens.count(&message);
            parts.costs.push(known.map_or_else(count, |known| recent.costs[known]));
            parts.messages.push(Arc::new(message));
        }
        let ids: HashSet<&str> = parts.messages.iter().map(|message| message.id.as_str()).collect();
        left_out.extend(messages.iter().map(|m| m.id.clone()).filter(|id| !ids.contains(id.as_str())));
        parts
    }
}

impl Parts {
    fn count(messages: Vec<Arc<Message>>, cost: impl Fn(&Message) -> usize) -> Self {
        Parts { costs: messages.iter().map(|message| cost(message)).collect(), messages }
    }

    fn join<'a>(parts: impl IntoIterator<Item = &'a Parts>) -> Self {
        let mut all = Parts::default();
        for part in parts {
            all.messages.extend(part.messages.iter().cloned());
            all.costs.extend(&part.costs);
        }
        all
    }
}

/// Leading system messages, and the others; of both only those that are wanted.
fn split(all: Parts, wanted: impl Fn(&Message) -> bool) -> (Parts, Parts) {
    let (mut system, mut others) = (Parts::default(), Parts::default());
    for (message, cost) in all.messages.into_iter().zip(all.costs) {
        let leading = message.role == Role::System && others.messages.is_empty();
        if wanted(&message) {
            let parts = if leading { &mut system } else { &mut others };
            parts.messages.push(message);
            parts.costs.push(cost);
        }
    }
    (system, others)
}

/// How many messages the oldest turns have that together cost `tokens`, or all.
fn oldest_turns(recent: &Parts, tokens: usize) -> usize {
    let mut sum = 0;
    let enough = recent.costs.iter().position(|cost| {
        sum += cost;
        sum >= tokens
    });
    let Some(enough) = enough else { return recent.messages.len() };
    let cut = turn_starts(&recent.messages).into_iter().find(|&cut| cut > enough);
    cut.unwrap_or(recent.messages.len())
}

/// A message is told once: not by a second block, nor if it is in the prompt.
fn once_each(said: &mut [BlockOutput], shown: &[Arc<Message>]) {
    let shown: HashSet<&str> = shown.iter().map(|message| message.id.as_str()).collect();
    let mut told: HashSet<String> = HashSet::new();
    for (_, content) in said {
        if let BlockContent::Quoted(messages) | BlockContent::Messages(messages) = content {
            messages.retain(|message| !shown.contains(&*message.id) && told.insert(message.id.clone()));
        }
    }
}

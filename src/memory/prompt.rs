//! Makes prompts from the buffer, the blocks and the turn in progress.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    inner::{Inner, PromptBlock},
    window::RecentMessage,
};
use crate::{
    block::{BlockContent, VectorBlock},
    buffer::turn_starts,
    compose::{BlockOutput, Prompt},
    error::{Error, Result, impl_debug},
    message::{Message, MessageSelector, Role, match_tool_results, misplaced_tool_messages},
};

/// The name of the section of messages that [`Memory::assemble`](super::Memory::assemble) recalls.
const RECALLED: &str = "recalled";

/// A request for a prompt by [`Memory::assemble`](super::Memory::assemble). A message converts into a request with the
/// defaults.
#[derive(Clone)]
pub struct AssembleRequest {
    prompt: Message,
    selector: Option<Arc<dyn MessageSelector>>,
    recall: usize,
    recall_priority: u32,
}

impl_debug!(AssembleRequest { recall, recall_priority });

impl AssembleRequest {
    /// Makes a request for this prompt, the message to be answered.
    pub fn new(prompt: Message) -> Self {
        AssembleRequest { prompt, selector: None, recall: 3, recall_priority: 1 }
    }

    /// Sets the selector of recent messages. Default: all messages in the buffer.
    pub fn selector(mut self, selector: impl MessageSelector + 'static) -> Self {
        self.selector = Some(Arc::new(selector));
        self
    }

    /// Sets how many messages are recalled for the prompt, in the section `recalled`. Default: 3.
    pub fn recall(mut self, k: usize) -> Self {
        self.recall = k;
        self
    }

    /// Sets the priority of the section `recalled` among the blocks. Default: 1.
    pub fn recall_priority(mut self, priority: u32) -> Self {
        self.recall_priority = priority;
        self
    }
}

impl From<Message> for AssembleRequest {
    fn from(prompt: Message) -> Self {
        AssembleRequest::new(prompt)
    }
}

/// Messages in the order of a prompt, with their token counts.
#[derive(Default)]
struct CountedMessages {
    messages: Vec<Arc<Message>>,
    costs: Vec<usize>,
}

/// The messages of a session's window that a prompt may have.
#[derive(Default)]
struct Window {
    valid: CountedMessages,
    /// The sequence numbers of the valid messages, by id.
    seqs: HashMap<String, u64>,
    /// The ids of the messages that a model does not accept: see [`misplaced_tool_messages`].
    left_out: Vec<String>,
}

impl Inner {
    pub(super) fn get(&self, input: Option<Message>) -> Result<Prompt> {
        let Window { valid: history, left_out, seqs } = self.valid_window(None)?;
        let messages: Vec<_> = history.messages.iter().cloned().chain(input.map(Arc::new)).collect();
        let mut answers = self.call_blocks(&self.blocks, messages.clone(), seqs)?;
        let mut outputs = std::mem::take(&mut answers.outputs);
        once_each(&mut outputs, &messages);
        let mut prompt = self.settings.composer.compose_counted(&history.messages, &history.costs, outputs);
        answers.report(&mut prompt);
        self.remember_prompt(&prompt.messages, &left_out, &history.messages, &[]);
        Ok(Prompt { left_out, ..prompt })
    }

    pub(super) fn assemble(&self, request: AssembleRequest) -> Result<Prompt> {
        let AssembleRequest { mut prompt, selector, recall, recall_priority } = request;
        prompt.session.clone_from(&self.stored.session);
        prompt.check()?;
        let steps = {
            let mut turn = self.live.turn.lock();
            let before = turn.prompt.replace(prompt.id.clone());
            if before.is_some_and(|before| before != prompt.id) {
                turn.steps.clear();
            }
            turn.steps.clone()
        };
        let Window { valid, mut left_out, seqs } = self.valid_window(Some(&prompt))?;
        let later: HashSet<&str> = steps.iter().map(|message| message.id.as_str()).collect();
        let (system, mut recent) = split(valid, |message| !later.contains(message.id.as_str()));
        if let Some(selector) = selector {
            recent = self.selected(&recent, &*selector, &mut left_out);
        }

        let mut blocks = self.blocks.clone();
        if recall > 0 {
            if blocks.iter().any(|other| other.block.name() == RECALLED) {
                let reason = format!(
                    "a block is named {RECALLED:?}, the section of recalled messages; rename the block, or recall 0 messages"
                );
                return Err(Error::InvalidConfig { reason });
            }
            let block = VectorBlock::new(RECALLED).with_priority(recall_priority);
            let block = block.retrieval_context_window(1).similarity_top_k(recall);
            blocks.push(PromptBlock { block: Arc::new(block), late: Arc::clone(&self.recall_late) });
        }
        let prompt = Arc::new(prompt);
        let asked_with = system.messages.iter().chain(&recent.messages).chain([&prompt]).cloned().collect();
        let mut answers = self.call_blocks(&blocks, asked_with, seqs)?;
        let mut outputs = std::mem::take(&mut answers.outputs);

        let end = CountedMessages::count(
            std::iter::once(prompt).chain(steps.into_iter().map(Arc::new)).collect(),
            |message| self.settings.composer.tokens.count(message),
        );
        let mut dropped = Vec::new();
        loop {
            let all = CountedMessages::join([&system, &recent, &end]);
            let mut now = outputs.clone();
            once_each(&mut now, &all.messages);
            let mut composed = self.settings.composer.compose_counted(&all.messages, &all.costs, now);
            let over = composed.over.as_ref().map_or(0, |over| over.tokens);
            let cut = if over > 0 { oldest_turns(&recent, over) } else { 0 };
            if cut == 0 {
                self.remember_prompt(
                    &composed.messages,
                    &left_out,
                    &[&system.messages[..], &recent.messages].concat(),
                    &end.messages,
                );
                dropped.append(&mut composed.dropped);
                answers.report(&mut composed);
                return Ok(Prompt { left_out, dropped, ..composed });
            }
            recent.costs.drain(..cut);
            left_out.extend(recent.messages.drain(..cut).map(|message| message.id.clone()));
            // The composer has left out every block that it may. They stay out, although they may fit now.
            dropped.extend(composed.dropped);
            outputs.retain(|(block, _)| block.priority() == 0);
        }
    }

    /// Returns the window before `prompt`, without a stored copy of `prompt` itself.
    fn valid_window(&self, prompt: Option<&Message>) -> Result<Window> {
        let mut recent = self.recent()?;
        recent.retain(|recent| prompt.is_none_or(|prompt| prompt.id != recent.message.id));
        let messages: Vec<&Message> = recent.iter().map(|recent| &*recent.message).chain(prompt).collect();
        let broken = misplaced_tool_messages(&messages);
        let mut window = Window::default();
        for (at, RecentMessage { seq, message, cost, .. }) in recent.into_iter().enumerate() {
            if broken.contains(&at) {
                window.left_out.push(message.id.clone());
            } else {
                window.seqs.insert(message.id.clone(), seq);
                window.valid.messages.push(message);
                window.valid.costs.push(cost);
            }
        }
        Ok(window)
    }

    /// Returns the messages that a selector chose and the results of the calls among them. Results of calls that it did
    /// not choose are left out.
    fn selected(
        &self,
        recent: &CountedMessages,
        selector: &dyn MessageSelector,
        left_out: &mut Vec<String>,
    ) -> CountedMessages {
        let messages: Vec<Message> = recent.messages.iter().map(|message| (**message).clone()).collect();
        let chosen = selector.select(&messages);
        let ids: HashSet<&str> = chosen.iter().map(|message| message.id.as_str()).collect();
        let answers = match_tool_results(&messages);
        let mut all: Vec<Message> = Vec::new();
        for message in &chosen {
            all.push(message.clone());
            let results =
                answers.iter().filter(|answer| answer.call.is_some_and(|call| messages[call].id == message.id));
            let results = results.map(|answer| &messages[answer.result]);
            all.extend(results.filter(|result| !ids.contains(result.id.as_str())).cloned());
        }
        let broken = misplaced_tool_messages(&all);
        let mut kept = CountedMessages::default();
        for (_, message) in all.into_iter().enumerate().filter(|(at, _)| !broken.contains(at)) {
            // A selector may have changed the message: then it is counted again.
            let known = messages.iter().position(|other| other.id == message.id && *other == message);
            let count = || self.settings.composer.tokens.count(&message);
            kept.costs.push(known.map_or_else(count, |known| recent.costs[known]));
            kept.messages.push(Arc::new(message));
        }
        let ids: HashSet<&str> = kept.messages.iter().map(|message| message.id.as_str()).collect();
        left_out.extend(messages.iter().map(|m| m.id.clone()).filter(|id| !ids.contains(id.as_str())));
        kept
    }
}

impl CountedMessages {
    fn count(messages: Vec<Arc<Message>>, cost: impl Fn(&Message) -> usize) -> Self {
        CountedMessages { costs: messages.iter().map(|message| cost(message)).collect(), messages }
    }

    fn join<'a>(parts: impl IntoIterator<Item = &'a CountedMessages>) -> Self {
        let mut all = CountedMessages::default();
        for part in parts {
            all.messages.extend(part.messages.iter().cloned());
            all.costs.extend(&part.costs);
        }
        all
    }
}

/// Splits messages into the leading system messages and the others, and drops those that are not wanted.
fn split(all: CountedMessages, wanted: impl Fn(&Message) -> bool) -> (CountedMessages, CountedMessages) {
    let (mut system, mut others) = (CountedMessages::default(), CountedMessages::default());
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

/// Returns the number of messages in the oldest turns that together have at least `tokens`, or of all messages.
fn oldest_turns(recent: &CountedMessages, tokens: usize) -> usize {
    let mut sum = 0;
    let enough = recent.costs.iter().position(|cost| {
        sum += cost;
        sum >= tokens
    });
    let Some(enough) = enough else { return recent.messages.len() };
    let cut = turn_starts(&recent.messages).into_iter().find(|&cut| cut > enough);
    cut.unwrap_or(recent.messages.len())
}

/// Removes from blocks the messages that the prompt or an earlier block contains.
fn once_each(outputs: &mut [BlockOutput], shown: &[Arc<Message>]) {
    let shown: HashSet<&str> = shown.iter().map(|message| message.id.as_str()).collect();
    let mut seen: HashSet<String> = HashSet::new();
    for (_, content) in outputs {
        if let BlockContent::Quoted(messages) | BlockContent::Messages(messages) = content {
            messages.retain(|message| !shown.contains(&*message.id) && seen.insert(message.id.clone()));
        }
    }
}

//! Makes prompts from the recent messages, the blocks and the turn in progress.
//!
//! [`OpenMemory::get`] makes a prompt of the recent messages alone; [`OpenMemory::assemble`] adds the message to be
//! answered, the steps of its answer, and the messages recalled for it. Both call the blocks, drop what a provider
//! would refuse, and leave the token budget to the composer. `assemble` also drops the oldest turns if the composer
//! cannot fit the prompt otherwise; the turn in progress always stays.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    echo::{content_hash, has_made_id},
    open_memory::{OpenMemory, PromptBlock, RecentMessage},
};
use crate::{
    block::{BlockContent, VectorBlock},
    buffer::turn_starts,
    compose::{BlockOutput, InsertMethod, Prompt},
    engine::TurnPrompt,
    error::{Error, Result, impl_debug},
    ids::check_id,
    message::{
        ContentPart, Message, MessageSelector, Role, TimeZone, has_unsigned_thinking, is_paused, match_tool_results,
        unfit_for_prompt,
    },
};

/// The name of the section of messages that [`Memory::assemble`](super::Memory::assemble) recalls.
const RECALLED: &str = "recalled";
/// How many of them there are, unless a request or a block says otherwise.
const RECALL: usize = 3;
/// The answerability below which a namespace is taken to have nothing about the prompt, unless a request says otherwise. It
/// keeps 99 % of the questions that have an answer, and refuses a fifth to a third of the others.
const LEAST_ANSWERABILITY: f32 = 0.3;

/// A request for a prompt by [`Memory::assemble`](super::Memory::assemble). A message converts into a request with the
/// defaults.
#[derive(Clone)]
pub struct AssembleRequest {
    prompt: Message,
    selector: Option<Arc<dyn MessageSelector>>,
    recall: Option<usize>,
    recall_priority: u32,
    min_score: Option<f32>,
    time_zone: Option<TimeZone>,
    after: Option<String>,
}

impl_debug!(AssembleRequest { recall, recall_priority, min_score });

impl AssembleRequest {
    /// Makes a request for this prompt, the message to be answered.
    pub fn new(prompt: Message) -> Self {
        AssembleRequest {
            prompt,
            selector: None,
            recall: None,
            recall_priority: 1,
            min_score: None,
            time_zone: None,
            after: None,
        }
    }

    /// Sets the selector of recent messages. Default: all messages in the buffer.
    pub fn selector(mut self, selector: impl MessageSelector + 'static) -> Self {
        self.selector = Some(Arc::new(selector));
        self
    }

    /// Sets the greatest number of messages that are recalled for the prompt, in the section `recalled`. There are none if
    /// the namespace seems to have nothing about the prompt (see [`min_score`](Self::min_score)), and those that a later message supersedes come last. Default:
    /// 3, and none if a block of the memory [recalls](crate::MemoryBlock::recalls) already.
    pub fn recall(mut self, k: usize) -> Self {
        self.recall = Some(k);
        self
    }

    /// Sets the least relevance of the best message that is recalled for the prompt, 0 to 1, as
    /// [`VectorBlock::min_score`](crate::VectorBlock::min_score) does: below it nothing is recalled. Default: none is recalled
    /// if the [answerability](crate::Hits::answerability) is below 0.3. Blocks have their own.
    pub fn min_score(mut self, least: f32) -> Self {
        self.min_score = Some(least);
        self
    }

    /// Sets the priority of the section `recalled` among the blocks. Default: 1.
    pub fn recall_priority(mut self, priority: u32) -> Self {
        self.recall_priority = priority;
        self
    }

    /// Sets the time zone of the days that the prompt names, such as "yesterday". Default: that of the machine.
    pub fn time_zone(mut self, zone: TimeZone) -> Self {
        self.time_zone = Some(zone);
        self
    }

    /// Sets the id of the last message of the session that the model's context no longer holds, after a compaction of it.
    /// Recent messages up to this one are not in the prompt, and are recalled as those of other sessions are. An id that the
    /// recent messages do not have changes nothing. Default: the prompt has all recent messages.
    pub fn after(mut self, id: impl Into<String>) -> Self {
        self.after = Some(id.into());
        self
    }
}

impl From<Message> for AssembleRequest {
    fn from(prompt: Message) -> Self {
        AssembleRequest::new(prompt)
    }
}

/// The messages that a prompt is made of.
struct Conversation {
    /// The system messages with which it begins.
    system: CountedMessages,
    /// The messages before the turn in progress.
    recent: CountedMessages,
    /// The turn in progress: the prompt, the call that it answers if it is a result, and its steps.
    turn: CountedMessages,
    /// The prompt and the steps that were added, which are not of the session.
    own: Vec<Arc<Message>>,
    /// The sequence numbers of the session's messages, by id.
    seqs: HashMap<String, u64>,
    /// The ids of the messages that a model does not accept: see [`unfit_for_prompt`].
    left_out: Vec<String>,
}

/// Messages in the order of a prompt, with their token counts.
#[derive(Default)]
struct CountedMessages {
    messages: Vec<Arc<Message>>,
    costs: Vec<usize>,
}

impl OpenMemory {
    pub(super) fn get(&self, input: Option<Message>) -> Result<Prompt> {
        let recent = self.recent()?;
        let input = input.map(Arc::new);
        let seen: Vec<&Message> = recent.iter().map(|recent| &*recent.message).chain(input.as_deref()).collect();
        // Results of the last calls may follow this prompt, so calls without results stay.
        let unfit = unfit_for_prompt(&seen, true);
        let (mut history, mut seqs, mut left_out) = (CountedMessages::default(), HashMap::new(), Vec::new());
        for (at, RecentMessage { seq, message, cost, .. }) in recent.into_iter().enumerate() {
            if unfit.contains(&at) {
                left_out.push(message.id.clone());
            } else {
                seqs.insert(message.id.clone(), seq);
                history.push(message, cost);
            }
        }
        let messages: Vec<_> = history.messages.iter().cloned().chain(input).collect();
        let mut answers = self.call_blocks(&self.blocks, messages.clone(), seqs, None)?;
        let mut outputs = std::mem::take(&mut answers.outputs);
        once_each(&mut outputs, &messages);
        let mut prompt = self.compose(&history, outputs);
        self.remember_prompt(&prompt.messages, &left_out, &history.messages, &[]);
        prompt.left_out = left_out;
        name_unsigned_thinking(&mut prompt);
        answers.report(&mut prompt);
        Ok(prompt)
    }

    pub(super) fn assemble(&self, request: AssembleRequest) -> Result<Prompt> {
        let AssembleRequest { mut prompt, selector, recall, recall_priority, min_score, time_zone, after } = request;
        if let Some(least) = min_score.filter(|least| !(0.0..=1.0).contains(least)) {
            return Err(Error::query(format!("min_score is {least}, not within 0 to 1")));
        }
        if let Some(id) = &after {
            check_id("id of `after`", id)?;
        }
        prompt.session.clone_from(&self.stored.session);
        prompt.check()?;
        if prompt.is_blank() {
            return Err(Error::message("the prompt is empty: there is nothing to answer"));
        }
        let Conversation { system, mut recent, turn, own, seqs, mut left_out } =
            self.conversation(prompt, after.as_deref())?;
        if let Some(selector) = selector {
            recent = self.selected(&recent, &turn, &*selector, &mut left_out);
        }

        let mut blocks = self.blocks.clone();
        let recall = recall.unwrap_or(if blocks.iter().any(|other| other.block.recalls()) { 0 } else { RECALL });
        if recall > 0 {
            if blocks.iter().any(|other| other.block.name() == RECALLED) {
                let reason = format!(
                    "a block is named {RECALLED:?}, the section of recalled messages; rename the block, or recall 0 messages"
                );
                return Err(Error::InvalidConfig { reason });
            }
            let block = VectorBlock::new(RECALLED).with_priority(recall_priority).retrieval_context_window(1);
            let block = block.similarity_top_k(recall).superseded_last();
            let block = match min_score {
                Some(least) => block.min_score(least),
                None => block.query(|query| query.answerable(LEAST_ANSWERABILITY)),
            };
            blocks.push(PromptBlock { block: Arc::new(block), late: Arc::clone(&self.recall_late) });
        }
        let stored: Vec<Arc<Message>> = {
            let others = turn.messages.iter().filter(|message| own.iter().all(|own| own.id != message.id));
            system.messages.iter().chain(&recent.messages).chain(others).cloned().collect()
        };
        // The query of blocks ends with the prompt.
        let query = stored.iter().chain(own.first()).cloned().collect();
        let mut answers = self.call_blocks(&blocks, query, seqs, time_zone)?;
        let mut outputs = std::mem::take(&mut answers.outputs);

        let mut dropped = Vec::new();
        loop {
            let all = CountedMessages::join([&system, &recent, &turn]);
            let mut now = outputs.clone();
            once_each(&mut now, &all.messages);
            let mut composed = self.compose(&all, now);
            let over = composed.over.as_ref().map_or(0, |over| over.tokens);
            let cut = if over > 0 { oldest_turns(&recent, over) } else { 0 };
            if cut == 0 {
                self.remember_prompt(&composed.messages, &left_out, &stored, &own);
                dropped.append(&mut composed.dropped);
                (composed.left_out, composed.dropped) = (left_out, dropped);
                name_unsigned_thinking(&mut composed);
                answers.report(&mut composed);
                return Ok(composed);
            }
            recent.costs.drain(..cut);
            left_out.extend(recent.messages.drain(..cut).map(|message| message.id.clone()));
            // The composer has left out every block that it may. They stay out, although they may fit now.
            dropped.extend(composed.dropped);
            outputs.retain(|(block, _)| block.priority() == 0);
        }
    }

    /// Returns the conversation that ends with a prompt and its steps, without messages that a provider would refuse.
    ///
    /// Messages that were put since the prompt was put or first assembled are steps of it too. If a message of the user
    /// is among them, the prompt is asked again after them instead. An answer at their end is left out, because the
    /// model is to answer again.
    fn conversation(&self, mut prompt: Message, after: Option<&str>) -> Result<Conversation> {
        let mut recent = self.recent()?;
        let last = recent.iter().find(|recent| Some(&*recent.message.id) == after).map(|last| last.seq);
        if let Some(last) = last {
            recent.retain(|RecentMessage { seq, message, .. }| {
                *seq > last || message.role == Role::System && !message.is_blank()
            });
        }
        let (begin, steps) = {
            let mut turn = self.live.turn.lock();
            let asked = TurnPrompt { id: prompt.id.clone(), hash: content_hash(&prompt) };
            if let Some(before) = turn.prompt.as_ref().filter(|before| before.hash == asked.hash)
                && has_made_id(&prompt)
                && is_unanswered(before, &recent, turn.begin)
            {
                // Programs that give a prompt as a text give it a new id each time.
                prompt.id.clone_from(&before.id);
            } else {
                let before = turn.prompt.replace(asked);
                if before.as_ref().is_none_or(|before| before.id != prompt.id) {
                    if before.is_some() {
                        turn.steps.clear();
                    }
                    turn.begin = Some(recent.iter().map(|recent| recent.seq + 1).max().unwrap_or(0));
                }
            }
            (turn.begin, turn.steps.clone())
        };
        let prompt = Arc::new(prompt);
        let later: HashSet<&str> = steps.iter().map(|message| message.id.as_str()).collect();
        let put_at = recent.iter().find(|recent| recent.message.id == prompt.id).map(|recent| recent.seq);
        recent.retain(|recent| recent.message.id != prompt.id && !later.contains(&*recent.message.id));
        let begin = begin.min(put_at).or(put_at).or(begin);
        let leading = recent.iter().take_while(|recent| recent.message.role == Role::System).count();
        let first_step = recent[leading..].iter().position(|recent| begin.is_some_and(|begin| recent.seq >= begin));
        let mut after = recent.split_off(first_step.map_or(recent.len(), |at| leading + at));
        if after.iter().any(|step| step.message.role == Role::User) {
            recent.append(&mut after);
        }
        let mut left_out = Vec::new();
        while let Some(answer) = after.pop_if(|step| is_answer(&step.message)) {
            left_out.push(answer.message.id.clone());
        }

        let stored = recent.iter().chain(&after).map(|recent| (recent.message.id.clone(), recent.seq));
        let seqs = stored.collect();
        let own: Vec<Arc<Message>> = std::iter::once(prompt).chain(steps.into_iter().map(Arc::new)).collect();
        let count = |message: &Arc<Message>| (Arc::clone(message), self.settings.composer.tokens.count(message));
        let known = |recent: RecentMessage| (recent.message, recent.cost);
        let at = recent.len();
        let all: Vec<(Arc<Message>, usize)> = (recent.into_iter().map(known))
            .chain(own.first().map(count))
            .chain(after.into_iter().map(known))
            .chain(own[1..].iter().map(count))
            .collect();
        let messages: Vec<&Message> = all.iter().map(|(message, _)| &**message).collect();
        let unfit = unfit_for_prompt(&messages, false);
        if unfit.contains(&at) {
            return Err(Error::message(
                "no model accepts this prompt: the result of a tool's call needs the call before it, and a call all its \
                 results; put the call and its other results first, or add them as steps",
            ));
        }
        // The turn in progress is never cut: it begins with the last message of the user.
        let fit: Vec<usize> = (0..all.len()).filter(|at| !unfit.contains(at)).collect();
        let starts = turn_starts(&fit.iter().map(|&at| messages[at]).collect::<Vec<_>>());
        let start = starts.into_iter().map(|start| fit[start]).rfind(|&start| start <= at);
        let mut parts = [CountedMessages::default(), CountedMessages::default(), CountedMessages::default()];
        for (index, (message, cost)) in all.into_iter().enumerate() {
            if unfit.contains(&index) {
                left_out.push(message.id.clone());
                continue;
            }
            let is_leading = message.role == Role::System && parts[1..].iter().all(|part| part.messages.is_empty());
            let part = match start.is_none_or(|start| index >= start) {
                _ if is_leading => 0,
                false => 1,
                true => 2,
            };
            parts[part].push(message, cost);
        }
        let [system, recent, turn] = parts;
        Ok(Conversation { system, recent, turn, own, seqs, left_out })
    }

    fn compose(&self, counted: &CountedMessages, outputs: Vec<BlockOutput>) -> Prompt {
        let mut composer = self.settings.composer.clone();
        if counted.messages.iter().all(|message| message.role != Role::User) {
            composer.insert = InsertMethod::System;
        }
        composer.compose_counted(&counted.messages, &counted.costs, outputs)
    }

    /// Returns the messages that a selector chose, with the results of the calls among them. Results without their
    /// calls are left out, and so is the rest of a turn whose message of the user was not chosen.
    fn selected(
        &self,
        recent: &CountedMessages,
        turn: &CountedMessages,
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
        let unfit = unfit_for_prompt(
            &all.iter().chain(turn.messages.iter().map(|message| &**message)).collect::<Vec<_>>(),
            false,
        );
        let mut kept = CountedMessages::default();
        for (_, message) in all.into_iter().enumerate().filter(|(at, _)| !unfit.contains(at)) {
            // A selector may have changed the message: then it is counted again.
            let known = messages.iter().position(|other| other.id == message.id && *other == message);
            let count = || self.settings.composer.tokens.count(&message);
            let cost = known.map_or_else(count, |known| recent.costs[known]);
            kept.push(Arc::new(message), cost);
        }
        let ids: HashSet<&str> = kept.messages.iter().map(|message| message.id.as_str()).collect();
        left_out.extend(messages.iter().map(|m| m.id.clone()).filter(|id| !ids.contains(id.as_str())));
        kept
    }
}

/// Returns true if the message ends a turn: it is the model's, calls no tool, and was not paused.
fn is_answer(message: &Message) -> bool {
    let is_call = |part: &ContentPart| matches!(part, ContentPart::ToolCall { .. });
    message.role == Role::Assistant && !message.content.iter().any(is_call) && !is_paused(message)
}

/// Returns true if neither another message of the user nor an answer was put since the turn of this prompt began.
fn is_unanswered(prompt: &TurnPrompt, recent: &[RecentMessage], begin: Option<u64>) -> bool {
    let since = recent.iter().filter(|recent| begin.is_none_or(|begin| recent.seq >= begin));
    let mut since = since.map(|recent| &*recent.message).filter(|message| message.id != prompt.id);
    since.all(|message| message.role != Role::User && !is_answer(message))
}

/// Names the messages whose thinking Anthropic's form leaves out, as it has no signature.
fn name_unsigned_thinking(prompt: &mut Prompt) {
    let unsigned = prompt.messages.iter().filter(|message| has_unsigned_thinking(message));
    prompt.left_out.extend(unsigned.map(|message| message.id.clone()));
}

impl CountedMessages {
    fn push(&mut self, message: Arc<Message>, cost: usize) {
        self.messages.push(message);
        self.costs.push(cost);
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

/// Removes from the content of blocks the messages that the prompt or an earlier block contains, and those that a
/// provider would refuse before a prompt.
fn once_each(outputs: &mut [BlockOutput], shown: &[Arc<Message>]) {
    let shown: HashSet<&str> = shown.iter().map(|message| message.id.as_str()).collect();
    let mut seen: HashSet<String> = HashSet::new();
    let mut has_user = false;
    for (_, content) in outputs {
        if let BlockContent::Quoted(messages) | BlockContent::Messages(messages) = content {
            messages.retain(|message| !shown.contains(&*message.id) && seen.insert(message.id.clone()));
        }
        if let BlockContent::Messages(messages) = content {
            let unfit = unfit_for_prompt(messages, false);
            let mut at = 0..;
            messages.retain(|message| {
                let is_fit = at.next().is_some_and(|at| !unfit.contains(&at));
                has_user |= is_fit && message.role == Role::User;
                is_fit && (has_user || message.role == Role::System)
            });
        }
    }
}

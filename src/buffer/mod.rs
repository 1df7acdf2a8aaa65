//! The short-term buffer: which messages stay in the prompt, and which are flushed.
//!
//! Owns the decision alone, over a list of messages: what is flushed where is the engine's. Invariants: a flush takes
//! whole turns from the old end; the system prompt and the last turn always stay; no tool result loses its call.

use std::{borrow::Borrow, ops::Range};

use crate::{
    error::{Error, Result},
    message::{Message, MessageCounter, Role, answers},
};

/// The budget of a short-term buffer, as LlamaIndex's `Memory` has it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BufferLimits {
    /// Tokens of the whole prompt. Default: 30,000.
    pub token_limit: usize,
    /// The share of it that recent messages may take, over 0 to 1. Default: 0.7.
    pub chat_history_token_ratio: f64,
    /// Tokens that one flush takes at least, 1 to `token_limit`, as far as there are whole turns. Default: 3,000.
    pub token_flush_size: usize,
}

impl Default for BufferLimits {
    fn default() -> Self {
        BufferLimits { token_limit: 30_000, chat_history_token_ratio: 0.7, token_flush_size: 3_000 }
    }
}

impl BufferLimits {
    /// Checked limits.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`]: a value outside its range.
    pub fn new(token_limit: usize, chat_history_token_ratio: f64, token_flush_size: usize) -> Result<Self> {
        let fault = if token_limit == 0 {
            Some("token_limit is 0".to_owned())
        } else if !(chat_history_token_ratio > 0.0 && chat_history_token_ratio <= 1.0) {
            Some(format!("chat_history_token_ratio is {chat_history_token_ratio}, not over 0 to 1"))
        } else if !(1..=token_limit).contains(&token_flush_size) {
            Some(format!("token_flush_size is {token_flush_size}, not within 1 to token_limit, {token_limit}"))
        } else {
            None
        };
        match fault {
            Some(reason) => Err(Error::InvalidConfig { reason }),
            None => Ok(BufferLimits { token_limit, chat_history_token_ratio, token_flush_size }),
        }
    }

    /// Tokens that recent messages may take; a flush is due above.
    pub fn budget(&self) -> usize {
        (self.token_limit as f64 * self.chat_history_token_ratio) as usize
    }

    /// What to flush of `messages`, oldest first: ranges of messages, a batch each, that follow one another; empty if the
    /// messages are within the [budget](BufferLimits::budget).
    ///
    /// Leading system messages stay. A batch ends where a turn begins: at a user message before which every tool call
    /// has its results. It takes [`token_flush_size`](BufferLimits::token_flush_size) or more, or else all but the last
    /// turn; batches are taken until the rest is within the budget. The last turn stays whatever it costs, and without
    /// a user message nothing is flushed: the rest may then exceed the budget.
    ///
    /// Cost: each message is counted once.
    pub fn plan_flush(&self, messages: &[Message], tokens: &dyn MessageCounter) -> Vec<Range<usize>> {
        let costs: Vec<usize> = messages.iter().map(|message| tokens.count(message)).collect();
        self.plan_counted(messages, &costs)
    }

    /// [`BufferLimits::plan_flush`] with the tokens of each message.
    pub(crate) fn plan_counted(&self, messages: &[impl Borrow<Message>], costs: &[usize]) -> Vec<Range<usize>> {
        if costs.iter().sum::<usize>() <= self.budget() {
            return Vec::new();
        }
        let cuts = turn_starts(messages);
        let mut left: usize = costs.iter().sum();
        let mut begin = messages.iter().take_while(|message| (*message).borrow().role == Role::System).count();
        let mut batches = Vec::new();
        while left > self.budget() {
            let mut size = 0;
            let full = (begin..costs.len()).find(|&index| {
                size += costs[index];
                size >= self.token_flush_size
            });
            let mut later = cuts.iter().copied().filter(|&cut| cut > begin);
            let next = full.and_then(|full| later.clone().find(|&cut| cut > full));
            // Not so many tokens before the last turn: what there is.
            let Some(end) = next.or_else(|| later.next_back()) else { break };
            left -= costs[begin..end].iter().sum::<usize>();
            batches.push(begin..end);
            begin = end;
        }
        batches
    }
}

/// Where a history may be cut: user messages before which no tool call waits for a result that comes after.
pub(crate) fn turn_starts(messages: &[impl Borrow<Message>]) -> Vec<usize> {
    // By message: the last result of its calls.
    let mut last_answer = vec![0; messages.len()];
    for answer in answers(messages) {
        if let Some(call) = answer.call {
            last_answer[call] = answer.result.max(last_answer[call]);
        }
    }
    let mut cuts = Vec::new();
    let mut open_until = 0;
    for (index, message) in messages.iter().enumerate() {
        if message.borrow().role == Role::User && index > open_until {
            cuts.push(index);
        }
        open_until = open_until.max(last_answer[index]);
    }
    cuts
}

//! Limits of the short-term buffer, and the plan of a flush: which messages of a session stay in the prompt, and which go
//! to long-term memory.
//!
//! This module plans a flush of a list of messages. It knows no store: the engine commits the flush. Invariants: a flush
//! takes whole turns, the oldest first; the system prompt and the last turn always stay; a tool result is never
//! separated from its call.

use std::{borrow::Borrow, iter, ops::Range, time::Duration};

use crate::{
    error::{Error, Result, setters},
    message::{Message, MessageTokenCounter, Role, match_tool_results},
};

/// The most bytes of the messages in a buffer, and of those in long-term memory that prompts show before them: metadata and references
/// to media have no tokens.
pub(crate) const MAX_BUFFER_BYTES: usize = 16 << 20;

/// The limits of a short-term buffer: its tokens, with the semantics of LlamaIndex's `Memory`, and its idle time.
///
/// A buffer whose messages take more than 16 MiB, with their metadata, is flushed too.
///
/// ```
/// let limits = mnemon::BufferLimits::default().token_limit(1_000);
/// assert_eq!((limits.budget(), limits.flush_size()), (700, 100));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BufferLimits {
    /// The maximum number of tokens of the whole prompt. Default: 30,000.
    pub token_limit: usize,
    /// The share of `token_limit` that recent messages may take, greater than 0 and at most 1. Default: 0.7.
    pub chat_history_token_ratio: f64,
    /// The minimum number of tokens of a flushed batch, 1 to `token_limit`. A batch is smaller only if there are not
    /// enough whole turns. Default: none, which means a tenth of `token_limit`.
    pub token_flush_size: Option<usize>,
    /// The time without a put after which the session is idle, greater than 0, or `None` for never. The buffer of an idle
    /// session is flushed as by [`Memory::flush`](crate::Memory::flush). Default: 10 minutes.
    ///
    /// While the engine is open, a timer flushes idle sessions. The times are stored, so sessions that became idle while
    /// the engine was closed are flushed in the background when the engine next opens a memory, of any session. The idle
    /// time of a session is that of the memory that put last. If the system's clock is set back, the flush is late by as
    /// much.
    pub idle_time: Option<Duration>,
}

impl Default for BufferLimits {
    fn default() -> Self {
        BufferLimits {
            token_limit: 30_000,
            chat_history_token_ratio: 0.7,
            token_flush_size: None,
            idle_time: Some(Duration::from_secs(600)),
        }
    }
}

setters!(BufferLimits { token_limit: usize, chat_history_token_ratio: f64 });

impl BufferLimits {
    /// Creates limits of tokens, with the default idle time, and checks them.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`] for a value outside its range.
    pub fn new(token_limit: usize, chat_history_token_ratio: f64, token_flush_size: usize) -> Result<Self> {
        let token_flush_size = Some(token_flush_size);
        let limits =
            BufferLimits { token_limit, chat_history_token_ratio, token_flush_size, ..BufferLimits::default() };
        limits.check().map(|()| limits)
    }

    /// Sets [`token_flush_size`](field@BufferLimits::token_flush_size).
    pub fn token_flush_size(mut self, tokens: usize) -> Self {
        self.token_flush_size = Some(tokens);
        self
    }

    /// Sets [`idle_time`](field@BufferLimits::idle_time), or `None` for never.
    pub fn idle_time(self, idle_time: impl Into<Option<Duration>>) -> Self {
        BufferLimits { idle_time: idle_time.into(), ..self }
    }

    /// Returns the minimum number of tokens of a flushed batch: the value that was set, or a tenth of the token limit.
    pub fn flush_size(&self) -> usize {
        self.token_flush_size.unwrap_or(self.token_limit / 10).max(1)
    }

    /// Checks that the limits are in their ranges and consistent.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`].
    pub(crate) fn check(&self) -> Result<()> {
        let BufferLimits { token_limit, chat_history_token_ratio, idle_time, .. } = *self;
        let token_flush_size = self.token_flush_size.unwrap_or(1);
        let fault = if token_limit == 0 {
            Some("token_limit is 0; it must be at least 1".to_owned())
        } else if !(chat_history_token_ratio > 0.0 && chat_history_token_ratio <= 1.0) {
            Some(format!(
                "chat_history_token_ratio is {chat_history_token_ratio}; it must be greater than 0 and at most 1"
            ))
        } else if !(1..=token_limit).contains(&token_flush_size) {
            Some(format!("token_flush_size is {token_flush_size}; it must be between 1 and token_limit, {token_limit}"))
        } else if idle_time.is_some_and(|time| time.is_zero()) {
            Some("idle_time is 0; give a duration, or None for never".to_owned())
        } else {
            None
        };
        match fault {
            Some(reason) => Err(Error::InvalidConfig { reason }),
            None => Ok(()),
        }
    }

    /// Returns the number of tokens that recent messages may take. Above this number, messages are flushed.
    pub fn budget(&self) -> usize {
        (self.token_limit as f64 * self.chat_history_token_ratio) as usize
    }

    /// Plans which of `messages`, oldest first, to flush. Returns consecutive ranges of messages, one per batch, or none if
    /// the messages are within the [budget](BufferLimits::budget).
    ///
    /// Leading system messages stay. A batch ends where a turn begins: at a user message before which every tool call
    /// has its results. A batch has at least [`flush_size`](BufferLimits::flush_size) tokens, or consists
    /// of all messages before the last turn. Batches are planned until the rest is within the budget. The rest may
    /// still exceed the budget, because the last turn always stays, and because nothing is flushed if there is no user
    /// message.
    ///
    /// Cost: each message is counted once.
    pub fn plan_flush(&self, messages: &[Message], tokens: &dyn MessageTokenCounter) -> Vec<Range<usize>> {
        let costs: Vec<usize> = messages.iter().map(|message| tokens.count(message)).collect();
        self.plan_counted(messages, &costs)
    }

    /// Same as [`BufferLimits::plan_flush`], with the known token counts of the messages.
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
                size >= self.flush_size()
            });
            let mut later = cuts.iter().copied().filter(|&cut| cut > begin);
            let next = full.and_then(|full| later.clone().find(|&cut| cut > full));
            // If the messages before the last turn have fewer tokens, the batch takes all of them.
            let Some(end) = next.or_else(|| later.next_back()) else { break };
            left -= costs[begin..end].iter().sum::<usize>();
            batches.push(begin..end);
            begin = end;
        }
        batches
    }
}

/// Plans a flush of messages that take more than [`MAX_BUFFER_BYTES`]: whole turns, or all messages if the system prompt and the last
/// turn alone take more.
pub(crate) fn plan_by_bytes(messages: &[impl Borrow<Message>]) -> Vec<Range<usize>> {
    let bytes: Vec<usize> = messages.iter().map(|message| message.borrow().memory_bytes()).collect();
    let limits = BufferLimits::default().token_limit(MAX_BUFFER_BYTES).chat_history_token_ratio(1.0);
    let batches = limits.plan_counted(messages, &bytes);
    let flushed: usize = batches.iter().cloned().flatten().map(|at| bytes[at]).sum();
    match bytes.iter().sum::<usize>() - flushed > MAX_BUFFER_BYTES {
        true => iter::once(0..messages.len()).collect(),
        false => batches,
    }
}

/// Returns the indexes of the user messages at which `messages` may be split, which are those that no tool call before
/// them has a result after.
pub(crate) fn turn_starts(messages: &[impl Borrow<Message>]) -> Vec<usize> {
    // For each message, the index of the last result of its calls.
    let mut last_result = vec![0; messages.len()];
    for matched in match_tool_results(messages) {
        if let Some(call) = matched.call {
            last_result[call] = matched.result.max(last_result[call]);
        }
    }
    let mut cuts = Vec::new();
    let mut open_until = 0;
    for (index, message) in messages.iter().enumerate() {
        if message.borrow().role == Role::User && index > open_until {
            cuts.push(index);
        }
        open_until = open_until.max(last_result[index]);
    }
    cuts
}

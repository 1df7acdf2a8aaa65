//! Operations on the list of messages of a session: updates by id, selection of recent messages, and matching of tool
//! results with their calls.

use std::{
    borrow::Borrow,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    anthropic::is_paused,
    chat_message::{ContentPart, Message, Role},
    token_count::MessageTokenCounter,
};
use crate::error::{Error, Result, impl_debug};

/// One change to a list of messages.
#[derive(Clone, Debug, PartialEq)]
pub enum MessageUpdate {
    /// Replaces the message with the same id, which keeps its position, or appends the message.
    Put(Message),
    /// Removes the message with this id.
    Remove(String),
    /// Removes all messages, including those of earlier updates in the same call.
    RemoveAll,
}

/// Applies updates to a list of messages, in order, with the semantics of LangGraph's `add_messages`.
///
/// A message that is removed and put again in the same call keeps its position. If there are several
/// [`MessageUpdate::RemoveAll`], only the updates after the last one count.
///
/// # Errors
/// [`Error::InvalidMessage`] for a removal of an id that is neither in `messages` nor put by an earlier update.
///
/// ```
/// use mnemon::{Message, MessageUpdate, add_messages};
/// let first = Message::user("hello").with_id("1");
/// let updates = vec![
///     MessageUpdate::Put(Message::user("hello again").with_id("1")),
///     MessageUpdate::Put(Message::user("bye").with_id("2")),
/// ];
/// let messages = add_messages(vec![first], updates)?;
/// assert_eq!(messages.iter().map(Message::text).collect::<Vec<_>>(), ["hello again", "bye"]);
/// # Ok::<(), mnemon::Error>(())
/// ```
pub fn add_messages(messages: Vec<Message>, updates: Vec<MessageUpdate>) -> Result<Vec<Message>> {
    let cleared = updates.iter().rposition(|update| *update == MessageUpdate::RemoveAll);
    let mut merged = if cleared.is_some() { Vec::new() } else { messages };
    let updates = updates.into_iter().skip(cleared.map_or(0, |index| index + 1));
    let mut positions: HashMap<String, usize> =
        merged.iter().enumerate().map(|(position, message)| (message.id.clone(), position)).collect();
    let mut removed = HashSet::new();
    for update in updates {
        match update {
            MessageUpdate::Put(message) => {
                removed.remove(&message.id);
                match positions.get(&message.id) {
                    Some(&position) => merged[position] = message,
                    None => {
                        positions.insert(message.id.clone(), merged.len());
                        merged.push(message);
                    }
                }
            }
            MessageUpdate::Remove(id) if positions.contains_key(&id) => {
                removed.insert(id);
            }
            MessageUpdate::Remove(id) => return Err(Error::message(format!("there is no message {id:?} to remove"))),
            MessageUpdate::RemoveAll => unreachable!("updates up to the last RemoveAll are skipped"),
        }
    }
    merged.retain(|message| !removed.contains(&message.id));
    Ok(merged)
}

/// Selects the messages of a history that go into a prompt, after Steamship's message selectors.
pub trait MessageSelector: Send + Sync {
    /// Returns the selected messages, oldest first. `messages` is ordered oldest first too.
    fn select(&self, messages: &[Message]) -> Vec<Message>;
}

/// Selects the newest `k` messages of the user and the assistant and skips all others.
#[derive(Clone, Copy, Debug)]
pub struct MessageWindow(pub usize);

impl MessageSelector for MessageWindow {
    fn select(&self, messages: &[Message]) -> Vec<Message> {
        let mut selected: Vec<Message> = messages
            .iter()
            .rev()
            .filter(|message| matches!(message.role, Role::User | Role::Assistant))
            .take(self.0)
            .cloned()
            .collect();
        selected.reverse();
        selected
    }
}

/// Selects the newest messages that fit into a token budget.
#[derive(Clone)]
#[non_exhaustive]
pub struct TokenWindow {
    /// The maximum number of tokens of all selected messages together.
    pub max_tokens: usize,
    /// The token counter for messages.
    pub tokens: Arc<dyn MessageTokenCounter>,
    /// Whether a message that does not fit is skipped and older ones are still considered, which leaves gaps. If false,
    /// selection stops at that message. Default: false.
    pub skip_too_long: bool,
}

impl_debug!(TokenWindow { max_tokens, skip_too_long });

impl TokenWindow {
    /// Creates a selector of consecutive messages with at most `max_tokens` tokens.
    pub fn new(max_tokens: usize, tokens: impl MessageTokenCounter + 'static) -> Self {
        TokenWindow { max_tokens, tokens: Arc::new(tokens), skip_too_long: false }
    }
}

impl MessageSelector for TokenWindow {
    fn select(&self, messages: &[Message]) -> Vec<Message> {
        let mut left = self.max_tokens;
        let mut selected = Vec::new();
        for message in messages.iter().rev() {
            let cost = self.tokens.count(message);
            if cost <= left {
                left -= cost;
                selected.push(message.clone());
            } else if !self.skip_too_long {
                break;
            }
        }
        selected.reverse();
        selected
    }
}

/// A tool result matched with its call, as indexes into a list of messages.
pub(crate) struct MatchedResult {
    /// The message with the call. Agents reuse ids, so this is the nearest message before the result that has a call with
    /// the result's id. `None` if there is no such message.
    pub(crate) call: Option<usize>,
    /// The message with the result.
    pub(crate) result: usize,
}

/// Matches every tool result in `messages` with its call.
pub(crate) fn match_tool_results(messages: &[impl Borrow<Message>]) -> Vec<MatchedResult> {
    let mut calls: HashMap<&str, usize> = HashMap::new();
    let mut matched = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        for part in &message.borrow().content {
            match part {
                ContentPart::ToolCall { id, .. } => {
                    calls.insert(id, index);
                }
                ContentPart::ToolResult { id, .. } => {
                    matched.push(MatchedResult { call: calls.get(id.as_str()).copied(), result: index });
                }
                _ => {}
            }
        }
    }
    matched
}

/// Returns the indexes of the messages that a prompt must leave out because some provider would refuse the prompt
/// otherwise: blank messages but for those that Anthropic [paused](is_paused), [misplaced](misplaced_tool_messages) calls and results, and, if there is a user message,
/// all messages before the first one except system messages.
pub(crate) fn unfit_for_prompt(messages: &[impl Borrow<Message>], may_await_results: bool) -> HashSet<usize> {
    let messages: Vec<&Message> = messages.iter().map(Borrow::borrow).collect();
    let (mut fit, blank): (Vec<usize>, Vec<usize>) =
        (0..messages.len()).partition(|&at| !messages[at].is_blank() || is_paused(messages[at]));
    let mut unfit: HashSet<usize> = blank.into_iter().collect();
    let not_blank: Vec<&Message> = fit.iter().map(|&at| messages[at]).collect();
    unfit.extend(misplaced_tool_messages(&not_blank, may_await_results).into_iter().map(|at| fit[at]));
    fit.retain(|at| !unfit.contains(at));
    if let Some(first) = fit.iter().position(|&at| messages[at].role == Role::User) {
        unfit.extend(fit[..first].iter().filter(|&&at| messages[at].role != Role::System));
    }
    unfit
}

/// Returns the indexes of the messages that a model would refuse because of the order of calls and results: a result
/// that does not directly follow the message with its call, or answers a call a second time, and a call that is not
/// directly followed by all of its results. If `may_await_results`, a call after the last user message is accepted
/// without results: the caller appends them later.
fn misplaced_tool_messages(messages: &[&Message], may_await_results: bool) -> HashSet<usize> {
    let result_ids = |index: usize| {
        messages[index].content.iter().filter_map(|part| match part {
            ContentPart::ToolResult { id, .. } => Some(id.as_str()),
            _ => None,
        })
    };
    let has_results = |index: usize| result_ids(index).next().is_some();
    let last_user = messages.iter().rposition(|message| message.role == Role::User);
    let mut misplaced: HashSet<usize> = (0..messages.len()).filter(|&index| has_results(index)).collect();
    for (index, message) in messages.iter().enumerate() {
        let mut calls = 0;
        let mut called: HashSet<&str> = HashSet::new();
        for part in &message.content {
            if let ContentPart::ToolCall { id, .. } = part {
                calls += 1;
                called.insert(id);
            }
        }
        if calls == 0 {
            continue;
        }
        let mut answers = Vec::new();
        let mut answered: HashSet<&str> = HashSet::new();
        let mut end = index + 1;
        // A message that also has the result of another message's call is misplaced and ends the run of results.
        while end < messages.len() && has_results(end) && result_ids(end).all(|id| called.contains(id)) {
            let results: HashSet<&str> = result_ids(end).collect();
            if results.len() == result_ids(end).count() && results.is_disjoint(&answered) {
                answered.extend(results);
                answers.push(end);
            }
            end += 1;
        }
        let is_waiting = may_await_results && end == messages.len() && last_user.is_none_or(|user| index > user);
        if calls == called.len() && (is_waiting || answered.len() == called.len()) {
            misplaced.retain(|index| !answers.contains(index));
        } else {
            misplaced.insert(index);
        }
    }
    misplaced
}

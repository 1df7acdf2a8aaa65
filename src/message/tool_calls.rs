//! Matching of tool results with their calls, and what every provider accepts of a conversation.

use std::{
    borrow::Borrow,
    collections::{HashMap, HashSet},
};

use super::{chat_message::Message, content::ContentPart, role::Role};

/// A tool result and the call that it belongs to, as indexes into a list of messages.
pub(crate) struct MatchedResult {
    /// The message with the call: the nearest one before the result with a call of this id, because agents reuse ids.
    /// `None` if there is no such call.
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

/// Returns the indexes of the messages that a prompt leaves out, as some provider would refuse it with them: blank
/// messages, [misplaced](misplaced_tool_messages) calls and results, and all that comes before the first message of the
/// user, if there is one, but for system messages.
pub(crate) fn unfit_for_prompt(messages: &[impl Borrow<Message>], may_wait: bool) -> HashSet<usize> {
    let messages: Vec<&Message> = messages.iter().map(Borrow::borrow).collect();
    let (mut fit, blank): (Vec<usize>, Vec<usize>) = (0..messages.len()).partition(|&at| !messages[at].is_blank());
    let mut unfit: HashSet<usize> = blank.into_iter().collect();
    let spoken: Vec<&Message> = fit.iter().map(|&at| messages[at]).collect();
    unfit.extend(misplaced_tool_messages(&spoken, may_wait).into_iter().map(|at| fit[at]));
    fit.retain(|at| !unfit.contains(at));
    if let Some(first) = fit.iter().position(|&at| messages[at].role == Role::User) {
        unfit.extend(fit[..first].iter().filter(|&&at| messages[at].role != Role::System));
    }
    unfit
}

/// Returns the indexes of the messages that a model would refuse because of the order of calls and results: results
/// that do not directly follow the message with their call, or answer a call again, and calls that are not directly
/// followed by all their results. With `may_wait`, a call after the last user message may still be waiting for results
/// that are to follow the list.
fn misplaced_tool_messages(messages: &[impl Borrow<Message>], may_wait: bool) -> HashSet<usize> {
    let parts = |index: usize| &Borrow::<Message>::borrow(&messages[index]).content;
    let result_ids = |index: usize| {
        parts(index).iter().filter_map(|part| match part {
            ContentPart::ToolResult { id, .. } => Some(id.as_str()),
            _ => None,
        })
    };
    let has_results = |index: usize| result_ids(index).next().is_some();
    let last_user = messages.iter().rposition(|message| message.borrow().role == Role::User);
    let mut misplaced: HashSet<usize> = (0..messages.len()).filter(|&index| has_results(index)).collect();
    for index in 0..messages.len() {
        let mut calls = 0;
        let mut called: HashSet<&str> = HashSet::new();
        for part in parts(index) {
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
        // A message that also has the result of another call is misplaced: it ends the run.
        while end < messages.len() && has_results(end) && result_ids(end).all(|id| called.contains(id)) {
            if result_ids(end).all(|id| answered.insert(id)) {
                answers.push(end);
            }
            end += 1;
        }
        let is_waiting = may_wait && end == messages.len() && last_user.is_none_or(|user| index > user);
        if calls == called.len() && (is_waiting || answered.len() == called.len()) {
            misplaced.retain(|index| !answers.contains(index));
        } else {
            misplaced.insert(index);
        }
    }
    misplaced
}

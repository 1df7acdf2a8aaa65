//! Matching of tool results with their calls.

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

/// Returns the indexes of the messages that a model would refuse because of the order of calls and results: results
/// that do not directly follow the message with their call, and calls that are not directly followed by all their
/// results. A call after the last user message may still be waiting for its results and is accepted without them.
pub(crate) fn misplaced_tool_messages(messages: &[impl Borrow<Message>]) -> HashSet<usize> {
    let result_ids = |index: usize| {
        let message: &Message = messages[index].borrow();
        message.content.iter().filter_map(|part| match part {
            ContentPart::ToolResult { id, .. } => Some(id.as_str()),
            _ => None,
        })
    };
    let has_results = |index: usize| result_ids(index).next().is_some();
    let last_user = messages.iter().rposition(|message| message.borrow().role == Role::User);
    let mut misplaced: HashSet<usize> = (0..messages.len()).filter(|&index| has_results(index)).collect();
    for (index, message) in messages.iter().enumerate() {
        let called: HashSet<&str> = message
            .borrow()
            .content
            .iter()
            .filter_map(|part| match part {
                ContentPart::ToolCall { id, .. } => Some(id.as_str()),
                _ => None,
            })
            .collect();
        if called.is_empty() {
            continue;
        }
        // A message that also has the result of another call is misplaced: it ends the run.
        let results: Vec<usize> = (index + 1..messages.len())
            .take_while(|&next| has_results(next) && result_ids(next).all(|id| called.contains(id)))
            .collect();
        let answered: HashSet<&str> = results.iter().flat_map(|&next| result_ids(next)).collect();
        let may_wait = last_user.is_none_or(|user| index > user);
        if may_wait || answered.len() == called.len() {
            misplaced.retain(|index| !results.contains(index));
        } else {
            misplaced.insert(index);
        }
    }
    misplaced
}

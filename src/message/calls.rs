//! Which tool result answers which call.

use std::{borrow::Borrow, collections::HashMap};

use super::{Message, Part};

/// A tool result, and the call that it answers.
pub(crate) struct Answer {
    /// The message with the call: the nearest before the result that has one of its id, since agents use ids again. `None`
    /// for an orphan.
    pub(crate) call: Option<usize>,
    /// The message with the result.
    pub(crate) result: usize,
}

/// All tool results of a history, with the numbers of their messages.
pub(crate) fn answers(messages: &[impl Borrow<Message>]) -> Vec<Answer> {
    let mut calls: HashMap<&str, usize> = HashMap::new();
    let mut answers = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        for part in &message.borrow().content {
            match part {
                Part::ToolCall { id, .. } => {
                    calls.insert(id, index);
                }
                Part::ToolResult { id, .. } => {
                    answers.push(Answer { call: calls.get(id.as_str()).copied(), result: index });
                }
                _ => {}
            }
        }
    }
    answers
}

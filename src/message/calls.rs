//! Which tool result answers which call.

use std::{
    borrow::Borrow,
    collections::{HashMap, HashSet},
};

use super::{Message, Part, Role};

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

/// The messages that a model refuses where they are: results without their call in the message that they follow, and calls
/// without all their results behind them, once the user has gone on.
pub(crate) fn broken_calls(messages: &[impl Borrow<Message>]) -> HashSet<usize> {
    let results = |at: usize| {
        let message: &Message = messages[at].borrow();
        message.content.iter().filter_map(|part| match part {
            Part::ToolResult { id, .. } => Some(id.as_str()),
            _ => None,
        })
    };
    let last_user = messages.iter().rposition(|message| message.borrow().role == Role::User);
    let mut broken: HashSet<usize> = (0..messages.len()).filter(|&at| results(at).next().is_some()).collect();
    for (at, message) in messages.iter().enumerate() {
        let calls = message.borrow().content.iter().filter_map(|part| match part {
            Part::ToolCall { id, .. } => Some(id.as_str()),
            _ => None,
        });
        let mut waiting: HashSet<&str> = calls.collect();
        if waiting.is_empty() {
            continue;
        }
        let called = waiting.clone();
        let follow = (at + 1..messages.len()).take_while(|&next| results(next).next().is_some());
        // One with the result of another call too is as broken as that is.
        let answers: Vec<usize> = follow.take_while(|&next| results(next).all(|id| called.contains(id))).collect();
        for &next in &answers {
            waiting.retain(|&id| results(next).all(|result| result != id));
        }
        let open = last_user.is_none_or(|user| at > user);
        if waiting.is_empty() || open {
            broken.retain(|at| !answers.contains(at));
        } else {
            broken.insert(at);
        }
    }
    broken
}

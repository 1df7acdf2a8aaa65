//! The composed prompt.

use serde::Serialize;

use crate::message::Message;

/// Messages for a model, and what was shortened or left out to fit the token limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Prompt {
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// The number of tokens of the messages.
    pub tokens: usize,
    /// The excess over the token limit, if there is one.
    pub over: Option<PromptOverflow>,
    /// The names of blocks whose content was shortened to fit.
    pub shortened: Vec<String>,
    /// The names of blocks whose content was left out to fit.
    pub dropped: Vec<String>,
    /// Blocks that failed or missed the deadline. Their content is left out.
    pub failed: Vec<BlockFailure>,
    /// The ids of buffered messages that are not in the prompt: tool results without a call before them, messages that
    /// the selector did not select, and old turns left out to fit.
    pub left_out: Vec<String>,
}

/// The excess of a prompt over its token limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PromptOverflow {
    /// The number of tokens over the limit.
    pub tokens: usize,
    /// A description of what could not be left out.
    pub reason: String,
}

/// A block whose content is missing from the prompt because of an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BlockFailure {
    /// The name of the block.
    pub name: String,
    /// A description of the error.
    pub reason: String,
}

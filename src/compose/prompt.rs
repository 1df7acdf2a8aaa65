//! The composed prompt.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::message::Message;

/// Messages for a model, what they are made of, and what was shortened or left out to fit the token limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
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
    /// The ids of recent messages and steps that are not in the prompt: those that some provider would refuse, messages
    /// that the selector did not select, and old turns left out to fit. Refused are messages without content, tool
    /// results without their call right before them, calls without all their results, and what is before the first
    /// message of the user.
    pub left_out: Vec<String>,
    /// The blocks that were asked for content, in the order of the memory. Composers list those with content.
    pub sections: Vec<PromptSectionReport>,
    /// The messages that blocks quote or add, in the order of the prompt.
    pub recalled: Vec<RecalledMessage>,
}

/// The share of a block in a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PromptSectionReport {
    /// The name of the block.
    pub name: String,
    /// The number of tokens of its content, counted as a message of its own. 0 if it is not in the prompt.
    pub tokens: usize,
    /// The time that the block took to answer. The time that was waited for it if it missed the deadline. 0 in a prompt
    /// that a [`Composer`](crate::Composer) made of given content.
    pub elapsed: Duration,
}

/// An earlier message that a block placed in a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RecalledMessage {
    /// The name of the block.
    pub block: String,
    /// The id of the message.
    pub id: String,
    /// The score that it was [found](crate::Hit::score) with, which compares the messages of one block. `None` if the
    /// block did not find the message itself, such as the other messages of a batch.
    pub score: Option<f32>,
    /// The ids of later messages in the prompt that supersede this one: recalled ones, or among the last 50 others.
    /// They are found as those of [`Hit::supersedes`](crate::Hit::supersedes) are, among the first 50 recalled
    /// messages. Renderers mark a quoted message that has any, so that the model can tell old from new. A message whose
    /// successor is not in the prompt is not marked: it is all that the prompt says about its subject.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superseded_by: Vec<String>,
}

/// The excess of a prompt over its token limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PromptOverflow {
    /// The number of tokens over the limit.
    pub tokens: usize,
    /// A description of what could not be left out.
    pub reason: String,
}

/// A block whose content is missing from the prompt because of an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BlockFailure {
    /// The name of the block.
    pub name: String,
    /// A description of the error.
    pub reason: String,
}

//! The composed prompt: its messages and a report of its contents. Also finds the recalled messages that later messages
//! in the prompt supersede.

use std::{borrow::Borrow, time::Duration};

use serde::{Deserialize, Serialize};

use super::renderers::SupersededMessages;
use crate::{
    block::BlockContent,
    message::{Message, Role},
    recall::{Asked, superseding_pairs},
};

/// Messages for a model, with a report of their sources and of what was shortened or left out to fit the token limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
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
    /// The ids of recent messages and steps that are not in the prompt: messages that some provider would refuse, messages
    /// that the selector did not select, and old turns left out to fit; and of messages that a block left out because others
    /// supersede them; and of messages in the prompt whose thinking has no signature, so that Anthropic's form is without it. Providers refuse messages without content, tool
    /// results that do not directly follow their call, calls without all of their results, and messages before the first
    /// message of the user.
    pub left_out: Vec<String>,
    /// The blocks that were asked for content, in the order of the memory. A prompt of a composer lists only those with
    /// content.
    pub sections: Vec<PromptSectionReport>,
    /// The messages that blocks quote or add, in the order of the prompt.
    pub recalled: Vec<RecalledMessage>,
}

/// The share of a block in a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PromptSectionReport {
    /// The name of the block.
    pub name: String,
    /// The number of tokens of its content, counted as a separate message. 0 if the content is not in the prompt.
    pub tokens: usize,
    /// The time that the block took to answer, or that the memory waited for it if it missed the deadline. 0 in a prompt
    /// that a [`Composer`](crate::Composer) composed of given content.
    pub elapsed: Duration,
}

/// An earlier message that a block placed in a prompt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RecalledMessage {
    /// The name of the block.
    pub block: String,
    /// The id of the message.
    pub id: String,
    /// The [score](crate::Hit::score) of the hit, which is comparable within one block. `None` if the message was not a
    /// hit itself, such as the other messages of a hit's batch.
    pub score: Option<f32>,
    /// The ids of later messages in the prompt that supersede this one. The first 50 recalled messages are compared with
    /// each other and with the last 50 other messages, by the rule of [`Hit::supersedes`](crate::Hit::supersedes).
    /// Renderers mark a quoted message that is superseded, so that the model can tell old from new. A message whose
    /// successor is not in the prompt is not marked: it is all that the prompt says about its subject.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superseded_by: Vec<String>,
}

/// The excess of a prompt over its token limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct PromptOverflow {
    /// The number of tokens over the limit.
    pub tokens: usize,
    /// Names the content that could not be left out.
    pub reason: String,
}

/// A block whose content is missing from the prompt because of an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct BlockFailure {
    /// The name of the block.
    pub name: String,
    /// A description of the error.
    pub reason: String,
}

/// The maximum number of recalled messages that are compared, and of other messages. The cost grows with their product.
const MAX_COMPARED: usize = 50;

/// Compares the messages that blocks quote or add with one another and with the last messages of the prompt.
///
/// The last message of the user is the question for which they are compared.
/// [`Hit::supersedes`](crate::Hit::supersedes) is not enough: the superseding message may not have been recalled because
/// it is in the prompt already, and not every recalled message is a hit.
pub(super) fn superseded_messages<'a, M: Borrow<Message>>(
    contents: impl Iterator<Item = &'a BlockContent>,
    messages: &[M],
) -> SupersededMessages {
    let mut compared: Vec<&Message> = contents.flat_map(recalled).take(MAX_COMPARED).collect();
    let recalled = compared.len();
    let mut superseded = SupersededMessages::new();
    if recalled > 0 {
        let last = &messages[messages.len().saturating_sub(MAX_COMPARED)..];
        compared.extend(last.iter().map(M::borrow));
        let question = messages.iter().map(M::borrow).rfind(|message| message.role == Role::User);
        let asked = question.map(|question| Asked::new(&question.text())).unwrap_or_default();
        for (later, earlier) in superseding_pairs(&compared, recalled, &asked) {
            superseded.entry(compared[earlier].id.clone()).or_default().push(compared[later].id.clone());
        }
    }
    superseded
}

/// Returns the messages that a block quotes or adds.
pub(super) fn recalled(content: &BlockContent) -> &[Message] {
    match content {
        BlockContent::Quoted(messages) | BlockContent::Messages(messages) => messages,
        _ => &[],
    }
}

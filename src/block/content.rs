//! The content of a block.

use crate::message::{ContentPart, Message};

/// The content that a block contributes to a prompt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BlockContent {
    /// A text.
    Text(String),
    /// Texts and media, one per line.
    Parts(Vec<ContentPart>),
    /// Earlier messages, quoted inside the memory.
    Quoted(Vec<Message>),
    /// Messages that precede all others in the prompt, as messages of their own.
    Messages(Vec<Message>),
}

impl Default for BlockContent {
    /// Empty content.
    fn default() -> Self {
        BlockContent::Text(String::new())
    }
}

impl BlockContent {
    /// Returns true if there is no content. White space is content.
    pub fn is_empty(&self) -> bool {
        match self {
            BlockContent::Text(text) => text.is_empty(),
            BlockContent::Parts(parts) => parts.is_empty(),
            BlockContent::Quoted(messages) | BlockContent::Messages(messages) => messages.is_empty(),
        }
    }
}

impl From<String> for BlockContent {
    fn from(text: String) -> Self {
        BlockContent::Text(text)
    }
}

impl From<&str> for BlockContent {
    fn from(text: &str) -> Self {
        BlockContent::Text(text.to_owned())
    }
}

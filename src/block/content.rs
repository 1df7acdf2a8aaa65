//! What a block says.

use crate::message::{Message, Part};

/// What a block puts into a prompt.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BlockContent {
    /// A text.
    Text(String),
    /// Texts and media, a line each.
    Parts(Vec<Part>),
    /// Messages of earlier, told inside the memory.
    Quoted(Vec<Message>),
    /// Messages that go before all others as messages of their own.
    Messages(Vec<Message>),
}

impl Default for BlockContent {
    /// Nothing.
    fn default() -> Self {
        BlockContent::Text(String::new())
    }
}

impl BlockContent {
    /// Whether there is nothing to say. White space is something.
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

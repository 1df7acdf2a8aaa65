//! What a message costs in a model's context.

use std::sync::Arc;

use super::{Message, Part};
use crate::{
    error::impl_debug,
    tokens::{ApproximateTokens, TokenCounter},
};

/// Counts the tokens of a message. [`MessageTokens`] does; so does any `Fn(&Message) -> usize`.
pub trait MessageCounter: Send + Sync {
    /// Tokens of the message in a model's context.
    fn count(&self, message: &Message) -> usize;
}

impl<F: Fn(&Message) -> usize + Send + Sync> MessageCounter for F {
    fn count(&self, message: &Message) -> usize {
        self(message)
    }
}

/// Counts the tokens of messages: texts and names by a [`TokenCounter`], other parts at a flat rate.
///
/// Tool calls count with their name and arguments, tool results with their text: both are sent to the model.
#[derive(Clone)]
#[non_exhaustive]
pub struct MessageTokens {
    /// Counts text.
    pub text: Arc<dyn TokenCounter>,
    /// What the chat format adds to each message, such as its role. Default: 0.
    pub message: usize,
    /// An image, a sound or a video. Default: 256.
    pub media: usize,
    /// Any other file. Default: 2048.
    pub file: usize,
}

impl_debug!(MessageTokens { message, media, file });

impl Default for MessageTokens {
    /// [`ApproximateTokens`] for text.
    fn default() -> Self {
        MessageTokens::new(ApproximateTokens)
    }
}

impl MessageTokens {
    /// With this counter for text.
    pub fn new(text: impl TokenCounter + 'static) -> Self {
        MessageTokens { text: Arc::new(text), message: 0, media: 256, file: 2048 }
    }

    fn count_part(&self, part: &Part) -> usize {
        match part {
            Part::Text { text } => self.text.count(text),
            Part::ToolCall { name, arguments, .. } => self.text.count(name) + self.text.count(&arguments.to_string()),
            Part::ToolResult { content, .. } => self.text.count(content),
            Part::Image(_) | Part::Audio(_) | Part::Video(_) => self.media,
            Part::File(_) => self.file,
        }
    }
}

impl MessageCounter for MessageTokens {
    fn count(&self, message: &Message) -> usize {
        let name = message.name.as_deref().map_or(0, |name| self.text.count(name));
        self.message + name + message.content.iter().map(|part| self.count_part(part)).sum::<usize>()
    }
}

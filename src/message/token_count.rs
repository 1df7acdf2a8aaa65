//! The token count of a message.

use std::sync::Arc;

use super::{chat_message::Message, content::ContentPart};
use crate::{
    error::impl_debug,
    tokens::{ApproximateTokenCounter, TokenCounter},
};

/// Counts the tokens of a message. Implemented by [`PerPartTokenCounter`] and by any `Fn(&Message) -> usize`.
pub trait MessageTokenCounter: Send + Sync {
    /// Returns the number of tokens that the message takes in a model's context.
    fn count(&self, message: &Message) -> usize;
}

impl<F: Fn(&Message) -> usize + Send + Sync> MessageTokenCounter for F {
    fn count(&self, message: &Message) -> usize {
        self(message)
    }
}

/// Counts a message part by part: texts and names with a [`TokenCounter`], media and files at a flat rate.
///
/// A tool call counts with its name and arguments, a tool result with its text, because both are sent to the model.
#[derive(Clone)]
#[non_exhaustive]
pub struct PerPartTokenCounter {
    /// The counter for text.
    pub text: Arc<dyn TokenCounter>,
    /// Tokens that the chat format adds to each message, for instance for its role. Default: 0.
    pub per_message: usize,
    /// Tokens of an image, an audio recording or a video. Default: 256.
    pub per_media: usize,
    /// Tokens of any other file. Default: 2048.
    pub per_file: usize,
}

impl_debug!(PerPartTokenCounter { per_message, per_media, per_file });

impl Default for PerPartTokenCounter {
    /// Counts text with [`ApproximateTokenCounter`].
    fn default() -> Self {
        PerPartTokenCounter::new(ApproximateTokenCounter)
    }
}

impl PerPartTokenCounter {
    /// Creates a counter that counts text with `text`.
    pub fn new(text: impl TokenCounter + 'static) -> Self {
        PerPartTokenCounter { text: Arc::new(text), per_message: 0, per_media: 256, per_file: 2048 }
    }

    fn count_part(&self, part: &ContentPart) -> usize {
        match part {
            ContentPart::Text { text } => self.text.count(text),
            ContentPart::ToolCall { name, arguments, .. } => {
                self.text.count(name) + self.text.count(&arguments.to_string())
            }
            ContentPart::ToolResult { content, .. } => self.text.count(content),
            ContentPart::Image(_) | ContentPart::Audio(_) | ContentPart::Video(_) => self.per_media,
            ContentPart::File(_) => self.per_file,
        }
    }
}

impl MessageTokenCounter for PerPartTokenCounter {
    fn count(&self, message: &Message) -> usize {
        let name = message.name.as_deref().map_or(0, |name| self.text.count(name));
        self.per_message + name + message.content.iter().map(|part| self.count_part(part)).sum::<usize>()
    }
}

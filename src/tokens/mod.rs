//! Counting tokens of text, as the model that will read it counts them.
//!
//! Knows no messages: what a message costs is `message`'s to say.

mod approximate;
mod file;
#[cfg(feature = "tiktoken")]
mod tiktoken;

pub use approximate::ApproximateTokens;
pub use file::TokenizerFile;
#[cfg(feature = "tiktoken")]
pub use tiktoken::Tiktoken;

/// Counts the tokens of a text. Any `Fn(&str) -> usize` is one.
///
/// ```
/// use mnemon::{ApproximateTokens, TokenCounter};
/// assert_eq!(ApproximateTokens.count("twelve chars"), 3);
/// let words = |text: &str| text.split_whitespace().count();
/// assert_eq!(words.count("three short words"), 3);
/// ```
pub trait TokenCounter: Send + Sync {
    /// Tokens of the text alone, without any that a chat format adds around it.
    fn count(&self, text: &str) -> usize;
}

impl<F: Fn(&str) -> usize + Send + Sync> TokenCounter for F {
    fn count(&self, text: &str) -> usize {
        self(text)
    }
}

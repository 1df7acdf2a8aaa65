//! Token counters for text.
//!
//! A counter should count as the model does that will read the text. This module knows nothing of messages: the module
//! `message` counts them with the counters of this one.

#[cfg(feature = "tiktoken")]
mod tiktoken;
#[cfg(feature = "onnx")]
mod tokenizer_json;

#[cfg(feature = "tiktoken")]
pub use tiktoken::Tiktoken;
#[cfg(feature = "onnx")]
pub use tokenizer_json::HuggingFaceTokenizer;

/// Counts the tokens of a text. Implemented by any `Fn(&str) -> usize`.
///
/// ```
/// use mnemon::{ApproximateTokenCounter, TokenCounter};
/// assert_eq!(ApproximateTokenCounter.count("twelve chars"), 3);
/// let words = |text: &str| text.split_whitespace().count();
/// assert_eq!(words.count("three short words"), 3);
/// ```
pub trait TokenCounter: Send + Sync {
    /// Returns the number of tokens of the text alone, without those that a chat format adds around it.
    fn count(&self, text: &str) -> usize;
}

impl<F: Fn(&str) -> usize + Send + Sync> TokenCounter for F {
    fn count(&self, text: &str) -> usize {
        self(text)
    }
}

/// Estimates one token per four characters, rounded up.
///
/// That is a rough mean for English text and far too low for most other scripts. Use it if the model's tokenizer is
/// unknown, with a margin of 5 to 10 percent.
#[derive(Clone, Copy, Debug, Default)]
pub struct ApproximateTokenCounter;

impl TokenCounter for ApproximateTokenCounter {
    fn count(&self, text: &str) -> usize {
        text.chars().count().div_ceil(4)
    }
}

//! The trait of token counters.

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

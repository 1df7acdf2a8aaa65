//! An estimate of the token count from the number of characters.

use super::counter::TokenCounter;

/// Estimates one token per four characters, rounded up.
///
/// That is a rough mean for English text and far too low for most other scripts. Use it if the tokenizer is not known,
/// and keep a margin of 5 to 10 percent.
#[derive(Clone, Copy, Debug, Default)]
pub struct ApproximateTokenCounter;

impl TokenCounter for ApproximateTokenCounter {
    fn count(&self, text: &str) -> usize {
        text.chars().count().div_ceil(4)
    }
}

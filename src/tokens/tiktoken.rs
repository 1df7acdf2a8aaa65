//! Token counts by the encodings of OpenAI's models. The crate `tiktoken-rs` contains them; nothing is downloaded.

use std::fmt;

use tiktoken_rs::CoreBPE;

use super::counter::TokenCounter;

/// Counts tokens as OpenAI's models do. Special tokens in a text count as plain text.
///
/// Cost: the first use in a process builds the encoding, which takes some tenths of a second. After that, counting
/// processes some megabytes per second.
#[derive(Clone, Copy)]
pub struct Tiktoken(&'static CoreBPE);

impl fmt::Debug for Tiktoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tiktoken").finish_non_exhaustive()
    }
}

impl Tiktoken {
    /// Uses the encoding `o200k_base` of GPT-4o and later models.
    pub fn o200k_base() -> Self {
        Tiktoken(tiktoken_rs::o200k_base_singleton())
    }

    /// Uses the encoding `cl100k_base` of GPT-4 and GPT-3.5.
    pub fn cl100k_base() -> Self {
        Tiktoken(tiktoken_rs::cl100k_base_singleton())
    }
}

impl TokenCounter for Tiktoken {
    fn count(&self, text: &str) -> usize {
        self.0.count_ordinary(text)
    }
}

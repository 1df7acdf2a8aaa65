//! The encodings of OpenAI's models, from the crate `tiktoken-rs`, which carries them: nothing is fetched.

use std::fmt;

use tiktoken_rs::CoreBPE;

use super::TokenCounter;

/// Counts as OpenAI's models do. Special tokens in a text are counted as the plain text they are. Cost: the first use in a
/// process builds the encoding, some tenths of a second; then some megabytes a second.
#[derive(Clone, Copy)]
pub struct Tiktoken(&'static CoreBPE);

impl fmt::Debug for Tiktoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tiktoken").finish_non_exhaustive()
    }
}

impl Tiktoken {
    /// `o200k_base`: GPT-4o and later.
    pub fn o200k_base() -> Self {
        Tiktoken(tiktoken_rs::o200k_base_singleton())
    }

    /// `cl100k_base`: GPT-4 and GPT-3.5.
    pub fn cl100k_base() -> Self {
        Tiktoken(tiktoken_rs::cl100k_base_singleton())
    }
}

impl TokenCounter for Tiktoken {
    fn count(&self, text: &str) -> usize {
        self.0.count_ordinary(text)
    }
}

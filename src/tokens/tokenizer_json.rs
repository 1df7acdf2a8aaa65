//! The token counter of a Hugging Face `tokenizer.json`.

use std::path::Path;

use tokenizers::Tokenizer;

use super::{ApproximateTokenCounter, TokenCounter};
use crate::error::{Error, Result, impl_debug};

/// Counts tokens with the `tokenizer.json` of a Hugging Face model, without the special tokens that the tokenizer adds
/// around a text.
pub struct HuggingFaceTokenizer(Tokenizer);

impl_debug!(HuggingFaceTokenizer, self { vocabulary: self.0.get_vocab_size(true) });

impl HuggingFaceTokenizer {
    /// Reads a `tokenizer.json`.
    ///
    /// # Errors
    /// [`Error::InvalidModel`] if the file does not exist or is not a tokenizer.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let invalid = |source| Error::InvalidModel {
            path: path.to_path_buf(),
            reason: "not a tokenizer.json".into(),
            source: Some(source),
        };
        // The crate panics on some invalid files, either while reading them or at the first use.
        let read_and_try =
            || Tokenizer::from_file(path).and_then(|read| read.encode_fast("mnemon", false).map(|_| read));
        let mut tokenizer = std::panic::catch_unwind(read_and_try)
            .unwrap_or_else(|_| Err("its components are inconsistent".into()))
            .map_err(invalid)?;
        // Padding and truncation would falsify a count.
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(invalid)?;
        Ok(HuggingFaceTokenizer(tokenizer))
    }
}

impl TokenCounter for HuggingFaceTokenizer {
    fn count(&self, text: &str) -> usize {
        match self.0.encode_fast(text, false) {
            Ok(encoding) => encoding.len(),
            Err(error) => {
                // A tokenizer without an unknown token can fail on a text. An estimate is better than no token budget.
                tracing::warn!(%error, "the tokenizer failed on a text: its tokens are estimated from the number of characters");
                ApproximateTokenCounter.count(text)
            }
        }
    }
}

//! A Hugging Face `tokenizer.json`.

use std::path::Path;

use tokenizers::Tokenizer;

use super::{ApproximateTokens, TokenCounter};
use crate::error::{Error, Result, impl_debug};

/// Counts as the model does whose `tokenizer.json` this is. Special tokens that the tokenizer adds around a text are left
/// out.
pub struct TokenizerFile(Tokenizer);

impl_debug!(TokenizerFile, self { vocabulary: self.0.get_vocab_size(true) });

impl TokenizerFile {
    /// Reads the file.
    ///
    /// # Errors
    /// [`Error::InvalidModel`]: no such file, or no tokenizer.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let invalid = |source| Error::InvalidModel {
            path: path.to_path_buf(),
            reason: "not a tokenizer.json".into(),
            source: Some(source),
        };
        // Some that are no tokenizer panic, as they are read or asked.
        let tried = || Tokenizer::from_file(path).and_then(|read| read.encode_fast("mnemon", false).map(|_| read));
        let mut tokenizer =
            std::panic::catch_unwind(tried).unwrap_or_else(|_| Err("its parts do not fit".into())).map_err(invalid)?;
        // Both would falsify a count.
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(invalid)?;
        Ok(TokenizerFile(tokenizer))
    }
}

impl TokenCounter for TokenizerFile {
    fn count(&self, text: &str) -> usize {
        match self.0.encode_fast(text, false) {
            Ok(encoding) => encoding.len(),
            Err(error) => {
                // A tokenizer without an unknown token can fail on a text. An estimate is better than no budget.
                tracing::warn!(%error, "the tokenizer failed, counting approximately");
                ApproximateTokens.count(text)
            }
        }
    }
}

//! What a model is given of a text: prefixes, limits, windows.

use std::ops::Range;

use super::{
    manifest::Manifest,
    tokenizer::TextTokenizer,
    windows::{self, Bounds, MAX_BYTES, Window, prefixed},
};
use crate::error::{Error, Result};

/// A model that takes less of a text at once is of no use, and long messages would have more windows than can be numbered.
const MIN_TOKENS: usize = 64;

/// Makes tokens of documents and of questions.
pub(super) struct Texts {
    tokenizer: TextTokenizer,
    document_prefix: String,
    query_prefix: String,
    /// Of one run, prefix and special tokens included.
    max_tokens: usize,
    /// As many, less what a question's prefix has more than a document's: a window is one of either.
    window_tokens: usize,
}

impl Texts {
    /// `Err`: what is wrong with the model.
    pub(super) fn new(tokenizer: TextTokenizer, manifest: &Manifest) -> Result<Self, String> {
        let (query_prefix, document_prefix) = (manifest.query_prefix.clone(), manifest.document_prefix.clone());
        let tokens = |prefix: &str| tokenizer.encode(prefix).map(|tokens| tokens.len()).map_err(|e| e.to_string());
        let (of_query, of_document) = (tokens(&query_prefix)?, tokens(&document_prefix)?);
        let max_tokens = manifest.max_tokens;
        let left = max_tokens.saturating_sub(of_query.max(of_document) - tokenizer.special(false));
        if left < MIN_TOKENS {
            return Err(format!("max_tokens and the prefixes leave {left} tokens for a text"));
        }
        let window_tokens = max_tokens - of_query.saturating_sub(of_document);
        Ok(Texts { tokenizer, document_prefix, query_prefix, max_tokens, window_tokens })
    }

    /// Parts of a text that are documents and questions each.
    pub(super) fn windows(&self, text: &str) -> Result<Vec<Range<usize>>> {
        let bytes = self.document_prefix.len().max(self.query_prefix.len()) + text.len();
        if self.tokenizer.most_tokens(bytes).is_some_and(|most| most <= self.window_tokens) {
            return Ok(std::iter::once(0..text.len()).collect());
        }
        Ok(self.passages(text)?.into_iter().map(|window| window.range).collect())
    }

    /// The same, with their tokens as documents.
    pub(super) fn passages(&self, text: &str) -> Result<Vec<Window>> {
        let other = (self.query_prefix != self.document_prefix).then_some((&*self.query_prefix, self.max_tokens));
        let bounds = Bounds { prefix: &self.document_prefix, max_tokens: self.window_tokens, other };
        windows::split(&self.tokenizer, text, bounds)
    }

    /// The tokens of a document.
    ///
    /// # Errors
    /// [`Error::Embedding`]: they are too many.
    pub(super) fn document(&self, text: &str) -> Result<Vec<u32>> {
        self.whole(&self.document_prefix, text)
    }

    /// The tokens of a question. Errors as of a document.
    pub(super) fn query(&self, text: &str) -> Result<Vec<u32>> {
        self.whole(&self.query_prefix, text)
    }

    fn whole(&self, prefix: &str, text: &str) -> Result<Vec<u32>> {
        let too_long = |length: String| Error::Embedding {
            reason: format!(
                "a text of {length} is too long for one vector, the model takes {} tokens; embed its windows \
                 (`Embedder::windows`, `embed_passages`)",
                self.max_tokens
            ),
            source: None,
        };
        if text.len() > MAX_BYTES {
            return Err(too_long(format!("{} bytes", text.len())));
        }
        let tokens = self.tokenizer.encode(&prefixed(prefix, text))?;
        match tokens.len() {
            count if count > self.max_tokens => Err(too_long(format!("{count} tokens"))),
            _ => Ok(tokens),
        }
    }

    pub(super) fn tokenizer(&self) -> &TextTokenizer {
        &self.tokenizer
    }

    pub(super) fn max_tokens(&self) -> usize {
        self.max_tokens
    }
}

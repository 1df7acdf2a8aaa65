//! Turning texts into tokens within the limits of a model: prefixes, length limits, and windows.

use std::ops::Range;

use super::tokenizer::TextTokenizer;
use crate::{
    embed::token_windows::{self, Bounds, MAX_BYTES, Tokenizer, Window, prefixed},
    error::{Error, Result},
    models::manifest::Manifest,
};

/// Minimum tokens that prefixes must leave for a text. With fewer, vectors mean little, and a long message would have
/// more windows than the store can number.
const MIN_TOKENS: usize = 64;

/// Encodes documents and queries as tokens.
pub(super) struct TextEncoder {
    tokenizer: TextTokenizer,
    document_prefix: String,
    query_prefix: String,
    /// Maximum tokens of one text, prefix and special tokens included.
    max_tokens: usize,
    /// Maximum tokens of a window: `max_tokens`, less the tokens by which the query prefix exceeds the document prefix,
    /// so that a window fits with either prefix.
    window_tokens: usize,
}

impl TextEncoder {
    /// Fails with the reason if the model leaves too few tokens for a text.
    pub(super) fn new(tokenizer: TextTokenizer, manifest: &Manifest) -> Result<Self, String> {
        let (query_prefix, document_prefix) = (manifest.query_prefix.clone(), manifest.document_prefix.clone());
        let tokens = |prefix: &str| tokenizer.encode(prefix).map(|tokens| tokens.len()).map_err(|e| e.to_string());
        let (of_query, of_document) = (tokens(&query_prefix)?, tokens(&document_prefix)?);
        let max_tokens = manifest.max_tokens;
        let left = max_tokens.saturating_sub(of_query.max(of_document) - tokenizer.special(false));
        if left < MIN_TOKENS {
            return Err(format!(
                "manifest.toml: max_tokens {max_tokens} and the prefixes leave {left} tokens for a text; at least {MIN_TOKENS} are needed"
            ));
        }
        let window_tokens = max_tokens - of_query.saturating_sub(of_document);
        Ok(TextEncoder { tokenizer, document_prefix, query_prefix, max_tokens, window_tokens })
    }

    /// Returns the windows of a text. Each fits the model as a document and as a query.
    pub(super) fn windows(&self, text: &str) -> Result<Vec<Range<usize>>> {
        let bytes = self.document_prefix.len().max(self.query_prefix.len()) + text.len();
        if self.tokenizer.most_tokens(bytes).is_some_and(|most| most <= self.window_tokens) {
            return Ok(std::iter::once(0..text.len()).collect());
        }
        Ok(self.passages(text)?.into_iter().map(|window| window.range).collect())
    }

    /// Returns the windows of a text with their tokens as documents.
    pub(super) fn passages(&self, text: &str) -> Result<Vec<Window>> {
        let other = (self.query_prefix != self.document_prefix).then_some((&*self.query_prefix, self.max_tokens));
        let bounds = Bounds { prefix: &self.document_prefix, max_tokens: self.window_tokens, other };
        token_windows::split(&self.tokenizer, text, bounds)
    }

    /// Returns the tokens of a document.
    ///
    /// # Errors
    /// [`Error::Embedding`]: the document has more tokens than the model takes.
    pub(super) fn document(&self, text: &str) -> Result<Vec<u32>> {
        self.whole(&self.document_prefix, text)
    }

    /// Returns the tokens of a query.
    ///
    /// # Errors
    /// Same as [`document`](Self::document).
    pub(super) fn query(&self, text: &str) -> Result<Vec<u32>> {
        self.whole(&self.query_prefix, text)
    }

    fn whole(&self, prefix: &str, text: &str) -> Result<Vec<u32>> {
        let too_long = |length: String| Error::Embedding {
            reason: format!(
                "a text of {length} is too long for one vector: the model takes {} tokens; embed its windows \
                 one by one",
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

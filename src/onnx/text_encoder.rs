//! From texts to the tokens that a model takes: prefixes, length limits, and the chunks of long texts.
//!
//! A text that has more tokens than the model takes is split into overlapping chunks, cut where words begin. Invariant:
//! nothing is ever truncated; each chunk is checked against the limits by itself.

use std::{borrow::Cow, ops::Range};

use super::tokenizer::{TextTokenizer, Words};
use crate::{
    embed::schedule::Chunk,
    error::{Error, Result},
    model_folders::folder::Manifest,
};

/// Minimum tokens that prefixes must leave for a text. With fewer, vectors mean little, and a long message would have
/// more chunks than the store can number.
const MIN_TOKENS: usize = 64;

/// The part of their tokens that adjacent chunks share, so that a sentence at a cut is whole in one of them.
const OVERLAP: f64 = 0.125;

/// Bytes that are tokenized at a time, and the maximum bytes of a chunk. A tokenizer needs about 150 bytes of memory
/// for each byte of text: a megabyte of text would need more than most models.
pub(super) const MAX_BYTES: usize = 1 << 16;

/// Encodes documents and queries as tokens.
pub(super) struct TextEncoder {
    tokenizer: TextTokenizer,
    document_prefix: String,
    query_prefix: String,
    /// Maximum tokens of one text, prefix and special tokens included.
    max_tokens: usize,
    /// Maximum tokens of a chunk: `max_tokens`, less the tokens by which the query prefix exceeds the document prefix,
    /// so that a chunk fits with either prefix.
    chunk_tokens: usize,
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
        let chunk_tokens = max_tokens - of_query.saturating_sub(of_document);
        Ok(TextEncoder { tokenizer, document_prefix, query_prefix, max_tokens, chunk_tokens })
    }

    /// Returns the chunks of a text. Each fits the model as a document and as a query.
    pub(super) fn chunks(&self, text: &str) -> Result<Vec<Range<usize>>> {
        let bytes = self.document_prefix.len().max(self.query_prefix.len()) + text.len();
        if self.tokenizer.most_tokens(bytes).is_some_and(|most| most <= self.chunk_tokens) {
            return Ok(std::iter::once(0..text.len()).collect());
        }
        Ok(self.passages(text)?.into_iter().map(|chunk| chunk.range).collect())
    }

    /// Returns the chunks of a text with their tokens as documents.
    pub(super) fn passages(&self, text: &str) -> Result<Vec<Chunk>> {
        let other = (self.query_prefix != self.document_prefix).then_some((&*self.query_prefix, self.max_tokens));
        let bounds = Bounds { prefix: &self.document_prefix, max_tokens: self.chunk_tokens, other };
        split(&self.tokenizer, text, bounds)
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

/// The limits of chunks.
pub(super) struct Bounds<'a> {
    /// The prefix of each chunk.
    pub(super) prefix: &'a str,
    /// Maximum tokens of a chunk, with the prefix and special tokens.
    pub(super) max_tokens: usize,
    /// Another prefix that a chunk must fit with, and the maximum tokens with that prefix.
    pub(super) other: Option<(&'a str, usize)>,
}

/// Covers `text` with chunks within these bounds, cut where words begin.
///
/// A chunk may have more tokens by itself than in the whole text: if a cut is inside a word that is longer than a
/// chunk, or if the first word merges with the prefix. Each chunk is checked, and halved until it fits, so that
/// nothing is ever truncated.
///
/// Cost: one tokenization of the text, if a chunk's tokens are a part of the text's, and there is no prefix. Otherwise
/// one of a text that fits in one chunk; two of a longer one, and one of each chunk; with another prefix, one more of
/// each chunk that is at least half full.
pub(super) fn split(tokenizer: &TextTokenizer, text: &str, bounds: Bounds<'_>) -> Result<Vec<Chunk>> {
    let special = tokenizer.special_tokens().filter(|_| bounds.prefix.is_empty() && bounds.other.is_none());
    // A longer text probably has several chunks, whose tokens are parts of the text's.
    let likely_whole = if special.is_some() { bounds.max_tokens.min(MAX_BYTES) } else { MAX_BYTES };
    if text.len() <= likely_whole {
        let tokens = bounds.encode(tokenizer, text)?;
        if bounds.contain(tokenizer, text, &tokens)? {
            return Ok(vec![Chunk { range: 0..text.len(), tokens }]);
        }
    }
    let room = bounds.max_tokens - tokenizer.encode(bounds.prefix)?.len();
    let mut splitting = Splitting { tokenizer, text, bounds, special, room, chunks: Vec::new() };
    let mut begin = 0;
    while begin < text.len() {
        let end = text.floor_char_boundary(begin + MAX_BYTES);
        begin = splitting.piece(begin..end)?;
    }
    Ok(splitting.chunks)
}

impl Bounds<'_> {
    fn encode(&self, tokenizer: &TextTokenizer, part: &str) -> Result<Vec<u32>> {
        tokenizer.encode(&prefixed(self.prefix, part))
    }

    /// Returns true if a chunk with these tokens is within the bounds, also with the other prefix.
    fn contain(&self, tokenizer: &TextTokenizer, part: &str, tokens: &[u32]) -> Result<bool> {
        Ok(tokens.len() <= self.max_tokens
            && match self.other {
                // With the other prefix, only tokens at the prefix's end differ.
                Some((prefix, most)) if 2 * tokens.len() > self.max_tokens => {
                    tokenizer.encode(&prefixed(prefix, part))?.len() <= most
                }
                _ => true,
            })
    }
}

struct Splitting<'a> {
    tokenizer: &'a TextTokenizer,
    text: &'a str,
    bounds: Bounds<'a>,
    /// The special tokens around a chunk, if its tokens are a part of the text's.
    special: Option<(&'a [u32], &'a [u32])>,
    /// Maximum tokens of the text in a chunk, without the prefix and special tokens.
    room: usize,
    chunks: Vec<Chunk>,
}

impl Splitting<'_> {
    /// Covers a piece of the text, except for a last chunk that may continue after the piece. Returns the start of
    /// that chunk.
    fn piece(&mut self, piece: Range<usize>) -> Result<usize> {
        let Words { starts, ids } = self.tokenizer.words(&self.text[piece.clone()])?;
        let step = ((self.room as f64 * (1.0 - OVERLAP)) as usize).max(1);
        let is_last = piece.end == self.text.len();
        let (text, special) = (self.text, self.special);
        let position =
            |index: usize| starts.get(index).map_or(piece.end, |&start| text.floor_char_boundary(piece.start + start));
        // The tokens of a range that begins and ends where words do, or where the piece does.
        let tokens = |range: &Range<usize>| {
            let (ids, (opening, closing)) = (ids.as_ref()?, special?);
            let index = |byte: usize| starts.partition_point(|&start| piece.start + start < byte);
            Some([opening, &ids[index(range.start)..index(range.end)], closing].concat())
        };
        let mut first = 0;
        loop {
            let begin = if first == 0 { piece.start } else { position(first) };
            let mut next = first + step;
            let mut end = position(first + self.room);
            if end == piece.end && !is_last {
                if begin > piece.start {
                    return Ok(begin);
                }
                // One chunk covers the whole piece. Its last word may continue after the piece, and is left out.
                end = starts.last().map_or(piece.end, |_| position(starts.len() - 1));
                end = if end > begin { end } else { piece.end };
                self.fit(begin..end, tokens(&(begin..end)))?;
                return Ok(end);
            }
            if end <= begin {
                // One word is longer than a chunk: `fit` cuts it inside.
                next = (first..=starts.len()).find(|&index| position(index) > begin).unwrap_or(starts.len());
                end = position(next);
            }
            self.fit(begin..end, tokens(&(begin..end)))?;
            if end == piece.end {
                return Ok(end);
            }
            first = next;
        }
    }

    /// Adds a chunk with this range and these tokens, or with its halves if it has too many tokens by itself.
    fn fit(&mut self, range: Range<usize>, tokens: Option<Vec<u32>>) -> Result<()> {
        let part = &self.text[range.clone()];
        let first_character = part.chars().next().map_or(0, char::len_utf8);
        let middle = self.text.floor_char_boundary(range.start + range.len() / 2).max(range.start + first_character);
        let tokens = tokens.map_or_else(|| self.bounds.encode(self.tokenizer, part), Ok)?;
        if middle == range.end || self.bounds.contain(self.tokenizer, part, &tokens)? {
            self.chunks.push(Chunk { range, tokens });
            return Ok(());
        }
        self.fit(range.start..middle, None)?;
        self.fit(middle..range.end, None)
    }
}

pub(super) fn prefixed<'t>(prefix: &str, text: &'t str) -> Cow<'t, str> {
    match prefix {
        "" => Cow::Borrowed(text),
        _ => Cow::Owned(format!("{prefix}{text}")),
    }
}

//! Splitting text into windows by tokens.

use std::{borrow::Cow, ops::Range};

use crate::error::Result;

/// The part of their tokens that adjacent windows share, so that a sentence at a cut is whole in one of them.
const OVERLAP: f64 = 0.125;

/// Bytes that are tokenized at a time, and the maximum bytes of a window. A tokenizer needs about 150 bytes of memory
/// for each byte of text: a megabyte of text would need more than most models.
pub(crate) const MAX_BYTES: usize = 1 << 16;

/// The token numbers of a text, and where its words begin.
pub(crate) trait Tokenizer {
    /// Returns the tokens of a text, special ones included.
    fn encode(&self, text: &str) -> Result<Vec<u32>>;

    /// Returns the tokens of a text without special ones, and where their words begin.
    fn words(&self, text: &str) -> Result<Words>;

    /// Returns the special tokens before and after a text, if [`words`](Self::words) has token numbers for nearly every
    /// text.
    fn special_tokens(&self) -> Option<(&[u32], &[u32])>;
}

/// The tokens of a text without special ones.
pub(crate) struct Words {
    /// The token numbers, if those of adjacent words are also the tokens of their part of the text by itself.
    pub(crate) ids: Option<Vec<u32>>,
    /// For each token, the byte at which its word begins. Ascending.
    pub(crate) starts: Vec<usize>,
}

/// A part of a text that is embedded as one vector.
pub(crate) struct Window {
    /// The range of bytes in the text, on character boundaries.
    pub(crate) range: Range<usize>,
    /// The tokens of the part by itself, with the prefix and special tokens.
    pub(crate) tokens: Vec<u32>,
}

/// The limits of windows.
pub(crate) struct Bounds<'a> {
    /// The prefix of each window.
    pub(crate) prefix: &'a str,
    /// Maximum tokens of a window, with the prefix and special tokens.
    pub(crate) max_tokens: usize,
    /// Another prefix that a window must fit with, and the maximum tokens with that prefix.
    pub(crate) other: Option<(&'a str, usize)>,
}

/// Covers `text` with windows within these bounds, cut where words begin.
///
/// A window may have more tokens by itself than in the whole text: if a cut is inside a word that is longer than a
/// window, or if the first word merges with the prefix. Each window is checked, and halved until it fits, so that
/// nothing is ever truncated.
///
/// Cost: one tokenization of the text, if a window's tokens are a part of the text's, and there is no prefix. Otherwise
/// one of a text that fits in one window; two of a longer one, and one of each window; with another prefix, one more of
/// each window that is at least half full.
pub(crate) fn split(tokenizer: &impl Tokenizer, text: &str, bounds: Bounds<'_>) -> Result<Vec<Window>> {
    let special = tokenizer.special_tokens().filter(|_| bounds.prefix.is_empty() && bounds.other.is_none());
    // A longer text probably has several windows, whose tokens are parts of the text's.
    let likely_whole = if special.is_some() { bounds.max_tokens.min(MAX_BYTES) } else { MAX_BYTES };
    if text.len() <= likely_whole {
        let tokens = bounds.encode(tokenizer, text)?;
        if bounds.contain(tokenizer, text, &tokens)? {
            return Ok(vec![Window { range: 0..text.len(), tokens }]);
        }
    }
    let room = bounds.max_tokens - tokenizer.encode(bounds.prefix)?.len();
    let mut splitting = Splitting { tokenizer, text, bounds, special, room, windows: Vec::new() };
    let mut begin = 0;
    while begin < text.len() {
        let end = text.floor_char_boundary(begin + MAX_BYTES);
        begin = splitting.piece(begin..end)?;
    }
    Ok(splitting.windows)
}

impl Bounds<'_> {
    /// Returns the tokens of a part.
    fn encode(&self, tokenizer: &impl Tokenizer, part: &str) -> Result<Vec<u32>> {
        tokenizer.encode(&prefixed(self.prefix, part))
    }

    /// Returns true if a part with these tokens is within the bounds.
    fn contain(&self, tokenizer: &impl Tokenizer, part: &str, tokens: &[u32]) -> Result<bool> {
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

struct Splitting<'a, T> {
    tokenizer: &'a T,
    text: &'a str,
    bounds: Bounds<'a>,
    /// The special tokens around a window, if its tokens are a part of the text's.
    special: Option<(&'a [u32], &'a [u32])>,
    /// Maximum tokens of the text in a window, without the prefix and special tokens.
    room: usize,
    windows: Vec<Window>,
}

impl<T: Tokenizer> Splitting<'_, T> {
    /// Covers a piece of the text, except for a last window that may continue after the piece. Returns the start of
    /// that window.
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
                // One window covers the whole piece. Its last word may continue after the piece, and is left out.
                end = starts.last().map_or(piece.end, |_| position(starts.len() - 1));
                end = if end > begin { end } else { piece.end };
                self.fit(begin..end, tokens(&(begin..end)))?;
                return Ok(end);
            }
            if end <= begin {
                // One word is longer than a window: `fit` cuts it inside.
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

    /// Adds a window with this range and these tokens, or with its halves if it has too many tokens by itself.
    fn fit(&mut self, range: Range<usize>, tokens: Option<Vec<u32>>) -> Result<()> {
        let part = &self.text[range.clone()];
        let first_character = part.chars().next().map_or(0, char::len_utf8);
        let middle = self.text.floor_char_boundary(range.start + range.len() / 2).max(range.start + first_character);
        let tokens = tokens.map_or_else(|| self.bounds.encode(self.tokenizer, part), Ok)?;
        if middle == range.end || self.bounds.contain(self.tokenizer, part, &tokens)? {
            self.windows.push(Window { range, tokens });
            return Ok(());
        }
        self.fit(range.start..middle, None)?;
        self.fit(middle..range.end, None)
    }
}

/// Prepends a prefix to a text.
pub(crate) fn prefixed<'t>(prefix: &str, text: &'t str) -> Cow<'t, str> {
    match prefix {
        "" => Cow::Borrowed(text),
        _ => Cow::Owned(format!("{prefix}{text}")),
    }
}

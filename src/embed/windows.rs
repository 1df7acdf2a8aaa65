//! Splitting text that is longer than the model's limit.

use std::{borrow::Cow, ops::Range};

use super::tokenizer::TextTokenizer;
use crate::error::Result;

/// Neighbouring windows share this part of their tokens, so that a sentence at a cut is whole in one of them.
const OVERLAP: f64 = 0.125;

/// Bytes that are tokenised at once, and that a window has at most. A tokenizer keeps some 150 bytes a byte of text until it is
/// done: a text of a megabyte would cost more than most models.
pub(super) const MAX_BYTES: usize = 1 << 16;

/// A part of a text that the model takes in one piece.
pub(super) struct Window {
    /// Bytes of the text, on character boundaries.
    pub(super) range: Range<usize>,
    /// As the part has them by itself, the prefix before it and special ones included.
    pub(super) tokens: Vec<u32>,
}

/// What windows are to be, beside parts of their text.
pub(super) struct Bounds<'a> {
    /// Put before each.
    pub(super) prefix: &'a str,
    /// Tokens of one, special ones and those of the prefix included.
    pub(super) max_tokens: usize,
    /// What else may be put before one, and the tokens that it may have then.
    pub(super) other: Option<(&'a str, usize)>,
}

/// Covers `text` with windows within these bounds, cut where words begin.
///
/// A window may have more tokens by itself than it had in the whole text (a cut inside a word, if one word is longer than
/// a window; a first word that makes one with the prefix). Each is checked, and halved until it fits, so that nothing is ever
/// truncated.
///
/// Cost: one tokenisation of a text that fits; of one that does not two, and one of each window. Where there is another prefix, one
/// more of what fills half a window or more.
pub(super) fn split(tokenizer: &TextTokenizer, text: &str, bounds: Bounds<'_>) -> Result<Vec<Window>> {
    if text.len() <= MAX_BYTES {
        let (tokens, fits) = bounds.tokens(tokenizer, text)?;
        if fits {
            return Ok(vec![Window { range: 0..text.len(), tokens }]);
        }
    }
    let room = bounds.max_tokens - tokenizer.encode(bounds.prefix)?.len();
    let mut splitting = Splitting { tokenizer, text, bounds, room, windows: Vec::new() };
    let mut begin = 0;
    while begin < text.len() {
        let end = text.floor_char_boundary(begin + MAX_BYTES);
        begin = splitting.piece(begin..end)?;
    }
    Ok(splitting.windows)
}

impl Bounds<'_> {
    /// The tokens of a part, and whether that is within the bounds.
    fn tokens(&self, tokenizer: &TextTokenizer, part: &str) -> Result<(Vec<u32>, bool)> {
        let tokens = tokenizer.encode(&prefixed(self.prefix, part))?;
        let fits = tokens.len() <= self.max_tokens
            && match self.other {
                // Only at the prefix's end it has other tokens.
                Some((prefix, most)) if 2 * tokens.len() > self.max_tokens => {
                    tokenizer.encode(&prefixed(prefix, part))?.len() <= most
                }
                _ => true,
            };
        Ok((tokens, fits))
    }
}

struct Splitting<'a> {
    tokenizer: &'a TextTokenizer,
    text: &'a str,
    bounds: Bounds<'a>,
    /// Without special tokens and the prefix's.
    room: usize,
    windows: Vec<Window>,
}

impl Splitting<'_> {
    /// Covers a piece of the text, but for what is of a window that may go on after it. Returns where that begins.
    fn piece(&mut self, piece: Range<usize>) -> Result<usize> {
        let starts = self.tokenizer.starts(&self.text[piece.clone()])?;
        let step = ((self.room as f64 * (1.0 - OVERLAP)) as usize).max(1);
        let is_last = piece.end == self.text.len();
        let text = self.text;
        let place =
            |index: usize| starts.get(index).map_or(piece.end, |&start| text.floor_char_boundary(piece.start + start));
        let mut first = 0;
        loop {
            let begin = if first == 0 { piece.start } else { place(first) };
            let mut next = first + step;
            let mut end = place(first + self.room);
            if end == piece.end && !is_last {
                if begin > piece.start {
                    return Ok(begin);
                }
                // A window of many bytes. The last word may go on.
                end = starts.last().map_or(piece.end, |_| place(starts.len() - 1));
                end = if end > begin { end } else { piece.end };
                self.fit(begin..end)?;
                return Ok(end);
            }
            if end <= begin {
                // One word is longer than a window: it is cut by itself, inside.
                next = (first..=starts.len()).find(|&index| place(index) > begin).unwrap_or(starts.len());
                end = place(next);
            }
            self.fit(begin..end)?;
            if end == piece.end {
                return Ok(end);
            }
            first = next;
        }
    }

    /// Pushes the range, in halves if it has too many tokens by itself.
    fn fit(&mut self, range: Range<usize>) -> Result<()> {
        let part = &self.text[range.clone()];
        let first_character = part.chars().next().map_or(0, char::len_utf8);
        let middle = self.text.floor_char_boundary(range.start + range.len() / 2).max(range.start + first_character);
        let (tokens, fits) = self.bounds.tokens(self.tokenizer, part)?;
        if fits || middle == range.end {
            self.windows.push(Window { range, tokens });
            return Ok(());
        }
        self.fit(range.start..middle)?;
        self.fit(middle..range.end)
    }
}

/// What the model is given of a text.
pub(super) fn prefixed<'t>(prefix: &str, text: &'t str) -> Cow<'t, str> {
    match prefix {
        "" => Cow::Borrowed(text),
        _ => Cow::Owned(format!("{prefix}{text}")),
    }
}

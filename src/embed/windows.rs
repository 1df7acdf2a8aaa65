//! Splitting text that is longer than the model's limit.

use std::{borrow::Cow, ops::Range};

use super::tokenizer::TextTokenizer;
use crate::error::Result;

/// Neighbouring windows share this part of their tokens, so that a sentence at a cut is whole in one of them.
const OVERLAP: f64 = 0.125;

/// A part of a text that the model takes in one piece.
pub(super) struct Window {
    /// Bytes of the text, on character boundaries.
    pub(super) range: Range<usize>,
    /// As the part has them by itself, the prefix before it and special ones included.
    pub(super) tokens: Vec<u32>,
}

/// Covers `text` with windows of at most `max_tokens` tokens, special ones and those of `prefix` included, cut where
/// words begin.
///
/// A window may have more tokens by itself than it had in the whole text (a cut inside a word, if one word is longer than
/// a window). Each is checked, and halved until it fits, so that nothing is ever truncated.
///
/// Cost: one tokenisation of a text that fits; of one that does not two, and one of each window.
pub(super) fn split(tokenizer: &TextTokenizer, prefix: &str, text: &str, max_tokens: usize) -> Result<Vec<Window>> {
    let tokens = tokenizer.encode(&prefixed(prefix, text))?;
    if tokens.len() <= max_tokens {
        return Ok(vec![Window { range: 0..text.len(), tokens }]);
    }
    // A long text has many.
    drop(tokens);
    let starts = tokenizer.starts(text)?;
    let room = max_tokens - tokenizer.encode(prefix)?.len();
    let step = ((room as f64 * (1.0 - OVERLAP)) as usize).max(1);

    let mut splitting = Splitting { tokenizer, prefix, text, max_tokens, windows: Vec::new() };
    let mut first = 0;
    loop {
        let place = |index: usize| starts.get(index).map_or(text.len(), |&place| text.floor_char_boundary(place));
        let begin = if first == 0 { 0 } else { place(first) };
        let mut next = first + step;
        let mut end = place(first + room);
        if end <= begin {
            // One word is longer than a window: it is cut by itself, inside.
            next = (first..=starts.len()).find(|&index| place(index) > begin).unwrap_or(starts.len());
            end = place(next);
        }
        splitting.fit(begin..end)?;
        if end == text.len() {
            return Ok(splitting.windows);
        }
        first = next;
    }
}

struct Splitting<'a> {
    tokenizer: &'a TextTokenizer,
    prefix: &'a str,
    text: &'a str,
    max_tokens: usize,
    windows: Vec<Window>,
}

impl Splitting<'_> {
    /// Pushes the range, in halves if it has too many tokens by itself.
    fn fit(&mut self, range: Range<usize>) -> Result<()> {
        let piece = &self.text[range.clone()];
        let first_character = piece.chars().next().map_or(0, char::len_utf8);
        let middle = self.text.floor_char_boundary(range.start + range.len() / 2).max(range.start + first_character);
        let tokens = self.tokenizer.encode(&prefixed(self.prefix, piece))?;
        if middle == range.end || tokens.len() <= self.max_tokens {
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

//! Splitting text that is longer than the model's limit.

use std::ops::Range;

use tokenizers::Tokenizer;

use crate::error::{Error, Result};

/// Neighbouring windows share this part of their tokens, so that a sentence at a cut is whole in one of them.
const OVERLAP: f64 = 0.125;

/// Covers `text` with windows of at most `max_tokens` tokens, special tokens included, cut where words begin.
///
/// A window is tokenised again when it is embedded, and may then have more tokens than it had in the whole text (a
/// cut inside a word, if one word is longer than a window). Each is checked, and halved until it fits, so that
/// nothing is ever truncated.
///
/// `tokenizer` must not truncate. Cost: one tokenisation of the text, and one of each window if there are several.
pub(super) fn split(tokenizer: &Tokenizer, text: &str, max_tokens: usize) -> Result<Vec<Range<usize>>> {
    let encoding = encode(tokenizer, text)?;
    if encoding.len() <= max_tokens {
        return Ok(std::iter::once(0..text.len()).collect());
    }
    let special = encoding.get_special_tokens_mask().iter().filter(|&&special| special == 1).count();
    let room = max_tokens - special;
    let step = ((room as f64 * (1.0 - OVERLAP)) as usize).max(1);

    // Where each word begins, in bytes, with its first token's number.
    let mut starts: Vec<usize> = Vec::new();
    let mut last_word = None;
    for (index, word) in encoding.get_word_ids().iter().enumerate() {
        let begins = word.is_none_or(|word| Some(word) != last_word);
        last_word = *word;
        let is_special = encoding.get_special_tokens_mask()[index] == 1;
        if !is_special {
            let begin = encoding.get_offsets()[index].0;
            // A token inside a word takes the word's place: cuts fall between words. Never back: that would leave holes.
            let last = starts.last().copied();
            starts.push(match last {
                Some(last) if !begins => last,
                last => begin.max(last.unwrap_or(0)),
            });
        }
    }

    let mut windows = Vec::new();
    let mut first = 0;
    loop {
        let place = |index: usize| starts.get(index).map_or(text.len(), |&place| boundary(text, place));
        let begin = if first == 0 { 0 } else { place(first) };
        let mut next = first + step;
        let mut end = place(first + room);
        if end <= begin {
            // One word is longer than a window: it is cut by itself, inside.
            next = (first..=starts.len()).find(|&index| place(index) > begin).unwrap_or(starts.len());
            end = place(next);
        }
        fit(tokenizer, text, begin..end, max_tokens, &mut windows)?;
        if end == text.len() {
            return Ok(windows);
        }
        first = next;
    }
}

/// Pushes the range, in halves if it has too many tokens by itself.
fn fit(
    tokenizer: &Tokenizer,
    text: &str,
    range: Range<usize>,
    max_tokens: usize,
    windows: &mut Vec<Range<usize>>,
) -> Result<()> {
    let first_character = text[range.clone()].chars().next().map_or(0, char::len_utf8);
    let middle = boundary(text, range.start + range.len() / 2).max(range.start + first_character);
    if middle == range.end || encode(tokenizer, &text[range.clone()])?.len() <= max_tokens {
        windows.push(range);
        return Ok(());
    }
    fit(tokenizer, text, range.start..middle, max_tokens, windows)?;
    fit(tokenizer, text, middle..range.end, max_tokens, windows)
}

/// The next lower character boundary.
fn boundary(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at)
}

/// Tokens of a text, special ones included.
pub(super) fn encode(tokenizer: &Tokenizer, text: &str) -> Result<tokenizers::Encoding> {
    tokenizer
        .encode(text, true)
        .map_err(|error| Error::Embedding { reason: "the tokenizer failed".into(), source: Some(error) })
}

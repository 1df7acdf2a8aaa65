//! Splitting a word into pieces: greedily the longest piece of the vocabulary, from the left. Most words are one piece,
//! found by one lookup.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use tokenizers::{Model, models::wordpiece};

pub(super) struct Vocabulary {
    /// Pieces that begin a word. These are all pieces, because a word may be spelled like a piece with the prefix.
    first: Pieces,
    /// Pieces that continue a word, without the prefix that marks them.
    further: Pieces,
    unknown: u32,
    max_characters: usize,
}

impl Vocabulary {
    /// Reads the vocabulary of a tokenizer. `None`: the vocabulary lacks the token for unknown words.
    pub(super) fn of(model: &wordpiece::WordPiece) -> Option<Vocabulary> {
        let ids = model.get_vocab();
        let pieces = || ids.iter().map(|(piece, &id)| (piece.as_str(), id));
        let prefix = model.continuing_subword_prefix.as_str();
        Some(Vocabulary {
            first: Pieces::new(pieces()),
            further: Pieces::new(pieces().filter_map(|(piece, id)| Some((piece.strip_prefix(prefix)?, id)))),
            unknown: *ids.get(&model.unk_token)?,
            max_characters: model.max_input_chars_per_word,
        })
    }

    pub(super) fn unknown(&self) -> u32 {
        self.unknown
    }

    /// Appends the ids of a word's pieces, or the id for unknown words if the word is too long or has no such pieces.
    pub(super) fn push(&self, word: &str, ids: &mut Vec<u32>) {
        if word.len() > self.max_characters && word.chars().count() > self.max_characters {
            ids.push(self.unknown);
            return;
        }
        let begin = ids.len();
        let mut pieces = &self.first;
        let mut rest = word;
        while !rest.is_empty() {
            let Some((id, length)) = pieces.longest(rest) else {
                ids.truncate(begin);
                ids.push(self.unknown);
                return;
            };
            ids.push(id);
            rest = &rest[length..];
            pieces = &self.further;
        }
    }
}

/// Bytes of a short piece. Most pieces are short.
const SHORT: usize = 15;

struct Pieces {
    /// Pieces of up to [`SHORT`] bytes, by [`key`]: a key in the table itself is compared without a second read of memory.
    short: HashMap<u128, u32, RandomState>,
    long: HashMap<Box<str>, u32, RandomState>,
    longest_bytes: usize,
}

impl Pieces {
    fn new<'v>(pieces: impl Iterator<Item = (&'v str, u32)> + Clone) -> Pieces {
        let is_short = |(piece, _): &(&str, u32)| piece.len() <= SHORT;
        Pieces {
            longest_bytes: pieces.clone().map(|(piece, _)| piece.len()).max().unwrap_or(0),
            short: pieces.clone().filter(is_short).map(|(piece, id)| (key(bytes(piece), piece.len()), id)).collect(),
            long: pieces.filter(|piece| !is_short(piece)).map(|(piece, id)| (piece.into(), id)).collect(),
        }
    }

    /// Finds the longest piece that a text begins with. Returns its id and its bytes.
    fn longest(&self, text: &str) -> Option<(u32, usize)> {
        let mut end = text.floor_char_boundary(self.longest_bytes);
        while end > SHORT {
            if let Some(&id) = self.long.get(&text[..end]) {
                return Some((id, end));
            }
            end = text.floor_char_boundary(end - 1);
        }
        let bytes = bytes(text);
        while end > 0 {
            if let Some(&id) = self.short.get(&key(bytes, end)) {
                return Some((id, end));
            }
            end = text.floor_char_boundary(end - 1);
        }
        None
    }
}

/// Returns the first [`SHORT`] bytes of a text, and zeros after its end.
fn bytes(text: &str) -> u128 {
    let mut bytes = [0; 16];
    let length = text.len().min(SHORT);
    bytes[..length].copy_from_slice(&text.as_bytes()[..length]);
    u128::from_le_bytes(bytes)
}

/// Returns the key of the first `length` of these bytes: the length is the last byte, since a piece may end with zeros.
fn key(bytes: u128, length: usize) -> u128 {
    bytes & ((1 << (8 * length)) - 1) | (length as u128) << (8 * SHORT)
}

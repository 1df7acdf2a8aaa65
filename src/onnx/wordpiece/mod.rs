//! A fast WordPiece tokenizer for BERT-like models: the same ids as `tokenizers`, about thirty-five times faster.
//!
//! It supports one layout: `BertNormalizer`, `BertPreTokenizer`, `WordPiece`, and special tokens around a single text.
//! `tokenizers` rewrites a text six times and tracks where each byte came from; ids, and the bytes at which words begin,
//! need neither. No rule about characters is duplicated here: [`Characters`] runs the tokenizer's own normalizer and
//! pre-tokenizer once on each character, and passes them a whole stretch without white space if its characters depend on
//! their neighbors.
//! Invariant: the same ids as `tokenizers`, or none.
//!
//! Alternatives: `kitoken` has a tenth of this speed on chat messages; `fastokens` has no WordPiece; the trie with
//! failure links of Song et al., "Fast WordPiece Tokenization" (EMNLP 2021), is linear also for words of many pieces,
//! but nearly every word of a chat is one piece.

mod characters;
mod layout;
#[cfg(test)]
pub(super) mod tests;
mod vocabulary;

use aho_corasick::AhoCorasick;
use tokenizers::{ModelWrapper, Tokenizer};

use characters::{Character, Characters, is_starter};
use layout::Layout;
use vocabulary::Vocabulary;

/// Encodes texts as token ids. Threads that share it wait for each other only when a block of characters is first used.
pub(super) struct WordPiece {
    layout: Layout,
    /// Tokens that are matched before a text is split into words. Texts with such tokens are rare and left to
    /// `tokenizers`.
    added: AhoCorasick,
    characters: Characters,
    vocabulary: Vocabulary,
}

impl WordPiece {
    /// Takes over a tokenizer. `None`: it has another layout, or truncates or pads. Cost: a few milliseconds.
    pub(super) fn of(tokenizer: &Tokenizer) -> Option<WordPiece> {
        if tokenizer.get_truncation().is_some() || tokenizer.get_padding().is_some() {
            return None;
        }
        let ModelWrapper::WordPiece(model) = tokenizer.get_model() else { return None };
        let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        // Such tokens are matched in the normalized text, across white space.
        if added.values().any(|token| token.normalized) {
            return None;
        }
        Some(WordPiece {
            layout: Layout::of(tokenizer.get_post_processor()?)?,
            added: AhoCorasick::new(added.values().map(|token| &token.content)).ok()?,
            characters: Characters::of(tokenizer.get_normalizer()?, tokenizer.get_pre_tokenizer()?)?,
            vocabulary: Vocabulary::of(model)?,
        })
    }

    /// Appends the ids of `tokenizer.encode(text, true)`. Returns false and appends nothing if the text has an added
    /// token, such as "[SEP]".
    ///
    /// Cost: about 1.3 us for a chat message of 140 bytes; linear in the text, because the longest piece bounds the
    /// attempts at each character. A text in Hangul costs the same as with `tokenizers`.
    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) -> bool {
        let begin = ids.len();
        ids.extend_from_slice(&self.layout.opening);
        let covered = self.push_text(text, ids, &mut ()).is_some();
        match covered {
            true => ids.extend_from_slice(&self.layout.closing),
            false => ids.truncate(begin),
        }
        covered
    }

    /// Returns the ids of `tokenizer.encode(text, false)`, and for each of them the byte at which its word begins.
    /// `None`: the text has an added token, or marks whose order the normalizer may change.
    ///
    /// The ids of adjacent words are also those of their text by itself, if that is cut where words begin: without such
    /// marks, characters affect each other only inside a word, and a word begins with its first byte.
    pub(super) fn words(&self, text: &str) -> Option<(Vec<u32>, Vec<usize>)> {
        let (mut ids, mut starts) = (Vec::with_capacity(text.len() / 4), WordStarts::default());
        self.push_text(text, &mut ids, &mut starts)?;
        (!starts.has_marks).then_some((ids, starts.bytes))
    }

    /// Returns the id for words that are not in the vocabulary.
    pub(super) fn unknown(&self) -> u32 {
        self.vocabulary.unknown()
    }

    /// Returns the special tokens before and after a text.
    pub(super) fn special(&self) -> (&[u32], &[u32]) {
        (&self.layout.opening, &self.layout.closing)
    }

    /// Appends the ids of a text without special tokens. `None`: the text has an added token.
    fn push_text(&self, text: &str, ids: &mut Vec<u32>, starts: &mut impl Starts) -> Option<()> {
        if self.added.is_match(text) {
            return None;
        }
        let mut word = String::with_capacity(64);
        let mut offset = 0;
        // Every normalizer treats these as white space: no character affects another across them.
        for stretch in text.split([' ', '\t', '\n', '\r']) {
            let begin = ids.len();
            if self.push_words(stretch, offset, &mut word, ids, starts).is_none() {
                ids.truncate(begin);
                starts.fill(begin, 0);
                self.characters.each_word(stretch, |word, start| {
                    self.vocabulary.push(word, ids);
                    starts.fill(ids.len(), offset + start);
                    starts.see(word);
                })?;
            }
            offset += stretch.len() + 1;
        }
        Some(())
    }

    /// Encodes a stretch character by character. `None`: a character depends on its neighbors.
    fn push_words(
        &self,
        stretch: &str,
        offset: usize,
        word: &mut String,
        ids: &mut Vec<u32>,
        starts: &mut impl Starts,
    ) -> Option<()> {
        let mut end = |word: &mut String, start: usize| {
            self.vocabulary.push(word, ids);
            starts.fill(ids.len(), offset + start);
            word.clear();
        };
        word.clear();
        let mut start = 0;
        for (at, c) in stretch.char_indices() {
            match self.characters.of_char(c) {
                Character::Part(c) => {
                    if word.is_empty() {
                        start = at;
                    }
                    word.push(c);
                }
                Character::Alone(c) => {
                    end(word, start);
                    word.push(c);
                    end(word, at);
                }
                Character::Space => end(word, start),
                Character::Nothing => {}
                Character::Other => return None,
            }
        }
        end(word, start);
        Some(())
    }
}

/// Records where the word of each token begins. `()` records nothing.
trait Starts {
    /// Extends or cuts the list to this many tokens. The words of new ones begin at `start`.
    fn fill(&mut self, tokens: usize, start: usize);

    /// Looks for marks in a word whose characters depend on their neighbors.
    fn see(&mut self, word: &str);
}

impl Starts for () {
    fn fill(&mut self, _: usize, _: usize) {}

    fn see(&mut self, _: &str) {}
}

#[derive(Default)]
struct WordStarts {
    bytes: Vec<usize>,
    /// A word has a character that canonical ordering may move, so that it may begin elsewhere than `bytes` says.
    has_marks: bool,
}

impl Starts for WordStarts {
    fn fill(&mut self, tokens: usize, start: usize) {
        self.bytes.resize(tokens, start);
    }

    fn see(&mut self, word: &str) {
        self.has_marks |= !word.chars().all(is_starter);
    }
}

//! The tokens of a BERT-like model: the ids that `tokenizers` gives, some thirty-five times faster.
//!
//! Owns the layout that it takes over: `BertNormalizer`, `BertPreTokenizer`, `WordPiece`, special tokens around one text.
//! `tokenizers` rewrites a text six times and keeps where each byte came from; ids alone need neither. No rule about
//! characters is written here a second time: [`Characters`] asks the tokenizer's own normaliser and pre-tokeniser what they
//! make of each, once, and gives them a stretch without white space as a whole if that depends on neighbours.
//! Invariant: the same ids as `tokenizers`, or none.
//!
//! Considered: `kitoken`, a tenth as fast as this on chat messages; `fastokens`, which has no WordPiece; the trie with
//! failure links of Song et al., "Fast WordPiece Tokenization" (EMNLP 2021), which is linear also in words of many pieces,
//! where nearly every word of a chat is one.

mod characters;
mod layout;
#[cfg(test)]
mod tests;
mod vocabulary;

use aho_corasick::AhoCorasick;
use tokenizers::{ModelWrapper, Tokenizer};

use characters::{Character, Characters};
use layout::Layout;
use vocabulary::Vocabulary;

/// Gives texts' token ids. Threads that share it wait for each other only while characters of a block are first met.
pub(super) struct WordPiece {
    layout: Layout,
    /// Tokens that are found in a text before it is cut into words. Rare: such a text is left to `tokenizers`.
    added: AhoCorasick,
    characters: Characters,
    vocabulary: Vocabulary,
}

impl WordPiece {
    /// Of a tokenizer that has the layout and neither truncates nor pads; else `None`. Cost: a few milliseconds.
    pub(super) fn of(tokenizer: &Tokenizer) -> Option<WordPiece> {
        if tokenizer.get_truncation().is_some() || tokenizer.get_padding().is_some() {
            return None;
        }
        let ModelWrapper::WordPiece(model) = tokenizer.get_model() else { return None };
        let added = tokenizer.get_added_vocabulary().get_added_tokens_decoder();
        // These are looked for in the normalised text, across white space.
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

    /// Appends the ids of `tokenizer.encode(text, true)`; or nothing and returns false, if an added token such as "[SEP]"
    /// is in the text.
    ///
    /// Cost: about 1.3 us for a chat message of 140 bytes; linear in the text, as the longest piece bounds what is tried at
    /// each character. A text in Hangul costs what it costs with `tokenizers`.
    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) -> bool {
        let begin = ids.len();
        let covered = self.push_text(text, ids).is_some();
        if !covered {
            ids.truncate(begin);
        }
        covered
    }

    fn push_text(&self, text: &str, ids: &mut Vec<u32>) -> Option<()> {
        if self.added.is_match(text) {
            return None;
        }
        ids.extend_from_slice(&self.layout.opening);
        let mut word = String::with_capacity(64);
        // White space to every normaliser: no character acts on another beyond it.
        for stretch in text.split([' ', '\t', '\n', '\r']) {
            let begin = ids.len();
            if self.push_words(stretch, &mut word, ids).is_none() {
                ids.truncate(begin);
                self.characters.each_word(stretch, |word| self.vocabulary.push(word, ids))?;
            }
        }
        ids.extend_from_slice(&self.layout.closing);
        Some(())
    }

    /// Character by character; `None` if one of them depends on its neighbours.
    fn push_words(&self, stretch: &str, word: &mut String, ids: &mut Vec<u32>) -> Option<()> {
        let mut end = |word: &mut String| {
            self.vocabulary.push(word, ids);
            word.clear();
        };
        word.clear();
        for c in stretch.chars() {
            match self.characters.of_char(c) {
                Character::Part(c) => word.push(c),
                Character::Alone(c) => {
                    end(word);
                    word.push(c);
                    end(word);
                }
                Character::Space => end(word),
                Character::Nothing => {}
                Character::Other => return None,
            }
        }
        end(word);
        Some(())
    }
}

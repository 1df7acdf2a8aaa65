//! What the tokenizer's normaliser and pre-tokeniser make of characters.

use std::sync::OnceLock;

use tokenizers::{
    NormalizedString, Normalizer, NormalizerWrapper, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    PreTokenizerWrapper, normalizers::BertNormalizer, pre_tokenizers::bert::BertPreTokenizer,
};
use unicode_normalization::char::canonical_combining_class;

const PAGE: usize = 256;
const PAGES: usize = (char::MAX as usize + 1) / PAGE;

/// What becomes of a character, whatever stands beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Character {
    /// Part of a word, as this character.
    Part(char),
    /// A word by itself, as this character.
    Alone(char),
    /// Ends a word.
    Space,
    /// Left out.
    Nothing,
    /// More than one character (Hangul), or one that changes places with its neighbours.
    Other,
}

pub(super) struct Characters {
    normalizer: BertNormalizer,
    pre_tokenizer: BertPreTokenizer,
    /// Filled when a text first has one of its characters, in less than half a millisecond.
    pages: Box<[OnceLock<Box<[Character]>>]>,
}

impl Characters {
    /// `None` if these are not BERT's.
    pub(super) fn of(normalizer: &NormalizerWrapper, pre_tokenizer: &PreTokenizerWrapper) -> Option<Characters> {
        let &NormalizerWrapper::BertNormalizer(normalizer) = normalizer else { return None };
        let &PreTokenizerWrapper::BertPreTokenizer(pre_tokenizer) = pre_tokenizer else { return None };
        Some(Characters { normalizer, pre_tokenizer, pages: (0..PAGES).map(|_| OnceLock::new()).collect() })
    }

    pub(super) fn of_char(&self, c: char) -> Character {
        let code = c as usize;
        let page = self.pages[code / PAGE].get_or_init(|| {
            let first = (code - code % PAGE) as u32;
            (first..first + PAGE as u32)
                .map(|code| char::from_u32(code).map_or(Character::Other, |c| self.ask(c)))
                .collect()
        });
        page[code % PAGE]
    }

    /// BERT's normaliser rewrites characters one by one. Only canonical decomposition, before accents are stripped, looks
    /// further: it sorts marks that follow each other. A character that leaves nothing, or one that is no such mark, is
    /// the same in every text.
    fn ask(&self, c: char) -> Character {
        let mut words: Vec<String> = Vec::new();
        if self.each_word(&format!("a{c}a"), |word| words.push(word.to_owned())).is_none() {
            return Character::Other;
        }
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["aa"] => Some(Character::Nothing),
            ["a", "a"] => Some(Character::Space),
            ["a", alone, "a"] => starter(alone).map(Character::Alone),
            [word] => word.strip_prefix('a').and_then(|word| starter(word.strip_suffix('a')?)).map(Character::Part),
            _ => None,
        }
        .unwrap_or(Character::Other)
    }

    /// The words of a text, as the tokenizer itself finds them; `None` if it fails.
    pub(super) fn each_word(&self, text: &str, mut keep: impl FnMut(&str)) -> Option<()> {
        let mut normalized = NormalizedString::from(text);
        self.normalizer.normalize(&mut normalized).ok()?;
        let mut words = PreTokenizedString::from(normalized);
        self.pre_tokenizer.pre_tokenize(&mut words).ok()?;
        for (word, ..) in words.get_splits(OffsetReferential::Normalized, OffsetType::Byte) {
            keep(word);
        }
        Some(())
    }
}

/// The only character of a text, if decomposition leaves it in its place.
fn starter(text: &str) -> Option<char> {
    let mut characters = text.chars();
    let first = characters.next()?;
    (characters.next().is_none() && canonical_combining_class(first) == 0).then_some(first)
}

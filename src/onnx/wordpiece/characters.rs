//! The effect of the tokenizer's normalizer and pre-tokenizer on each character.

use std::sync::OnceLock;

use tokenizers::{
    NormalizedString, Normalizer, NormalizerWrapper, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    PreTokenizerWrapper, normalizers::BertNormalizer, pre_tokenizers::bert::BertPreTokenizer,
};
use unicode_normalization::char::canonical_combining_class;

const PAGE: usize = 256;
const PAGES: usize = (char::MAX as usize + 1) / PAGE;

/// The effect on a character that does not depend on its neighbors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Character {
    /// Part of a word, as this character.
    Part(char),
    /// A word by itself, as this character.
    Alone(char),
    /// Ends a word.
    Space,
    /// The character is removed.
    Nothing,
    /// Becomes more than one character (Hangul), or is reordered with its neighbors.
    Other,
}

/// The characters' effects, filled page by page.
pub(super) struct Characters {
    normalizer: BertNormalizer,
    pre_tokenizer: BertPreTokenizer,
    /// The pages. Each is filled when one of its characters is first used, in less than half a millisecond.
    pages: Box<[OnceLock<Box<[Character]>>]>,
}

impl Characters {
    /// Takes over a normalizer and a pre-tokenizer. `None`: they are not BERT's.
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
                .map(|code| char::from_u32(code).map_or(Character::Other, |c| self.classify(c)))
                .collect()
        });
        page[code % PAGE]
    }

    /// Classifies a character by running the tokenizer on it. BERT's normalizer rewrites characters one by one, except
    /// for canonical decomposition before accents are stripped, which sorts adjacent marks. A character that becomes
    /// nothing, or no such mark, is the same in every text.
    fn classify(&self, c: char) -> Character {
        let mut words: Vec<String> = Vec::new();
        if self.each_word(&format!("a{c}a"), |word, _| words.push(word.to_owned())).is_none() {
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

    /// Visits the words of a text as the tokenizer itself finds them, each with the byte of the text at which it begins.
    /// `None`: the tokenizer fails.
    pub(super) fn each_word(&self, text: &str, mut keep: impl FnMut(&str, usize)) -> Option<()> {
        let mut normalized = NormalizedString::from(text);
        self.normalizer.normalize(&mut normalized).ok()?;
        let mut words = PreTokenizedString::from(normalized);
        self.pre_tokenizer.pre_tokenize(&mut words).ok()?;
        for (word, (start, _), _) in words.get_splits(OffsetReferential::Original, OffsetType::Byte) {
            keep(word, start);
        }
        Some(())
    }
}

/// Returns the only character of a text, if canonical ordering does not move it.
fn starter(text: &str) -> Option<char> {
    let mut characters = text.chars();
    let first = characters.next()?;
    (characters.next().is_none() && is_starter(first)).then_some(first)
}

/// Returns true if canonical ordering does not move a character.
pub(super) fn is_starter(c: char) -> bool {
    canonical_combining_class(c) == 0
}

//! The language of texts: its stemmer, its stored code, and the English stop words.

use std::{borrow::Cow, fmt, str::FromStr};

use rust_stemmers::{Algorithm, Stemmer};
use serde::{Serialize, Serializer};
use snowball_stemmers_rs as newer;

use crate::error::{Error, Result};

/// The language of most messages, which decides how words are stemmed, so that "painted" finds "painting".
///
/// Either a language with a Snowball stemmer, or [`Other`](Language::Other). Texts in another language are found as
/// well, by the words as they are written.
///
/// ```
/// use mnemon::Language;
/// assert_eq!("german".parse::<Language>()?, Language::German);
/// assert_eq!(Language::default().to_string(), "english");
/// # Ok::<(), mnemon::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the names of languages")]
pub enum Language {
    #[default]
    English,
    /// No stemmer: words match as they are written, regardless of case and diacritics.
    Other,
    Arabic,
    Danish,
    Dutch,
    Finnish,
    French,
    German,
    Hungarian,
    Italian,
    Norwegian,
    Portuguese,
    Romanian,
    Russian,
    Spanish,
    Swedish,
    Tamil,
    Turkish,
    Greek,
    Hindi,
}

impl Language {
    /// All languages, in the order of their stored codes.
    pub const ALL: [Language; 20] = [
        Language::English,
        Language::Other,
        Language::Arabic,
        Language::Danish,
        Language::Dutch,
        Language::Finnish,
        Language::French,
        Language::German,
        Language::Hungarian,
        Language::Italian,
        Language::Norwegian,
        Language::Portuguese,
        Language::Romanian,
        Language::Russian,
        Language::Spanish,
        Language::Swedish,
        Language::Tamil,
        Language::Turkish,
        Language::Greek,
        Language::Hindi,
    ];

    /// Returns the English name in lower case, which [`FromStr`] parses. The name of a language never changes, so it
    /// may be stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Language::English => "english",
            Language::Other => "other",
            Language::Arabic => "arabic",
            Language::Danish => "danish",
            Language::Dutch => "dutch",
            Language::Finnish => "finnish",
            Language::French => "french",
            Language::German => "german",
            Language::Hungarian => "hungarian",
            Language::Italian => "italian",
            Language::Norwegian => "norwegian",
            Language::Portuguese => "portuguese",
            Language::Romanian => "romanian",
            Language::Russian => "russian",
            Language::Spanish => "spanish",
            Language::Swedish => "swedish",
            Language::Tamil => "tamil",
            Language::Turkish => "turkish",
            Language::Greek => "greek",
            Language::Hindi => "hindi",
        }
    }

    /// Returns the stem of a word in lower case. May be empty, if the word is all suffix.
    pub(super) fn stem(self, word: &str) -> Cow<'_, str> {
        let algorithm = match self {
            Language::English => Algorithm::English,
            Language::Other => return Cow::Borrowed(word),
            Language::Arabic => Algorithm::Arabic,
            Language::Danish => Algorithm::Danish,
            Language::Dutch => Algorithm::Dutch,
            Language::Finnish => Algorithm::Finnish,
            Language::French => Algorithm::French,
            Language::German => Algorithm::German,
            Language::Hungarian => Algorithm::Hungarian,
            Language::Italian => Algorithm::Italian,
            Language::Norwegian => Algorithm::Norwegian,
            Language::Portuguese => Algorithm::Portuguese,
            Language::Romanian => Algorithm::Romanian,
            Language::Russian => Algorithm::Russian,
            Language::Spanish => Algorithm::Spanish,
            Language::Swedish => Algorithm::Swedish,
            Language::Tamil => Algorithm::Tamil,
            Language::Turkish => Algorithm::Turkish,
            // The other crate has no Hindi, and its Greek panics on some words.
            Language::Greek => return newer::Stemmer::create(newer::Algorithm::Greek).stem(word),
            Language::Hindi => return newer::Stemmer::create(newer::Algorithm::Hindi).stem(word),
        };
        Stemmer::create(algorithm).stem(word)
    }

    /// Returns the code of the language in stored segments.
    pub(super) fn code(self) -> u8 {
        self as u8
    }

    pub(super) fn from_code(code: u8) -> Option<Language> {
        Language::ALL.get(usize::from(code)).copied()
    }
}

impl Serialize for Language {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Where the language of a namespace is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LanguageOrigin {
    /// Nowhere: the namespace has too few messages for a guess, or they are in a language without a stemmer, or in
    /// several. Its texts are analysed as English.
    #[default]
    Default,
    /// The language was guessed from the namespace's first messages.
    Guessed,
    /// The language was set or imported.
    ///
    /// [`Engine::set_language`](crate::Engine::set_language) sets it.
    Set,
}

/// The language of a namespace, and where it is from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChosenLanguage {
    pub(crate) language: Language,
    pub(crate) origin: LanguageOrigin,
}

impl FromStr for Language {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Language::ALL.into_iter().find(|language| language.as_str() == name).ok_or_else(|| {
            let names = Language::ALL.map(Language::as_str).join(", ");
            Error::InvalidConfig { reason: format!("language {name:?} is not one of {names}") }
        })
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// English stop words, which are in too many texts to tell them apart: articles, pronouns, prepositions, conjunctions, auxiliaries with their contractions, question words, and the parts
/// of words that are cut at an apostrophe. Without "may", "will" and "us", which are also a month, a name and a
/// country. A stop word that is written as a name is none: see `terms::Capitals`.
pub(super) const ENGLISH_STOP_WORDS: &[&str] = &[
    // Articles and determiners.
    "a",
    "an",
    "the",
    "this",
    "that",
    "these",
    "those",
    "some",
    "any",
    "each",
    "both",
    "such",
    "own",
    "other",
    "few",
    "more",
    "most",
    "all",
    "same",
    // Pronouns.
    "i",
    "me",
    "my",
    "myself",
    "we",
    "our",
    "ours",
    "ourselves",
    "you",
    "your",
    "yours",
    "yourself",
    "yourselves",
    "he",
    "him",
    "his",
    "himself",
    "she",
    "her",
    "hers",
    "herself",
    "it",
    "its",
    "itself",
    "they",
    "them",
    "their",
    "theirs",
    "themselves",
    // Question words.
    "who",
    "whom",
    "whose",
    "what",
    "which",
    "when",
    "where",
    "why",
    "how",
    // Auxiliaries.
    "am",
    "is",
    "are",
    "was",
    "were",
    "be",
    "been",
    "being",
    "have",
    "has",
    "had",
    "having",
    "do",
    "does",
    "did",
    "doing",
    "can",
    "could",
    "would",
    "should",
    "might",
    "must",
    "shall",
    "ought",
    // Conjunctions and prepositions.
    "and",
    "but",
    "if",
    "or",
    "nor",
    "because",
    "as",
    "until",
    "while",
    "of",
    "at",
    "by",
    "for",
    "with",
    "about",
    "against",
    "between",
    "into",
    "through",
    "during",
    "before",
    "after",
    "above",
    "below",
    "to",
    "from",
    "up",
    "down",
    "in",
    "out",
    "on",
    "off",
    "over",
    "under",
    "than",
    // Adverbs.
    "again",
    "further",
    "then",
    "once",
    "here",
    "there",
    "no",
    "not",
    "only",
    "so",
    "too",
    "very",
    "just",
    "now",
    "also",
    // Contractions, and how chats write the usual ones.
    "i'm",
    "i've",
    "i'd",
    "i'll",
    "you're",
    "you've",
    "you'd",
    "you'll",
    "he'd",
    "he'll",
    "she'd",
    "she'll",
    "it'd",
    "it'll",
    "we're",
    "we've",
    "we'd",
    "we'll",
    "they're",
    "they've",
    "they'd",
    "they'll",
    "that'd",
    "that'll",
    "who'd",
    "who'll",
    "who've",
    "what're",
    "what've",
    "what'll",
    "what'd",
    "how'd",
    "how're",
    "where'd",
    "where're",
    "why'd",
    "there'd",
    "there'll",
    "there're",
    "isn't",
    "aren't",
    "wasn't",
    "weren't",
    "hasn't",
    "haven't",
    "hadn't",
    "don't",
    "doesn't",
    "didn't",
    "can't",
    "cannot",
    "couldn't",
    "won't",
    "wouldn't",
    "shouldn't",
    "mustn't",
    "mightn't",
    "needn't",
    "shan't",
    "should've",
    "would've",
    "could've",
    "might've",
    "must've",
    "y'all",
    "im",
    "ive",
    "dont",
    "didnt",
    "doesnt",
    "isnt",
    "cant",
    "thats",
    "whats",
    // Parts of words that are cut at an apostrophe.
    "s",
    "t",
    "d",
    "m",
    "ll",
    "re",
    "ve",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_parsed_from_its_name_and_its_code() {
        for (code, language) in (0..).zip(Language::ALL) {
            assert_eq!(language.to_string().parse::<Language>().unwrap(), language);
            assert_eq!((language.code(), Language::from_code(code)), (code, Some(language)));
        }
        assert_eq!(Language::from_code(Language::ALL.len() as u8), None);
        assert!("English".parse::<Language>().unwrap_err().to_string().contains("is not one of english, other"));
    }

    /// Segments contain the codes, so new languages are added at the end.
    #[test]
    fn codes_never_change() {
        assert_eq!((Language::English.code(), Language::German.code(), Language::Turkish.code()), (0, 7, 17));
        assert_eq!((Language::Greek.code(), Language::Hindi.code()), (18, 19));
    }
}

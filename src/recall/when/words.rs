//! A text as words, and the characters between them. It knows no dates.

use std::ops::Range;

/// The characters between a word and the one before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Gap {
    Space,
    Comma,
    /// A dash with spaces around it, which may also be a pause.
    SpacedDash,
    /// A dash without spaces, or a slash.
    Dash,
    Slash,
    /// An apostrophe, as in "week's" and "May '23".
    Apostrophe,
    /// A point and a space: the end of a sentence, or of "Sept. 2023".
    Point,
    /// The beginning of the text, or anything else.
    Break,
}

#[derive(Debug)]
struct Word {
    range: Range<usize>,
    gap: Gap,
}

/// The words of a text: its runs of letters and digits.
#[derive(Debug)]
pub(super) struct Words<'t> {
    text: &'t str,
    /// The text in lower case, with each byte at the same position.
    lower: String,
    words: Vec<Word>,
}

impl<'t> Words<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        let mut words: Vec<Word> = Vec::new();
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let mut after = 0;
        while let Some(start) = text[after..].find(is_part).map(|skipped| after + skipped) {
            let end = text[start..].find(|c| !is_part(c)).map_or(text.len(), |length| start + length);
            let gap = if words.is_empty() { Gap::Break } else { gap(&text[after..start], &text[start..end]) };
            words.push(Word { range: start..end, gap });
            after = end;
        }
        Words { text, lower: text.to_ascii_lowercase(), words }
    }

    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// The word in lower case; empty after the last.
    pub(super) fn get(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| &self.lower[word.range.clone()])
    }

    /// The gap before the word.
    pub(super) fn gap(&self, at: usize) -> Gap {
        self.words.get(at).map_or(Gap::Break, |word| word.gap)
    }

    /// Returns true if the word is one of these, and a space separates it from the one before it.
    pub(super) fn follows(&self, at: usize, any: &[&str]) -> bool {
        self.gap(at) == Gap::Space && any.contains(&self.get(at))
    }

    /// Returns true if the word before this one is one of these.
    pub(super) fn is_after(&self, at: usize, any: &[&str]) -> bool {
        self.gap(at) == Gap::Space && any.contains(&self.get(at - 1))
    }

    /// Returns true if these words begin here, with spaces or apostrophes between them.
    pub(super) fn phrase(&self, at: usize, phrase: &[&str]) -> bool {
        phrase.iter().enumerate().all(|(i, word)| {
            self.get(at + i) == *word && (i == 0 || matches!(self.gap(at + i), Gap::Space | Gap::Apostrophe))
        })
    }

    /// Returns true if a clause ends before this word, or the text.
    pub(super) fn ends_before(&self, at: usize) -> bool {
        matches!(self.gap(at), Gap::Break | Gap::Comma | Gap::Point | Gap::SpacedDash)
    }

    /// Returns true if "may" or "march" is likely a verb: it is in lower case and the clause continues.
    pub(super) fn is_verb(&self, at: usize) -> bool {
        matches!(self.get(at), "may" | "march") && !self.is_capital(at) && !self.ends_before(at + 1)
    }

    pub(super) fn is_capital(&self, at: usize) -> bool {
        self.text_from(at).starts_with(char::is_uppercase)
    }

    /// Returns true if the number here counts something: "2000 dollars", "10 miles", "2000%", "2023.5".
    pub(super) fn is_amount(&self, at: usize) -> bool {
        let rest = &self.text_from(at)[self.get(at).len()..];
        let next = self.get(at + 1);
        let is_plural =
            next.len() > 2 && next.ends_with('s') && !self.is_capital(at + 1) && !NO_PLURALS.contains(&next);
        rest.starts_with(['%', '$', '€', '£', '°'])
            || rest.starts_with(['.', ':', ',']) && rest[1..].starts_with(|c: char| c.is_ascii_digit())
            || self.gap(at + 1) == Gap::Space && (is_plural || COUNTED.contains(&next))
    }

    /// The byte range from one word to before another, without the gaps around it.
    pub(super) fn bytes(&self, from: usize, to: usize) -> Range<usize> {
        self.words[from].range.start..self.words[to - 1].range.end
    }

    fn text_from(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |word| &self.text[word.range.start..])
    }
}

fn gap(between: &str, word: &str) -> Gap {
    let is_spaced = between.starts_with(char::is_whitespace);
    match between.trim() {
        "" => Gap::Space,
        "," => Gap::Comma,
        "-" | "–" if is_spaced => Gap::SpacedDash,
        "-" | "–" => Gap::Dash,
        "/" if between.len() == 1 => Gap::Slash,
        // The apostrophe of "the '90s" is part of the word.
        "'" | "’" | "‘" if is_spaced && word.ends_with('s') => Gap::Space,
        "'" | "’" | "‘" => Gap::Apostrophe,
        "." if between.len() > 1 => Gap::Point,
        _ => Gap::Break,
    }
}

/// Words that end in "s", may follow a year, and are not plurals.
const NO_PLURALS: &[&str] = &[
    "was",
    "has",
    "does",
    "this",
    "his",
    "its",
    "always",
    "perhaps",
    "across",
    "besides",
    "towards",
    "unless",
    "onwards",
    "afterwards",
];

/// Nouns that numbers count and that do not end in "s".
const COUNTED: &[&str] =
    &["people", "men", "women", "children", "feet", "percent", "million", "billion", "km", "kg", "usd", "eur"];

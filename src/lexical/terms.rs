//! Writes terms: those of plain words, of German words that may be compounds, and of stop words that are names.

use super::{
    characters::MAX_TERM_BYTES,
    digits::Phone,
    language::Language,
    pieces::Piece,
    stems::{STOP_WORD, Stems, term},
};

/// Number of capitalised words in a row up to which a stop word among them is a name. More are a headline, or shouting.
const MAX_NAMES: u8 = 2;

/// Least number of letters of a part of a German word.
const MIN_PART_LETTERS: usize = 4;
/// Letters that German puts between the parts of a word, as the s in "Arbeitsvertrag".
const LINKS: [&str; 6] = ["", "s", "n", "en", "es", "er"];
/// The bit of a term that marks a part of the word before it.
const PART: u64 = 1 << 63;

/// Marks a term of a query as part of the word before it. Parts come in pairs, each of which is one way to divide the
/// word, and are searched for instead of the word only if the index has both and not the word.
fn part(term: u64) -> u64 {
    term | PART
}

/// Returns the term of a [`part`]; `None` if this is none.
pub(super) fn as_part(term: u64) -> Option<u64> {
    (term & PART != 0).then_some(term & !PART)
}

/// How a word is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Small,
    /// It begins with a capital.
    Initial,
    /// All its letters are capitals.
    Capitals,
}

impl Case {
    /// Returns how a word is written.
    pub(super) fn of(word: &str) -> Self {
        let mut letters = word.chars();
        match letters.next() {
            Some(c) if c.is_uppercase() => match letters.all(|c| !c.is_lowercase()) {
                true => Case::Capitals,
                false => Case::Initial,
            },
            _ => Case::Small,
        }
    }
}

/// The use of the terms of a text, which decides which of them are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Document,
    /// A German word is followed by its parts: see [`part`].
    Query,
    /// A speaker's name: its words alone, without parts of them and joined forms.
    Name,
}

/// Writes the terms of one text.
pub(super) struct TermWriter<'a> {
    pub(super) stems: &'a Stems,
    pub(super) terms: &'a mut Vec<u64>,
    purpose: Purpose,
    /// Buffers.
    pub(super) folded: String,
    pub(super) pieces: Vec<Piece>,
    pub(super) capitals: Capitals,
    pub(super) phone: Phone,
}

impl<'a> TermWriter<'a> {
    pub(super) fn new(stems: &'a Stems, terms: &'a mut Vec<u64>, purpose: Purpose) -> Self {
        TermWriter {
            stems,
            terms,
            purpose,
            folded: String::with_capacity(MAX_TERM_BYTES),
            pieces: Vec::new(),
            capitals: Capitals::default(),
            phone: Phone::default(),
        }
    }

    /// Returns true if words alone are written.
    pub(super) fn words_only(&self) -> bool {
        self.purpose == Purpose::Name
    }

    /// Appends the term of a word of a sentence, of ASCII letters in lower case.
    pub(super) fn small_word(&mut self, word: &str) {
        if word.len() > MAX_TERM_BYTES || self.purpose == Purpose::Query || !self.capitals.is_idle() {
            return self.word(word, Case::Small);
        }
        let term = self.stems.term(word);
        if term != STOP_WORD {
            self.terms.push(term);
        }
    }

    /// Appends the term of a word of a sentence.
    pub(super) fn word(&mut self, word: &str, case: Case) {
        let is_stop_word = !self.push_word(word);
        if self.purpose == Purpose::Query {
            self.german_parts();
        }
        if case == Case::Small && self.capitals.is_idle() {
            return;
        }
        let may_be_name = case != Case::Small && (is_stop_word || word == "US") && is_nameable(&self.folded);
        let name = if may_be_name && !self.words_only() { term(word) } else { STOP_WORD };
        self.capitals.word(case, name, self.terms);
    }

    /// Appends the parts of the German word in `folded`, in pairs, if it may be made of two: "Mietvertrag".
    fn german_parts(&mut self) {
        let word = &self.folded;
        if self.stems.language() != Language::German || word.len() < 2 * MIN_PART_LETTERS {
            return;
        }
        let is_long = |part: &str| part.chars().nth(MIN_PART_LETTERS - 1).is_some();
        for (at, _) in word.char_indices() {
            let (first, second) = word.split_at(at);
            if !(is_long(first) && is_long(second)) {
                continue;
            }
            for link in LINKS {
                if let Some(first) = first.strip_suffix(link).filter(|first| is_long(first)) {
                    self.terms.extend([first, second].map(|word| part(self.stems.term(word))));
                }
            }
        }
    }

    /// Appends the term of a word. Returns false if it is a stop word.
    pub(super) fn push_word(&mut self, word: &str) -> bool {
        self.folded.clear();
        self.stems.fold(word, &mut self.folded);
        self.push_folded()
    }

    /// Appends the term of `folded`. Returns false if it is a stop word.
    pub(super) fn push_folded(&mut self) -> bool {
        let term = self.stems.term(&self.folded);
        if term != STOP_WORD {
            self.terms.push(term);
        }
        term != STOP_WORD
    }
}

/// Returns false for the stop words that are capitalised wherever they are.
fn is_nameable(word: &str) -> bool {
    word.len() > 1 && !matches!(word, "im" | "ive") && !word.starts_with("i'")
}

/// Recognises stop words that are names: "IT", "US", "The Who".
///
/// A stop word is a name, with a term of its own, if it is in capitals among at most one other word in capitals, or
/// begins with a capital inside a sentence beside at most one other capitalised word. The terms of names are written when
/// it is known how many capitalised words follow.
#[derive(Debug, Default)]
pub(super) struct Capitals {
    /// A word of the sentence was read.
    is_inside: bool,
    in_capitals: Names,
    initials: Names,
}

/// Capitalised words in a row.
#[derive(Debug, Default)]
struct Names {
    words: u8,
    terms: [u64; MAX_NAMES as usize],
}

impl Names {
    /// Adds a word, with its term if it may be a name, or else [`STOP_WORD`].
    fn add(&mut self, term: u64) {
        if let Some(slot) = self.terms.get_mut(usize::from(self.words)) {
            *slot = term;
        }
        self.words = self.words.saturating_add(1);
    }

    fn end(&mut self, terms: &mut Vec<u64>) {
        if self.words > 0 {
            if self.words <= MAX_NAMES {
                terms.extend(self.terms[..usize::from(self.words)].iter().filter(|&&term| term != STOP_WORD));
            }
            *self = Names::default();
        }
    }
}

impl Capitals {
    /// Returns true if no word in small letters changes anything.
    fn is_idle(&self) -> bool {
        self.is_inside && self.in_capitals.words == 0 && self.initials.words == 0
    }

    /// Adds a word, with its term if it may be a name, or else [`STOP_WORD`].
    pub(super) fn word(&mut self, case: Case, term: u64, terms: &mut Vec<u64>) {
        match case {
            Case::Small => {
                self.in_capitals.end(terms);
                self.initials.end(terms);
            }
            Case::Initial => {
                self.in_capitals.end(terms);
                if self.is_inside {
                    self.initials.add(term);
                }
            }
            Case::Capitals => {
                self.in_capitals.add(term);
                if self.is_inside {
                    self.initials.add(STOP_WORD);
                }
            }
        }
        self.is_inside = true;
    }

    pub(super) fn end_sentence(&mut self, terms: &mut Vec<u64>) {
        self.in_capitals.end(terms);
        self.initials.end(terms);
        self.is_inside = false;
    }
}

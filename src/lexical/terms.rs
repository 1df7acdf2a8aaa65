//! Reads a text: cuts it into plain words, which are most of it, compounds, characters of scripts without spaces, and
//! pictures, and writes their terms.
//!
//! Words are separated by white space. A word of ASCII letters alone costs one pass over its bytes; everything else is
//! read by `compound`. Nothing is allocated for a word.

use unicode_segmentation::UnicodeSegmentation;

use super::{
    analyzer::{Analyzer, STOP_WORD, term},
    characters::{Kind, MAX_TERM_BYTES, fold, is_variation, kind},
    compound::{Piece, without_possessive},
    numbers::Phone,
};

/// Number of capitalised words in a row up to which a stop word among them is a name. More are a headline, or shouting.
const MAX_NAMES: u8 = 2;

/// Classes of the bytes of a text; [`LETTER`] is in two of them.
const CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            0..=b' ' | 0x7F => SPACE,
            b'a'..=b'z' => LETTER,
            b'A'..=b'Z' => CAPITAL,
            b'"' | b'\'' | b'(' | b'[' | b'{' | b'*' | b'`' => QUOTE,
            b'.' | b',' | b'!' | b'?' | b';' | b':' | b')' | b']' | b'}' => STOP,
            _ => 0,
        };
        byte += 1;
    }
    classes
};
const LETTER: u8 = 1;
const CAPITAL: u8 = 3;
const SPACE: u8 = 4;
const QUOTE: u8 = 8;
const STOP: u8 = 16;

/// How a word is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Small,
    /// It begins with a capital.
    Initial,
    /// All its letters are capitals.
    Capitals,
}

/// Writes the terms of one text.
pub(super) struct TermWriter<'a> {
    pub(super) analyzer: &'a Analyzer,
    pub(super) terms: &'a mut Vec<u64>,
    /// Write the words alone, as they are for a speaker's name: no parts of words, no joined forms.
    pub(super) words_only: bool,
    /// Buffers.
    pub(super) folded: String,
    pub(super) pieces: Vec<Piece>,
    pub(super) capitals: Capitals,
    pub(super) phone: Phone,
}

impl<'a> TermWriter<'a> {
    pub(super) fn new(analyzer: &'a Analyzer, terms: &'a mut Vec<u64>, words_only: bool) -> Self {
        TermWriter {
            analyzer,
            terms,
            words_only,
            folded: String::with_capacity(MAX_TERM_BYTES),
            pieces: Vec::new(),
            capitals: Capitals::default(),
            phone: Phone::default(),
        }
    }

    /// Appends the terms of a text.
    pub(super) fn text(mut self, text: &str) {
        self.read(text);
        self.phone_end();
        self.capitals.end_sentence(self.terms);
    }

    fn read(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let class = |at: usize| bytes.get(at).map_or(SPACE, |&byte| CLASSES[usize::from(byte)]);
        let mut at = 0;
        while at < bytes.len() {
            if class(at) == SPACE {
                if bytes[at] == b'\n' {
                    self.capitals.end_sentence(self.terms);
                }
                at += 1;
                continue;
            }
            let begin = at;
            while class(at) == QUOTE {
                at += 1;
            }
            let word = at;
            let mut capitals = 0;
            while class(at) & LETTER != 0 {
                capitals += usize::from(class(at) == CAPITAL);
                at += 1;
            }
            let letters = at - word;
            if letters > 0 && bytes.get(at) == Some(&b'\'') && class(at + 1) & LETTER != 0 {
                at += 1;
                while class(at) & LETTER != 0 {
                    at += 1;
                }
            }
            let end = at;
            while class(at) == QUOTE || class(at) == STOP {
                at += 1;
            }
            let is_plain = letters > 0 && class(at) == SPACE;
            let first = class(word) == CAPITAL;
            let case = match capitals {
                0 => Some(Case::Small),
                _ if capitals == letters => Some(Case::Capitals),
                1 if first => Some(Case::Initial),
                _ => None,
            };
            if let Some(case) = case
                && is_plain
                && (self.analyzer.is_english() || end - word == letters)
            {
                if self.phone.has_digits() {
                    self.phone_end();
                }
                if begin < word {
                    self.capitals.end_sentence(self.terms);
                }
                let word = &text[word..end];
                self.word(if word.len() == letters { word } else { without_possessive(word) }, case);
                if at > end && bytes[end..at].iter().any(|&byte| byte != b',') {
                    self.capitals.end_sentence(self.terms);
                }
                continue;
            }
            while class(at) != SPACE {
                at += 1;
            }
            self.chunk(&text[begin..at]);
        }
    }

    /// Appends the terms of a text without ASCII white space.
    fn chunk(&mut self, text: &str) {
        if text.is_ascii() {
            return self.compound(text);
        }
        for part in text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|part| !part.is_empty()) {
            if part.is_ascii() && part.len() < text.len() {
                self.read(part);
            } else {
                self.runs(part);
            }
        }
    }

    fn runs(&mut self, text: &str) {
        let mut run = (0, Kind::Words);
        let ends = text.char_indices().map(|(position, c)| (position, Some(c))).chain([(text.len(), None)]);
        for (position, c) in ends {
            let next = c.map(|c| kind(c, run.1));
            if next == Some(run.1) {
                continue;
            }
            let piece = &text[run.0..position];
            match run.1 {
                Kind::Words if piece.is_empty() => (),
                Kind::Words => self.compound(piece),
                Kind::Unspaced => self.pairs(piece),
                Kind::Pictures => self.pictures(piece),
            }
            run = (position, next.unwrap_or(run.1));
        }
    }

    /// Appends the term of each pair of adjacent grapheme clusters; the term of the cluster if there is only one.
    fn pairs(&mut self, run: &str) {
        self.capitals.end_sentence(self.terms);
        let mut previous: Option<usize> = None;
        for (begin, character) in run.grapheme_indices(true) {
            let end = begin + character.len();
            let characters = match previous {
                Some(previous) => &run[previous..end],
                None if end == run.len() => character,
                None => "",
            };
            if !characters.is_empty() {
                self.folded.clear();
                fold(characters, true, &mut self.folded);
                self.terms.push(term(&self.folded));
            }
            previous = Some(begin);
        }
    }

    /// Appends the term of each emoji or symbol, without its skin tone.
    fn pictures(&mut self, run: &str) {
        self.capitals.end_sentence(self.terms);
        for picture in run.graphemes(true) {
            self.folded.clear();
            for c in picture.chars().filter(|&c| !is_variation(c)) {
                if self.folded.len() + c.len_utf8() <= MAX_TERM_BYTES {
                    self.folded.push(c);
                }
            }
            if !self.folded.is_empty() {
                self.terms.push(term(&self.folded));
            }
        }
    }

    /// Appends the term of a word in a sentence.
    pub(super) fn word(&mut self, word: &str, case: Case) {
        let is_stop_word = !self.push_word(word);
        if case == Case::Small && self.capitals.is_idle() {
            return;
        }
        let may_be_name = case != Case::Small && (is_stop_word || word == "US") && is_nameable(&self.folded);
        let name = if may_be_name && !self.words_only { term(word) } else { STOP_WORD };
        self.capitals.word(case, name, self.terms);
    }

    /// Appends the term of a word. Returns false if it is a stop word.
    pub(super) fn push_word(&mut self, word: &str) -> bool {
        self.folded.clear();
        self.analyzer.fold(word, &mut self.folded);
        self.push_folded()
    }

    /// Appends the term of `folded`. Returns false if it is a stop word.
    pub(super) fn push_folded(&mut self) -> bool {
        let term = self.analyzer.term(&self.folded);
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

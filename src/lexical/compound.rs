//! Compounds: names and identifiers of several parts, such as "QX-99", "getUserById", "AT&T", "ada@example.com", paths
//! and URLs.
//!
//! A compound is cut into *pieces* where a connector such as "-" or "/", a change from small letters to capitals, or one
//! between letters and digits divides it. Pieces without a connector between them make a word, words with tight
//! connectors a group, groups with loose connectors a whole. Each piece has a term, and each word, group and whole of
//! several pieces one more, of its pieces joined: so "QX-99", "QX99" and "qx 99" find one another, and the one that is
//! spelled like the query outranks those that have only its parts. `numbers` knows how numbers are joined.

use super::{
    analyzer::{Analyzer, term},
    characters::{is_apostrophe, is_joint},
    terms::{Case, TermWriter},
};

/// Maximum number of pieces that are joined. A longer compound is cut, so that its terms take linear time.
const MAX_PIECES: usize = 32;
/// Maximum number of pieces of a word; one with more is no name made of words.
const MAX_WORD_PIECES: usize = 10;
/// Maximum length of a joined form in bytes.
const MAX_JOINED_BYTES: usize = 192;
/// Length of a name that a sign may follow, as in "Notepad++", in bytes.
const MAX_SIGNED_BYTES: usize = 16;
/// Characters before a word with which a sentence begins.
const OPENING: [char; 12] = ['"', '(', '[', '{', '“', '”', '„', '‘', '«', '»', '‹', '¿'];
/// Characters after a word with which a sentence ends.
const CLOSING: [char; 18] = ['.', '!', '?', ':', ';', '"', ')', ']', '}', '…', '“', '”', '»', '«', '—', '。', '！', '？'];
/// Bytes of the usual short form of a commit hash.
pub(super) const SHORT_HASH_BYTES: usize = 7;

/// What is between a piece and the piece before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gap {
    /// Nothing: both are parts of one word.
    Inside,
    /// A connector of words, as in "well-being".
    Tight,
    /// A connector of groups, as in "and/or".
    Loose,
    /// They are no parts of one compound, or there is no piece before.
    Break,
}

/// A part of a compound.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) begin: usize,
    pub(super) end: usize,
    pub(super) gap: Gap,
    /// The connector before; ' ' if there is none.
    pub(super) connector: char,
    /// Whether it consists of ASCII digits.
    pub(super) is_number: bool,
    /// Whether its terms, joined with those after it by a number's connectors, are written.
    pub(super) is_joined: bool,
}

impl TermWriter<'_> {
    /// Appends the terms of a text without white space, in a script with spaces.
    pub(super) fn compound(&mut self, text: &str) {
        if self.uuid(text) {
            return;
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        let mut count = 0;
        let mut has_numbers_only = true;
        // The bytes after the word before, and those that were read.
        let (mut last, mut read) = (0, 0);
        while let Some(begin) = text[read..].find(|c| !is_joint(c)).map(|at| read + at) {
            read = text[begin..].find(is_joint).map_or(text.len(), |at| begin + at);
            if !text[begin..read].contains(char::is_alphanumeric) {
                continue;
            }
            // In other languages an apostrophe separates words, or a word and its suffix: "l'homme", "Ankara'da".
            let separates = |c| !self.analyzer.is_english() && is_apostrophe(c);
            for word in text[begin..read].split(separates) {
                let begin = word.as_ptr() as usize - text.as_ptr() as usize;
                let word = trim(&text[begin..begin + word.len()], self.analyzer);
                if word.is_empty() {
                    continue;
                }
                let begin = word.as_ptr() as usize - text.as_ptr() as usize;
                if pieces.len() + MAX_WORD_PIECES > MAX_PIECES {
                    self.write(text, &mut pieces);
                    pieces.clear();
                }
                let is_first = count == 0;
                let (gap, connector) = match pieces.last() {
                    None => (Gap::Break, ' '),
                    Some(before) => connection(&text[last..begin], before.is_number, starts_with_digit(word)),
                };
                split_word(text, begin..begin + word.len(), (gap, connector), !self.words_only, &mut pieces);
                if is_first {
                    if text[..begin].contains(OPENING) {
                        self.capitals.end_sentence(self.terms);
                    }
                }
                count += 1;
                has_numbers_only &= word.bytes().all(|byte| byte.is_ascii_digit());
                last = begin + word.len();
            }
            last = read;
        }
        if let [piece] = pieces[..]
            && count == 1
            && !piece.is_number
        {
            self.word(&text[piece.begin..piece.end], case(&text[piece.begin..piece.end]));
            self.name_forms(text, &pieces, 0);
        } else if count > 0 {
            self.capitals.word(Case::Small, 0, self.terms);
            let is_one_number = self.write(text, &mut pieces);
            if has_numbers_only && !is_one_number && self.phone.add(text) {
                pieces.clear();
                self.pieces = pieces;
                return;
            }
        }
        self.phone_end();
        if count == 0 || text[last..].contains(CLOSING) {
            self.capitals.end_sentence(self.terms);
        }
        self.pieces = pieces;
    }

    /// Appends the terms of pieces. Returns true if they are a date or an amount.
    fn write(&mut self, text: &str, pieces: &mut Vec<Piece>) -> bool {
        drop_version_letters(text, pieces);
        let mut at = 0;
        let mut is_one_number = false;
        while at < pieces.len() {
            if pieces[at].is_number && !self.words_only {
                let (count, is_special) = self.number(text, &mut pieces[at..]);
                is_one_number = is_special && count == pieces.len();
                at += count;
            } else {
                self.piece(text, pieces, at);
                at += 1;
            }
        }
        if !self.words_only {
            for level in [Gap::Inside, Gap::Tight, Gap::Loose] {
                self.joined(text, pieces, level);
            }
        }
        is_one_number
    }

    fn piece(&mut self, text: &str, pieces: &[Piece], at: usize) {
        let word = &text[pieces[at].begin..pieces[at].end];
        let is_version = pieces.get(at + 1).is_some_and(|next| next.gap == Gap::Inside && next.is_number);
        if !(is_version && word.eq_ignore_ascii_case("v")) && !self.push_word(word) && word.len() > 1 && case(word) == Case::Capitals {
            self.terms.push(term(word));
        }
        self.name_forms(text, pieces, at);
    }

    /// Appends the term of a name with its sign, "C++", "C#", "A+" or ".NET", and that of the short form of a hash.
    fn name_forms(&mut self, text: &str, pieces: &[Piece], at: usize) {
        let Piece { begin, end, gap, .. } = pieces[at];
        let (word, after) = (&text[begin..end], &text[end..]);
        if self.words_only {
            return;
        }
        if word.len() > SHORT_HASH_BYTES && is_hash(word) {
            self.push_word(&word[..SHORT_HASH_BYTES]);
        }
        if word.len() > MAX_SIGNED_BYTES || !word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return;
        }
        let sign = match after.as_bytes() {
            [b'+', b'+', ..] => "++",
            [b'+', next, ..] | [b'#', next, ..] if next.is_ascii_alphanumeric() => "",
            [b'+', ..] => "+",
            [b'#', ..] => "#",
            _ => "",
        };
        let before = &text[..begin];
        let has_dot = gap == Gap::Break && before.ends_with('.') && !before.ends_with("..");
        for (prefix, sign) in [("", sign), (if has_dot { "." } else { "" }, "")] {
            if !prefix.is_empty() || !sign.is_empty() {
                self.folded.clear();
                self.folded.push_str(prefix);
                self.folded.push_str(word);
                self.folded.push_str(sign);
                self.folded.make_ascii_lowercase();
                self.terms.push(term(&self.folded));
            }
        }
    }

    /// Appends the terms of the pieces that connectors of a level join, at most.
    fn joined(&mut self, text: &str, pieces: &[Piece], level: Gap) {
        let mut begin = 0;
        for end in 1..=pieces.len() {
            if end < pieces.len() && pieces[end].gap <= level {
                continue;
            }
            let run = &pieces[begin..end];
            // "30pm" is no word in "9:30pm".
            let goes_on = level == Gap::Inside && run[0].is_number && run[0].gap <= Gap::Loose && begin > 0;
            let is_new = run[1..].iter().any(|piece| piece.gap == level) && run[1..].iter().any(|piece| !piece.is_joined);
            if is_new && !(goes_on && pieces[begin - 1].is_number) {
                self.join(text, run);
            }
            begin = end;
        }
    }

    fn join(&mut self, text: &str, mut run: &[Piece]) {
        let part = |piece: &Piece| &text[piece.begin..piece.end];
        // Of a URL, what is in all of its spellings.
        while let [first, rest @ ..] = run
            && ["http", "https", "www", "mailto"].iter().any(|scheme| part(first).eq_ignore_ascii_case(scheme))
            && !rest.is_empty()
        {
            run = rest;
        }
        let is_number = run.iter().all(|piece| piece.is_number);
        self.folded.clear();
        for (at, piece) in run.iter().enumerate() {
            let is_between_digits = at > 0 && piece.is_number && run[at - 1].is_number;
            if is_between_digits && (is_number || piece.connector == '.') && piece.connector != ',' {
                self.folded.push(piece.connector);
            }
            if self.folded.len() > MAX_JOINED_BYTES {
                break;
            }
            self.analyzer.fold(part(piece), &mut self.folded);
        }
        if run.len() > 1 && !self.push_folded() {
            // "I.T." is "IT".
            self.folded.make_ascii_uppercase();
            self.terms.push(term(&self.folded));
        }
    }

    /// Appends the term of a UUID, and returns true, if the text is one.
    fn uuid(&mut self, text: &str) -> bool {
        let text = text.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let mut parts = text.split('-').map(|part| part.len() * usize::from(part.bytes().all(|b| b.is_ascii_hexdigit())));
        let is_uuid = text.len() == 36 && [8, 4, 4, 4, 12].iter().all(|&length| parts.next() == Some(length));
        if is_uuid {
            self.phone_end();
            self.capitals.word(Case::Small, 0, self.terms);
            self.push_word(text);
        }
        is_uuid
    }
}

/// Returns a word without apostrophes around it, and in English without a possessive "'s".
fn trim<'t>(word: &'t str, analyzer: &Analyzer) -> &'t str {
    let word = word.trim_matches(is_apostrophe);
    if analyzer.is_english() { without_possessive(word) } else { word }
}

pub(super) fn without_possessive(word: &str) -> &str {
    let Some(rest) = word.strip_suffix(['s', 'S']) else { return word };
    rest.strip_suffix(is_apostrophe).filter(|rest| !rest.is_empty()).unwrap_or(word)
}

fn starts_with_digit(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns how a text between two words connects them, of which the first ends and the second begins with a digit or
/// not, and the connector.
fn connection(between: &str, after_digit: bool, before_digit: bool) -> (Gap, char) {
    let mut characters = between.chars();
    match (characters.next(), characters.next()) {
        (Some('_'), Some('_')) if between.len() == 2 => (Gap::Tight, '_'),
        (Some(':'), Some(':')) if between.len() == 2 => (Gap::Loose, ':'),
        (Some('-' | '\u{2010}' | '\u{2011}'), None) => (Gap::Tight, '-'),
        (Some(c @ ('_' | '.' | '&' | '·' | '\u{5F4}')), None) => (Gap::Tight, c),
        (Some(','), None) if after_digit && before_digit => (Gap::Tight, ','),
        (Some(c @ ('/' | '\\' | ':' | '@' | '=' | '?' | '#' | '+' | '~')), None) => (Gap::Loose, c),
        // "://", "/?", "/~"
        _ if between.len() <= 4
            && between.contains(['/', '\\'])
            && between.bytes().all(|byte| br"/\:?#=&~.-_@%+".contains(&byte)) =>
        {
            (Gap::Loose, '/')
        }
        _ => (Gap::Break, ' '),
    }
}

/// Appends the pieces of a word: one, unless capitals or digits inside of it divide it.
fn split_word(
    text: &str,
    word: std::ops::Range<usize>,
    (gap, connector): (Gap, char),
    divides: bool,
    pieces: &mut Vec<Piece>,
) {
    let first = pieces.len();
    let mut push = |begin: usize, end: usize| {
        let (gap, connector) = if begin == word.start { (gap, connector) } else { (Gap::Inside, ' ') };
        let is_number = text[begin..end].bytes().all(|byte| byte.is_ascii_digit());
        pieces.push(Piece { begin, end, gap, connector, is_number, is_joined: false });
    };
    let mut cuts = [0; MAX_WORD_PIECES];
    let count = if divides { cuts_of(&text[word.clone()], &mut cuts) } else { 0 };
    let mut begin = word.start;
    for cut in &cuts[..count] {
        push(begin, word.start + cut);
        begin = word.start + cut;
    }
    push(begin, word.end);
    debug_assert!(pieces.len() - first <= MAX_WORD_PIECES);
}

/// Finds where a word is cut: "get|User|By|Id", "QX|99", "XML|Http". Returns the number of cuts, 0 for a word with so
/// many that it is a hash or a random identifier, and for ordinal numbers.
fn cuts_of(word: &str, cuts: &mut [usize; MAX_WORD_PIECES]) -> usize {
    #[derive(Clone, Copy, PartialEq)]
    enum Class {
        None,
        Digit,
        Small,
        Capital,
    }
    let (mut count, mut before, mut capitals, mut capital) = (0, Class::None, 0, 0);
    // A cut before the last of several capitals, if two small letters follow it: not in "PDFs".
    let mut waiting = None;
    for (at, c) in word.char_indices() {
        let class = match c {
            _ if c.is_numeric() => Class::Digit,
            _ if c.is_uppercase() => Class::Capital,
            _ if c.is_alphabetic() => Class::Small,
            // Marks and apostrophes belong to the letter before.
            _ => continue,
        };
        let cut = match (before, class) {
            (Class::None, _) => None,
            (Class::Digit, Class::Digit) | (Class::Capital, Class::Capital) => None,
            (Class::Small, Class::Small) => waiting.take(),
            (Class::Capital, Class::Small) => {
                waiting = (capitals > 1).then_some(capital);
                None
            }
            _ => Some(at),
        };
        if class != Class::Small {
            waiting = None;
        }
        (capitals, capital) = if class == Class::Capital { (capitals + 1, at) } else { (0, capital) };
        before = class;
        if let Some(cut) = cut {
            if count + 1 == MAX_WORD_PIECES {
                return 0;
            }
            cuts[count] = cut;
            count += 1;
        }
    }
    let pieces = count + 1;
    let is_random = pieces > 3 && 2 * word.len() < 5 * pieces;
    let is_ordinal = count == 1 && starts_with_digit(word) && matches!(&word[cuts[0]..], "st" | "nd" | "rd" | "th");
    if is_random || is_ordinal || is_hash(word) { 0 } else { count }
}

/// Returns true for hexadecimal numbers of several digits and letters, such as the hash of a commit.
fn is_hash(word: &str) -> bool {
    (SHORT_HASH_BYTES..=64).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_hexdigit())
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Removes the "v" of "v1.2.3", which is left out as often as not.
fn drop_version_letters(text: &str, pieces: &mut Vec<Piece>) {
    let mut at = 0;
    while at + 2 < pieces.len() {
        if let [v, major, minor] = pieces[at..at + 3]
            && text[v.begin..v.end].eq_ignore_ascii_case("v")
            && (major.gap, major.is_number) == (Gap::Inside, true)
            && (minor.gap, minor.is_number, minor.connector) == (Gap::Tight, true, '.')
        {
            pieces.remove(at);
            (pieces[at].gap, pieces[at].connector) = (v.gap, v.connector);
        }
        at += 1;
    }
}

/// Returns how a word is written.
pub(super) fn case(word: &str) -> Case {
    let mut letters = word.chars();
    match letters.next() {
        Some(c) if c.is_uppercase() => match letters.all(|c| !c.is_lowercase()) {
            true => Case::Capitals,
            false => Case::Initial,
        },
        _ => Case::Small,
    }
}

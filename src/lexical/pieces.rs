//! The pieces of compounds: where a text is cut, and what connects the pieces.

use super::characters::is_apostrophe;

/// Maximum number of pieces of a word; one with more is no name made of words.
pub(super) const MAX_WORD_PIECES: usize = 10;
/// Bytes of the usual short form of a commit hash.
pub(super) const SHORT_HASH_BYTES: usize = 7;

/// How closely a piece is connected with the piece before it.
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

/// Returns a word without "'s".
pub(super) fn without_possessive(word: &str) -> &str {
    let Some(rest) = word.strip_suffix(['s', 'S']) else { return word };
    rest.strip_suffix(is_apostrophe).filter(|rest| !rest.is_empty()).unwrap_or(word)
}

pub(super) fn starts_with_digit(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

/// Returns how a text between two words connects them, of which the first ends and the second begins with a digit or
/// not, and the connector.
pub(super) fn connection(between: &str, after_digit: bool, before_digit: bool) -> (Gap, char) {
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
pub(super) fn split_word(
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
pub(super) fn is_hash(word: &str) -> bool {
    (SHORT_HASH_BYTES..=64).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_hexdigit())
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Removes the "v" of "v1.2.3", which is left out as often as not.
pub(super) fn drop_version_letters(text: &str, pieces: &mut Vec<Piece>) {
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

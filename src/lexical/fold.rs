//! What is the same in two spellings of a word: case, diacritics, widths, ligatures, apostrophes.

use unicode_normalization::UnicodeNormalization;

use super::characters::{is_apostrophe, is_diacritic, is_invisible};

/// Longest term in bytes: what is longer is cut, at a character.
pub(super) const MAX_TERM_BYTES: usize = 64;

/// Bytes of a word that are looked at for a term: enough for the longest, and a bound on how many marks are put in order
/// to compose one character.
const MAX_WORD_BYTES: usize = 4 * MAX_TERM_BYTES;

/// Appends a word in lower case and compatibility form (NFKC), with straight apostrophes and without invisible
/// characters; without diacritics too if those are `plain`. Stemmers want them; terms have none.
pub(super) fn fold(word: &str, plain: bool, folded: &mut String) {
    let word = cut(word, MAX_WORD_BYTES);
    if word.is_ascii() {
        let begin = folded.len();
        folded.push_str(cut(word, MAX_TERM_BYTES));
        folded[begin..].make_ascii_lowercase();
        return;
    }
    let characters = word.nfkd().flat_map(char::to_lowercase).filter(|&c| !is_invisible(c));
    if plain {
        push_plain(characters, folded);
    } else {
        // No stemmer knows the dot that a Turkish İ leaves on its i.
        push(characters.filter(|&c| c != '\u{307}').nfc().map(stemmers_letter), folded);
    }
}

/// Appends a folded word without diacritics.
pub(super) fn fold_diacritics(word: &str, folded: &mut String) {
    push_plain(word.nfd(), folded);
}

fn push_plain(decomposed: impl Iterator<Item = char>, folded: &mut String) {
    push(decomposed.filter(|&c| !is_diacritic(c)).nfc().flat_map(plain), folded);
}

fn push(characters: impl Iterator<Item = char>, folded: &mut String) {
    let begin = folded.len();
    for c in characters {
        if folded.len() - begin + c.len_utf8() > MAX_TERM_BYTES {
            break;
        }
        folded.push(c);
    }
}

/// The longest beginning of at most `bytes`.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// What Snowball's stemmers take to have been replaced.
fn stemmers_letter(c: char) -> char {
    match c {
        'ё' => 'е',
        _ if is_apostrophe(c) => '\'',
        _ => c,
    }
}

/// What has no decomposition and is yet typed as plain letters.
fn plain(c: char) -> impl Iterator<Item = char> {
    let (first, second) = match c {
        'ß' => ('s', Some('s')),
        'æ' => ('a', Some('e')),
        'œ' => ('o', Some('e')),
        'þ' => ('t', Some('h')),
        'ø' => ('o', None),
        'ł' => ('l', None),
        'đ' | 'ð' => ('d', None),
        'ħ' => ('h', None),
        'ŧ' => ('t', None),
        'ı' => ('i', None),
        // Lower case is made without regard to a word's end.
        'ς' => ('σ', None),
        _ if is_apostrophe(c) => ('\'', None),
        _ => (c, None),
    };
    [Some(first), second].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_word() {
        for (word, plain, composed) in [
            ("Hello", "hello", "hello"),
            ("Café", "cafe", "café"),
            ("CAFE\u{301}", "cafe", "café"),
            ("ŁÓDŹ", "lodz", "łódź"),
            ("Straße", "strasse", "straße"),
            ("İstanbul", "istanbul", "istanbul"),
            ("don’t", "don't", "don't"),
            ("ｆｕｌｌ１", "full1", "full1"),
            ("ﬁne", "fine", "fine"),
            ("co\u{AD}op", "coop", "coop"),
            ("ΣΊΣΥΦΟΣ", "σισυφοσ", "σίσυφοσ"),
            ("Ёлкой", "елкои", "елкой"),
            ("كِتَابٌ", "كتاب", "كِتَابٌ"),
            ("ﾊﾟ", "パ", "パ"),
            ("か\u{3099}", "が", "が"),
            ("한국", "한국", "한국"),
            ("कि", "कि", "कि"),
        ] {
            let mut folded = String::new();
            fold(word, true, &mut folded);
            assert_eq!(folded, plain, "{word}");
            folded.clear();
            fold(word, false, &mut folded);
            assert_eq!(folded, composed, "{word}");
            let mut later = String::new();
            fold_diacritics(&folded, &mut later);
            assert_eq!(later, plain, "{word}");
        }
    }

    #[test]
    fn a_long_word_is_cut_at_a_character() {
        for (word, expected) in [
            ("a".repeat(1000), "a".repeat(64)),
            ("я".repeat(1000), "я".repeat(32)),
            ("漢".repeat(1000), "漢".repeat(21)),
            (format!("a{}b", "\u{301}".repeat(1 << 20)), "a".to_owned()),
        ] {
            let mut folded = String::new();
            fold(&word, true, &mut folded);
            assert_eq!(folded, expected);
        }
    }
}

//! Folding: removes the differences between spellings of one word (case, diacritics, widths, ligatures, apostrophes).

use unicode_normalization::UnicodeNormalization;

use super::characters::{is_apostrophe, is_diacritic, is_invisible};

/// Maximum length of a folded word in bytes. Longer words are cut at a character boundary.
pub(super) const MAX_TERM_BYTES: usize = 64;

/// Bytes of a word that are read: enough for the longest folded word, and a bound on the number of marks that are
/// sorted to compose one character.
const MAX_WORD_BYTES: usize = 4 * MAX_TERM_BYTES;

/// Appends a word in lower case and compatibility form (NFKC), with straight apostrophes and without invisible
/// characters. If `plain`, also without diacritics; some stemmers need them.
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
        // No stemmer knows the combining dot that remains when a Turkish İ is lowercased.
        push(characters.filter(|&c| c != '\u{307}').nfc().map(stemmer_letter), folded);
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

/// Returns the longest prefix of at most `bytes` bytes.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Replaces the letters that Snowball's stemmers expect to be replaced beforehand.
fn stemmer_letter(c: char) -> char {
    match c {
        'ё' => 'е',
        _ if is_apostrophe(c) => '\'',
        _ => c,
    }
}

/// Replaces letters that have no Unicode decomposition, but that writers replace by plain letters.
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
        // Lowercasing character by character does not give a final sigma.
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
    fn spellings_of_one_word_fold_to_the_same() {
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
            let mut without_diacritics = String::new();
            fold_diacritics(&folded, &mut without_diacritics);
            assert_eq!(without_diacritics, plain, "{word}");
        }
    }

    #[test]
    fn a_long_word_is_cut_at_a_character_boundary() {
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

//! Classes of characters, by Unicode blocks, and the folding of words: scripts without spaces, pictures, diacritics and
//! joints; and the differences between spellings of one word (case, diacritics, widths, ligatures, apostrophes).

use unicode_normalization::{UnicodeNormalization, char::is_combining_mark};

/// Maximum length of a folded word in bytes. Longer words are cut at a character boundary.
pub(super) const MAX_TERM_BYTES: usize = 64;

/// Bytes of a word that are read: enough for the longest folded word, and a bound on the number of marks that are
/// sorted to compose one character.
const MAX_WORD_BYTES: usize = 4 * MAX_TERM_BYTES;

/// A kind of characters, and how a run of them is cut into terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Letters of scripts with spaces, digits, punctuation: cut into words at Unicode's word boundaries.
    Words,
    /// Letters of scripts without spaces: cut into overlapping pairs of characters.
    Unspaced,
    /// Emoji and symbols: cut into single characters.
    Pictures,
}

/// Returns the kind of a character that follows a run of kind `current`.
pub(super) fn kind(c: char, current: Kind) -> Kind {
    match c {
        _ if is_unspaced(c) => Kind::Unspaced,
        _ if is_picture(c) => Kind::Pictures,
        _ if continues(c) => current,
        _ => Kind::Words,
    }
}

/// Returns true for letters of Han, Hiragana, Katakana, Thai, Lao, Myanmar and Khmer, which need a dictionary to be cut
/// into words; and of Hangul, whose words have spaces between them but particles attached: "학교" must be found in
/// "학교에서". False for digits and punctuation of these scripts.
#[inline]
pub(crate) fn is_unspaced(c: char) -> bool {
    // Nearly all letters are below these.
    c >= '\u{0E01}' && is_of_unspaced_script(c)
}

fn is_of_unspaced_script(c: char) -> bool {
    matches!(u32::from(c),
        0x0E01..=0x0E3A | 0x0E40..=0x0E4E
        | 0x0E81..=0x0ECE | 0x0EDC..=0x0EDF
        | 0x1000..=0x103F | 0x1050..=0x108F | 0x109A..=0x109D | 0xA9E0..=0xA9EF | 0xAA60..=0xAA76 | 0xAA7A..=0xAA7F
        | 0x1780..=0x17B3 | 0x17B6..=0x17D3 | 0x17D7 | 0x17DC..=0x17DD
        | 0x1100..=0x11FF | 0x3131..=0x318E | 0xA960..=0xA97F | 0xAC00..=0xD7FF | 0xFFA0..=0xFFDC
        | 0x3005..=0x3007 | 0x3021..=0x3029 | 0x3038..=0x303B
        | 0x3041..=0x3096 | 0x3099..=0x309A | 0x309D..=0x309F
        | 0x30A1..=0x30FA | 0x30FC..=0x30FF | 0x31F0..=0x31FF | 0xFF66..=0xFF9F | 0x1AFF0..=0x1B16F
        | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3347F)
}

fn is_picture(c: char) -> bool {
    matches!(u32::from(c), 0x231A..=0x231B | 0x23E9..=0x23FA | 0x2600..=0x27BF | 0x2B00..=0x2BFF | 0x1F000..=0x1FAFF)
}

/// Returns true for characters that belong to the character before: joiners, variation selectors, the accents of Latin,
/// tags of flags.
fn continues(c: char) -> bool {
    matches!(u32::from(c), 0x0300..=0x036F | 0x200C..=0x200D | 0x20D0..=0x20FF | 0xFE00..=0xFE0F | 0xE0020..=0xE007F)
}

/// Returns true for characters that terms of pictures leave out: skin tones and variation selectors.
pub(super) fn is_variation(c: char) -> bool {
    matches!(u32::from(c), 0xFE00..=0xFE0F | 0x1F3FB..=0x1F3FF)
}

/// Returns true for apostrophes: straight, curly, fullwidth and modifier letter.
pub(super) fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '\u{2018}' | '\u{2019}' | '\u{02BC}' | '\u{FF07}')
}

/// Returns true for characters that word segmentation keeps inside a word although they divide it: the dot of
/// "sources.list", the underscore of "foo_bar".
pub(super) fn is_joint(c: char) -> bool {
    !(c.is_alphanumeric() || is_apostrophe(c) || is_combining_mark(c) || is_invisible(c))
}

/// Returns true for marks that writers often leave out: the accents of Latin, Greek and Cyrillic, the vowel points of
/// Hebrew and Arabic. False for marks of other scripts, where a word without its vowel marks is another word.
fn is_diacritic(c: char) -> bool {
    matches!(u32::from(c),
        0x0300..=0x036F | 0x1AB0..=0x1AFF | 0x1DC0..=0x1DFF | 0x20D0..=0x20FF | 0xFE20..=0xFE2F
        | 0x0591..=0x05BD | 0x05BF | 0x05C1..=0x05C2 | 0x05C4..=0x05C5 | 0x05C7
        | 0x064B..=0x065F | 0x0670 | 0x06D6..=0x06DC | 0x06DF..=0x06E4 | 0x06E7..=0x06E8 | 0x06EA..=0x06ED)
}

/// Returns true for characters without a width of their own: joiners, soft hyphens, the elongation of Arabic letters.
fn is_invisible(c: char) -> bool {
    matches!(u32::from(c),
        0x00AD | 0x034F | 0x061C | 0x0640 | 0x180B..=0x180F | 0x200B..=0x200F | 0x2060..=0x2064 | 0xFE00..=0xFE0F | 0xFEFF)
}

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
    fn characters_have_these_kinds() {
        for (characters, expected) in [
            ("漢々〇ぁゟァー㐀ｱﾝ한ㄱกๆ์ກໜကာខ់\u{20000}", Kind::Unspaced),
            ("😀👍🏽❤⭐⌚🇩✓", Kind::Pictures),
            ("aß_.1٣๑໑၁១、。「・฿។ʼ©½", Kind::Words),
        ] {
            for c in characters.chars() {
                assert_eq!(kind(c, Kind::Words), expected, "{c} {:x}", u32::from(c));
            }
        }
        assert_eq!(kind('\u{FE0F}', Kind::Pictures), Kind::Pictures);
        assert_eq!(
            "a.b_c:d’e\u{301}f\u{AD}g".split(is_joint).collect::<Vec<_>>(),
            ["a", "b", "c", "d’e\u{301}f\u{AD}g"]
        );
    }

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

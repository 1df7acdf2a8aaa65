//! From a text to its terms.
//!
//! Words are found by Unicode's rules (UAX 29), and brought to lower case and to their stems; English stop words are left
//! out. For other languages there is no list: a word that is in most texts weighs next to nothing. Stemmers of other languages see
//! diacritics, as they tell suffixes apart; terms have none.
//!
//! | text | terms |
//! | --- | --- |
//! | `The dogs' owner’s café` | dog, owner, cafe |
//! | `2023-05-07`, `3.14` | 2023, 05, 07, 3.14, 3, 14 |
//! | `sources.list`, `foo_bar` | the whole and its parts |
//! | `東京都` | 東京, 京都: pairs of characters, as Lucene's `CJKAnalyzer` |
//! | `ok👍🏽` | ok, 👍 |
//!
//! Time is linear in the text, whatever it is.

use std::{collections::HashSet, ops::Range, sync::OnceLock};

use rust_stemmers::Stemmer;
use unicode_segmentation::UnicodeSegmentation;

use super::{
    Language, TERM_BITS,
    cache::Cache,
    characters::{Kind, is_apostrophe, is_joint, is_variation, kind},
    fold::{MAX_TERM_BYTES, fold, fold_diacritics},
    stop,
};

/// What the cache holds for a stop word. No term is 0.
const STOP: u64 = 0;

/// Makes terms of texts in one language. Shared by threads; holds 128 KiB.
#[derive(Debug)]
pub(crate) struct Analyzer {
    language: Language,
    stop: HashSet<u64>,
    cache: Cache,
}

impl Analyzer {
    /// The one of a language that all namespaces share.
    pub(crate) fn of(language: Language) -> &'static Analyzer {
        static ANALYZERS: [OnceLock<Analyzer>; Language::ALL.len()] = [const { OnceLock::new() }; Language::ALL.len()];
        ANALYZERS[usize::from(language.code())].get_or_init(|| Analyzer::new(language))
    }

    pub(crate) fn new(language: Language) -> Self {
        let stop = if language == Language::English { stop::ENGLISH } else { &[] };
        Analyzer { language, stop: stop.iter().map(|word| hash(word)).collect(), cache: Cache::new() }
    }

    /// Appends the terms of a text in order, with repeats. Each is below 2^[`TERM_BITS`].
    pub(crate) fn terms(&self, text: &str, terms: &mut Vec<u64>) {
        self.each(text, |_, term| terms.push(term));
    }

    /// The terms with the bytes of the text that each is made of; those of one word share them.
    #[cfg(test)]
    fn words(&self, text: &str) -> Vec<(Range<usize>, u64)> {
        let mut words = Vec::new();
        self.each(text, |range, term| words.push((range, term)));
        words
    }

    fn each(&self, text: &str, mut keep: impl FnMut(Range<usize>, u64)) {
        let mut folded = String::with_capacity(MAX_TERM_BYTES);
        if text.is_ascii() {
            return self.each_word(text, 0, &mut folded, &mut keep);
        }
        // No word spans white space or a control character, and segmentation is many times faster where all is ASCII.
        let mut offset = 0;
        for piece in text.split_inclusive(|c: char| c.is_whitespace() || c.is_control()) {
            if piece.is_ascii() {
                self.each_word(piece, offset, &mut folded, &mut keep);
            } else {
                self.each_run(piece, offset, &mut folded, &mut keep);
            }
            offset += piece.len();
        }
    }

    /// Cuts at what separates one kind of characters from another.
    fn each_run(&self, piece: &str, offset: usize, folded: &mut String, keep: &mut impl FnMut(Range<usize>, u64)) {
        let mut run = (0, Kind::Words);
        let ends = piece.char_indices().map(|(at, c)| (at, Some(c))).chain([(piece.len(), None)]);
        for (at, c) in ends {
            let next = c.map(|c| kind(c, run.1));
            if next == Some(run.1) {
                continue;
            }
            let (text, offset) = (&piece[run.0..at], offset + run.0);
            match run.1 {
                Kind::Words => self.each_word(text, offset, folded, keep),
                Kind::Unspaced => each_pair(text, offset, folded, keep),
                Kind::Pictures => each_picture(text, offset, folded, keep),
            }
            run = (at, next.unwrap_or(run.1));
        }
    }

    fn each_word(&self, run: &str, offset: usize, folded: &mut String, keep: &mut impl FnMut(Range<usize>, u64)) {
        for (at, word) in run.unicode_word_indices() {
            let range = offset + at..offset + at + word.len();
            self.parts(word, |part| {
                folded.clear();
                fold(part, self.folds_first(), folded);
                let term = self.term(folded);
                if term != STOP {
                    keep(range.clone(), term);
                }
            });
        }
    }

    /// A word as it is searched for: the whole, and the parts that joints make of it.
    fn parts(&self, word: &str, mut part: impl FnMut(&str)) {
        if word.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return part(word);
        }
        let is_english = self.language == Language::English;
        let word = if is_english { without_possessive(word) } else { word };
        let whole = word.trim_matches(is_joint);
        // Elsewhere an apostrophe stands between words, or a word and its ending: "l'homme", "Ankara'da".
        let separates = |c| is_joint(c) || (!is_english && is_apostrophe(c));
        if !whole.contains(separates) {
            return part(whole);
        }
        if whole.contains(is_joint) {
            part(whole);
        }
        whole.split(separates).for_each(part);
    }

    /// Whether a stemmer is to see words without diacritics: else "résumés" had another stem than "resumes".
    fn folds_first(&self) -> bool {
        matches!(self.language, Language::English | Language::Other)
    }

    /// The term of a folded word, or [`STOP`].
    fn term(&self, word: &str) -> u64 {
        let key = hash(word);
        self.cache.get_or_make(key, || {
            if word.is_empty() || self.stop.contains(&key) {
                return STOP;
            }
            let Some(algorithm) = self.language.algorithm() else { return term(word) };
            let stem = Stemmer::create(algorithm).stem(word);
            // Some stemmers leave nothing of a word that is all suffix.
            let stem = if stem.is_empty() { word } else { &stem };
            if self.folds_first() || stem.is_ascii() {
                return term(stem);
            }
            let mut folded = String::new();
            fold_diacritics(stem, &mut folded);
            term(&folded)
        })
    }
}

/// The pairs of adjacent characters, as people see them; a lone one as itself.
fn each_pair(run: &str, offset: usize, folded: &mut String, keep: &mut impl FnMut(Range<usize>, u64)) {
    let mut keep = |range: Range<usize>| {
        folded.clear();
        fold(&run[range.clone()], true, folded);
        keep(offset + range.start..offset + range.end, term(folded));
    };
    let mut previous: Option<usize> = None;
    for (at, character) in run.grapheme_indices(true) {
        let end = at + character.len();
        if let Some(previous) = previous {
            keep(previous..end);
        } else if end == run.len() {
            keep(at..end);
        }
        previous = Some(at);
    }
}

/// Emoji one by one, of whatever colour.
fn each_picture(run: &str, offset: usize, folded: &mut String, keep: &mut impl FnMut(Range<usize>, u64)) {
    for (at, picture) in run.grapheme_indices(true) {
        folded.clear();
        for c in picture.chars().filter(|&c| !is_variation(c)) {
            if folded.len() + c.len_utf8() <= MAX_TERM_BYTES {
                folded.push(c);
            }
        }
        if !folded.is_empty() {
            keep(offset + at..offset + at + picture.len(), term(folded));
        }
    }
}

/// Without the 's at its end.
fn without_possessive(word: &str) -> &str {
    let Some(rest) = word.strip_suffix(['s', 'S']) else { return word };
    rest.strip_suffix(is_apostrophe).unwrap_or(word)
}

fn term(text: &str) -> u64 {
    hash(text) >> (u64::BITS - TERM_BITS)
}

/// FNV-1a, whose upper bits say little of a short text, mixed as MurmurHash3 does in the end. Stored: the standard
/// library's hashers promise no value. Not 0 in its upper [`TERM_BITS`].
fn hash(text: &str) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    (hash ^ (hash >> 33)).max(1 << (u64::BITS - TERM_BITS))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(language: Language, text: &str, expected: &[&str]) {
        let terms = terms(language, text);
        let expected: Vec<u64> = expected.iter().map(|text| term(text)).collect();
        let analyzer = Analyzer::new(language);
        assert_eq!(
            terms,
            expected,
            "{:?}",
            analyzer.words(text).iter().map(|(at, _)| &text[at.clone()]).collect::<Vec<_>>()
        );
    }

    fn terms(language: Language, text: &str) -> Vec<u64> {
        let mut terms = Vec::new();
        Analyzer::new(language).terms(text, &mut terms);
        terms
    }

    #[test]
    fn english() {
        for (text, expected) in [
            ("", &[][..]),
            ("Melanie painted the sunrises, painting's fun!", &["melani", "paint", "sunris", "paint", "fun"]),
            ("Who did what, when and why? I don't / don’t / dont", &[]),
            ("The dogs' owner’s café and JAMES'S Résumés", &["dog", "owner", "cafe", "jame", "resum"]),
            ("3.14 on 2023-05-07 at 12:30, 1st", &["3.14", "3", "14", "2023", "05", "07", "12", "30", "1st"]),
            ("2023 7 May, will", &["2023", "7", "may", "will"]),
            ("/etc/sources.list", &["etc", "sources.list", "sourc", "list"]),
            ("__init__ foo_bar's e.g. U.S.A.", &["init", "foo_bar", "foo", "bar", "e.g", "e", "g", "u.s.a", "u"]),
            ("o'clock rock’n’roll", &["o'clock", "rock'n'rol"]),
            ("see https://a.example/b?c=1", &["see", "https", "a.exampl", "exampl", "b", "c", "1"]),
            ("a\u{1}tab\tnew\nline\u{85}next\u{2028}last\0", &["tab", "new", "line", "next", "last"]),
            ("😀ok👍🏽👍 ❤️❤ 👩‍💻🇩🇪!", &["😀", "ok", "👍", "👍", "❤", "❤", "👩‍💻", "🇩🇪"]),
            ("東京都に、iPhone手", &["東京", "京都", "都に", "iphon", "手"]),
            ("\u{FF8A}\u{FF9F}ｺﾝ第3回", &["パコ", "コン", "ン第", "3", "回"]),
            ("สวัสดี ຂອບໃຈ", &["สวั", "วัส", "สดี", "ຂອ", "ອບ", "ບໃ", "ໃຈ"]),
            ("학교에서 학교", &["학교", "교에", "에서", "학교"]),
        ] {
            check(Language::English, text, expected);
        }
    }

    #[test]
    fn other_languages() {
        for (language, text, expected) in [
            (
                Language::French,
                "L'homme n’a pas mangé les œufs.",
                &["l", "homm", "n", "a", "pas", "mang", "le", "oeuf"][..],
            ),
            (Language::German, "Häuser im Haus, STRASSE Straße", &["haus", "im", "haus", "strass", "strass"]),
            (Language::Russian, "Ёлкой новый", &["елк", "нов"]),
            (Language::Turkish, "İstanbul'da", &["istanbul", "da"]),
            (Language::Other, "The houses’ Łódź", &["the", "houses", "lodz"]),
            (Language::Other, "हिन्दी की", &["हिन्दी", "की"]),
            (Language::Tamil, "மரங்கள்", &["மரங்"]),
        ] {
            check(language, text, expected);
        }
    }

    /// Stored segments hold these.
    #[test]
    fn golden_terms() {
        assert_eq!(
            ["", "paint", "2023", "東京"].map(term),
            [263677158668953, 108898788745964, 135146077090781, 201213939934509]
        );
        assert!(stop::ENGLISH.iter().all(|word| terms(Language::English, word).is_empty()));
    }

    #[test]
    fn a_megabyte_without_a_space() {
        for (text, most) in [
            ("a".repeat(1 << 20), 1),
            ("a.".repeat(1 << 19), 1 << 20),
            ("a_".repeat(1 << 19), 1 << 20),
            ("漢".repeat(1 << 18), 1 << 18),
            ("é".repeat(1 << 19), 1),
            (format!("a{}", "\u{301}".repeat(1 << 19)), 1),
            (format!("ก{}", "\u{E49}".repeat(1 << 18)), 1),
            (format!("a.{}b", "\u{301}".repeat(1 << 19)), 3),
            ("👍".repeat(1 << 18), 1 << 18),
            ("👍\u{200D}".repeat(1 << 17), 1 << 17),
            ("🇩".repeat(1 << 18), 1 << 18),
            ("'".repeat(1 << 20), 0),
            ("\u{AD}".repeat(1 << 19), 1),
        ] {
            for language in [Language::English, Language::German] {
                let begun = std::time::Instant::now();
                let count = terms(language, &text).len();
                let took = begun.elapsed();
                assert!(count <= most && took.as_secs() < 10, "{:.20}: {count} terms in {took:?}", text);
            }
        }
    }

    fn any_text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            4 => "[a-zA-Z' ’._:,0-9-]{0,12}",
            1 => any::<String>(),
            1 => "[\u{300}-\u{36F}\u{200B}-\u{200F}\u{FE00}-\u{FE0F}\u{1F1E6}-\u{1F1FF}\u{1F3FB}-\u{1F3FF}👍❤️漢가กา\u{AD}]{0,8}",
            1 => "[\u{400}-\u{45F}]{0,12}|[\u{620}-\u{670}]{0,12}|[\u{B80}-\u{BFF}]{0,12}|[a-zäöüßéèçøåıİşğ]{0,12}",
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_text_has_terms_at_characters(text in any_text(), language in 0..Language::ALL.len()) {
            let analyzer = Analyzer::new(Language::ALL[language]);
            let words = analyzer.words(&text);
            let mut terms = Vec::new();
            analyzer.terms(&text, &mut terms);
            prop_assert_eq!(&terms, &words.iter().map(|(_, term)| *term).collect::<Vec<_>>());
            for ((range, term), next) in words.iter().zip(words.iter().skip(1).chain(words.last())) {
                prop_assert!(text.get(range.clone()).is_some_and(|word| !word.is_empty()), "{:?}", range);
                prop_assert!(range.start <= next.0.start && range.end <= next.0.end);
                prop_assert!(*term > 0 && *term < 1 << TERM_BITS);
            }
        }

        #[test]
        fn case_and_white_space_change_nothing(words in prop::collection::vec("[a-z]{1,8}", 0..8)) {
            let text = words.join(" ");
            prop_assert_eq!(terms(Language::English, &text.to_uppercase()), terms(Language::English, &text));
            prop_assert_eq!(terms(Language::English, &words.join("\u{3000}\t")), terms(Language::English, &text));
        }
    }
}

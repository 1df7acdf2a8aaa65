//! Turns a text into terms.
//!
//! Words are found by Unicode's word boundaries (UAX 29), lowercased and stemmed; English stop words are dropped. Other
//! languages have no stop list: a word that is in most texts weighs next to nothing. Stemmers of languages other than
//! English get words with diacritics, which distinguish suffixes; terms are made without diacritics.
//!
//! | text | terms |
//! | --- | --- |
//! | `The dogs' owner’s café` | dog, owner, cafe |
//! | `2023-05-07`, `3.14` | 2023, 05, 07, 3.14, 3, 14 |
//! | `sources.list`, `foo_bar` | the whole word and its parts |
//! | `東京都` | 東京, 京都: pairs of characters, as in Lucene's `CJKAnalyzer` |
//! | `ok👍🏽` | ok, 👍 |
//!
//! Time is linear in the length of the text, for any text.
//!
//! A term is a hash; no string is kept. The terms of a speaker's name, and whether a message asks, are stored beside the
//! terms of its text.

use std::{
    collections::HashSet,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rust_stemmers::Stemmer;

use super::{
    characters::{fold, fold_diacritics},
    language::{self, Language},
    terms::TermWriter,
};

/// The version of the analyzer, stored with each segment. The terms of different versions differ even for the same
/// text, so a segment of another version must be rebuilt from the messages.
pub(super) const ANALYZER_VERSION: u16 = 2;

/// Number of bits of a term. Hashes of words are cut to this length, so that a term takes 6 bytes in a segment. In a
/// namespace with a million distinct terms, a term of a query collides with one of them with a probability of 10^6 /
/// 2^48, 4 in 10^9.
pub(super) const TERM_BITS: u32 = 48;

/// The cached value of a stop word. No term is 0.
pub(super) const STOP_WORD: u64 = 0;
/// Maximum number of terms of a speaker's name. A query that has one of them names the speaker.
pub(super) const MAX_NAME_TERMS: usize = 4;

/// The ends of a question, in the scripts that have one. A Greek question mark is a semicolon, which says nothing.
const QUESTION_MARKS: [char; 4] = ['?', '？', '؟', '⁈'];

/// Number of slots, a power of two; they take 128 KiB. A conversation of some thousand messages has fewer distinct
/// words.
const SLOTS: usize = 1 << 13;

/// Turns texts of one language into terms. Threads share it; it takes 128 KiB.
#[derive(Debug)]
pub(crate) struct Analyzer {
    language: Language,
    /// Hashes of the stop words.
    stop_words: HashSet<u64>,
    cache: TermCache,
}

impl Analyzer {
    /// Returns the analyzer of a language, which all namespaces share.
    pub(crate) fn of(language: Language) -> &'static Analyzer {
        static ANALYZERS: [OnceLock<Analyzer>; Language::ALL.len()] = [const { OnceLock::new() }; Language::ALL.len()];
        ANALYZERS[usize::from(language.code())].get_or_init(|| Analyzer::new(language))
    }

    fn new(language: Language) -> Self {
        let stop_words = if language == Language::English { language::ENGLISH_STOP_WORDS } else { &[] };
        let stop_words = stop_words.iter().map(|word| hash(word)).collect();
        Analyzer { language, stop_words, cache: TermCache::new() }
    }

    /// Appends the terms of a text, with repetitions. Each is above 0 and below 2^48.
    pub(crate) fn terms(&self, text: &str, terms: &mut Vec<u64>) {
        TermWriter::new(self, terms, false).text(text);
    }

    /// Returns true if the language has stop words, and "'s" belongs to the word before.
    pub(super) fn is_english(&self) -> bool {
        self.language == Language::English
    }

    /// Appends a word as [`term`](Self::term) takes it.
    pub(super) fn fold(&self, word: &str, folded: &mut String) {
        fold(word, self.folds_first(), folded);
    }

    /// Returns true if diacritics are removed before stemming: otherwise "résumés" and "resumes" would have different
    /// stems.
    fn folds_first(&self) -> bool {
        matches!(self.language, Language::English | Language::Other)
    }

    /// Returns the term of a folded word, or [`STOP_WORD`].
    pub(super) fn term(&self, word: &str) -> u64 {
        let key = hash(word);
        self.cache.get_or_make(key, || {
            if word.is_empty() || self.stop_words.contains(&key) {
                return STOP_WORD;
            }
            let Some(algorithm) = self.language.algorithm() else { return term(word) };
            let stem = Stemmer::create(algorithm).stem(word);
            // Some stemmers return nothing for a word that is all suffix.
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

/// The speaker of a message, and whether it asks: stored with each of its documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SpeakerAndQuestion {
    /// The terms of the speaker's name, at most [`MAX_NAME_TERMS`]; none if the message has no name.
    pub(crate) speaker: Vec<u64>,
    /// Whether the message ends with a question mark.
    pub(crate) is_question: bool,
}

impl SpeakerAndQuestion {
    /// Analyzes the name of a message's author, and the message's text.
    pub(crate) fn of(analyzer: &Analyzer, name: Option<&str>, text: &str) -> Self {
        let mut speaker = Vec::new();
        TermWriter::new(analyzer, &mut speaker, true).text(name.unwrap_or_default());
        speaker.truncate(MAX_NAME_TERMS);
        SpeakerAndQuestion { speaker, is_question: text.trim_end().ends_with(QUESTION_MARKS) }
    }
}

/// Returns the term of a folded and stemmed word: the upper bits of its hash.
pub(super) fn term(word: &str) -> u64 {
    hash(word) >> (u64::BITS - TERM_BITS)
}

/// Hashes a word with FNV-1a and the finalizer of MurmurHash3, because the upper bits of FNV-1a vary little for short
/// texts. Hashes are stored, and those of the standard library may change. The upper [`TERM_BITS`] are never all 0.
pub(super) fn hash(text: &str) -> u64 {
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    (hash ^ (hash >> 33)).max(1 << (u64::BITS - TERM_BITS))
}

/// A map from the hash of a word to its term, where each key has one slot and the last write wins.
///
/// Threads share the cache without a lock. A slot holds the value, and the key xor the value, so that the halves of two
/// concurrent writes match no key (Hyatt and Mann, "A lock-less transposition table implementation for parallel search
/// chess engines", ICGA Journal 2002).
#[derive(Debug)]
struct TermCache {
    slots: Box<[(AtomicU64, AtomicU64)]>,
}

impl TermCache {
    fn new() -> Self {
        TermCache { slots: (0..SLOTS).map(|_| Default::default()).collect() }
    }

    /// Returns the value of a key other than 0. If the cache does not have the key, `make` computes the value, which is
    /// kept.
    fn get_or_make(&self, key: u64, make: impl FnOnce() -> u64) -> u64 {
        let (check, value) = &self.slots[key as usize % SLOTS];
        let found = value.load(Relaxed);
        if check.load(Relaxed) ^ found == key {
            return found;
        }
        let made = make();
        value.store(made, Relaxed);
        check.store(key ^ made, Relaxed);
        made
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(language: Language, text: &str, expected: &[&str]) {
        let terms = terms(language, text);
        let expected: Vec<u64> = expected.iter().map(|text| term(text)).collect();
        assert_eq!(terms, expected, "{text}");
    }

    fn terms(language: Language, text: &str) -> Vec<u64> {
        let mut terms = Vec::new();
        Analyzer::new(language).terms(text, &mut terms);
        terms
    }

    #[test]
    fn english_texts_have_these_terms() {
        for (text, expected) in [
            ("", &[][..]),
            ("Melanie painted the sunrises, painting's fun!", &["melani", "paint", "sunris", "paint", "fun"]),
            ("Who did what, when and why? I don't / don’t / dont", &[]),
            ("The dogs' owner’s café and JAMES'S Résumés", &["dog", "owner", "cafe", "jame", "resum"]),
            ("3.14 at 12:30, 1st", &["3.14", "3", "14", "12:30", "12", "30", "1st"]),
            ("2023 7 May, will", &["2023", "7", "may", "will"]),
            ("__init__ foo_bar's e.g. U.S.A.", &["init", "foo", "bar", "foobar", "e", "g", "eg", "u", "usa"]),
            ("o'clock rock’n’roll", &["o'clock", "rock'n'rol"]),
            ("a\u{1}tab\tnew\nline\u{85}next\u{2028}last\0", &["tab", "new", "line", "next", "last"]),
            ("😀ok👍🏽👍 ❤️❤ 👩‍💻🇩🇪!", &["😀", "ok", "👍", "👍", "❤", "❤", "👩‍💻", "🇩🇪"]),
            ("東京都に、iPhone手", &["東京", "京都", "都に", "phone", "iphon", "手"]),
            ("\u{FF8A}\u{FF9F}ｺﾝ第3回", &["パコ", "コン", "ン第", "3", "回"]),
            ("สวัสดี ຂອບໃຈ", &["สวั", "วัส", "สดี", "ຂອ", "ອບ", "ບໃ", "ໃຈ"]),
            ("학교에서 학교", &["학교", "교에", "에서", "학교"]),
        ] {
            check(Language::English, text, expected);
        }
    }

    #[test]
    fn compounds_have_these_terms() {
        for (text, expected) in [
            ("QX-99, QX99 'QX99'", &["qx", "99", "qx99", "qx", "99", "qx99", "qx", "99", "qx99"][..]),
            ("12B 12-B (T-shirt)", &["12", "b", "12b", "12", "b", "12b", "shirt", "tshirt"]),
            ("well-being well\u{2011}being", &["well", "wellb", "well", "wellb"]),
            ("well -- being, well—being", &["well", "well"]),
            ("getUserById get_user_by_id", &["get", "user", "id", "getuserbyid", "get", "user", "id", "getuserbyid"]),
            ("XMLHttpRequest PDFs iOS", &["xml", "http", "request", "xmlhttprequest", "pdfs", "os", "io"]),
            ("v1.2.3 V2 1.2.3", &["1.2.3", "1", "2", "3", "2", "v2", "1.2.3", "1", "2", "3"]),
            ("app-v1.2.0.tar", &["app", "1.2.0", "1", "2", "0", "tar", "app1.2.0tar"]),
            ("AT&T, R&D and I.T.", &["AT", "att", "r", "rd", "IT"]),
            ("C++ C# A+ .NET C", &["c", "c++", "c", "c#", "a+", "net", ".net", "c"]),
            ("C++17 (C++) x++y a+b", &["c", "c++", "17", "c", "c++", "x", "x++", "y", "b", "ab"]),
            ("and/or TCP/IP", &["andor", "tcp", "ip", "tcpip"]),
            ("/etc/nginx.conf", &["etc", "nginx", "conf", "nginxconf", "etcnginxconf"]),
            (
                "ada.l@mail.example",
                &["ada", "l", "mail", "exampl", "adal", "mailexampl", "adalmailexampl"],
            ),
            ("<https://www.a.example/b?c=1>", &["https", "www", "exampl", "b", "c", "1", "aexampl", "aexamplebc1"]),
            ("3f2a9bc 3f2a9bc81", &["3f2a9bc", "3f2a9bc81", "3f2a9bc"]),
            ("550e8400-e29b-41d4-a716-446655440000.", &["550e8400-e29b-41d4-a716-446655440000"]),
            ("a1b2c3d4", &["a1b2c3d4"]),
        ] {
            check(Language::English, text, expected);
        }
        check(Language::French, "aujourd'hui l'après-midi", &["aujourd", "hui", "l", "apr", "mid", "apresmid"]);
    }

    #[test]
    fn spellings_of_a_number_have_a_term_in_common() {
        for (spellings, common) in [
            (&["2023-05-07", "2023/5/7", "07.05.2023", "7/5/2023", "5/7/2023", "2023-05-07T12:30Z"][..], "2023-05-07"),
            (&["$1,200.50", "1.200,50 €", "1200.50", "€1200,50"], "1200.50"),
            (&["14,500", "14.500", "£14500", "14,500.00", "14500,00", "14.500,-"], "14500"),
            (&["1,200,000", "1.200.000", "1 200 000"], "1200000"),
            (&["+49 (30) 123-456", "030/123456", "+4930123456", "030 12 34 56", "0049 30 123456."], "0123456"),
            (&["(212) 555-0199", "212.555.0199", "+1 212-555-0199", "2125550199", "555-0199"], "5550199"),
            (&["v1.2.3", "1.2.3", "tool-v1.2.3"], "1.2.3"),
            (&["192.168.100.200", "(192.168.100.200)"], "192.168.100.200"),
            (&["12:30", "12:30pm", "at 12:30."], "12:30"),
        ] {
            for spelling in spellings {
                assert!(terms(Language::English, spelling).contains(&term(common)), "{spelling}");
            }
        }
        for text in ["in 2023 1500", "1990-1995", "12345.67", "192.168.1.10", "2023-05-07 1", "1 2", "3 4,567,890"] {
            assert!(terms(Language::English, text).len() <= 6, "{text} is no phone number");
        }
    }

    #[test]
    fn stop_words_that_are_names_have_terms() {
        for (text, expected) in [
            ("Ask IT about it.", &["ask", "IT"][..]),
            ("IT", &["IT"]),
            ("Is US or NASA IT in the US?", &["us", "US", "nasa", "IT", "us", "US"]),
            ("DO IT NOW, AND HERE", &[]),
            ("We saw The Who. The Who", &["saw", "The", "Who", "Who"]),
            ("We know How To Do It", &["know"]),
            ("And I do. \"This too\" (That) I'm, Im, I've", &[]),
            ("First\nThen The: That", &["first", "The"]),
        ] {
            check(Language::English, text, expected);
        }
        check(Language::German, "IT und it", &["it", "und", "it"]);
    }

    #[test]
    fn texts_of_other_languages_have_these_terms() {
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

    #[test]
    fn stop_words_have_no_terms() {
        assert!(language::ENGLISH_STOP_WORDS.iter().all(|word| terms(Language::English, word).is_empty()));
    }

    #[test]
    fn a_megabyte_without_a_space_is_analyzed_in_linear_time() {
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
        fn any_text_has_terms_of_48_bits(text in any_text(), language in 0..Language::ALL.len()) {
            prop_assert!(terms(Language::ALL[language], &text).iter().all(|term| (1..1 << TERM_BITS).contains(term)));
        }

        #[test]
        fn case_and_white_space_of_plain_words_change_nothing(words in prop::collection::vec("[a-z]{1,8}", 0..8)) {
            // A stop word in capitals is a name.
            let is_plain = |word: &String| word != "us" && !language::ENGLISH_STOP_WORDS.contains(&&**word);
            let words: Vec<String> = words.into_iter().filter(is_plain).collect();
            let text = words.join(" ");
            prop_assert_eq!(terms(Language::English, &text.to_uppercase()), terms(Language::English, &text));
            prop_assert_eq!(terms(Language::English, &words.join("\u{3000}\t")), terms(Language::English, &text));
        }
    }

    #[test]
    fn names_have_the_terms_of_queries_and_questions_end_with_a_mark() {
        let analyzer = Analyzer::of(Language::English);
        let check = |name: Option<&str>, text: &str, named_by: &[&str], is_question: bool| {
            let speech = SpeakerAndQuestion::of(analyzer, name, text);
            assert_eq!(speech.is_question, is_question, "{text}");
            for query in ["What did Ada's sister say?", "Does Müller row?", "when?"] {
                let mut terms = Vec::new();
                analyzer.terms(query, &mut terms);
                let is_named = speech.speaker.iter().any(|term| terms.contains(term));
                assert_eq!(is_named, named_by.contains(&query), "{name:?}: {query}");
            }
        };
        check(Some("Ada"), "Rowing.", &["What did Ada's sister say?"], false);
        check(Some("Dr. Ada Muller"), "Why? \n", &["What did Ada's sister say?", "Does Müller row?"], true);
        check(Some("the"), "何？", &[], true);
        check(None, "?!", &[], false);
        check(Some("A B C D E F Ada"), "", &[], false);
        check(Some("Anna-Maria von-Ada"), "", &["What did Ada's sister say?"], false);
        let speech = SpeakerAndQuestion::of(analyzer, Some("McDonald-QX99 IT"), "");
        assert_eq!(speech.speaker, ["mcdonald", "qx99"].map(term), "words alone");
    }

    /// Stored segments contain terms.
    #[test]
    fn terms_never_change() {
        assert_eq!(
            ["", "paint", "2023", "東京"].map(term),
            [263677158668953, 108898788745964, 135146077090781, 201213939934509]
        );
    }

    #[test]
    fn each_key_has_its_own_value() {
        let cache = TermCache::new();
        let keys = [1, 1 + SLOTS as u64, 1 << 40, u64::MAX];
        for key in keys.into_iter().chain(keys) {
            assert_eq!(cache.get_or_make(key, || key ^ 3), key ^ 3);
            assert_eq!(cache.get_or_make(key, || unreachable!()), key ^ 3);
        }
    }

    #[test]
    fn concurrent_writes_to_a_slot_do_not_mix_values() {
        let cache = TermCache::new();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let cache = &cache;
                scope.spawn(move || {
                    for i in 0..100_000 {
                        // All keys share one slot.
                        let key = ((i * 7 + thread) % 5 + 1) * SLOTS as u64;
                        assert_eq!(cache.get_or_make(key, || key.wrapping_mul(key) << 7), key.wrapping_mul(key) << 7);
                    }
                });
            }
        });
    }
}

//! Turns a text into terms.
//!
//! Words are lowercased and stemmed; English stop words are dropped, unless they are written as names. Other languages
//! have no stop list: a word that is in most texts weighs next to nothing. Stemmers of languages other than English get
//! words with diacritics, which distinguish suffixes; terms are made without diacritics. Compounds have a term for each
//! part and one for the parts joined, as by Lucene's `WordDelimiterGraphFilter`.
//!
//! | text | terms |
//! | --- | --- |
//! | `The dogs' owner’s café` | dog, owner, cafe |
//! | `QX-99`, `qx99`, `12B` | qx, 99, qx99; 12, b, 12b |
//! | `getUserById`, `foo_bar` | get, user, id, getuserbyid; foo, bar, foobar |
//! | `AT&T`, `C++`, `.NET` | AT, att; c, c++; net, .net |
//! | `Ask IT about it`, `we saw The Who` | ask, IT; saw, The, Who: terms of the words as they are written |
//! | `v1.2.3`, `3.14` | 1.2.3, 1, 2, 3; 3.14, 3, 14 |
//! | `2023-05-07`, `7.5.2023` | 2023-05-07 and the parts |
//! | `$1,200.50`, `1.200,50` | 1200.50, 1200 |
//! | `030/123-456` | 030123456, 0123456 and the parts |
//! | `a@b.example`, `/etc/hosts` | the parts, and all of them joined |
//! | `東京都` | 東京, 京都: pairs of characters, as in Lucene's `CJKAnalyzer` |
//! | `ok👍🏽` | ok, 👍 |
//!
//! This module cuts a text into plain words, which are most of it, compounds, characters of scripts without spaces, and
//! pictures. Words are separated by white space; one of ASCII letters alone costs one pass over its bytes, and nothing
//! is allocated for it. `terms` writes the terms of words, `compound` and `numbers` those of everything that is more.
//!
//! Time is linear in the length of the text, for any text.
//!
//! A term is a hash; no string is kept. The terms of a speaker's name, and whether a message asks, are stored beside the
//! terms of its text.

use std::sync::OnceLock;

use unicode_segmentation::UnicodeSegmentation;

use super::{
    characters::{Kind, MAX_TERM_BYTES, fold, is_variation, kind},
    language::Language,
    pieces::without_possessive,
    stems::{Stems, term},
    terms::{Case, Purpose, TermWriter},
};

/// The version of the analyzer, stored with each segment. The terms of different versions differ even for the same
/// text, so a segment of another version must be rebuilt from the messages.
pub(super) const ANALYZER_VERSION: u16 = 2;

/// Maximum number of terms of a speaker's name. A query that has one of them names the speaker.
pub(super) const MAX_NAME_TERMS: usize = 4;

/// The ends of a question, in the scripts that have one. A Greek question mark is a semicolon, which says nothing.
const QUESTION_MARKS: [char; 4] = ['?', '？', '؟', '⁈'];

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

/// Turns texts of one language into terms. Threads share it; it takes 128 KiB.
#[derive(Debug)]
pub(crate) struct Analyzer {
    stems: Stems,
}

impl Analyzer {
    /// Returns the analyzer of a language, which all namespaces share.
    pub(crate) fn of(language: Language) -> &'static Analyzer {
        static ANALYZERS: [OnceLock<Analyzer>; Language::ALL.len()] = [const { OnceLock::new() }; Language::ALL.len()];
        ANALYZERS[usize::from(language.code())].get_or_init(|| Analyzer::new(language))
    }

    fn new(language: Language) -> Self {
        Analyzer { stems: Stems::new(language) }
    }

    /// Appends the terms of a text, with repetitions. Each is above 0 and below 2^48.
    pub(crate) fn terms(&self, text: &str, terms: &mut Vec<u64>) {
        TermWriter::new(&self.stems, terms, Purpose::Document).text(text);
    }

    /// Returns true if a word, in lower case, has no term.
    pub(crate) fn is_stop_word(&self, word: &str) -> bool {
        let mut terms = Vec::new();
        self.terms(word, &mut terms);
        terms.is_empty()
    }

    /// Appends the terms of a query: those of the text, and in German the parts that its words may be made of, which
    /// only an index can read.
    pub(crate) fn query_terms(&self, query: &str, terms: &mut Vec<u64>) {
        TermWriter::new(&self.stems, terms, Purpose::Query).text(query);
    }
}

impl TermWriter<'_> {
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
                && (self.stems.is_english() || end - word == letters)
            {
                if self.phone.has_digits() {
                    self.phone_end();
                }
                if begin < word {
                    self.capitals.end_sentence(self.terms);
                }
                let word = &text[word..end];
                if case == Case::Small && word.len() == letters {
                    self.small_word(word);
                } else {
                    self.word(if word.len() == letters { word } else { without_possessive(word) }, case);
                }
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
        TermWriter::new(&analyzer.stems, &mut speaker, Purpose::Name).text(name.unwrap_or_default());
        speaker.truncate(MAX_NAME_TERMS);
        SpeakerAndQuestion { speaker, is_question: text.trim_end().ends_with(QUESTION_MARKS) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{language, stems::TERM_BITS},
        *,
    };

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
            ("dog'S o'Clock", &["dog", "o'clock"]),
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
            ("ada.l@mail.example", &["ada", "l", "mail", "exampl", "adal", "mailexampl", "adalmailexampl"]),
            ("<https://www.a.example/b?c=1>", &["https", "www", "exampl", "b", "c", "1", "aexampl", "aexamplebc1"]),
            ("3f2a9bc 3f2a9bc81", &["3f2a9bc", "3f2a9bc81", "3f2a9bc"]),
            ("550e8400-e29b-41d4-a716-446655440000.", &["550e8400-e29b-41d4-a716-446655440000"]),
            ("z1b2c3d4", &["z1b2c3d4"]),
        ] {
            check(Language::English, text, expected);
        }
        check(Language::French, "aujourd'hui l'après-midi", &["aujourd", "hui", "l", "apres", "mid", "apresmid"]);
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
}

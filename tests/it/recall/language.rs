//! Languages: how text becomes terms, when a namespace changes its own, and when it is guessed.

use std::sync::Arc;

use mnemon::{
    Engine, Language, Message, Role,
    admin::LanguageOrigin::{self, Default as Unknown, Guessed, Set},
};

use super::{SPACE, filled, lexical, put, recall, said};
use crate::support::{Db, GERMAN, Hashing, chat, message, namespace};

fn set(engine: &Engine, language: Language) {
    engine.blocking().set_language(&namespace(SPACE), language).unwrap();
}

/// Asserts that in this language the query finds the text by its terms, or that it does not.
#[test]
fn words_are_found_by_stem_and_in_every_script() {
    let db = Db::new();
    let engine = db.open();
    for (language, text, question, is_found) in [
        (Language::English, "She painted two houses", "painting a house", true),
        (Language::English, "le café est fermé", "cafe", true),
        (Language::English, "naïve résumé", "RESUME NAIVE", true),
        (Language::German, "Die Häuser sind gestrichen", "Haus", true),
        (Language::German, "Straßen", "strasse", true),
        (Language::English, "Die Häuser sind gestrichen", "Haus", false),
        (Language::French, "nous avons mangé les pommes", "manger une pomme", true),
        (Language::French, "l'homme est là", "homme", true),
        (Language::Russian, "новые книги", "новая книга", true),
        (Language::Turkish, "İstanbul'da", "istanbul", true),
        (Language::Other, "houses", "house", false),
        (Language::Other, "Houses", "hOUSES", true),
        (Language::Other, "Łódź", "lodz", true),
        (Language::Arabic, "الكتاب الجديد", "كتاب", true),
        (Language::Greek, "τα παιδιά αγόρασαν βιβλία", "αγόρασα ΠΑΙΔΙΆ", true),
        (Language::English, "τα παιδιά αγόρασαν βιβλία", "αγόρασα", false),
        (Language::Hindi, "लड़कों ने किताबें खरीदीं", "किताब", true),
        (Language::English, "लड़कों ने किताबें खरीदीं", "किताब", false),
        (Language::English, "今日は東京都に行きました", "東京", true),
        (Language::English, "今日は東京都に行きました", "大阪", false),
        (Language::English, "我喜欢吃苹果", "苹果", true),
        (Language::English, "我喜欢吃苹果", "香蕉", false),
        (Language::English, "สวัสดีครับ", "สวัสดี", true),
        (Language::English, "great 👍🏽 job", "👍", true),
        (Language::English, "great 👍 job", "👎", false),
        (Language::English, "ＡＢＣ１２３", "abc123", true),
        (Language::English, "mixed 東京 and café 👍 text", "CAFÉ", true),
        (Language::Other, "pêche", "péché", true),
    ] {
        set(&engine, language);
        put(&engine, vec![message("1", text)]);
        let found = said(&engine, question);
        assert_eq!(found == ["1"], is_found, "{language}: {question:?} of {text:?}");
    }
    drop(engine);
    db.assert_sound();
}

/// A German word that no message has is searched by its parts, if messages have both.
#[test]
fn a_german_compound_of_a_query_is_found_by_its_parts() {
    let texts = ["Die Miete steht im Vertrag.", "Ein Schlüssel liegt in der Wohnung.", "Das Haus hat einen Garten."];
    let messages = || texts.iter().enumerate().map(|(at, text)| message(&format!("m{at}"), text)).collect();
    let (_db, engine) = filled(messages());
    for (language, wanted) in [(Language::English, &[][..]), (Language::German, &["m0"])] {
        set(&engine, language);
        assert_eq!(said(&engine, "Mietvertrag?"), wanted, "{language}");
    }
    assert_eq!(said(&engine, "Wohnungsschlüssel"), ["m1"]);
    assert_eq!(said(&engine, "Kaufvertrag"), [""; 0]);
    put(&engine, vec![message("new", "Mein Mietvertrag")]);
    assert_eq!(said(&engine, "Mietvertrag"), ["new"]);
}

/// Returns what a German query finds: "haus" finds "häuser" in German alone, "painting" finds "painted" in English
/// alone.
fn finds(engine: &Engine) -> (bool, bool) {
    (!said(engine, "haus").is_empty(), !said(engine, "painting").is_empty())
}

#[test]
fn a_new_language_applies_to_stored_and_to_later_messages() {
    for before in [false, true] {
        let db = Db::new();
        let mut engine = db.open();
        if before {
            set(&engine, Language::German);
            assert!(recall(&engine, lexical("haus")).is_empty(), "of a namespace that is made by it");
        }
        let messages =
            |from: usize| vec![message(&format!("m{from}"), "häuser"), message(&format!("m{}", from + 1), "painted")];
        put(&engine, messages(0));
        assert_eq!(finds(&engine), if before { (true, false) } else { (false, true) });
        for (language, wanted) in [
            (Language::German, (true, false)),
            (Language::English, (false, true)),
            (Language::Other, (false, false)),
            (Language::German, (true, false)),
        ] {
            set(&engine, language);
            assert_eq!(finds(&engine), wanted, "{language}");
            drop(engine);
            db.assert_sound();
            engine = db.open();
            put(&engine, messages(2));
            assert_eq!(finds(&engine), wanted, "{language}, opened again");
            put(&engine, messages(4));
            assert_eq!(finds(&engine), wanted, "{language}, with more");
        }
        assert_eq!(said(&engine, "haus").len(), 3, "all of them");
        drop(engine);
        db.assert_sound();
    }
}

#[test]
fn a_language_belongs_to_one_namespace() {
    let (db, engine) = filled(vec![message("1", "häuser")]);
    let other = namespace("other");
    engine.blocking().set_language(&other, Language::German).unwrap();
    engine.blocking().put(&other, vec![message("1", "häuser")]).unwrap();
    engine.blocking().flush().unwrap();
    assert_eq!(said(&engine, "haus"), [""; 0]);
    let hits = engine.blocking().recall(&other, lexical("haus")).unwrap();
    assert!(hits[0].breakdown.bm25 > 0.0);
    drop(engine);
    db.assert_sound();
}

/// A reindex keeps the language; texts that were pending while it was set have its terms.
#[test]
fn a_language_survives_a_reindex_and_pending_messages() {
    let (db, engine) = filled(vec![message("1", "häuser")]);
    engine.blocking().put(&namespace(SPACE), vec![message("2", "häuser häuser")]).unwrap();
    set(&engine, Language::German);
    assert_eq!(said(&engine, "haus"), ["2", "1"]);
    engine.blocking().flush().unwrap();
    assert_eq!(said(&engine, "haus").len(), 2);
    drop(engine);
    let embedder = super::hashing(48, usize::MAX);
    let embedder = Arc::new(embedder);
    crate::support::reindex(&db, Arc::clone(&embedder), None, crate::support::go_on).unwrap();
    db.assert_sound();
    let engine = db.open_with(embedder);
    assert_eq!(said(&engine, "haus").len(), 2);
}

const ENGLISH: [&str; 6] = [
    "Good morning, yesterday we went to see two of the houses by the lake.",
    "Which of the two did you like better, and how much do they want for it?",
    "The one with the garden is nicer, but it costs a lot more than the other.",
    "Did you ask when they were last renovated and who lived there before?",
    "Yes, both of them have had a new heating for about three years now.",
    "Then I would wait until the autumn, when they may become cheaper.",
];

const FRENCH: [&str; 5] = [
    "Bonjour, hier nous avons visité deux maisons au bord du lac.",
    "Laquelle des deux maisons vous a le plus plu, et pourquoi ?",
    "Celle avec le jardin est plus belle, mais elle coûte beaucoup plus cher.",
    "Est-ce que vous avez demandé quand elles ont été rénovées ?",
    "Oui, les deux ont un nouveau chauffage depuis trois ans.",
];

const POLISH: [&str; 5] = [
    "Dzień dobry, wczoraj obejrzeliśmy dwa domy nad jeziorem.",
    "Który z nich bardziej wam się spodobał i dlaczego?",
    "Ten z ogrodem jest ładniejszy, ale niestety dużo droższy.",
    "Czy pytaliście, kiedy były ostatnio remontowane?",
    "Tak, oba mają od trzech lat nowe ogrzewanie i nowy dach.",
];

fn chosen(engine: &Engine) -> (Language, LanguageOrigin) {
    let page = engine.blocking().namespaces(Some(&namespace(SPACE)), None, 1).unwrap();
    (page.namespaces[0].language, page.namespaces[0].language_origin)
}

fn in_stats(db: &Db) -> (Language, LanguageOrigin) {
    let stats = mnemon::stats(&db.path).unwrap();
    (stats.namespaces[0].language, stats.namespaces[0].language_origin)
}

#[test]
fn a_language_is_guessed_from_the_first_messages() {
    let mixed = GERMAN.iter().zip(ENGLISH).flat_map(|(german, english)| [*german, english]).collect::<Vec<_>>();
    for (texts, expected) in [
        (&GERMAN[..], (Language::German, Guessed)),
        (&GERMAN[..4], (Language::English, Unknown)),
        (&ENGLISH, (Language::English, Guessed)),
        (&FRENCH, (Language::French, Guessed)),
        (&POLISH, (Language::English, Unknown)),
        (&mixed, (Language::English, Unknown)),
    ] {
        for at_once in [true, false] {
            let db = Db::new();
            let engine = db.open();
            match at_once {
                true => put(&engine, chat(texts)),
                false => chat(texts).into_iter().for_each(|message| put(&engine, vec![message])),
            }
            assert_eq!(chosen(&engine), expected, "{texts:?}");
            if expected.0 == Language::German {
                assert_eq!(said(&engine, "haus").len(), texts.len(), "those that were indexed before, too");
            }
            drop(engine);
            assert_eq!(in_stats(&db), expected);
            db.assert_sound();
            let reader = Engine::builder(&db.path).embedder(Arc::new(Hashing::new(32))).open_read_only().unwrap();
            assert_eq!(chosen(&reader), expected);
            assert!(!said(&reader, texts[0]).is_empty(), "nothing is left to be rebuilt");
        }
    }
}

/// Until then texts are analyzed as English.
#[test]
fn a_guess_waits_for_enough_text_and_is_made_once() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, chat(&GERMAN[..3]));
    assert_eq!((chosen(&engine), said(&engine, "haus").len()), ((Language::English, Unknown), 0));
    let system: Message = Message { role: Role::System, ..message("system", &ENGLISH.concat()) };
    put(&engine, vec![system]);
    assert_eq!(chosen(&engine), (Language::English, Unknown), "not by a system prompt");
    // What is pending is found by the language of what is not.
    engine.blocking().put(&namespace(SPACE), chat(&GERMAN)).unwrap();
    engine.blocking().flush().unwrap();
    assert_eq!((chosen(&engine), said(&engine, "haus").len()), ((Language::German, Guessed), 8));
    let english = (0..60).map(|at| message(&format!("e{at}"), ENGLISH[at % ENGLISH.len()]));
    put(&engine, english.collect());
    assert_eq!(chosen(&engine), (Language::German, Guessed), "later messages change nothing");
    drop(engine);
    db.assert_sound();
}

#[test]
fn a_language_that_is_set_is_never_guessed() {
    for language in [Language::English, Language::Other, Language::French] {
        let db = Db::new();
        let engine = db.open();
        set(&engine, language);
        put(&engine, chat(&GERMAN));
        assert_eq!(chosen(&engine), (language, Set));
        drop(engine);
        let engine = db.open();
        put(&engine, vec![message("more", GERMAN[0])]);
        assert_eq!(chosen(&engine), (language, Set), "opened again");
        drop(engine);
        db.assert_sound();
    }
    // The guess is replaced, also by the same language.
    for language in [Language::English, Language::German, Language::Other] {
        let (db, engine) = filled(chat(&GERMAN));
        set(&engine, language);
        put(&engine, vec![message("more", GERMAN[0])]);
        assert_eq!(chosen(&engine), (language, Set));
        assert_eq!(said(&engine, "haus").is_empty(), language != Language::German);
        drop(engine);
        assert_eq!(in_stats(&db), (language, Set));
        db.assert_sound();
    }
}

/// A namespace that is made again is guessed again; one that only a guess is left of is removed.
#[test]
fn a_guess_goes_with_its_namespace() {
    let (db, engine) = filled(chat(&GERMAN));
    engine.blocking().delete_namespace(&namespace(SPACE)).unwrap();
    put(&engine, chat(&FRENCH));
    assert_eq!(chosen(&engine), (Language::French, Guessed));
    assert!(!said(&engine, "visitée").is_empty());
    engine.blocking().delete_session(&namespace(SPACE), "default").unwrap();
    assert_eq!(mnemon::stats(&db.path).unwrap().namespaces.len(), 0);
    put(&engine, chat(&ENGLISH));
    assert_eq!(chosen(&engine), (Language::English, Guessed));
    drop(engine);
    db.assert_sound();
}

/// An export has the languages that were set. A guess is made again.
#[test]
fn a_guess_is_not_exported() {
    let (_from, engine) = filled(chat(&GERMAN));
    let mut export = Vec::new();
    engine.blocking().export(&namespace(SPACE), &mut export).unwrap();
    assert!(!String::from_utf8(export.clone()).unwrap().contains("german"));
    let to = Db::new();
    let other = to.open();
    other.blocking().import(&export[..]).unwrap();
    other.blocking().flush().unwrap();
    assert_eq!((chosen(&other), said(&other, "haus").len()), ((Language::German, Guessed), 8));
    drop(other);
    to.assert_sound();
}

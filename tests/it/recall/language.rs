//! Languages: how text becomes terms, and when a namespace changes its own.

use mnemon::{Engine, Language};

use super::{SPACE, filled, lexical, put, recall, said};
use crate::support::{Db, message, namespace};

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
    let embedder = std::sync::Arc::new(embedder);
    crate::support::reindex(&db, std::sync::Arc::clone(&embedder), None, crate::support::go_on).unwrap();
    db.assert_sound();
    let engine = db.open_with(embedder);
    assert_eq!(said(&engine, "haus").len(), 2);
}

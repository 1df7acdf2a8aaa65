//! Documents in exports and imports.

use mnemon::{Document, DocumentOptions, DocumentSearch, Timestamp};
use proptest::prelude::*;

use super::*;
use crate::support::any_message;

fn options() -> DocumentOptions {
    DocumentOptions::default()
}

fn put(engine: &Engine, space: &str, key: &str, value: Value, options: DocumentOptions) {
    engine.documents(&namespace(space)).blocking().put(key, value, options).unwrap();
}

fn find(engine: &Engine, space: &str, search: DocumentSearch) -> Vec<Document> {
    engine.documents(&namespace(space)).blocking().search(search.limit(100)).unwrap()
}

/// Puts documents of every kind: beside messages and alone, with several texts and none, replaced, deleted, expiring.
pub(super) fn fill(engine: &Engine) {
    let space = "friends/ines-tom";
    put(engine, space, "boat", json!({"name": "Dragonfly", "notes": [{"text": "a narrowboat"}, {"text": "red"}]}), {
        options().index(["notes[*].text", "name"])
    });
    put(engine, space, "first", json!("it is put again later"), options());
    put(engine, space, "list", json!([1.5, -0.0, 1e300, 0.1, u64::MAX, null, "\u{2028}\"\\"]), options().not_indexed());
    put(engine, space, "kept a day", json!({"text": "the cello lesson"}), options().ttl_minutes(1440.0));
    put(engine, space, "over", json!(1), options().ttl_minutes(1.0 / 60_000.0));
    put(engine, space, "gone", json!({"text": "nobody finds this"}), options());
    put(engine, space, "first", json!({"text": "the canal in February"}), options().ttl_minutes(525_960_000.0));
    engine.documents(&namespace(space)).blocking().delete("gone").unwrap();
    put(engine, "acme/priya", "vorlieben", json!({"text": "die Fahrräder der Kinder"}), options());
    for key in ["a", "b", "ключ/1"] {
        put(engine, "documents alone", key, json!({"text": format!("the ferry of {key}")}), options().index(["text"]));
    }
}

#[test]
fn documents_are_found_alike_after_an_import() {
    let (from, to) = (Db::new(), Db::new());
    let (engine, other) = (from.open(), to.open());
    engine.blocking().set_language(&namespace("acme/priya"), mnemon::Language::German).unwrap();
    fill(&engine);
    engine.blocking().flush().unwrap();
    let text = export(&engine);
    let report = import(&other, &text).unwrap();
    assert_eq!((report.namespaces, report.messages, report.documents), (3, 0, 8));
    let words = DocumentSearch::default().query("the ferry of b");
    assert_eq!(find(&other, "documents alone", words)[0].key, "b", "by its words, before it is embedded");
    let german = find(&other, "acme/priya", DocumentSearch::default().query("ein Kind"));
    assert_eq!(german.len(), 1, "the texts have the language of the namespace");
    // Of "boat" three texts, of "list" none, and each of the others one.
    assert_eq!(other.blocking().flush().unwrap().embedded, 9);
    assert_eq!(export(&other), text);
    for space in ["friends/ines-tom", "acme/priya", "documents alone"] {
        let all = |engine: &Engine| find(engine, space, DocumentSearch::default());
        assert_eq!(all(&other), all(&engine));
        assert!(!all(&other).is_empty());
        for query in ["narrowboat", "the cello", "ferry of a", "Kind mit Fahrrad", "nobody"] {
            let found = |engine: &Engine| find(engine, space, DocumentSearch::default().query(query));
            let (one, two) = (found(&engine), found(&other));
            assert_eq!(one.len(), two.len(), "{query}");
            for (one, mut two) in one.into_iter().zip(two) {
                assert!((one.score.unwrap() - two.score.unwrap()).abs() < 1e-4, "{query}");
                two.score = one.score;
                assert_eq!(one, two, "{query}");
            }
        }
    }
    // The next change comes after all that were imported, and texts that it repeats keep their vectors.
    put(&other, "documents alone", "b", json!({"text": "the ferry of b", "new": true}), options().index(["text"]));
    let newest = find(&other, "documents alone", DocumentSearch::default());
    assert_eq!(newest.iter().map(|found| found.key.as_str()).collect::<Vec<_>>(), ["b", "ключ/1", "a"]);
    assert_eq!(other.blocking().flush().unwrap().embedded, 0);
    drop(other);
    to.assert_sound();
}

#[test]
fn an_import_is_refused_by_documents_and_deletes_those_that_expired_meanwhile() {
    let (from, to) = (Db::new(), Db::new());
    let (engine, other) = (from.open(), to.open());
    put(&engine, "a", "brief", json!({"text": "soon over"}), options().ttl_minutes(0.01));
    put(&engine, "a", "kept", json!({"text": "stays"}), options());
    let text = export(&engine);
    assert!(text.contains("brief"));
    put(&other, "a", "other", json!(1), options().not_indexed());
    let before = export(&other);
    let refused = import(&other, &text).unwrap_err();
    assert!(matches!(refused, Error::NamespaceNotEmpty { .. }) && refused.to_string().contains("documents"));
    assert_eq!(export(&other), before);
    other.blocking().delete_namespace(&namespace("a")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(610));
    assert_eq!(import(&other, &text).unwrap().documents, 2);
    assert_eq!(find(&other, "a", DocumentSearch::default()).len(), 1);
    let renamed = other.blocking().import_as(&namespace("b"), export(&other).as_bytes()).unwrap();
    assert_eq!((renamed.namespaces, renamed.documents), (1, 1));
    let begun = std::time::Instant::now();
    while other.blocking().pending().unwrap() != 2 {
        assert!(
            begun.elapsed() < std::time::Duration::from_secs(20),
            "the text of the expired document is still there"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(other);
    to.assert_sound();
}

/// Where documents were and are no more, the index of their texts keeps its language.
#[test]
fn a_language_is_imported_with_its_namespace() {
    let (from, to) = (Db::new(), Db::new());
    let (engine, other) = (from.open(), to.open());
    engine.blocking().set_language(&namespace("a"), mnemon::Language::German).unwrap();
    put(&engine, "a", "k", json!("die Fahrräder"), options());
    let text = export(&engine);
    put(&other, "a", "k", json!("the bicycles"), options());
    other.blocking().flush().unwrap();
    other.blocking().delete_namespace(&namespace("a")).unwrap();
    // Nothing of the deleted namespace is left that was analyzed in another language.
    import(&other, &text).unwrap();
    let found = find(&other, "a", DocumentSearch::default().query("ein Fahrrad"));
    assert_eq!(found.len(), 1);
}

/// Generates values with every type that JSON has.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("JSON has no infinity", |x| serde_json::Number::from_f64(x).map(Value::from)),
        ".*".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(prop_oneof![inner.clone(), Just(Value::Null)], 0..4).prop_map(Value::from),
            prop::collection::btree_map(".*", inner, 0..4).prop_map(|fields| fields.into_iter().collect()),
        ]
    })
}

/// Generates keys, values, the paths to index, and times to live.
fn any_document() -> impl Strategy<Value = (String, Value, Vec<&'static str>, Option<f64>)> {
    let paths = prop::sample::subsequence(vec!["$", "*", "[*]"], 0..=2);
    let ttl = prop_oneof![Just(None), (1.0..525_960_000.0).prop_map(Some), Just(Some(525_960_000.0))];
    ("[^\\p{Cc}]{1,20}", any_value(), paths, ttl)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_messages_and_documents_are_exported_and_imported_exactly(
        messages in prop::collection::vec(any_message(), 0..8),
        documents in prop::collection::vec(any_document(), 0..8),
    ) {
        let (from, to) = (Db::new(), Db::new());
        let (engine, other) = (from.open(), to.open());
        let space = namespace("a");
        engine.blocking().put(&space, messages.clone()).unwrap();
        for (key, value, paths, ttl_minutes) in documents {
            let mut options = options().index(paths);
            options.ttl_minutes = ttl_minutes;
            put(&engine, "a", &key, value, options);
        }
        let text = export(&engine);
        let report = import(&other, &text).unwrap();
        prop_assert_eq!(export(&other), text);
        for message in &messages {
            let id = &message.id;
            let [one, two] = [&engine, &other].map(|engine| engine.blocking().get(&space, id).unwrap());
            prop_assert_eq!(one, two);
        }
        let [one, two] = [&engine, &other].map(|engine| find(engine, "a", DocumentSearch::default()));
        prop_assert_eq!(one.len() as u64, report.documents);
        prop_assert!(one.iter().all(|document| document.created_at <= Timestamp::now()));
        prop_assert_eq!(one, two);
        let [one, two] = [engine, other].map(|engine| engine.blocking().flush().unwrap().embedded);
        prop_assert_eq!(one, two);
        to.assert_sound();
    }
}

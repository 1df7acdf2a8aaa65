//! Putting, getting and deleting documents, and the namespaces around them.

use mnemon::{Engine, Message, Query};
use serde_json::{Value, json};

use super::*;
use crate::support::{Db, Hashing};

#[test]
fn a_document_is_read_as_it_was_put_also_after_reopening() {
    let db = Db::new();
    let values = [
        json!({"name": "Ada", "age": 36.5, "tags": ["a", {"b": null}], "nested": {"deep": [[], {}]}}),
        json!([1, 2, 3]),
        json!("text"),
        json!(false),
        json!({"ключ": "значение \u{1F600} \u{0} \"quoted\"", "big": u64::MAX, "small": i64::MIN, "float": 0.1}),
    ];
    let engine = db.open();
    for (at, value) in values.iter().enumerate() {
        put(&engine, &format!("key {at}"), value.clone());
    }
    let check = |engine: &Engine| {
        for (at, value) in values.iter().enumerate() {
            let document = documents(engine).blocking().get(&format!("key {at}")).unwrap().unwrap();
            assert_eq!((&document.value, document.score, document.expires_at), (value, None, None));
            assert_eq!((document.namespace.as_str(), document.key), (SPACE, format!("key {at}")));
            assert_eq!(document.created_at, document.updated_at);
        }
        assert_eq!(documents(engine).blocking().get("key 9").unwrap(), None);
        assert_eq!(engine.documents(&namespace("acme")).blocking().get("key 0").unwrap(), None);
    };
    check(&engine);
    drop(engine);
    check(&db.open());
    db.assert_sound();
}

#[test]
fn a_put_replaces_the_value_and_keeps_the_time_of_the_first() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, "key", json!({"a": 1}));
    let first = documents(&engine).blocking().get("key").unwrap().unwrap();
    put(&engine, "key", json!({"b": 2}));
    let second = documents(&engine).blocking().get("key").unwrap().unwrap();
    assert_eq!((&second.value, second.created_at), (&json!({"b": 2}), first.created_at));
    assert!(second.updated_at > first.updated_at);
    assert!(documents(&engine).blocking().delete("key").unwrap());
    assert!(!documents(&engine).blocking().delete("key").unwrap());
    assert_eq!(documents(&engine).blocking().get("key").unwrap(), None);
    put(&engine, "key", json!({"c": 3}));
    let third = documents(&engine).blocking().get("key").unwrap().unwrap();
    assert!(third.created_at > first.created_at, "a deleted document that is put again is new");
    drop(engine);
    db.assert_sound();
}

#[test]
fn texts_that_a_put_repeats_are_not_embedded_again() {
    let db = Db::new();
    let embedder = std::sync::Arc::new(Hashing::new(32));
    let mut config = mnemon::Config::default();
    (config.flush_size, config.idle_flush, config.embedding_cache) = (100_000, None, 0);
    let engine = Engine::builder(&db.path).config(config).embedder(embedder.clone()).open().unwrap();
    let documents = documents(&engine);
    let put = |value: Value| {
        documents.blocking().put("key", value, options().index(["items[*].text", "title"])).unwrap();
        engine.blocking().flush().unwrap().embedded
    };
    let item = |text: &str, count: i32| json!({"text": text, "count": count});
    assert_eq!(put(json!({"title": "list", "items": [item("bread", 1), item("milk", 2)]})), 3);
    assert_eq!(put(json!({"title": "list", "items": [item("bread", 5), item("milk", 6)], "other": 1})), 0);
    assert_eq!(put(json!({"title": "list", "items": [item("milk", 6), item("bread", 5)]})), 0, "in another order");
    assert_eq!(put(json!({"title": "list", "items": [item("milk", 6), item("cheese", 1)]})), 1);
    assert_eq!(embedder.embedded.load(std::sync::atomic::Ordering::Relaxed), 4);
    assert_eq!(documents.blocking().search(search().query("bread").limit(1)).unwrap().len(), 1);
    drop((engine, documents));
    assert_eq!(db.assert_sound().vectors, 3, "the text that was replaced has none");
}

#[test]
fn documents_and_messages_of_a_namespace_are_separate() {
    let db = Db::new();
    let engine = db.open();
    let space = namespace(SPACE);
    put(&engine, "key", json!({"text": "the ferry leaves at noon"}));
    engine.blocking().put(&space, vec![Message::user("the ferry was late").in_session("key").with_id("m")]).unwrap();
    engine.blocking().flush().unwrap();
    let hits = engine.blocking().recall(&space, Query::new("ferry")).unwrap();
    assert_eq!(hits.iter().map(|hit| hit.message.id.as_str()).collect::<Vec<_>>(), ["m"]);
    assert_eq!(keys(&find(&engine, search().query("ferry"))), ["key"]);
    let sessions = engine.blocking().sessions(&space).unwrap();
    assert_eq!(sessions.iter().map(|info| (info.session.as_str(), info.messages)).collect::<Vec<_>>(), [("key", 1)]);
    engine.blocking().delete_session(&space, "key").unwrap();
    assert_eq!(keys(&find(&engine, search().query("ferry"))), ["key"]);
    drop(engine);
    let stats = mnemon::stats(&db.path).unwrap();
    let named: Vec<&str> = stats.namespaces.iter().map(|stats| stats.namespace.as_str()).collect();
    assert_eq!(named, [SPACE], "the namespace of the texts is in no list");
    assert_eq!(stats.namespaces[0].messages, 0);
    assert!(stats.sizes.documents > 0);
    db.assert_sound();
    assert!(mnemon::Namespace::new(format!("\u{1}{SPACE}")).is_err(), "no user can name it");
}

#[test]
fn deleting_a_namespace_deletes_its_documents_and_no_others() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, "a", json!({"text": "ferry"}));
    put(&engine, "b", json!({"text": "ferry"}));
    let other = engine.documents(&namespace("acme/user-4"));
    other.blocking().put("a", json!({"text": "ferry"}), options().ttl_minutes(60.0)).unwrap();
    engine.blocking().flush().unwrap();
    assert_eq!(find(&engine, search().query("ferry")).len(), 2);
    engine.blocking().delete_namespace(&namespace(SPACE)).unwrap();
    assert_eq!(find(&engine, search().query("ferry")), []);
    assert_eq!(find(&engine, search()), []);
    assert_eq!(documents(&engine).blocking().get("a").unwrap(), None);
    assert_eq!(other.blocking().search(search().query("ferry")).unwrap().len(), 1);
    put(&engine, "a", json!({"text": "a new ferry"}));
    assert_eq!(keys(&find(&engine, search().query("ferry"))), ["a"]);
    drop((engine, other));
    db.assert_sound();
}

#[test]
fn deleting_namespaces_by_prefix_deletes_those_with_documents_alone() {
    let db = Db::new();
    let engine = db.open();
    for name in ["acme", "acme/user-42", "acme-x"] {
        engine.documents(&namespace(name)).blocking().put("a", json!({"text": "ferry"}), options()).unwrap();
    }
    engine.blocking().flush().unwrap();
    engine.blocking().delete_namespaces(&namespace("acme")).unwrap();
    let left = engine.blocking().document_namespaces(Default::default()).unwrap();
    assert_eq!(left, [namespace("acme-x")]);
    let found = engine.documents(&namespace("acme/user-42")).blocking().search(search().query("ferry")).unwrap();
    assert_eq!(found, []);
    drop(engine);
    assert_eq!(db.assert_sound().vectors, 1);
}

#[test]
fn a_reindex_embeds_documents_too() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, "a", json!({"text": "the ferry leaves at noon"}));
    put(&engine, "b", json!({"text": "bread and butter"}));
    engine.blocking().flush().unwrap();
    drop(engine);
    crate::support::reindex(&db, Hashing::new(48), None, crate::support::go_on).unwrap();
    let engine = db.open_with(std::sync::Arc::new(Hashing::new(48)));
    assert_eq!(keys(&find(&engine, search().query("ferry noon").limit(1))), ["a"]);
    drop(engine);
    assert_eq!(db.assert_sound().vectors, 2);
}

#[test]
fn an_engine_that_is_open_for_reading_reads_documents_and_changes_none() {
    let db = Db::new();
    let engine = db.open();
    documents(&engine).blocking().put("a", json!({"text": "ferry"}), options().ttl_minutes(60.0)).unwrap();
    engine.blocking().flush().unwrap();
    assert_eq!(find(&engine, search().query("ferry")).len(), 1);
    drop(engine);
    let engine = Engine::builder(&db.path).embedder(std::sync::Arc::new(Hashing::new(32))).open_read_only().unwrap();
    let documents = documents(&engine).refresh_on_read();
    assert_eq!(documents.blocking().get("a").unwrap().unwrap().value, json!({"text": "ferry"}));
    assert_eq!(keys(&documents.blocking().search(search().query("ferry")).unwrap()), ["a"]);
    let error = documents.blocking().put("b", json!(1), options()).unwrap_err();
    assert!(matches!(error, mnemon::Error::ReadOnly { .. }), "{error}");
}

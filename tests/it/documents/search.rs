//! Searches, with a query and without one.

use mnemon::{Language, MetadataFilter};
use serde_json::json;

use super::*;
use crate::support::Db;

fn filter(json: serde_json::Value) -> MetadataFilter {
    (&json).try_into().unwrap()
}

#[test]
fn without_a_query_the_last_put_come_first() {
    let db = Db::new();
    let engine = db.open();
    for key in ["a", "b", "c", "d"] {
        put(&engine, key, json!({"key": key}));
    }
    put(&engine, "b", json!({"key": "b again"}));
    assert_eq!(keys(&find(&engine, search())), ["b", "d", "c", "a"]);
    assert_eq!(keys(&find(&engine, search().limit(2).offset(1))), ["d", "c"]);
    assert_eq!(keys(&find(&engine, search().query("").limit(1))), ["b"], "an empty query is none");
    assert_eq!(keys(&find(&engine, search().offset(4))), [""; 0]);
    assert_eq!(keys(&find(&engine, search().limit(0))), [""; 0]);
    assert_eq!(engine.documents(&namespace("nobody")).blocking().search(search()).unwrap(), []);
    assert_eq!(engine.documents(&namespace("nobody")).blocking().search(search().query("x")).unwrap(), []);
}

#[test]
fn a_query_finds_by_words_at_once_and_by_meaning_after_a_flush() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, "boat", json!({"text": "the ferry leaves at noon"}));
    put(&engine, "food", json!({"text": "bread and butter"}));
    assert_eq!(keys(&find(&engine, search().query("when does the ferry leave?").limit(1))), ["boat"]);
    engine.blocking().flush().unwrap();
    let found = find(&engine, search().query("the ferry leaves"));
    assert_eq!(keys(&found), ["boat", "food"]);
    assert!(found[0].score.unwrap() > found[1].score.unwrap());
}

#[test]
fn the_indexed_paths_decide_what_is_found() {
    let db = Db::new();
    let engine = db.open();
    let value = json!({
        "title": "alpha", "number": 17, "meta": {"author": "beta", "note": "gamma"},
        "items": [{"text": "delta"}, {"text": "epsilon"}, {"other": "zeta"}], "tags": ["eta", "theta"],
    });
    let check = |paths: &[&str], words: &[&str]| {
        let documents = documents(&engine);
        documents.blocking().put("key", value.clone(), options().index(paths.iter().copied())).unwrap();
        for word in ["alpha", "17", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"] {
            // The other document is never found by these words.
            let found = documents.blocking().search(search().query(word)).unwrap();
            let score = found.iter().find(|document| document.key == "key").map(|document| document.score.unwrap());
            let other = found.iter().find(|document| document.key == "other").map(|document| document.score.unwrap());
            let is_found = score > other;
            assert_eq!(is_found, words.contains(&word), "{paths:?}: {word}: {score:?}, {other:?}");
        }
    };
    put(&engine, "other", json!("something else"));
    check(&["$"], &["alpha", "17", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]);
    check(&["title"], &["alpha"]);
    check(&["title", "meta.note"], &["alpha", "gamma"]);
    check(&["meta"], &["beta", "gamma"]);
    check(&["meta.*"], &["beta", "gamma"]);
    check(&["{title, meta.author, missing}"], &["alpha", "beta"]);
    check(&["items[*].text"], &["delta", "epsilon"]);
    check(&["items[1].text", "tags[-1]"], &["epsilon", "theta"]);
    check(&["tags[0]", "tags[7]", "tags[-9]"], &["eta"]);
    check(&["number"], &["17"]);
    check(&["title.length", "title[0]", "meta[*]", "nothing"], &[]);
    check(&[], &[]);
    engine.blocking().flush().unwrap();
    let found = find(&engine, search().query("alpha"));
    assert_eq!(keys(&found), ["other"], "a document without indexed text is not found by a query");
    assert_eq!(find(&engine, search()).len(), 2);
}

#[test]
fn a_document_of_many_texts_is_found_once_with_its_best() {
    let db = Db::new();
    let engine = db.open();
    let lines: Vec<String> = (0..200).map(|line| format!("the ferry number {line}")).collect();
    documents(&engine).blocking().put("many", json!(lines), options().index(["[*]"])).unwrap();
    for document in 0..5 {
        put(&engine, &format!("single {document}"), json!("a ferry among other things"));
    }
    engine.blocking().flush().unwrap();
    let found = find(&engine, search().query("the ferry number 7").limit(3));
    assert_eq!(found[0].key, "many");
    assert_eq!(found.len(), 3);
    let mut all = find(&engine, search().query("the ferry number 7").limit(100));
    assert_eq!(all.len(), 6);
    assert!(all.is_sorted_by(|a, b| a.score >= b.score));
    let page = find(&engine, search().query("the ferry number 7").limit(2).offset(3));
    assert_eq!(page, all.drain(3..5).collect::<Vec<_>>());
}

#[test]
fn filters_hold_with_a_query_and_without_one_and_the_limit_is_filled() {
    let db = Db::new();
    let engine = db.open();
    let operations = (0..400).map(|number| mnemon::DocumentOperation::Put {
        namespace: namespace(SPACE),
        key: format!("{number:03}"),
        value: json!({"text": format!("ferry {number}"), "number": number, "even": number % 2 == 0, "rare": number % 100 == 7}),
        options: options().index(["text"]),
    });
    engine.blocking().document_batch(operations.collect()).unwrap();
    for is_flushed in [false, true] {
        if is_flushed {
            engine.blocking().flush().unwrap();
        }
        for query in ["", "ferry"] {
            let count = |json, limit| find(&engine, search().query(query).filter(filter(json)).limit(limit)).len();
            assert_eq!(count(json!({"rare": true}), 4), 4, "1 of 100 matches, and all of them are found");
            assert_eq!(count(json!({"rare": true}), 10), 4);
            assert_eq!(count(json!({"number": {"$gte": 390}}), 100), 10);
            assert_eq!(count(json!({"number": {"$gte": 390}, "even": true}), 100), 5);
            assert_eq!(count(json!({"number": {"$lt": 0}}), 100), 0);
            assert_eq!(count(json!({"missing": "x"}), 100), 0);
            let page = find(&engine, search().query(query).filter(filter(json!({"rare": true}))).limit(2).offset(3));
            assert_eq!(page.len(), 1);
        }
    }
    let found = find(&engine, search().filter(filter(json!({"rare": true}))).limit(2));
    assert_eq!(keys(&found), ["307", "207"]);
}

#[test]
fn a_search_below_a_namespace_takes_whole_labels_and_leaves_all_others_out() {
    let db = Db::new();
    let engine = db.open();
    let names = ["acme", "acme/user-4", "acme/user-42", "acme-x", "acme/user-42/notes", "beta"];
    for name in names {
        let documents = engine.documents(&namespace(name));
        documents.blocking().put("key", json!({"text": "ferry", "of": name}), options().index(["text"])).unwrap();
        documents.blocking().put("other", json!({"text": "bread"}), options().index(["text"])).unwrap();
    }
    engine.blocking().flush().unwrap();
    let below = |name: &str, search: DocumentSearch| -> Vec<String> {
        let found = engine.documents(&namespace(name)).blocking().search(search.below(true)).unwrap();
        found.iter().map(|document| format!("{} {}", document.namespace, document.key)).collect()
    };
    let all = search().limit(100);
    assert_eq!(below("acme", all.clone()).len(), 8);
    assert_eq!(
        below("acme/user-42", all.clone()),
        ["acme/user-42/notes other", "acme/user-42/notes key", "acme/user-42 other", "acme/user-42 key"]
    );
    assert_eq!(below("acme/user-4", all.clone()), ["acme/user-4 other", "acme/user-4 key"]);
    assert_eq!(below("acme/user", all.clone()), [""; 0]);
    assert_eq!(below("acme", search().limit(2).offset(1)), ["acme/user-42/notes key", "acme/user-42 other"]);
    let mut found = below("acme", search().query("ferry").limit(4));
    found.sort();
    assert_eq!(found, ["acme key", "acme/user-4 key", "acme/user-42 key", "acme/user-42/notes key"]);
    assert_eq!(below("acme", all.filter(filter(json!({"of": "acme/user-4"})))), ["acme/user-4 key"]);
}

#[test]
fn documents_split_over_namespaces_rank_as_in_one() {
    let db = Db::new();
    let engine = db.open();
    let value = |at: usize| {
        let text = format!("ferry word{} word{} word{} number{at}", at % 3, at % 7, at * at % 31);
        json!({"text": text, "part": at % 5})
    };
    let operations = (0..200).flat_map(|at| {
        ["one".to_owned(), format!("split/{}", at % 4)].map(|name| mnemon::DocumentOperation::Put {
            namespace: namespace(&name),
            key: format!("{at:03}"),
            value: value(at),
            options: options().index(["text"]),
        })
    });
    engine.blocking().document_batch(operations.collect()).unwrap();
    engine.blocking().flush().unwrap();
    for filter in [None, Some(filter(json!({"part": 3})))] {
        for at in (0..200).step_by(9) {
            let mut search = search().query(value(at)["text"].as_str().unwrap());
            search.filter.clone_from(&filter);
            let one = engine.documents(&namespace("one")).blocking().search(search.clone()).unwrap();
            let split = engine.documents(&namespace("split")).blocking().search(search.below(true)).unwrap();
            assert_eq!((one.len(), split.len()), (10, 10));
            for (one, split) in one.iter().zip(&split) {
                let difference = (one.score.unwrap() - split.score.unwrap()).abs();
                assert!(difference < 1e-3, "{at}: {one:?} {split:?}");
            }
            if filter.is_none() {
                assert_eq!((&*one[0].key, &*split[0].key), (&*format!("{at:03}"), &*format!("{at:03}")));
            }
        }
    }
}

#[test]
fn a_filter_sees_a_value_that_changed_while_its_texts_did_not() {
    let db = Db::new();
    let engine = db.open();
    let put = |key: &str, state: &str| {
        let value = json!({"state": state, "lines": ["the red ferry", format!("line of {key}")]});
        documents(&engine).blocking().put(key, value, options().index(["lines[*]"])).unwrap();
    };
    let count = |state: &str| {
        let filter = filter(json!({"state": state}));
        let found = find(&engine, search().query("ferry").filter(filter));
        assert!(found.iter().all(|document| document.value["state"] == state), "{found:?}");
        found.len()
    };
    for at in 0..60 {
        put(&format!("{at:02}"), if at < 3 { "open" } else { "closed" });
    }
    documents(&engine).blocking().put("text", json!("a ferry"), options()).unwrap();
    assert_eq!((count("open"), count("closed"), count("lost")), (3, 10, 0));
    put("02", "lost");
    put("40", "open");
    put("41", "open");
    assert_eq!((count("open"), count("closed"), count("lost")), (4, 10, 1), "before the texts are embedded");
    engine.blocking().flush().unwrap();
    assert_eq!((count("open"), count("closed"), count("lost")), (4, 10, 1));
    put("02", "open");
    assert!(documents(&engine).blocking().delete("40").unwrap());
    assert_eq!((count("open"), count("closed"), count("lost")), (4, 10, 0), "after they are");
}

#[test]
fn a_search_with_a_filter_passes_over_expired_documents() {
    let db = Db::new();
    let engine = db.open();
    let operations = (0..300).map(|at| mnemon::DocumentOperation::Put {
        namespace: namespace(SPACE),
        key: format!("{at:03}"),
        value: json!({"text": "ferry", "rare": at % 10 == 0}),
        options: match at < 150 {
            true => options().index(["text"]),
            false => options().index(["text"]).ttl_minutes(0.001),
        },
    });
    engine.blocking().document_batch(operations.collect()).unwrap();
    engine.blocking().flush().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(100));
    let rare = filter(json!({"rare": true}));
    let found = find(&engine, search().query("ferry").filter(rare.clone()));
    assert_eq!(found.len(), 10);
    let found = find(&engine, search().query("ferry").filter(rare).limit(100));
    assert_eq!(found.len(), 15);
    assert!(found.iter().all(|document| document.expires_at.is_none()));
}

#[test]
fn the_language_of_a_namespace_is_that_of_its_documents() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, "old", json!("viele Häuser"));
    engine.blocking().flush().unwrap();
    engine.blocking().set_language(&namespace(SPACE), Language::German).unwrap();
    put(&engine, "new", json!("zwei Häuser"));
    put(&engine, "other", json!("Brot"));
    let found = find(&engine, search().query("Haus").limit(2));
    assert!(keys(&found).contains(&"old") && keys(&found).contains(&"new"), "{found:?}");
    drop(engine);
    db.assert_sound();
}

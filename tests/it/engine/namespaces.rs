//! Namespaces are listed, counted and deleted by prefix.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use mnemon::{Engine, Error, Message, Namespace, NamespaceCursor, NamespaceInfo, NamespaceTotals};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Db, Hashing, message, namespace, words};

fn in_memory() -> Engine {
    Engine::builder_in_memory().embedder(Arc::new(Hashing::new(8))).open().unwrap()
}

/// Puts `messages` messages into each namespace.
fn put(engine: &Engine, namespaces: &[&str], messages: usize) {
    let all = namespaces.iter().flat_map(|name| {
        (0..messages)
            .map(|at| (namespace(name), message(&format!("m{at}"), "hello").in_session(format!("s{}", at % 2))))
    });
    engine.blocking().put_all(all.collect()).unwrap();
}

/// Lists all namespaces under a prefix, in pages of this size.
fn listed(engine: &Engine, prefix: Option<&Namespace>, page: usize) -> Vec<NamespaceInfo> {
    let (mut all, mut after) = (Vec::new(), None::<NamespaceCursor>);
    loop {
        let found = engine.blocking().namespaces(prefix, after.as_ref(), page).unwrap();
        assert!(found.namespaces.len() == page || found.next.is_none());
        all.extend(found.namespaces);
        // As a client keeps it.
        after = found.next.map(|next| next.to_string().parse().unwrap());
        if after.is_none() {
            return all;
        }
    }
}

fn names(found: &[NamespaceInfo]) -> Vec<&str> {
    found.iter().map(|found| found.namespace.as_str()).collect()
}

/// Puts `documents` documents into a namespace.
fn put_documents(engine: &Engine, name: &str, documents: usize) {
    for at in 0..documents {
        engine
            .documents(&namespace(name))
            .blocking()
            .put(format!("d{at}"), json!("hello"), Default::default())
            .unwrap();
    }
}

fn counts(totals: NamespaceTotals) -> (u64, u64) {
    (totals.namespaces, totals.messages)
}

const NAMES: [&str; 7] =
    ["acme", "acme corp", "acme/user-4", "acme/user-4 b", "acme/user-4/notes", "acme/user-42", "zoo"];

#[test]
fn namespaces_are_listed_with_their_sizes_in_pages_of_any_size() {
    let engine = in_memory();
    put(&engine, &NAMES, 3);
    for page in 1..=8 {
        let all = listed(&engine, None, page);
        assert_eq!(names(&all), NAMES, "pages of {page}");
        assert!(all.iter().all(|found| (found.messages, found.sessions) == (3, 2)));
    }
    assert_eq!(counts(engine.blocking().count_namespaces(None).unwrap()), (7, 21));
}

#[test]
fn a_prefix_takes_itself_and_what_is_under_it_and_no_longer_label() {
    let engine = in_memory();
    put(&engine, &NAMES, 1);
    for (prefix, wanted) in [
        ("acme/user-4", &["acme/user-4", "acme/user-4/notes"][..]),
        ("acme", &["acme", "acme/user-4", "acme/user-4 b", "acme/user-4/notes", "acme/user-42"]),
        ("acme/user", &[]),
        ("zoo", &["zoo"]),
        ("zoo/x", &[]),
    ] {
        let prefix = namespace(prefix);
        for page in 1..=3 {
            assert_eq!(names(&listed(&engine, Some(&prefix), page)), wanted, "{prefix}");
        }
        assert_eq!(
            counts(engine.blocking().count_namespaces(Some(&prefix)).unwrap()),
            (wanted.len() as u64, wanted.len() as u64)
        );
    }
}

#[test]
fn deleting_a_prefix_deletes_whole_labels_and_says_how_much() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, &NAMES, 3);
    engine.blocking().flush().unwrap();
    let delete = |prefix: &str| counts(engine.blocking().delete_namespaces(&namespace(prefix)).unwrap());
    assert_eq!(delete("acme/user"), (0, 0));
    assert_eq!(delete("nobody"), (0, 0));
    assert_eq!(delete("acme/user-4"), (2, 6));
    assert_eq!(names(&listed(&engine, None, 10)), ["acme", "acme corp", "acme/user-4 b", "acme/user-42", "zoo"]);
    assert_eq!(delete("acme/user-4"), (0, 0), "again");
    assert_eq!(delete("acme"), (3, 9));
    // A session's buffer is deleted, too.
    let memory = engine.memory(&namespace("zoo"), "chat").message_counter(words()).open().unwrap();
    memory.blocking().put(vec![Message::user("not flushed")]).unwrap();
    assert_eq!(delete("zoo"), (1, 4));
    assert_eq!(memory.blocking().get(None).unwrap().messages, []);
    put(&engine, &["acme/user-4"], 1);
    assert_eq!(names(&listed(&engine, None, 10)), ["acme corp", "acme/user-4"]);
    drop((memory, engine));
    db.assert_sound();
}

/// A namespace of documents alone is one, everywhere. Those that expired count until they are deleted.
#[test]
fn a_namespace_with_documents_alone_is_listed_counted_and_deleted() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, &["acme"], 3);
    put_documents(&engine, "acme", 1);
    put_documents(&engine, "acme/user-4", 2);
    put_documents(&engine, "acme/user-42", 1);
    let sizes = |found: &NamespaceInfo| (found.messages, found.sessions, found.documents);
    for page in 1..=4 {
        let all = listed(&engine, None, page);
        assert_eq!(names(&all), ["acme", "acme/user-4", "acme/user-42"], "pages of {page}");
        assert_eq!(all.iter().map(sizes).collect::<Vec<_>>(), [(3, 2, 1), (0, 0, 2), (0, 0, 1)]);
    }
    let totals = engine.blocking().count_namespaces(Some(&namespace("acme"))).unwrap();
    assert_eq!((totals.namespaces, totals.messages, totals.documents), (3, 3, 4));
    let stats = mnemon::stats(&db.path).unwrap().namespaces;
    assert_eq!(stats.iter().map(|found| found.documents).collect::<Vec<_>>(), [1, 2, 1]);
    let one = mnemon::namespaces(&db.path, Some(&namespace("acme/user-4")), None, 5).unwrap().namespaces;
    assert_eq!((names(&one), sizes(&one[0])), (vec!["acme/user-4"], (0, 0, 2)));

    engine.documents(&namespace("acme/user-42")).blocking().delete("d0").unwrap();
    assert_eq!(names(&listed(&engine, None, 10)), ["acme", "acme/user-4"], "its last document is gone");
    let deleted = engine.blocking().delete_namespaces(&namespace("acme/user-4")).unwrap();
    assert_eq!((deleted.namespaces, deleted.messages, deleted.documents), (1, 0, 2));
    assert_eq!(engine.blocking().delete_namespace(&namespace("acme")).unwrap(), 3);
    assert_eq!(engine.blocking().count_namespaces(None).unwrap(), NamespaceTotals::default());
    drop(engine);
    db.assert_sound();
}

#[test]
fn a_prefix_with_more_namespaces_than_one_commit_is_deleted_completely() {
    let engine = in_memory();
    let many: Vec<String> = (0..2100).map(|at| format!("many/{at}")).collect();
    put(&engine, &many.iter().map(String::as_str).collect::<Vec<_>>(), 1);
    put(&engine, &["many too"], 1);
    assert_eq!(counts(engine.blocking().delete_namespaces(&namespace("many")).unwrap()), (2100, 2100));
    assert_eq!(names(&listed(&engine, None, 10)), ["many too"]);
}

#[test]
fn a_deletion_whose_time_is_over_goes_on_with_the_next_call() {
    let engine = in_memory();
    let many: Vec<String> = (0..2500).map(|at| format!("many/{at}")).collect();
    put(&engine, &many.iter().map(String::as_str).collect::<Vec<_>>(), 1);
    let (mut deleted, mut calls) = (0, 0);
    loop {
        let (totals, is_all) = engine.blocking().delete_namespaces_within(&namespace("many"), Duration::ZERO).unwrap();
        (deleted, calls) = (deleted + totals.namespaces, calls + 1);
        if is_all {
            break;
        }
    }
    assert_eq!((deleted, calls), (2500, 3));
    assert_eq!(names(&listed(&engine, None, 10)), [""; 0]);
}

#[test]
fn a_cursor_outlives_deletions_and_new_namespaces() {
    let engine = in_memory();
    put(&engine, &["b", "d", "f"], 1);
    let first = engine.blocking().namespaces(None, None, 2).unwrap();
    assert_eq!(names(&first.namespaces), ["b", "d"]);
    engine.blocking().delete_namespace(&namespace("d")).unwrap();
    put(&engine, &["a", "e"], 1);
    let rest = engine.blocking().namespaces(None, first.next.as_ref(), 10).unwrap();
    assert_eq!((names(&rest.namespaces), rest.next), (vec!["e", "f"], None));
}

#[test]
fn a_cursor_that_is_none_or_of_another_database_is_an_error() {
    for text in ["", "acme", "x:acme", "1:", "1:a//b", "-1:a", "01:a", "+1:a", "99999999999:a", ":a"] {
        let error = text.parse::<NamespaceCursor>().unwrap_err();
        assert!(matches!(&error, Error::InvalidCursor { given, .. } if given == text), "{text:?}: {error}");
        assert!(error.to_string().contains("none for the first page"), "{error}");
    }
    let (engine, other) = (in_memory(), in_memory());
    put(&engine, &["a", "b", "c"], 1);
    put(&other, &["c", "b", "a"], 1);
    let next = engine.blocking().namespaces(None, None, 1).unwrap().next.unwrap();
    for foreign in [&other, &in_memory()] {
        let error = foreign.blocking().namespaces(None, Some(&next), 1).unwrap_err();
        assert!(error.to_string().contains("another database"), "{error}");
    }
    assert!(matches!(engine.blocking().namespaces(None, None, 0), Err(Error::InvalidQuery { .. })));
}

#[test]
fn namespaces_are_listed_without_opening_an_engine_and_a_reader_deletes_none() {
    let db = Db::new();
    assert!(matches!(mnemon::namespaces(&db.path, None, None, 1), Err(Error::DatabaseNotFound { .. })));
    let engine = db.open();
    put(&engine, &["a", "b"], 1);
    // Beside the engine that writes.
    let page = mnemon::namespaces(&db.path, None, None, 1).unwrap();
    assert_eq!((names(&page.namespaces), page.next.map(|next| next.to_string())), (vec!["a"], Some("0:a".into())));
    assert_eq!(mnemon::serving_model(&db.path).unwrap(), Some(engine.model()));
    drop(engine);
    let reader = Engine::builder(&db.path).embedder(Arc::new(Hashing::new(32))).open_read_only().unwrap();
    assert!(matches!(reader.blocking().delete_namespaces(&namespace("a")), Err(Error::ReadOnly { .. })));
    assert_eq!(counts(reader.blocking().delete_namespaces(&namespace("c")).unwrap()), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// The characters before, at and after the slash in the order of bytes.
    #[test]
    fn lists_and_deletions_agree_with_a_model(
        names in prop::collection::vec("[a .0/%]{1,5}", 1..30),
        prefixes in prop::collection::vec("[a .0/%]{1,3}", 1..4),
        page in 1usize..7,
    ) {
        let parse = |texts: Vec<String>| -> Vec<Namespace> { texts.iter().filter_map(|text| text.parse().ok()).collect() };
        let (names, prefixes) = (parse(names), parse(prefixes));
        let engine = in_memory();
        // The messages and documents of each namespace.
        let mut model: BTreeMap<Namespace, (u64, u64)> = BTreeMap::new();
        for (at, name) in names.iter().enumerate() {
            let (messages, documents) = model.entry(name.clone()).or_default();
            if at % 3 == 0 {
                engine.documents(name).blocking().put(format!("d{at}"), json!("hello"), Default::default()).unwrap();
                *documents += 1;
            } else {
                engine.blocking().put(name, vec![message(&format!("m{at}"), "hello")]).unwrap();
                *messages += 1;
            }
        }
        let pairs = |found: Vec<NamespaceInfo>| -> Vec<(Namespace, (u64, u64))> {
            found.into_iter().map(|found| (found.namespace, (found.messages, found.documents))).collect()
        };
        let counts = |totals: NamespaceTotals| (totals.namespaces, totals.messages, totals.documents);
        for prefix in &prefixes {
            let under = |(name, _): &(&Namespace, &(u64, u64))| name.starts_with(prefix);
            let wanted: Vec<_> = model.iter().filter(under).map(|(name, size)| (name.clone(), *size)).collect();
            let sizes = || wanted.iter().map(|(_, size)| size);
            let (messages, documents) = (sizes().map(|size| size.0).sum(), sizes().map(|size| size.1).sum());
            let totals = (wanted.len() as u64, messages, documents);
            prop_assert_eq!(counts(engine.blocking().count_namespaces(Some(prefix)).unwrap()), totals);
            prop_assert_eq!(pairs(listed(&engine, Some(prefix), page)), wanted);
            prop_assert_eq!(counts(engine.blocking().delete_namespaces(prefix).unwrap()), totals);
            model.retain(|name, _| !name.starts_with(prefix));
            let rest: Vec<_> = model.clone().into_iter().collect();
            prop_assert_eq!(pairs(listed(&engine, None, page)), rest);
        }
    }
}

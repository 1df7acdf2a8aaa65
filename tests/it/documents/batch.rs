//! Batches of operations: reads first, then all changes in one commit.

use mnemon::{DocumentNamespaces, DocumentOperation as Operation, DocumentOutcome as Outcome, Error, Message, Query};
use serde_json::json;

use super::*;
use crate::support::Db;

fn put_operation(space: &str, key: &str, value: Value) -> Operation {
    Operation::Put { namespace: namespace(space), key: key.into(), value, options: options() }
}

fn get_operation(key: &str) -> Operation {
    Operation::Get { namespace: namespace(SPACE), key: key.into(), refresh_ttl: false }
}

fn delete_operation(key: &str) -> Operation {
    Operation::Delete { namespace: namespace(SPACE), key: key.into() }
}

#[test]
fn reads_of_a_batch_show_what_was_before_it_and_outcomes_are_in_order() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, "a", json!(1));
    let search = Operation::Search { namespace: namespace(SPACE), search: search() };
    let outcomes = engine.blocking().document_batch(vec![
        put_operation(SPACE, "a", json!(2)),
        get_operation("a"),
        put_operation("other", "b", json!(3)),
        search,
        Operation::ListNamespaces(DocumentNamespaces::default()),
        delete_operation("missing"),
    ]);
    let outcomes = outcomes.unwrap();
    assert_eq!(outcomes.len(), 6);
    assert_eq!((&outcomes[0], &outcomes[2], &outcomes[5]), (&Outcome::Put, &Outcome::Put, &Outcome::Deleted(false)));
    assert!(matches!(&outcomes[1], Outcome::Got(Some(document)) if document.value == json!(1)));
    assert!(matches!(&outcomes[3], Outcome::Found(found) if found.len() == 1 && found[0].value == json!(1)));
    assert_eq!(outcomes[4], Outcome::Namespaces(vec![namespace(SPACE)]));
    assert_eq!(documents(&engine).blocking().get("a").unwrap().unwrap().value, json!(2));
    assert_eq!(engine.blocking().document_batch(Vec::new()).unwrap(), []);
}

#[test]
fn of_several_changes_of_a_key_the_last_counts() {
    let db = Db::new();
    let engine = db.open();
    let changes = vec![
        put_operation(SPACE, "a", json!("first ferry")),
        put_operation(SPACE, "a", json!("second boat")),
        put_operation(SPACE, "b", json!("third")),
        delete_operation("b"),
        delete_operation("c"),
        put_operation(SPACE, "c", json!("fourth")),
    ];
    let outcomes = engine.blocking().document_batch(changes).unwrap();
    assert_eq!(outcomes[3..5], [Outcome::Deleted(true), Outcome::Deleted(false)]);
    assert_eq!(keys(&find(&engine, search())), ["c", "a"]);
    assert_eq!(documents(&engine).blocking().get("a").unwrap().unwrap().value, json!("second boat"));
    engine.blocking().flush().unwrap();
    drop(engine);
    assert_eq!(db.assert_sound().vectors, 2);
}

#[test]
fn a_batch_with_a_fault_stores_nothing() {
    let db = Db::new();
    let engine = db.open();
    for fault in [put_operation(SPACE, "", json!(1)), put_operation(SPACE, "b", json!(null))] {
        let error = engine.blocking().document_batch(vec![put_operation(SPACE, "a", json!(1)), fault]).unwrap_err();
        assert!(matches!(error, Error::InvalidDocument { .. }), "{error}");
    }
    assert_eq!(find(&engine, search()), []);
}

fn expect_operation(key: &str, value: Option<Value>) -> Operation {
    Operation::Expect { namespace: namespace(SPACE), key: key.into(), value }
}

#[test]
fn a_batch_is_stored_only_if_documents_have_the_expected_values() {
    let db = Db::new();
    let engine = db.open();
    let value = json!({"b": [1.5, -0.0, 1e300], "a": "ferry"});
    put(&engine, "a", value.clone());
    let brief = options().ttl_minutes(1.0 / 60_000.0);
    documents(&engine).blocking().put("brief", json!(1), brief).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(5));
    let run = |expected: Vec<Operation>| {
        let changes = vec![put_operation(SPACE, "a", json!(2)), put_operation("other", "b", json!(3))];
        engine.blocking().document_batch(changes.into_iter().chain(expected).collect())
    };
    for (key, expected) in [
        ("a", None),
        ("a", Some(json!({"a": "ferry"}))),
        ("a", Some(json!(2))),
        ("brief", Some(json!(1))),
        ("missing", Some(json!(1))),
    ] {
        // One that holds does not help.
        let outcomes = run(vec![expect_operation("a", Some(value.clone())), expect_operation(key, expected)]);
        let error = outcomes.unwrap_err();
        assert!(matches!(&error, Error::DocumentChanged { key: changed, .. } if changed == key), "{error}");
        assert_eq!(documents(&engine).blocking().get("a").unwrap().unwrap().value, value);
        assert_eq!(engine.documents(&namespace("other")).blocking().get("b").unwrap(), None);
    }
    let unknown = Operation::Expect { namespace: namespace("unknown"), key: "a".into(), value: None };
    let holds = vec![unknown, expect_operation("brief", None), expect_operation("a", Some(value))];
    let outcomes = run(holds).unwrap();
    assert_eq!(outcomes[2..], [Outcome::Expected, Outcome::Expected, Outcome::Expected]);
    assert_eq!(documents(&engine).blocking().get("a").unwrap().unwrap().value, json!(2));
    // Without a change it is a check.
    assert!(engine.blocking().document_batch(vec![expect_operation("a", Some(json!(2)))]).is_ok());
    assert!(engine.blocking().document_batch(vec![expect_operation("a", None)]).is_err());
}

fn put_messages(space: &str, messages: impl IntoIterator<Item = Message>) -> Operation {
    Operation::PutMessages { namespace: namespace(space), messages: messages.into_iter().collect() }
}

#[test]
fn messages_change_in_the_commit_of_the_documents() {
    let db = Db::new();
    let engine = db.open();
    let message = |id: &str, text: &str| Message::user(text).with_id(id).in_session("chat");
    let first = vec![
        put_operation(SPACE, "a", json!("a ferry")),
        put_messages(SPACE, [message("1", "the first boat"), message("2", "the second boat")]),
        put_messages("other", [message("1", "a bridge")]),
    ];
    let outcomes = engine.blocking().document_batch(first.clone()).unwrap();
    assert_eq!(outcomes[1], Outcome::MessagesPut { new: 2, replaced: 0, unchanged: 0 });
    assert_eq!(engine.blocking().history(&namespace(SPACE), "chat").unwrap().len(), 2);
    let again = engine.blocking().document_batch(first).unwrap();
    assert_eq!(again[2], Outcome::MessagesPut { new: 0, replaced: 0, unchanged: 1 });
    engine.blocking().flush().unwrap();

    // One that fails changes nothing, whichever of them it is.
    let changes = || vec![put_operation(SPACE, "a", json!(2)), put_messages(SPACE, [message("1", "another boat")])];
    let deletes = Operation::DeleteSession { namespace: namespace(SPACE), session: "chat".into() };
    for fault in [
        expect_operation("a", Some(json!("a bridge"))),
        put_operation(SPACE, "", json!(1)),
        put_messages(SPACE, [message("", "a third boat")]),
    ] {
        let batch = changes().into_iter().chain([deletes.clone(), fault]);
        engine.blocking().document_batch(batch.collect()).unwrap_err();
        assert_eq!(documents(&engine).blocking().get("a").unwrap().unwrap().value, json!("a ferry"));
        let texts = engine.blocking().history(&namespace(SPACE), "chat").unwrap();
        assert_eq!(texts.iter().map(Message::text).collect::<Vec<_>>(), ["the first boat", "the second boat"]);
    }

    let outcomes = engine.blocking().document_batch(vec![
        expect_operation("a", Some(json!("a ferry"))),
        delete_operation("a"),
        Operation::DeleteMessages { namespace: namespace("other"), ids: vec!["1".into(), "none".into()] },
        deletes.clone(),
        Operation::DeleteSession { namespace: namespace("none"), session: "chat".into() },
    ]);
    let [deleted, messages, session, none] = &outcomes.unwrap()[1..] else { panic!() };
    assert_eq!((deleted, messages), (&Outcome::Deleted(true), &Outcome::MessagesDeleted(1)));
    assert_eq!((session, none), (&Outcome::SessionDeleted(true), &Outcome::SessionDeleted(false)));
    assert_eq!(engine.blocking().document_batch(vec![deletes]).unwrap(), [Outcome::SessionDeleted(false)]);
    assert_eq!(engine.blocking().recall(&namespace(SPACE), Query::new("boat")).unwrap().len(), 0);
    // Nothing is left of either namespace, and one that comes back is found.
    assert_eq!(engine.blocking().count_namespaces(None).unwrap().namespaces, 0);
    engine.blocking().document_batch(vec![put_messages("other", [message("4", "a new boat")])]).unwrap();
    engine.blocking().flush().unwrap();
    assert_eq!(engine.blocking().recall(&namespace("other"), Query::new("boat")).unwrap()[0].message.id, "4");
    drop(engine);
    db.assert_sound();
}

#[test]
fn of_changes_at_the_same_time_none_is_lost() {
    let db = Db::new();
    let engine = db.open();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let engine = &engine;
            scope.spawn(move || {
                let mut done = 0;
                while done < 50 {
                    let old = documents(engine).blocking().get("count").unwrap().map(|document| document.value);
                    let next = json!(old.as_ref().map_or(0, |old| old.as_u64().unwrap()) + 1);
                    let batch = vec![put_operation(SPACE, "count", next), expect_operation("count", old)];
                    match engine.blocking().document_batch(batch) {
                        Ok(_) => done += 1,
                        Err(error) => assert!(matches!(error, Error::DocumentChanged { .. }), "{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(documents(&engine).blocking().get("count").unwrap().unwrap().value, json!(200));
}

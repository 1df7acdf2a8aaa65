//! Batches of operations: reads first, then all changes in one commit.

use mnemon::{DocumentNamespaces, DocumentOperation as Operation, DocumentOutcome as Outcome, Error};
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

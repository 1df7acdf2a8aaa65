//! Databases of schema 6, which kept the names of deleted namespaces and counted numbers by them.

use mnemon::Engine;

use super::*;
use crate::support::{Db, message, schemas::back_to_schema_6};

fn put(engine: &Engine, name: &str, text: &str) {
    engine.blocking().put(&namespace(name), vec![message("m", text)]).unwrap();
    engine.blocking().flush().unwrap();
}

#[test]
fn names_of_deleted_namespaces_go_with_the_upgrade_and_no_number_is_used_twice() {
    let db = Db::new();
    let engine = db.open();
    for name in ["a", "emptied", "b"] {
        put(&engine, name, &format!("text of {name}"));
    }
    // The name stays, as after a deletion by schema 6.
    engine.blocking().delete(&namespace("emptied"), vec!["m".into()]).unwrap();
    drop(engine);
    back_to_schema_6(&db.path, "emptied");
    let names = || -> Vec<String> {
        mnemon::stats(&db.path).unwrap().namespaces.iter().map(|space| space.namespace.to_string()).collect()
    };
    let engine = db.open();
    assert_eq!(names(), ["a", "b"]);
    assert!(engine.blocking().audit().unwrap().entries.is_empty());
    put(&engine, "c", "text of c");
    put(&engine, "emptied", "new text");
    for (name, text) in [("a", "text of a"), ("b", "text of b"), ("c", "text of c"), ("emptied", "new text")] {
        let hits = engine.blocking().recall(&namespace(name), mnemon::Query::new("text")).unwrap();
        assert_eq!(hits.iter().map(|hit| hit.message.text()).collect::<Vec<_>>(), [text]);
    }
    drop(engine);
    db.assert_sound();
}

#[test]
fn no_number_is_used_twice_while_names_come_and_go() {
    let db = Db::new();
    let mut numbers = std::collections::BTreeSet::new();
    for round in 0..6 {
        let engine = db.open();
        for name in ["a", "b", "c"] {
            put(&engine, name, &format!("text {round} of {name}"));
            let page = engine.blocking().namespaces(Some(&namespace(name)), None, 1).unwrap();
            assert_eq!(page.namespaces.len(), 1);
        }
        // The cursor shows the number.
        let page = engine.blocking().namespaces(None, None, 2).unwrap();
        let number = page.next.unwrap().to_string();
        assert!(numbers.insert(number.clone()), "{number} again");
        match round % 3 {
            0 => drop(engine.blocking().delete_namespace(&namespace("b")).unwrap()),
            1 => drop(forget(&engine, mnemon::Forget::messages(&namespace("b"), ["m"]))),
            _ => engine.blocking().delete_session(&namespace("b"), mnemon::DEFAULT_SESSION).unwrap(),
        }
        assert_eq!(engine.blocking().recall(&namespace("b"), mnemon::Query::new("text")).unwrap().len(), 0);
        for name in ["a", "c"] {
            assert_eq!(engine.blocking().recall(&namespace(name), mnemon::Query::new("text")).unwrap().len(), 1);
        }
        drop(engine);
        db.assert_sound();
    }
}

//! Numbers of namespaces, while names come and go. That older databases lose their unused names is tested in
//! `src/store/tests`.

use mnemon::Engine;

use super::*;
use crate::support::{Db, message};

fn put(engine: &Engine, name: &str, text: &str) {
    engine.blocking().put(&namespace(name), vec![message("m", text)]).unwrap();
    engine.blocking().flush().unwrap();
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

//! Legal holds: nothing of a held namespace, and of those under it, is deleted.

use std::time::{Duration, Instant};

use mnemon::{DocumentOperation, DocumentOptions, Error, Forget, HistoryStore, Message, MetadataFilter, Result};
use serde_json::json;

use super::*;
use crate::support::{Db, message, words};

fn is_held<T: std::fmt::Debug>(result: Result<T>) {
    match result {
        Err(error @ Error::LegalHold { .. }) => {
            let text = error.to_string();
            assert!(text.contains("case 7") && text.contains("release"), "{text}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn nothing_of_a_held_namespace_is_deleted() {
    for held in [SPACE, "acme"] {
        let db = Db::new();
        let engine = db.open();
        let blocking = engine.blocking();
        blocking.put(&space(), vec![message("m", "the red bicycle")]).unwrap();
        let chat = engine.memory(&space(), "chat").message_counter(words()).open().unwrap();
        chat.blocking().put(vec![Message::user("before").with_id("1")]).unwrap();
        let checkpoint = chat.blocking().checkpoint("").unwrap();
        chat.blocking().put(vec![Message::user("after").with_id("2")]).unwrap();
        let documents = engine.documents(&space());
        documents.blocking().put("k", json!({"text": "a boat"}), DocumentOptions::default()).unwrap();
        blocking.hold(&namespace(held), "case 7").unwrap();
        let before = {
            let mut export = Vec::new();
            blocking.export(&space(), &mut export).unwrap();
            export
        };
        is_held(blocking.forget(Forget::messages(&space(), ["m"])));
        is_held(blocking.forget(Forget::documents(&space(), ["k"])));
        is_held(blocking.forget(Forget::session(&space(), "chat")));
        is_held(blocking.forget(Forget::matching(&space(), MetadataFilter::exists("x").unwrap())));
        is_held(blocking.forget(Forget::namespace(&space())));
        is_held(blocking.forget(Forget::prefix(&space())));
        is_held(blocking.forget(Forget::prefix(&namespace("acme"))));
        is_held(blocking.delete(&space(), vec!["m".into()]));
        is_held(blocking.delete_session(&space(), "chat"));
        is_held(blocking.delete_namespace(&space()));
        is_held(blocking.delete_namespaces(&namespace("acme")));
        is_held(documents.blocking().delete("k"));
        let delete = DocumentOperation::Delete { namespace: space(), key: "k".into() };
        is_held(blocking.document_batch(vec![delete]));
        is_held(
            blocking
                .document_batch(vec![DocumentOperation::DeleteMessages { namespace: space(), ids: vec!["m".into()] }]),
        );
        let delete = DocumentOperation::DeleteSession { namespace: space(), session: "chat".into() };
        is_held(blocking.document_batch(vec![delete]));
        is_held(chat.blocking().clear());
        is_held(chat.blocking().reset());
        is_held(chat.blocking().restore(checkpoint));
        is_held(engine.history_store(&space()).delete("chat"));
        is_held(engine.history_store(&space()).set("chat", &[]));
        let mut export = Vec::new();
        blocking.export(&space(), &mut export).unwrap();
        assert!(export == before, "nothing changed");
        // Others are free, and putting goes on.
        blocking.put(&namespace("acme2"), vec![message("m", "another")]).unwrap();
        assert_eq!(blocking.delete_namespaces(&namespace("acme2")).unwrap().messages, 1);
        blocking.put(&space(), vec![message("n", "a blue boat")]).unwrap();
        // It outlives the process.
        drop((chat, documents, engine));
        let engine = db.open();
        let blocking = engine.blocking();
        is_held(blocking.delete(&space(), vec!["m".into()]));
        let holds = blocking.holds().unwrap();
        assert_eq!((holds.len(), holds[0].namespace.as_str(), &*holds[0].reason), (1, held, "case 7"));
        assert!(blocking.release(&namespace("acme/other")).unwrap().is_none());
        assert!(blocking.release(&namespace(held)).unwrap().is_some());
        assert_eq!(forget(&engine, Forget::namespace(&space())).messages, 4);
        assert!(blocking.holds().unwrap().is_empty());
        drop(engine);
        db.assert_sound();
    }
}

#[test]
fn a_prefix_with_a_held_namespace_is_refused_before_anything_is_deleted() {
    let db = Db::new();
    let engine = db.open();
    for name in ["acme/a", "acme/b", "acme/c"] {
        engine.blocking().put(&namespace(name), vec![message("m", "a text")]).unwrap();
    }
    engine.blocking().hold(&namespace("acme/c"), "case 7").unwrap();
    is_held(engine.blocking().forget(Forget::prefix(&namespace("acme"))));
    is_held(engine.blocking().delete_namespaces(&namespace("acme")));
    assert_eq!(engine.blocking().count_namespaces(None).unwrap().messages, 3);
    // A hold on a name that is a part of another is none of it.
    engine.blocking().put(&namespace("acme/cc"), vec![message("m", "a text")]).unwrap();
    assert_eq!(forget(&engine, Forget::namespace(&namespace("acme/cc"))).messages, 1);
}

#[test]
fn expired_documents_of_a_held_namespace_are_kept_and_not_returned() {
    let db = Db::new();
    let engine = db.open();
    engine.blocking().hold(&space(), "case 7").unwrap();
    let [held, free] = [space(), namespace("free")].map(|space| engine.documents(&space));
    let options = DocumentOptions::default().ttl_minutes(1.0 / 60_000.0);
    held.blocking().put("k", json!({"text": "kept"}), options.clone()).unwrap();
    free.blocking().put("k", json!({"text": "gone"}), options).unwrap();
    let documents = || -> u64 { mnemon::stats(&db.path).unwrap().namespaces.iter().map(|space| space.documents).sum() };
    wait_until("the sweep of the other namespace", || documents() == 1);
    assert_eq!(held.blocking().get("k").unwrap(), None);
    engine.blocking().release(&space()).unwrap();
    wait_until("the sweep", || documents() == 0);
    drop((held, free, engine));
    db.assert_sound();
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: not yet");
        std::thread::sleep(Duration::from_millis(2));
    }
}

//! Times to live: expired documents are never returned, and are deleted in the background.

use std::time::{Duration, Instant};

use mnemon::{DocumentNamespaces, Engine};
use serde_json::json;

use super::*;
use crate::support::Db;

const MILLISECOND: f64 = 1.0 / 60_000.0;

fn put_for(engine: &Engine, key: &str, milliseconds: f64) {
    let options = options().ttl_minutes(milliseconds * MILLISECOND);
    documents(engine).blocking().put(key, json!({"text": format!("ferry {key}")}), options).unwrap();
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}: not yet");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn an_expired_document_is_gone_from_every_read_and_then_from_the_file() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, "kept", json!({"text": "ferry"}));
    put_for(&engine, "hour", 3_600_000.0);
    let other = engine.documents(&namespace("other"));
    other.blocking().put("brief", json!("x"), options().ttl_minutes(50.0 * MILLISECOND)).unwrap();
    put_for(&engine, "brief", 50.0);
    engine.blocking().flush().unwrap();
    wait_until("expiry", || documents(&engine).blocking().get("brief").unwrap().is_none());
    assert_eq!(keys(&find(&engine, search())), ["hour", "kept"]);
    assert!(!keys(&find(&engine, search().query("ferry brief"))).contains(&"brief"));
    let named = engine.blocking().document_namespaces(DocumentNamespaces::default()).unwrap();
    assert_eq!(named, [namespace(SPACE)]);
    assert!(!documents(&engine).blocking().delete("brief").unwrap());
    // Another reader of the file sees the sweep.
    wait_until("the sweep", || mnemon::verify(&db.path).unwrap().messages == 2);
    drop((engine, other));
    assert_eq!(db.assert_sound().vectors, 2);
}

#[test]
fn what_expired_while_the_engine_was_closed_is_deleted_after_opening() {
    let db = Db::new();
    let engine = db.open();
    put_for(&engine, "brief", 20.0);
    drop(engine);
    let deadline = Instant::now() + Duration::from_millis(25);
    wait_until("the time", || Instant::now() > deadline);
    let engine = db.open();
    assert_eq!(documents(&engine).blocking().get("brief").unwrap(), None);
    wait_until("the sweep", || mnemon::verify(&db.path).unwrap().messages == 0);
    drop(engine);
    db.assert_sound();
}

#[test]
fn a_put_sets_the_time_to_live_anew_or_ends_it() {
    let db = Db::new();
    let engine = db.open();
    put_for(&engine, "a", 60_000.0);
    let expires = || documents(&engine).blocking().get("a").unwrap().unwrap().expires_at;
    let first = expires().unwrap();
    put_for(&engine, "a", 60_000.0);
    assert!(expires().unwrap() > first);
    put(&engine, "a", json!(1));
    assert_eq!(expires(), None);
    // A document that expired and is put again is new.
    put_for(&engine, "b", 1.0);
    wait_until("expiry", || documents(&engine).blocking().get("b").unwrap().is_none());
    put(&engine, "b", json!(2));
    let document = documents(&engine).blocking().get("b").unwrap().unwrap();
    assert_eq!((document.created_at, document.expires_at), (document.updated_at, None));
    drop(engine);
    db.assert_sound();
}

#[test]
fn reads_refresh_the_time_to_live_if_asked() {
    let db = Db::new();
    let engine = db.open();
    put_for(&engine, "a", 60_000.0);
    let refreshing = documents(&engine).refresh_on_read();
    let expires = || documents(&engine).blocking().get("a").unwrap().unwrap().expires_at.unwrap();
    let first = expires();
    assert_eq!(expires(), first, "a read without it changes nothing");
    refreshing.blocking().get("a").unwrap();
    let second = expires();
    assert!(second > first);
    for search in [search(), search().query("ferry")] {
        let before = expires();
        refreshing.blocking().search(search.clone()).unwrap();
        assert!(expires() > before, "{search:?}");
    }
    let read = documents(&engine).blocking().get("a").unwrap().unwrap();
    assert_eq!(read.created_at, read.updated_at, "a refresh is no update");
    drop((engine, refreshing));
    db.assert_sound();
}

#[test]
fn closing_an_engine_does_not_wait_for_documents_to_expire() {
    let db = Db::new();
    let engine = db.open();
    put_for(&engine, "a", 3_600_000.0);
    let begun = Instant::now();
    drop(engine);
    assert!(begun.elapsed() < Duration::from_secs(10));
    db.assert_sound();
}

//! Linking of all vectors by a call.

use std::sync::Arc;

use mnemon::{Engine, Error, Query};

use super::{DIMENSION, config};
use crate::support::{Db, Hashing, message, namespace, recall::recalled_ids as ids};

const ROWS: u64 = 700;

fn open(db: &Db) -> Engine {
    Engine::builder(&db.path).config(config()).embedder(Arc::new(Hashing::new(DIMENSION))).open().unwrap()
}

fn put(engine: &Engine, space: &str) {
    let texts = (0..ROWS).map(|i| message(&format!("m{i}"), &format!("w{i}rd {} of {space}", i % 7))).collect();
    engine.blocking().put(&namespace(space), texts).unwrap();
}

#[test]
fn all_namespaces_are_linked_and_stay_so() {
    let db = Db::new();
    let engine = open(&db);
    assert_eq!(engine.blocking().link().unwrap().vectors, 0, "an empty database has nothing to link");
    put(&engine, "a");
    put(&engine, "b");
    assert_eq!(engine.blocking().link().unwrap().namespaces, 0, "messages that are pending have no vectors");
    engine.blocking().flush().unwrap();
    let mut seen = Vec::new();
    let report = engine.blocking().link_with(|report| seen.push(report)).unwrap();
    assert_eq!((report.namespaces, report.vectors, report.linked), (2, 2 * ROWS, 2 * ROWS));
    assert!(seen.is_sorted_by_key(|report| report.linked), "{seen:?}");
    assert_eq!(seen.first().map(|report| report.linked), Some(0));
    assert_eq!(seen.last(), Some(&report));
    drop(engine);
    // What was linked is in the file: the first call after opening only reads it.
    let engine = open(&db);
    for space in ["a", "b"] {
        let stats = engine.blocking().index_stats(&namespace(space)).unwrap();
        assert_eq!((stats.vectors as u64, stats.linked as u64), (ROWS, ROWS));
        assert_eq!(ids(&engine, &namespace(space), Query::new("w55rd").k(1)), ["m55"]);
    }
    drop(engine);
    db.assert_sound();
}

#[test]
fn a_reindex_links_namespaces_that_nobody_asked() {
    let db = Db::new();
    let engine = open(&db);
    put(&engine, "a");
    put(&engine, "b");
    engine.blocking().flush().unwrap();
    drop(engine);
    let engine = open(&db);
    let mut options = mnemon::ReindexOptions::default();
    options.samples = 0;
    let go_on = |_| std::ops::ControlFlow::Continue(());
    engine.blocking().reindex(Arc::new(Hashing::new(2 * DIMENSION)), options, go_on).unwrap();
    for space in ["a", "b"] {
        assert_eq!(engine.blocking().index_stats(&namespace(space)).unwrap().linked as u64, ROWS);
    }
}

#[test]
fn a_database_opened_for_reading_alone_is_not_linked() {
    let db = Db::new();
    drop(open(&db));
    let engine = Engine::builder(&db.path).embedder(Arc::new(Hashing::new(DIMENSION))).open_read_only().unwrap();
    assert!(matches!(engine.blocking().link(), Err(Error::ReadOnly { .. })));
}

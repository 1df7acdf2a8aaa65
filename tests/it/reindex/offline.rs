//! Reindexing of a database that no engine has open.

use std::{ops::ControlFlow, sync::Arc, sync::atomic::Ordering};

use mnemon::{Error, Query, ReindexPhase};

use super::filled;
use crate::support::{Hashing, go_on, message, namespace, reindex, stop_after};

#[test]
fn all_messages_move_and_the_old_model_is_refused() {
    let db = filled(1500);
    let mut seen = Vec::new();
    let report = reindex(&db, Hashing::new(48), None, |progress| {
        if progress.phase == ReindexPhase::Embedding {
            seen.push((progress.done, progress.total));
        }
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!((report.embedded, report.resumed, report.switched), (3000, 0, true));
    assert!(seen.len() > 2 && seen.is_sorted(), "{seen:?}");
    assert_eq!((seen[0], *seen.last().unwrap()), ((0, 3000), (3000, 3000)));
    let sound = db.assert_sound();
    assert_eq!((sound.messages, sound.vectors, sound.pending), (3000, 3000, 0), "the old vectors are gone");
    assert!(matches!(db.try_open_with(Arc::new(Hashing::new(32))), Err(Error::ModelMismatch { .. })));
    let engine = db.open_with(Arc::new(Hashing::new(48)));
    let hits = engine.blocking().recall(&namespace("b"), Query::new("word77 b").k(1)).unwrap();
    assert_eq!(hits[0].message.text(), "word77 b");
    drop(engine);
    // Again: nothing to do.
    let again = reindex(&db, Hashing::new(48), None, go_on).unwrap();
    assert_eq!((again.embedded, again.switched), (0, false));
}

#[test]
fn a_stopped_reindex_goes_on_where_it_was() {
    let db = filled(2000);
    let stopping = Arc::new(Hashing::new(48));
    let mut commits = 0;
    let report = reindex(&db, Arc::clone(&stopping), None, |_| {
        commits += 1;
        if commits > 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert!(!report.switched);
    let first = stopping.embedded.load(Ordering::Relaxed) as u64;
    assert!(first > 0 && first < 4000);
    db.assert_sound();

    // The old model serves meanwhile, and takes writes: new, replaced in the finished part and in the other.
    let engine = db.open();
    let space = namespace("a");
    engine
        .blocking()
        .put(&space, vec![message("m0", "changed0"), message("m1999", "changed1999"), message("new", "new")])
        .unwrap();
    engine.blocking().flush().unwrap();
    assert_eq!(engine.blocking().recall(&space, Query::new("changed0").k(1)).unwrap()[0].message.id, "m0");
    drop(engine);
    db.assert_sound();

    let going_on = Arc::new(Hashing::new(48));
    let report = reindex(&db, Arc::clone(&going_on), None, go_on).unwrap();
    assert!(report.switched && report.resumed >= first - 2, "{report:?}");
    assert_eq!(report.embedded + report.resumed, 4001);
    assert_eq!(going_on.embedded.load(Ordering::Relaxed) as u64, report.embedded, "nothing is embedded twice");
    assert_eq!(db.assert_sound().vectors, 4001);
    let engine = db.open_with(Arc::new(Hashing::new(48)));
    for (text, id) in [("changed0", "m0"), ("changed1999", "m1999"), ("new", "new"), ("word500 a", "m500")] {
        let hits = engine.blocking().recall(&space, Query::new(text).k(1)).unwrap();
        assert_eq!(hits[0].message.id, id);
        assert!(hits[0].similarity > 0.99, "{text}");
    }
}

#[test]
fn a_reindex_to_a_third_model_drops_the_unfinished_one() {
    let db = filled(1500);
    reindex(&db, Hashing::new(48), None, stop_after(1)).unwrap();
    let report = reindex(&db, Hashing::new(64), None, go_on).unwrap();
    assert_eq!((report.embedded, report.resumed, report.switched), (3000, 0, true));
    assert_eq!(db.assert_sound().vectors, 3000);
    assert_eq!(mnemon::stats(&db.path).unwrap().generations.len(), 1);
}

#[test]
fn a_model_that_fails_does_not_serve() {
    let db = filled(20);
    let mut poisoned = Hashing::new(48);
    poisoned.poison = Some("word7 a");
    assert!(matches!(reindex(&db, poisoned, None, go_on), Err(Error::Embedding { .. })));
    let engine = db.open();
    assert_eq!(engine.blocking().recall(&namespace("a"), Query::new("word7 a").k(1)).unwrap()[0].message.id, "m7");
    drop(engine);
    db.assert_sound();
    let report = reindex(&db, Hashing::new(48), None, go_on).unwrap();
    assert_eq!((report.embedded, report.resumed, report.switched), (1, 39, true));
}

#[test]
fn opening_deletes_the_rest_of_a_dropped_reindex() {
    let db = filled(1500);
    reindex(&db, Hashing::new(48), None, stop_after(1)).unwrap();
    // Drops the first, and fails, mostly before it is deleted.
    let mut poisoned = Hashing::new(64);
    poisoned.poison = Some("word7 a");
    assert!(reindex(&db, poisoned, None, go_on).is_err());
    assert!(mnemon::stats(&db.path).unwrap().generations.len() >= 2, "the one that serves, and the one that is begun");
    db.assert_sound();
    let started = std::time::Instant::now();
    while mnemon::stats(&db.path).unwrap().generations.len() > 2 {
        assert!(started.elapsed().as_secs() < 60, "deleted in the background");
        let engine = db.open();
        engine.blocking().flush().unwrap();
    }
    db.assert_sound();
    assert!(reindex(&db, Hashing::new(64), None, go_on).unwrap().switched);
    assert_eq!(mnemon::stats(&db.path).unwrap().generations.len(), 1);
}

/// The schema's number tells earlier releases that they do not know previous generations.
#[test]
fn a_database_of_schema_4_is_upgraded() {
    let db = filled(50);
    let schema = redb::TableDefinition::<&str, &[u8]>::new("meta");
    let read = || {
        let file = crate::support::open_tables(&db.path);
        let table = redb::ReadableDatabase::begin_read(&file).unwrap().open_table(schema).unwrap();
        redb::ReadableTable::get(&table, "schema").unwrap().unwrap().value().to_vec()
    };
    {
        let file = crate::support::open_tables(&db.path);
        let write = file.begin_write().unwrap();
        crate::support::schemas::back_to_schema_4(&write);
        write.commit().unwrap();
    }
    assert_eq!(db.assert_sound().vectors, 100);
    assert_eq!(read(), 4u32.to_le_bytes(), "verifying writes nothing");
    mnemon::reindex(&db.path, Arc::new(Hashing::new(48)), Default::default(), go_on).unwrap();
    assert_eq!(read(), 12u32.to_le_bytes());
    assert_eq!(db.assert_sound().vectors, 200);
}

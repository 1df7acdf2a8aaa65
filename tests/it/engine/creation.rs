//! Creation of a database's file, and its removal by whoever created it and holds it.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use mnemon::{Config, Engine, Error, Forget};

use crate::support::{Db, Hashing, message, namespace};

/// Opens an engine whose cache cannot be opened, after the database was.
fn open_in_vain(db: &Db) -> Error {
    // A file for each call: one that another call has just emptied would be a new cache.
    let other = db.folder.path().join(format!("no-cache-{:?}", std::thread::current().id()));
    fs::write(&other, "this is no embedding cache").unwrap();
    let mut config = Config::default();
    config.embedding_cache_file = Some(other);
    Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap_err()
}

#[test]
fn an_unused_file_is_removed_by_whoever_created_it() {
    let db = Db::new();
    let engine = db.open();
    assert!(engine.blocking().remove_if_unused().unwrap() && !db.path.exists());
    let put = engine.blocking().put(&namespace("a"), vec![message("1", "too late")]);
    assert!(matches!(put, Err(Error::DatabaseNotFound { .. })), "{put:?}");
    // Another may have made one of the same name.
    let other = db.open();
    assert!(matches!(engine.blocking().remove_if_unused(), Err(Error::DatabaseNotFound { .. })));
    drop(engine);
    assert!(db.path.exists());
    drop(other);

    // Somebody else created it.
    let engine = db.open();
    assert!(!engine.blocking().remove_if_unused().unwrap() && db.path.exists());
    drop(engine);
    fs::remove_file(&db.path).unwrap();

    type Store = fn(&Engine);
    let stores: [Store; 4] = [
        |engine| _ = engine.blocking().put(&namespace("a"), vec![message("1", "stored")]).unwrap(),
        |engine| drop(engine.blocking().hold(&namespace("a"), "a reason").unwrap()),
        |engine| drop(engine.blocking().forget(Forget::namespace(&namespace("a"))).unwrap()),
        |engine| {
            let documents = engine.documents(&namespace("a"));
            documents.blocking().put("key", serde_json::json!({"a": 1}), Default::default()).unwrap();
        },
    ];
    for (number, store) in stores.iter().enumerate() {
        let db = Db::new();
        let engine = db.open();
        store(&engine);
        assert!(!engine.blocking().remove_if_unused().unwrap() && db.path.exists(), "{number}");
        drop(engine);
        db.assert_sound();
    }
    assert!(!Engine::in_memory().unwrap().blocking().remove_if_unused().unwrap());
}

#[test]
fn an_engine_that_does_not_open_leaves_no_new_file_and_every_old_one() {
    let db = Db::new();
    let error = open_in_vain(&db);
    assert!(matches!(error, Error::InvalidConfig { .. }) && !db.path.exists(), "{error}");
    drop(db.open());
    let error = open_in_vain(&db);
    assert!(matches!(error, Error::InvalidConfig { .. }) && db.path.exists(), "{error}");
}

/// Threads that open one new file at the same time, some of them in vain: what is put is there.
#[test]
fn no_opening_takes_the_file_of_another() {
    let mut put_in_all = 0;
    for round in 0..50 {
        let db = Db::new();
        let put = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (db, put) = (&db, &put);
                scope.spawn(move || {
                    if number % 2 == 0 {
                        drop(open_in_vain(db));
                    } else if let Ok(engine) = db.try_open_with(Arc::new(Hashing::new(32))) {
                        engine.blocking().put(&namespace("a"), vec![message(&number.to_string(), "kept")]).unwrap();
                        put.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        let put = put.into_inner();
        put_in_all += put;
        if put > 0 {
            assert_eq!(db.assert_sound().messages, put as u64, "round {round}");
        }
    }
    assert!(put_in_all > 0);
}

/// An engine whose file was moved leaves the one alone that has its name since.
#[cfg(unix)]
#[test]
fn a_file_that_got_the_name_of_a_moved_one_is_left_alone() {
    let db = Db::new();
    let engine = db.open();
    let moved = db.folder.path().join("moved.redb");
    fs::rename(&db.path, &moved).unwrap();
    assert!(matches!(engine.blocking().purge(), Err(Error::DatabaseMoved { .. })));
    let other = db.open();
    other.blocking().put(&namespace("a"), vec![message("1", "kept")]).unwrap();
    assert!(!engine.blocking().remove_if_unused().unwrap());
    assert!(matches!(engine.blocking().purge(), Err(Error::DatabaseMoved { .. })));
    drop((engine, other));
    assert_eq!(db.assert_sound().messages, 1);
    assert_eq!(mnemon::verify(&moved).unwrap().messages, 0);
    assert_eq!(fs::read_dir(db.folder.path()).unwrap().count(), 2, "nothing else is left");
}

//! When pending messages are embedded, and which stay pending after a failure.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use mnemon::{Config, Engine, Error, Query};

use crate::support::{Db, Hashing, embedders::Hooked, message, namespace, recall::recalled_ids as ids};

#[test]
fn a_failing_embedder_loses_nothing() {
    let db = Db::new();
    let space = namespace("a");
    let embedder = Arc::new(Hashing::new(16));
    embedder.broken.store(true, Ordering::Relaxed);
    let engine = db.open_with(embedder.clone());
    engine.blocking().put(&space, (0..10).map(|i| message(&format!("{i}"), "text")).collect()).unwrap();
    assert!(matches!(engine.blocking().flush(), Err(Error::Embedding { .. })));
    assert_eq!(engine.blocking().get(&space, "3").unwrap().unwrap().text(), "text");
    embedder.broken.store(false, Ordering::Relaxed);
    assert_eq!(engine.blocking().flush().unwrap().embedded, 10, "the next flush goes on");
    drop(engine);
    db.assert_sound();
}

#[test]
fn a_text_that_cannot_be_embedded_does_not_block_the_others() {
    let db = Db::new();
    let space = namespace("a");
    let mut embedder = Hashing::new(16);
    embedder.poison = Some("poison");
    let engine = db.open_with(Arc::new(embedder));
    let mut messages: Vec<_> = (0..5).map(|i| message(&format!("bad{i}"), "poison")).collect();
    messages.extend((0..3000).map(|i| message(&format!("m{i}"), "fine")));
    messages.insert(700, message("bad", "poison"));
    engine.blocking().put(&space, messages).unwrap();
    let error = engine.blocking().flush().unwrap_err();
    assert!(error.to_string().contains("message \"bad0\" stays pending"), "{error}");
    assert_eq!(ids(&engine, &space, Query::new("fine").k(5000)).len(), 3000);
    drop(engine);
    assert_eq!(db.assert_sound().pending, 6);
    // The same model without the fault, after a restart: drained by itself.
    let engine = db.open_with(Arc::new(Hashing::new(16)));
    engine.blocking().flush().unwrap();
    assert!(ids(&engine, &space, Query::new("poison").k(6).keep_duplicates()).iter().all(|id| id.starts_with("bad")));
}

#[test]
fn pending_messages_are_drained_after_a_restart() {
    let db = Db::new();
    let space = namespace("a");
    let engine = db.open();
    engine.blocking().put(&space, (0..30).map(|i| message(&format!("m{i}"), &format!("word{i}"))).collect()).unwrap();
    drop(engine);
    assert_eq!(db.assert_sound().pending, 30, "closing does not embed");
    let engine = db.open();
    let started = std::time::Instant::now();
    while engine.blocking().pending().unwrap() > 0 {
        assert!(started.elapsed().as_secs() < 60, "drained without being asked");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(engine);
    assert_eq!(db.assert_sound().pending, 0);
}

#[test]
fn a_full_buffer_is_flushed_in_the_background() {
    let db = Db::new();
    let space = namespace("a");
    let mut config = Config::default();
    (config.flush_size, config.idle_flush) = (10, None);
    let engine = Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(16))).open().unwrap();
    engine.blocking().put(&space, (0..10).map(|i| message(&format!("m{i}"), "text")).collect()).unwrap();
    let started = std::time::Instant::now();
    while engine.blocking().pending().unwrap() > 0 {
        assert!(started.elapsed().as_secs() < 60, "flushed without being asked");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// A flush embeds what was pending when it began, and returns while others go on putting.
#[test]
fn a_flush_ends_while_others_put() {
    const MOST: usize = 4000;
    let db = Db::new();
    // A batch takes longer than a put.
    let slow = Hooked::new(Hashing::new(32), |_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        Ok(())
    });
    let engine = db.open_with(Arc::new(slow));
    let (blocking, space) = (engine.blocking(), namespace("a"));
    let put = |i: usize| {
        blocking.put(&space, vec![message(&format!("m{i}"), &format!("word{i}"))]).unwrap();
    };
    (0..100).for_each(put);
    let stop = AtomicBool::new(false);
    let count = std::thread::scope(|scope| {
        let putting =
            scope.spawn(|| (100..MOST).take_while(|_| !stop.load(Ordering::Relaxed)).inspect(|&i| put(i)).count());
        blocking.flush().unwrap();
        stop.store(true, Ordering::Relaxed);
        putting.join().unwrap()
    });
    assert!(count < MOST / 2, "{count}");
    assert_eq!(ids(&engine, &space, Query::new("word7").k(1)), ["m7"]);
    blocking.flush().unwrap();
    assert_eq!(blocking.pending().unwrap(), 0);
}

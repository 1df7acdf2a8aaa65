//! Kills at random moments of batches and of sweeps: an acknowledged batch is there as a whole, and an expired document
//! is in no table and no index.

use std::{sync::Arc, time::Duration};

use mnemon::{DocumentOperation as Operation, Engine};
use serde_json::json;

use super::*;
use crate::support::{
    Db, Hashing,
    killing::{acknowledged, child_arguments, kill_after, runs},
    random::delay,
};

/// Documents of a batch that stay, and as many that expire at once.
const BATCH: u64 = 40;

fn batch(run: u64, number: u64) -> Vec<Operation> {
    let put = |kind: &str, at: u64, ttl_minutes| {
        let mut options = options().index(["text"]);
        options.ttl_minutes = ttl_minutes;
        let value = json!({"run": run, "number": number, "text": format!("{kind} ferry {run} {number} {at}")});
        Operation::Put { namespace: namespace(SPACE), key: format!("{kind} {run} {number} {at}"), value, options }
    };
    (0..BATCH).flat_map(|at| [put("kept", at, None), put("brief", at, Some(1.0 / 60_000.0))]).collect()
}

#[test]
#[ignore = "the process that acknowledged_batches_survive_kills_and_expired_documents_do_not starts and kills"]
fn child() {
    let (path, run) = child_arguments();
    let mut config = mnemon::Config::default();
    (config.flush_size, config.idle_flush) = (100, None);
    let engine = Engine::builder(path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap();
    for number in 0.. {
        engine.blocking().document_batch(batch(run, number)).unwrap();
        println!("ack {number}");
    }
}

#[test]
fn acknowledged_batches_survive_kills_and_expired_documents_do_not() {
    let db = Db::new();
    let (mut state, mut stored, mut all) = (7, 0, 0);
    for run in 0..runs() {
        let delay = delay(&mut state, Duration::from_millis(100));
        let acknowledged = acknowledged(&kill_after(module_path!(), "child", &db.path, run, delay), "");
        db.assert_sound();
        let engine = db.open();
        let documents = documents(&engine);
        let has = |kind: &str, number: u64, at: u64| {
            documents.blocking().get(&format!("{kind} {run} {number} {at}")).unwrap().is_some()
        };
        let whole = |number: u64| {
            let found = (0..BATCH).filter(|&at| has("kept", number, at)).count() as u64;
            assert!(found == 0 || found == BATCH, "run {run}, batch {number}: {found}");
            assert!(!(0..BATCH).any(|at| has("brief", number, at)));
            found == BATCH
        };
        assert!((0..acknowledged).all(whole), "run {run}");
        // The batch in flight is there as a whole or not at all.
        let last = whole(acknowledged);
        stored += acknowledged;
        all += acknowledged + u64::from(last);
    }
    assert!(stored > 0, "the kills came too early to test anything");
    let engine = db.open();
    engine.blocking().flush().unwrap();
    let begun = std::time::Instant::now();
    while mnemon::verify(&db.path).unwrap().messages != all * BATCH {
        assert!(begun.elapsed() < Duration::from_secs(20), "the sweep is not over");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(find(&engine, search().limit(1_000_000)).len() as u64, all * BATCH);
    drop(engine);
    assert_eq!(db.assert_sound().vectors, all * BATCH);
}

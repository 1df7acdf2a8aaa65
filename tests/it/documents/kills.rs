//! Kills at random moments of batches and of sweeps: an acknowledged batch is there as a whole, its message included, and an
//! expired document is in no table and no index.

use std::{sync::Arc, time::Duration};

use mnemon::{DocumentOperation as Operation, Engine, Message};
use serde_json::json;

use super::*;
use crate::support::{
    Db, Hashing,
    killing::{acknowledged, child_arguments, kill_after, runs},
    random::delay,
};

/// Documents of a batch that stay.
const BATCH: u64 = 20;
/// Documents of a batch that expire at once: more than one commit sweeps.
const BRIEF: u64 = 280;

fn batch(run: u64, number: u64) -> Vec<Operation> {
    let put = |kind: &str, at: u64, ttl_minutes| {
        let mut options = options().index(["text"]);
        options.ttl_minutes = ttl_minutes;
        let value = json!({"run": run, "number": number, "text": format!("{kind} ferry {run} {number} {at}")});
        Operation::Put { namespace: namespace(SPACE), key: format!("{kind} {run} {number} {at}"), value, options }
    };
    let kept = (0..BATCH).map(|at| put("kept", at, None));
    let message = Message::user(format!("a ferry of batch {number}")).with_id(message_id(run, number));
    let message = Operation::PutMessages { namespace: namespace(SPACE), messages: vec![message] };
    kept.chain((0..BRIEF).map(|at| put("brief", at, Some(1.0 / 60_000.0)))).chain([message]).collect()
}

fn message_id(run: u64, number: u64) -> String {
    format!("message {run} {number}")
}

#[test]
#[ignore = "the process that acknowledged_batches_survive_kills_and_expired_documents_do_not starts and kills"]
fn child() {
    let (path, run) = child_arguments();
    let mut config = mnemon::Config::default();
    (config.flush_size, config.idle_flush) = (100, None);
    put_batches(&Engine::builder(path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap(), run);
}

/// Puts batches for ever.
pub(crate) fn put_batches(engine: &Engine, run: u64) {
    for number in 0.. {
        engine.blocking().document_batch(batch(run, number)).unwrap();
        println!("ack documents {number}");
    }
}

/// Checks the batches of a run that was killed: those acknowledged are there, and the one in flight is there as a whole
/// or not at all. Returns the number acknowledged, and true if the one in flight is there.
pub(crate) fn check(engine: &Engine, run: u64, lines: &[String]) -> (u64, bool) {
    let documents = documents(engine);
    let has = |kind: &str, number: u64, at: u64| {
        documents.blocking().get(&format!("{kind} {run} {number} {at}")).unwrap().is_some()
    };
    let whole = |number: u64| {
        let found = (0..BATCH).filter(|&at| has("kept", number, at)).count() as u64;
        assert!(found == 0 || found == BATCH, "run {run}, batch {number}: {found}");
        let message = engine.blocking().get(&namespace(SPACE), &message_id(run, number)).unwrap();
        assert_eq!(message.is_some(), found == BATCH, "run {run}, batch {number}");
        assert!(!(0..BRIEF).any(|at| has("brief", number, at)));
        found == BATCH
    };
    let acknowledged = acknowledged(lines, "documents ");
    assert!((0..acknowledged).all(whole), "run {run}");
    (acknowledged, whole(acknowledged))
}

#[test]
fn acknowledged_batches_survive_kills_and_expired_documents_do_not() {
    let db = Db::new();
    let (mut state, mut stored, mut all, mut during_sweeps) = (7, 0, 0, 0);
    let runs = (2 * runs()).div_ceil(5);
    // On a busy machine the first kills may all miss the sweeps.
    for run in 0..4 * runs {
        if run >= runs && during_sweeps > 0 {
            break;
        }
        // One of four kills may come before the first commit.
        let run = 2 * run + u64::from(run % 4 == 3);
        let delay = delay(&mut state, Duration::from_millis(600));
        let lines = kill_after(module_path!(), "child", &db.path, run, delay);
        db.assert_sound();
        let counted = mnemon::stats(&db.path).unwrap().namespaces.first().map_or(0, |found| found.documents);
        let (acknowledged, last) = check(&db.open(), run, &lines);
        stored += acknowledged;
        all += acknowledged + u64::from(last);
        // Documents that have expired count until they are deleted.
        let expired = counted - all * BATCH;
        during_sweeps += u64::from((1..(acknowledged + u64::from(last)) * BRIEF).contains(&expired));
    }
    eprintln!("{during_sweeps} of {runs} kills or more fell while some documents were swept and others waited for it");
    assert!(during_sweeps > 0);
    assert!(stored > 0, "the kills came too early to test anything");
    let engine = db.open();
    engine.blocking().flush().unwrap();
    let begun = std::time::Instant::now();
    while mnemon::verify(&db.path).unwrap().messages != all * (BATCH + 1) {
        assert!(begun.elapsed() < Duration::from_secs(20), "the sweep is not over");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(find(&engine, search().limit(1_000_000)).len() as u64, all * BATCH);
    drop(engine);
    assert_eq!(db.assert_sound().vectors, all * (BATCH + 1));
}

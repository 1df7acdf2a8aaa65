//! Kills at random moments while messages are forgotten: each is there as a whole or forgotten as a whole, the chain
//! holds, and the same call forgets the rest.

use std::{fs, sync::Arc, time::Instant};

use mnemon::{Config, Engine, Forget, MetadataFilter};
use serde_json::json;

use super::*;
use crate::support::{
    Db, Hashing,
    killing::{child_arguments, kill_after, runs},
    message,
    random::delay,
};

/// Three commits forget them.
const GONE: usize = 9000;
const KEPT: usize = 50;

fn open(path: &std::path::Path) -> Engine {
    let mut config = Config::default();
    (config.flush_size, config.idle_flush, config.drain_on_open) = (100_000, None, false);
    Engine::builder(path).config(config).embedder(Arc::new(Hashing::new(8))).open().unwrap()
}

fn filled() -> Db {
    let db = Db::new();
    let engine = open(&db.path);
    let gone = (0..GONE).map(|at| {
        let mut message = message(&format!("gone {at}"), &format!("forgotten number {at}"));
        message.metadata.insert("gone".into(), json!(true));
        message.in_session(format!("session {}", at / 1000))
    });
    let kept = (0..KEPT).map(|at| message(&format!("kept {at}"), &format!("remembered number {at}")));
    engine.blocking().put(&space(), gone.chain(kept).collect()).unwrap();
    engine.blocking().flush().unwrap();
    db
}

fn what() -> Forget {
    Forget::matching(&space(), MetadataFilter::exists("gone").unwrap())
}

/// The process that is killed.
#[test]
#[ignore = "the process that killed_forgets_leave_whole_messages starts and kills"]
fn child() {
    let (path, _) = child_arguments();
    let engine = open(path.as_ref());
    println!("ack 0");
    engine.blocking().forget(what()).unwrap();
    println!("done");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn killed_forgets_leave_whole_messages() {
    let (runs, full, db) = (runs().div_ceil(5), filled(), Db::new());
    fs::copy(&full.path, &db.path).unwrap();
    let engine = open(&db.path);
    let begun = Instant::now();
    assert_eq!(forget(&engine, what()).messages, GONE as u64);
    let longest = begun.elapsed();
    drop(engine);
    let (mut state, mut unfinished, mut partly) = (11, 0, 0);
    for run in 0..runs {
        fs::copy(&full.path, &db.path).unwrap();
        let lines = kill_after(module_path!(), "child", &db.path, 2 * run, delay(&mut state, longest));
        unfinished += u64::from(!lines.iter().any(|line| line.contains("done")));
        db.assert_sound();
        let engine = open(&db.path);
        let found = engine.blocking().count_namespaces(None).unwrap().messages;
        partly += u64::from((KEPT as u64 + 1..(KEPT + GONE) as u64).contains(&found));
        let audited: u64 = {
            let audit = engine.blocking().audit().unwrap();
            assert!(audit.is_sound(), "{:?}", audit.problems);
            audit.entries.last().map_or(0, |entry| entry.forgotten().messages)
        };
        assert_eq!(found + audited, (KEPT + GONE) as u64, "each commit has its entry");
        assert_eq!(forget(&engine, what()).messages, found - KEPT as u64);
        for at in 0..KEPT {
            assert!(engine.blocking().get(&space(), &format!("kept {at}")).unwrap().is_some());
        }
        assert_eq!(engine.blocking().sessions(&space()).unwrap().len(), 1);
        drop(engine);
        assert_eq!(db.assert_sound().vectors, KEPT as u64);
    }
    eprintln!("of {runs} kills {unfinished} fell while it was forgotten, {partly} of them between two commits");
    assert!(unfinished > 0, "the kills came too late to test anything");
}

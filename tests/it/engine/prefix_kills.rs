//! Kills at random moments of the deletion of a prefix: each namespace is there as a whole, or deleted as a whole.

use std::{sync::Arc, time::Duration};

use mnemon::Engine;

use crate::support::{
    Db, Hashing,
    killing::{acknowledged, child_arguments, kill_after, runs},
    message, namespace,
    random::delay,
};

/// Three commits delete them.
const NAMESPACES: usize = 3000;

/// The process that is killed. It fills namespaces, deletes them by their prefix, and fills them again.
#[test]
#[ignore = "the process that killed_deletions_of_a_prefix_leave_whole_namespaces starts and kills"]
fn child() {
    let (path, _) = child_arguments();
    let engine = Engine::builder(path).embedder(Arc::new(Hashing::new(8))).open().unwrap();
    let blocking = engine.blocking();
    let filled = || {
        let pairs = (0..NAMESPACES).flat_map(|at| [(at, "one"), (at, "two")]);
        pairs.map(|(at, id)| (namespace(&format!("gone/{at}")), message(id, "a red bicycle"))).collect()
    };
    blocking.put(&namespace("gone too"), vec![message("stays", "a green boat")]).unwrap();
    for number in 0.. {
        blocking.put_all(filled()).unwrap();
        println!("ack {number}");
        blocking.delete_namespaces(&namespace("gone")).unwrap();
    }
}

#[test]
fn killed_deletions_of_a_prefix_leave_whole_namespaces() {
    let runs = runs().min(8);
    let db = Db::new();
    let (mut state, mut partly) = (7, 0);
    for run in 0..runs {
        let lines = kill_after(module_path!(), "child", &db.path, run, delay(&mut state, Duration::from_millis(800)));
        db.assert_sound();
        let engine = db.open_with(Arc::new(Hashing::new(8)));
        let found = engine.blocking().namespaces(Some(&namespace("gone")), None, usize::MAX).unwrap().namespaces;
        assert!(found.iter().all(|found| found.messages == 2), "run {run}");
        partly += u32::from((1..NAMESPACES).contains(&found.len()));
        if acknowledged(&lines, "") > 0 {
            assert!(engine.blocking().get(&namespace("gone too"), "stays").unwrap().is_some());
        }
        let deleted = engine.blocking().delete_namespaces(&namespace("gone")).unwrap();
        assert_eq!((deleted.namespaces, deleted.messages), (found.len() as u64, 2 * found.len() as u64));
    }
    println!("{partly} of {runs} kills between two commits");
    db.assert_sound();
}

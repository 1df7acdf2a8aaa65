//! Kills at random moments of the deletion of a prefix: each namespace is there as a whole, or deleted as a whole.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use mnemon::{DocumentOperation, DocumentOptions, Engine};
use serde_json::json;

use crate::support::{
    Db, Hashing,
    killing::{child_arguments, kill_after, runs},
    message, namespace,
    random::delay,
};

/// Three commits delete them.
const NAMESPACES: usize = 3000;

fn open(db: &Db) -> Engine {
    db.open_with(Arc::new(Hashing::new(8)))
}

fn name(at: usize) -> mnemon::Namespace {
    namespace(&format!("gone/{at}"))
}

/// Each namespace has a message, and every fifth has a document.
fn filled() -> Db {
    let db = Db::new();
    let engine = open(&db);
    engine.blocking().put_all((0..NAMESPACES).map(|at| (name(at), message("m", "a red bicycle"))).collect()).unwrap();
    let put = |at| DocumentOperation::Put {
        namespace: name(at),
        key: "k".into(),
        value: json!("a red bicycle"),
        options: DocumentOptions::default(),
    };
    engine.blocking().document_batch((0..NAMESPACES).step_by(5).map(put).collect()).unwrap();
    engine.blocking().put(&namespace("gone too"), vec![message("stays", "a green boat")]).unwrap();
    db
}

/// The process that is killed.
#[test]
#[ignore = "the process that killed_deletions_of_a_prefix_leave_whole_namespaces starts and kills"]
fn child() {
    let (path, _) = child_arguments();
    let engine = Engine::builder(path).embedder(Arc::new(Hashing::new(8))).open().unwrap();
    println!("ack 0");
    engine.blocking().delete_namespaces(&namespace("gone")).unwrap();
    println!("done");
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn killed_deletions_of_a_prefix_leave_whole_namespaces() {
    let (runs, full, db) = (runs().div_ceil(5), filled(), Db::new());
    fs::copy(&full.path, &db.path).unwrap();
    let engine = open(&db);
    let begun = Instant::now();
    let deleted = engine.blocking().delete_namespaces(&namespace("gone")).unwrap();
    let longest = begun.elapsed();
    eprintln!("a deletion takes {longest:?}");
    assert_eq!((deleted.namespaces, deleted.messages, deleted.documents), (3000, 3000, 600));
    drop(engine);
    let (mut state, mut unfinished, mut partly) = (7, 0, 0);
    for run in 0..runs {
        fs::copy(&full.path, &db.path).unwrap();
        // Every kill comes after the opening.
        let lines = kill_after(module_path!(), "child", &db.path, 2 * run, delay(&mut state, longest));
        unfinished += u64::from(!lines.iter().any(|line| line.contains("done")));
        db.assert_sound();
        let engine = open(&db);
        let found = engine.blocking().namespaces(Some(&namespace("gone")), None, usize::MAX).unwrap().namespaces;
        for found in &found {
            let number: usize = found.namespace.as_str()["gone/".len()..].parse().unwrap();
            assert_eq!(
                (found.messages, found.documents),
                (1, u64::from(number.is_multiple_of(5))),
                "run {run}, {number}"
            );
        }
        partly += u64::from((1..NAMESPACES).contains(&found.len()));
        assert!(engine.blocking().get(&namespace("gone too"), "stays").unwrap().is_some());
        if run + 1 == runs {
            let deleted = engine.blocking().delete_namespaces(&namespace("gone")).unwrap();
            assert_eq!(deleted.namespaces, found.len() as u64);
        }
    }
    db.assert_sound();
    eprintln!("of {runs} kills {unfinished} fell while the deletion ran, {partly} of them between two of its commits");
    assert!(unfinished > 0, "the kills came too late to test anything");
}

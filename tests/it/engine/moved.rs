//! A database file that is moved, removed or replaced while it is open: nothing is acknowledged that its path does not lead
//! to.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use mnemon::{Config, Engine, Error, Forget, Query};
use serde_json::json;

use crate::support::{Db, Hashing, message, namespace};

/// What happens to a file, by its path.
type Change = fn(&Path);

/// What may happen to the file of an open database, and how it is undone.
const MOVES: [(&str, Change, Change); 4] = [
    ("moved", |path| fs::rename(path, beside(path)).unwrap(), |path| fs::rename(beside(path), path).unwrap()),
    (
        "replaced by a backup",
        |path| {
            fs::rename(path, beside(path)).unwrap();
            fs::copy(path.with_file_name("backup.redb"), path).unwrap();
        },
        |path| fs::rename(beside(path), path).unwrap(),
    ),
    (
        "in a folder that is moved",
        |path| fs::rename(path.parent().unwrap(), folder_beside(path)).unwrap(),
        |path| fs::rename(folder_beside(path), path.parent().unwrap()).unwrap(),
    ),
    (
        "removed, with another name left",
        |path| {
            fs::hard_link(path, beside(path)).unwrap();
            fs::remove_file(path).unwrap();
        },
        |path| fs::rename(beside(path), path).unwrap(),
    ),
];

fn beside(path: &Path) -> PathBuf {
    path.with_extension("moved")
}

fn folder_beside(path: &Path) -> PathBuf {
    path.parent().unwrap().with_extension("moved")
}

/// A database in a folder of its own, beside a backup of it.
fn open() -> (tempfile::TempDir, PathBuf, Engine) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data/memory.redb");
    fs::create_dir(path.parent().unwrap()).unwrap();
    let engine = open_at(&path);
    engine.blocking().put(&namespace("a"), vec![message("1", "the boat is red")]).unwrap();
    engine.blocking().backup(path.with_file_name("backup.redb")).unwrap();
    (folder, path, engine)
}

fn open_at(path: &Path) -> Engine {
    Engine::builder(path)
        .config(Config::default().flush_size(100_000))
        .embedder(Arc::new(Hashing::new(32)))
        .open()
        .unwrap()
}

fn put(engine: &Engine, id: &str) -> mnemon::Result<()> {
    engine.blocking().put(&namespace("a"), vec![message(id, "the oars are new")]).map(drop)
}

#[track_caller]
fn assert_moved<T>(what: &str, result: mnemon::Result<T>) {
    match result.map(drop) {
        Err(Error::DatabaseMoved { path }) => assert!(path.ends_with("memory.redb"), "{what}: {path:?}"),
        other => panic!("{what}: {other:?}"),
    }
}

#[cfg(unix)]
#[test]
fn nothing_is_acknowledged_that_the_path_does_not_lead_to() {
    for (what, happen, undo) in MOVES {
        let (_folder, path, engine) = open();
        engine.check_file().unwrap();
        happen(&path);
        assert_moved(what, engine.check_file());
        let (space, blocking) = (namespace("a"), engine.blocking());
        assert_moved(what, put(&engine, "2"));
        assert_moved(what, blocking.delete(&space, vec!["1".to_owned()]));
        assert_moved(what, blocking.forget(Forget::namespace(&space)));
        assert_moved(what, blocking.hold(&space, "a reason"));
        assert_moved(what, engine.documents(&space).blocking().put("key", json!(1), Default::default()));
        let memory = engine.memory(&space, "s").open();
        assert_moved(what, memory.and_then(|memory| memory.blocking().put(vec![message("3", "the sail is torn")])));
        assert_moved(what, blocking.purge());
        assert!(!blocking.remove_if_unused().unwrap_or_default(), "{what}");
        // What was acknowledged before is read from the file that is open.
        assert_eq!(blocking.recall(&space, Query::new("boat")).unwrap().len(), 1, "{what}");
        // In its place again, the file takes changes again.
        undo(&path);
        engine.check_file().unwrap();
        put(&engine, "4").unwrap();
        drop(engine);
        assert_eq!(mnemon::verify(&path).unwrap().messages, 2, "{what}");
    }
}

#[cfg(unix)]
#[test]
fn a_second_engine_has_the_path_for_itself() {
    let (_folder, path, engine) = open();
    fs::remove_file(&path).unwrap();
    let second = open_at(&path);
    put(&second, "2").unwrap();
    assert_moved("removed", put(&engine, "3"));
    drop((engine, second));
    assert_eq!(mnemon::verify(&path).unwrap().messages, 1);
}

/// A link leads to another file from then on.
#[cfg(unix)]
#[test]
fn the_path_may_be_a_link() {
    use std::os::unix::fs::symlink;
    let (folder, path, engine) = open();
    drop(engine);
    let link = folder.path().join("memory.redb");
    symlink(&path, &link).unwrap();
    let engine = open_at(&link);
    put(&engine, "2").unwrap();
    // Purges replace the file that the link leads to.
    engine.blocking().purge().unwrap();
    put(&engine, "3").unwrap();
    assert!(link.is_symlink());
    fs::remove_file(&link).unwrap();
    symlink(path.with_file_name("backup.redb"), &link).unwrap();
    assert_moved("a link to another file", put(&engine, "4"));
    assert_moved("a link to another file", engine.blocking().purge());
    drop(engine);
    assert_eq!(mnemon::verify(&path).unwrap().messages, 3);
}

/// Engines whose files are none of their own say nothing of them.
#[cfg(unix)]
#[test]
fn readers_and_databases_in_memory_are_in_their_places() {
    let (_folder, path, engine) = open();
    let reader = Engine::builder(&path).embedder(Arc::new(Hashing::new(32))).open_read_only().unwrap();
    fs::remove_file(&path).unwrap();
    reader.check_file().unwrap();
    assert_eq!(reader.blocking().recall(&namespace("a"), Query::new("boat")).unwrap().len(), 1);
    assert_moved("removed", engine.check_file());
    let in_memory = Engine::builder_in_memory().embedder(Arc::new(Hashing::new(32))).open().unwrap();
    in_memory.check_file().unwrap();
    put(&in_memory, "1").unwrap();
}

/// Threads put while the file is replaced by purges, which keep its name.
#[test]
fn purges_are_no_moves() {
    let db = Db::new();
    let engine = db.open();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let engine = &engine;
            scope.spawn(move || (0..50).for_each(|at| put(engine, &format!("{thread}-{at}")).unwrap()));
        }
        for _ in 0..5 {
            engine.blocking().purge().unwrap();
            engine.check_file().unwrap();
        }
    });
    drop(engine);
    assert_eq!(db.assert_sound().messages, 100);
}

//! The file is moved at moments that only the store knows.

use std::fs;

use crate::{
    config::Config,
    error::Error,
    ids::Namespace,
    message::Message,
    store::{
        Store,
        faulty::{self, Fault},
    },
};

fn put(store: &Store, text: &str, meanwhile: impl FnOnce()) -> Result<(), Error> {
    let namespace: Namespace = "a".parse().unwrap();
    store.write(|t| {
        t.edit_messages().put(&[(namespace, Message::user(text))])?;
        meanwhile();
        Ok(())
    })
}

/// The commit is in the file, which has no name then.
#[test]
fn a_file_that_is_moved_during_a_commit() {
    let folder = tempfile::tempdir().unwrap();
    let [path, moved] = ["a.redb", "moved.redb"].map(|name| folder.path().join(name));
    let store = Store::open(&path, &Config::default(), true).unwrap();
    match put(&store, "text", || fs::rename(&path, &moved).unwrap()) {
        Err(Error::OutcomeUnknown { cause }) => assert!(cause.contains("moved, removed or replaced"), "{cause}"),
        other => panic!("{other:?}"),
    }
    assert!(matches!(put(&store, "text", || ()), Err(Error::DatabaseMoved { .. })));
}

/// A file that failed is opened again: not another one that has its name since.
#[test]
fn a_file_that_fails_and_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let [path, moved] = ["a.redb", "moved.redb"].map(|name| folder.path().join(name));
    let plan = faulty::plan(folder.path());
    let store = Store::open(&path, &Config::default(), true).unwrap();
    put(&store, "first", || ()).unwrap();
    plan.fail(Some(Fault { call: None, at: 1, lasting: true, code: Fault::EIO }));
    put(&store, "second", || ()).unwrap_err();
    plan.fail(None);
    fs::rename(&path, &moved).unwrap();
    let other = Store::open(&path, &Config::default(), true).unwrap();
    drop(other);
    std::thread::sleep(std::time::Duration::from_millis(250));
    assert!(matches!(store.read().map(drop), Err(Error::DatabaseMoved { .. })));
    assert!(matches!(put(&store, "third", || ()), Err(Error::DatabaseMoved { .. })));
    // In its place again, it is opened again.
    fs::rename(&moved, &path).unwrap();
    put(&store, "fourth", || ()).unwrap();
}

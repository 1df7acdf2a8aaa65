//! Copies of a database: backups, purges, and what is salvaged of a damaged file.

use std::{
    fs,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use mnemon::{Engine, Error, Query};
use serde_json::json;

use crate::support::{Db, message, namespace};

fn put(engine: &Engine, number: usize) {
    engine.blocking().put(&namespace("a"), vec![message(&format!("m{number}"), &format!("text {number}"))]).unwrap();
}

fn messages(engine: &Engine) -> usize {
    engine.blocking().count_namespaces(None).unwrap().messages as usize
}

/// Runs `work` while another thread puts messages. Returns its result, and how many were put before it and in all.
fn while_putting<T>(engine: &Engine, work: impl FnOnce() -> T) -> (T, usize, usize) {
    let (count, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (result, before) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                put(engine, count.load(Ordering::Acquire));
                count.fetch_add(1, Ordering::Release);
            }
        });
        while count.load(Ordering::Acquire) < 20 {
            std::thread::yield_now();
        }
        let before = count.load(Ordering::Acquire);
        let result = work();
        done.store(true, Ordering::Release);
        (result, before)
    });
    (result, before, count.into_inner())
}

#[test]
fn a_backup_is_the_state_of_one_moment() {
    let (db, copy) = (Db::new(), Db::new());
    let engine = db.open();
    let (result, before, all) = while_putting(&engine, || engine.blocking().backup(&copy.path));
    result.unwrap();
    assert_eq!(messages(&engine), all);
    let error = engine.blocking().backup(&copy.path).unwrap_err();
    assert!(matches!(error, Error::FileExists { .. }), "{error}");
    assert_eq!(fs::read_dir(copy.folder.path()).unwrap().count(), 1, "nothing else is left");
    copy.assert_sound();
    let restored = copy.open();
    let has = messages(&restored);
    assert!((before..=all).contains(&has), "{before} {has} {all}");
    for number in 0..all {
        let found = restored.blocking().get(&namespace("a"), &format!("m{number}")).unwrap();
        assert_eq!(found.is_some(), number < has, "message {number} of {has}");
    }
}

#[test]
fn a_purge_loses_nothing_and_leaves_nothing() {
    let db = Db::new();
    let engine = db.open();
    let secret = "zebrafish-in-a-bottle";
    engine.blocking().put(&namespace("a"), vec![message("secret", secret), message("other", "a boat")]).unwrap();
    engine.blocking().flush().unwrap();
    engine.blocking().delete(&namespace("a"), vec!["secret".to_owned()]).unwrap();
    let contains = || fs::read(&db.path).unwrap().windows(secret.len()).any(|bytes| bytes == secret.as_bytes());
    assert!(contains(), "deleting leaves the bytes");
    let (result, _, all) = while_putting(&engine, || {
        let reader = engine.clone();
        let recalled = std::thread::spawn(move || {
            (0..50).all(|_| reader.blocking().recall(&namespace("a"), Query::new("boat").k(1)).is_ok())
        });
        let purged = engine.blocking().purge();
        assert!(recalled.join().unwrap(), "a recall failed during a purge");
        purged
    });
    result.unwrap();
    assert_eq!(messages(&engine), all + 1);
    assert!(!contains());
    put(&engine, all);
    engine.blocking().flush().unwrap();
    assert_eq!(engine.blocking().recall(&namespace("a"), Query::new("boat").k(1)).unwrap()[0].message.id, "other");
    drop(engine);
    assert_eq!(fs::read_dir(db.folder.path()).unwrap().count(), 1, "nothing else is left");
    assert_eq!(db.assert_sound().messages as usize, all + 2);
    assert_eq!(messages(&db.open()), all + 2);
}

/// A purge gives back what the file grew by beforehand, as a backup does.
#[test]
fn a_purged_file_has_no_free_space() {
    let (db, copy) = (Db::new(), Db::new());
    let engine = db.open();
    let ids: Vec<String> = (0..300).map(|at| format!("m{at}")).collect();
    let long = "words of a long message ".repeat(400);
    let messages = ids.iter().map(|id| message(id, &format!("{id} {long}"))).collect();
    engine.blocking().put(&namespace("a"), messages).unwrap();
    let full = engine.blocking().purge().unwrap().bytes_after;
    engine.blocking().backup(&copy.path).unwrap();
    let least = fs::metadata(&copy.path).unwrap().len();
    assert!(full <= least + (256 << 10), "{full} {least}");
    engine.blocking().delete(&namespace("a"), ids).unwrap();
    let empty = engine.blocking().purge().unwrap().bytes_after;
    assert!(empty < 512 << 10, "{empty}");
    drop(engine);
    db.assert_sound();
}

#[test]
fn what_can_be_read_is_salvaged_and_the_rest_is_named() {
    let db = Db::new();
    let engine = db.open();
    for space in ["a", "b"] {
        let all = (0..400).map(|number| message(&format!("m{number}"), &format!("text {number} of {space}"))).collect();
        engine.blocking().put(&namespace(space), all).unwrap();
        let documents = engine.documents(&namespace(space));
        documents.blocking().put("key", json!({"text": "a document"}), Default::default()).unwrap();
    }
    engine.blocking().flush().unwrap();
    drop(engine);
    let whole = fs::read(&db.path).unwrap();
    let lost_with = |needle: &str| {
        let at = whole.windows(needle.len()).rposition(|bytes| bytes == needle.as_bytes()).unwrap();
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&db.path, &damaged).unwrap();
        let report = mnemon::verify(&db.path).unwrap();
        assert!(report.problems.iter().any(|problem| problem.contains("page")), "{report:?}");
        let new = Db::new();
        let report = mnemon::salvage(&db.path, &new.path).unwrap();
        assert!(!report.lost.is_empty() && report.messages >= 700, "{report:?}");
        assert!(fs::read(&db.path).unwrap() == damaged, "the damaged file has changed");
        let engine = new.open();
        engine.blocking().flush().unwrap();
        assert_eq!(messages(&engine) as u64, report.messages);
        for space in ["a", "b"].map(namespace) {
            for number in 0..400 {
                if let Some(found) = engine.blocking().get(&space, &format!("m{number}")).unwrap() {
                    assert_eq!(found.text(), format!("text {number} of {space}"));
                }
            }
        }
        drop(engine);
        new.assert_sound();
        report.messages
    };
    assert!(lost_with("text 123 of a") < 800);
    // Of a sound file nothing is lost.
    fs::write(&db.path, &whole).unwrap();
    let new = Db::new();
    let report = mnemon::salvage(&db.path, &new.path).unwrap();
    assert_eq!((report.messages, report.documents, report.lost.len()), (800, 2, 0), "{report:?}");
    let error = mnemon::salvage(&db.path, &new.path).unwrap_err();
    assert!(matches!(error, Error::FileExists { .. }), "{error}");
}

/// Damages the page that has these bytes last, and returns what is salvaged, with its report.
fn salvaged_without(db: &Db, whole: &[u8], needle: &[u8]) -> (Db, mnemon::SalvageReport) {
    let mut damaged = whole.to_vec();
    let found: Vec<usize> = (0..whole.len() - needle.len()).filter(|&at| whole[at..].starts_with(needle)).collect();
    assert!(!found.is_empty());
    found.iter().for_each(|&at| damaged[at] ^= 1);
    fs::write(&db.path, &damaged).unwrap();
    let new = Db::new();
    let report = mnemon::salvage(&db.path, &new.path).unwrap();
    (new, report)
}

#[test]
fn holds_and_the_audit_are_salvaged_and_a_lost_hold_holds_all() {
    let db = Db::new();
    let engine = db.open();
    let blocking = engine.blocking();
    for space in ["acme/ada", "acme/bob", "home/eve"] {
        blocking.put(&namespace(space), vec![message("m1", "a text")]).unwrap();
    }
    blocking.forget(mnemon::Forget::messages(&namespace("home/eve"), ["m1"])).unwrap();
    blocking.put(&namespace("home/eve"), vec![message("m2", "another text")]).unwrap();
    blocking.hold(&namespace("acme/bob"), "released again").unwrap();
    blocking.release(&namespace("acme/bob")).unwrap();
    let hold = blocking.hold(&namespace("acme/ada"), "the matter of the ferry").unwrap();
    blocking.flush().unwrap();
    let (audit, holds) = (blocking.audit().unwrap(), blocking.holds().unwrap());
    drop(engine);
    let mnemon::AuditEvent::Hold { hold: id } = &hold.event else { panic!("{hold:?}") };
    let whole = fs::read(&db.path).unwrap();
    let is_held = |engine: &Engine, space: &str| {
        let forgotten = engine.blocking().forget(mnemon::Forget::namespace(&namespace(space)));
        matches!(forgotten, Err(Error::LegalHold { .. }))
    };

    // Of a sound file all is there.
    let new = Db::new();
    let report = mnemon::salvage(&db.path, &new.path).unwrap();
    assert_eq!((report.holds, report.audit_entries, &report.lost), (1, 4, &Vec::new()), "{report:?}");
    new.assert_sound();
    let engine = new.open();
    assert_eq!(engine.blocking().audit().unwrap(), audit);
    assert_eq!(engine.blocking().holds().unwrap(), holds);
    assert!(is_held(&engine, "acme/ada") && !is_held(&engine, "home/eve"));
    // The chain goes on.
    engine.blocking().release(&namespace("acme/ada")).unwrap();
    assert_eq!(engine.blocking().audit().unwrap().problems, [""; 0]);
    drop(engine);

    // Without the hold's record, the audit says that there is one.
    let (new, report) = salvaged_without(&db, &whole, b"the matter of the ferry");
    assert!(report.lost.iter().any(|lost| lost.starts_with("a legal hold")), "{report:?}");
    assert_eq!(report.holds, 2, "acme and home: {report:?}");
    let engine = new.open();
    for space in ["acme/ada", "acme/bob", "home/eve"] {
        assert!(is_held(&engine, space), "{space}");
    }
    assert_eq!(engine.blocking().audit().unwrap().problems, [""; 0]);
    drop(engine);
    new.assert_sound();

    // Without the audit, its gap stays visible, and the hold holds.
    let (new, report) = salvaged_without(&db, &whole, format!("\"hold\":\"{id}\"").as_bytes());
    assert!(report.lost.iter().any(|lost| lost.contains("entries of the audit")), "{report:?}");
    let engine = new.open();
    assert!(is_held(&engine, "acme/ada"), "{report:?}");
    assert!(!engine.blocking().audit().unwrap().problems.is_empty());
}

#[test]
fn a_salvaged_file_without_a_model_is_sound() {
    let db = Db::new();
    let engine = db.open();
    let model = engine.model();
    let all = (0..50).map(|number| message(&format!("m{number}"), &format!("text {number}"))).collect();
    engine.blocking().put(&namespace("a"), all).unwrap();
    engine.blocking().flush().unwrap();
    drop(engine);
    let whole = fs::read(&db.path).unwrap();
    let (new, report) = salvaged_without(&db, &whole, model.hash.as_bytes());
    assert!(report.lost.iter().any(|lost| lost.contains("which model")) && report.messages == 50, "{report:?}");
    // Before anybody opened it for writing.
    let verified = new.assert_sound();
    assert_eq!((verified.messages, verified.vectors, verified.pending), (50, 0, 50));
    assert_eq!(mnemon::stats(&new.path).unwrap().namespaces[0].messages, 50);
    let engine = new.open();
    engine.blocking().flush().unwrap();
    assert_eq!(engine.blocking().recall(&namespace("a"), Query::new("text 7")).unwrap().len(), 10);
    drop(engine);
    let verified = new.assert_sound();
    assert_eq!((verified.vectors, verified.pending), (50, 0));
}

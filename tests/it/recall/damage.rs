//! Damaged records of a lexical index: `verify` names them, answers stay right, and the engine rebuilds the index from
//! the texts.

use std::sync::OnceLock;

use redb::{ReadableTable, TableDefinition, WriteTransaction};

use super::{SPACE, delete, open, put, recall, said};
use crate::support::{Db, message, namespace};

const SEGMENTS: TableDefinition<(u32, u32, u32), (u32, u32)> = TableDefinition::new("segments");
const PARTS: TableDefinition<(u32, u32, u32, u32), &[u8]> = TableDefinition::new("segment_parts");
const LANGUAGES: TableDefinition<u32, &str> = TableDefinition::new("languages");

const MESSAGES: usize = 1500;
const WINDOW: usize = 200;

fn text(i: usize) -> String {
    (0..6).map(|word| format!("w0rd{i}x{word} ")).collect()
}

/// A copy of a database with segments of several sizes, the first in several parts.
fn index() -> Db {
    static INDEX: OnceLock<Db> = OnceLock::new();
    let whole = INDEX.get_or_init(|| {
        let db = Db::new();
        let engine = open(&db, WINDOW);
        let mut from = 0;
        for to in [1300, 1480, 1499, MESSAGES] {
            put(&engine, (from..to).map(|i| message(&format!("m{i}"), &text(i))).collect());
            from = to;
        }
        put(&engine, vec![message("long", &format!("{} needle", "hay ".repeat(100)))]);
        delete(&engine, &["m5", "m1490"]);
        drop(engine);
        db.assert_sound();
        change(&db, &mut |write| {
            let segments = write.open_table(SEGMENTS).unwrap();
            let found: Vec<(u32, u32)> = segments.iter().unwrap().map(|entry| entry.unwrap().1.value()).collect();
            assert!(found.len() > 2 && found[0].1 > 1, "{found:?}");
        });
        db
    });
    let db = Db::new();
    std::fs::copy(&whole.path, &db.path).unwrap();
    db
}

fn change(db: &Db, change: &mut dyn FnMut(&WriteTransaction)) {
    let file = crate::support::open_tables(&db.path);
    let write = file.begin_write().unwrap();
    change(&write);
    write.commit().unwrap();
}

/// Changes the bytes of a part, or takes it away.
fn edit(write: &WriteTransaction, at: usize, edit: fn(Vec<u8>) -> Option<Vec<u8>>) {
    let mut parts = write.open_table(PARTS).unwrap();
    let entry = parts.iter().unwrap().nth(at).unwrap().unwrap();
    let (key, edited) = (entry.0.value(), edit(entry.1.value().to_vec()));
    drop(entry);
    match edited {
        Some(bytes) => drop(parts.insert(key, bytes.as_slice()).unwrap()),
        None => drop(parts.remove(key).unwrap()),
    }
}

fn flip(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    Some(bytes)
}

fn cut(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    bytes.pop();
    Some(bytes)
}

/// Changes what the record of the first segment says of its rows and parts.
fn record(write: &WriteTransaction, edit: fn(u32, u32) -> (u32, u32)) {
    let mut segments = segments(write);
    let (key, (rows, parts)) = segments.first().unwrap().map(|(key, record)| (key.value(), record.value())).unwrap();
    segments.insert(key, edit(rows, parts)).unwrap();
}

fn segments(write: &WriteTransaction) -> redb::Table<'_, (u32, u32, u32), (u32, u32)> {
    write.open_table(SEGMENTS).unwrap()
}

type Damage = fn(&WriteTransaction);

#[test]
fn damage_is_named_by_verify_and_repaired_by_loading() {
    let damages: [(&str, &str, Damage); 11] = [
        ("a part with a bit flipped", "checksum", |write| edit(write, 1, flip)),
        ("the first part with a bit flipped", "checksum", |write| edit(write, 0, flip)),
        ("a part cut short", "checksum", |write| edit(write, 0, cut)),
        ("an empty part", "checksum", |write| edit(write, 1, |_| Some(Vec::new()))),
        ("a part lost", "a part", |write| edit(write, 1, |_| None)),
        ("a record lost", "row 0 is in no segment", |write| drop(segments(write).pop_first().unwrap())),
        ("the last record lost", "is in no segment", |write| drop(segments(write).pop_last().unwrap())),
        ("a record of too many parts", "a part", |write| record(write, |rows, parts| (rows, parts + 1))),
        ("a record of too few parts", "checksum", |write| record(write, |rows, parts| (rows, parts - 1))),
        ("a record of other rows", "rows, not", |write| record(write, |rows, parts| (rows + 1, parts))),
        ("all records lost", "no segment", |write| segments(write).retain(|_, _| false).unwrap()),
    ];
    for (what, named, damage) in damages {
        for puts_first in [false, true] {
            let db = index();
            change(&db, &mut |write| damage(write));
            let problems = mnemon::verify(&db.path).unwrap().problems;
            assert!(problems.iter().any(|problem| problem.contains(named)), "{what}: {problems:.300?}");
            assert!(problems.len() <= 100, "{what}: {} lines", problems.len());

            let engine = open(&db, WINDOW);
            if puts_first {
                put(&engine, vec![message("m7", "changed"), message("new", "fresh")]);
                delete(&engine, &["m8"]);
                assert_eq!((said(&engine, "changed"), said(&engine, "fresh")), (vec!["m7".into()], vec!["new".into()]));
                assert_eq!(said(&engine, "w0rd7x1 w0rd8x1"), [""; 0], "{what}");
            } else {
                assert_eq!(said(&engine, "w0rd7x1"), ["m7"], "{what}");
            }
            for i in [0, 100, 1299, 1300, 1485, 1499] {
                assert_eq!(said(&engine, &format!("w0rd{i}x3")), [format!("m{i}")], "{what}");
            }
            assert_eq!(said(&engine, "w0rd5x1 w0rd1490x1"), [""; 0], "{what}");
            let hits = recall(&engine, super::lexical("needle").k(1));
            assert!(hits[0].message.text()[hits[0].passage.clone()].contains("needle"), "{what}");
            drop(engine);
            assert_eq!(mnemon::verify(&db.path).unwrap().problems, [""; 0], "{what}");
        }
    }
}

/// A language that no release knows is an error that says so, until another is set.
#[test]
fn an_unknown_language_is_named() {
    let db = index();
    change(&db, &mut |write| drop(write.open_table(LANGUAGES).unwrap().insert(0, "klingon").unwrap()));
    let problems = mnemon::verify(&db.path).unwrap().problems;
    assert!(problems.len() == 1 && problems[0].contains("klingon"), "{problems:?}");
    let engine = open(&db, WINDOW);
    let error = engine.blocking().recall(&namespace(SPACE), mnemon::Query::new("w0rd7x1")).unwrap_err();
    assert!(error.to_string().contains("klingon"), "{error}");
    engine.blocking().set_language(&namespace(SPACE), mnemon::Language::Other).unwrap();
    assert_eq!(said(&engine, "w0rd7x1"), ["m7"]);
    drop(engine);
    db.assert_sound();
}

/// Parts that no record knows of would stay for ever.
#[test]
fn no_damaged_record_remains_after_a_repair() {
    let db = index();
    change(&db, &mut |write| segments(write).retain(|_, _| false).unwrap());
    let engine = open(&db, WINDOW);
    assert_eq!(said(&engine, "w0rd7x1"), ["m7"]);
    drop(engine);
    change(&db, &mut |write| {
        let known: u32 =
            write.open_table(SEGMENTS).unwrap().iter().unwrap().map(|entry| entry.unwrap().1.value().1).sum();
        let parts = write.open_table(PARTS).unwrap().iter().unwrap().count();
        assert_eq!(parts, known as usize);
    });
}

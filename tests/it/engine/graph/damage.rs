//! Damaged records of a graph: `verify` names them, answers stay right, and the engine rebuilds the graph from the
//! vectors.

use std::sync::OnceLock;

use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

use super::{SPACE, assert_settles, is_found, open, put_and_flush, recall, text, wide};
use crate::support::{Db, message, namespace};

type Key = (u32, u32, u32);
const RECORDS: TableDefinition<(u32, u32), &[u8]> = TableDefinition::new("graphs");
const PAGES: TableDefinition<Key, &[u8]> = TableDefinition::new("graph_pages");
const DELTAS: TableDefinition<Key, &[u8]> = TableDefinition::new("graph_deltas");

const MESSAGES: usize = 500;

fn id(i: usize) -> String {
    format!("m{i}")
}

/// A copy of a database whose graph has pages and changes, and rows that were removed, some of them since it was last
/// repaired.
fn graph() -> Db {
    static GRAPH: OnceLock<Db> = OnceLock::new();
    let whole = GRAPH.get_or_init(|| {
        let db = Db::new();
        let engine = open(&db.path, wide());
        put_and_flush(&engine, (0..MESSAGES).map(|i| message(&id(i), &text(i))).collect());
        drop(engine);
        for round in 0.. {
            let engine = open(&db.path, wide());
            for part in 0..6 {
                let edit = |i: usize| message(&id(i), &format!("{} again{round}", text(i)));
                put_and_flush(&engine, (0..MESSAGES).skip(part).step_by(6).map(edit).collect());
                assert_settles(&engine, MESSAGES);
            }
            drop(engine);
            let [pages, deltas] = parts(&db);
            if pages >= 2 && deltas >= 3 {
                break;
            }
        }
        let engine = open(&db.path, wide());
        engine.blocking().delete(&namespace(SPACE), (490..494).map(id).collect()).unwrap();
        put_and_flush(&engine, (490..492).map(|i| message(&id(i), &text(i))).collect());
        engine.blocking().delete(&namespace(SPACE), vec![id(496)]).unwrap();
        drop(engine);
        let [pages, deltas] = parts(&db);
        assert!(pages >= 2 && deltas >= 3, "{pages} pages, {deltas} deltas");
        db.assert_sound();
        db
    });
    let db = Db::new();
    std::fs::copy(&whole.path, &db.path).unwrap();
    db
}

/// Returns the numbers of pages and deltas.
fn parts(db: &Db) -> [u64; 2] {
    let file = crate::support::open_tables(&db.path);
    let read = file.begin_read().unwrap();
    [PAGES, DELTAS].map(|table| read.open_table(table).map_or(0, |table| table.len().unwrap()))
}

type Damage = fn(&redb::WriteTransaction);

/// Changes the bytes of a part of a table, or takes it away.
fn change(
    file: &redb::WriteTransaction,
    table: TableDefinition<Key, &[u8]>,
    at: usize,
    edit: impl Fn(&[u8]) -> Option<Vec<u8>>,
) {
    let mut table = file.open_table(table).unwrap();
    let entry = table.iter().unwrap().nth(at).unwrap().unwrap();
    let (key, edited) = (entry.0.value(), edit(entry.1.value()));
    drop(entry);
    match edited {
        Some(bytes) => drop(table.insert(key, bytes.as_slice()).unwrap()),
        None => drop(table.remove(key).unwrap()),
    }
}

fn flip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = bytes.to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    Some(bytes)
}

fn cut(bytes: &[u8]) -> Option<Vec<u8>> {
    Some(bytes[..bytes.len() - 1].to_vec())
}

fn empty(_: &[u8]) -> Option<Vec<u8>> {
    Some(Vec::new())
}

fn lose(_: &[u8]) -> Option<Vec<u8>> {
    None
}

#[test]
fn damage_is_named_by_verify_and_repaired_by_loading() {
    let damages: [(&str, &str, Damage); 12] = [
        ("a page with a bit flipped", "page", |file| change(file, PAGES, 1, flip)),
        ("a page cut short", "page", |file| change(file, PAGES, 0, cut)),
        ("an empty page", "page", |file| change(file, PAGES, 0, empty)),
        ("a delta with a bit flipped", "delta", |file| change(file, DELTAS, 1, flip)),
        ("a delta cut short", "delta", |file| change(file, DELTAS, 0, cut)),
        ("an empty delta", "delta", |file| change(file, DELTAS, 2, empty)),
        ("the first delta lost", "delta", |file| change(file, DELTAS, 0, lose)),
        ("a delta lost", "delta", |file| change(file, DELTAS, 1, lose)),
        ("all deltas lost", "delta", |file| {
            file.open_table(DELTAS).unwrap().retain(|_, _| false).unwrap();
        }),
        ("no record", "record", |file| file.open_table(RECORDS).unwrap().retain(|_, _| false).unwrap()),
        ("a record cut short", "record", |file| {
            file.open_table(RECORDS).unwrap().insert((1, 0), [77, 110, 1].as_slice()).unwrap();
        }),
        ("both kinds", "page", |file| {
            change(file, PAGES, 0, flip);
            change(file, DELTAS, 0, flip);
        }),
    ];
    let sound = graph();
    let stored: Vec<(String, String)> = {
        let engine = open(&sound.path, wide());
        let ids = (0..MESSAGES).map(id);
        ids.filter_map(|id| Some((id.clone(), engine.blocking().get(&namespace(SPACE), &id).unwrap()?.text())))
            .collect()
    };
    assert_eq!(stored.len(), MESSAGES - 3);
    for (what, part, damage) in damages {
        let db = Db::new();
        std::fs::copy(&sound.path, &db.path).unwrap();
        {
            let file = crate::support::open_tables(&db.path);
            let write = file.begin_write().unwrap();
            damage(&write);
            write.commit().unwrap();
        }
        let problems = mnemon::verify(&db.path).unwrap().problems;
        assert!(problems.iter().any(|problem| problem.contains(part)), "{what}: {problems:?}");

        let engine = open(&db.path, wide());
        // While it is made again: messages change and go, and all are found as they are.
        let mut now = stored.clone();
        let gone = now.pop().unwrap().0;
        now[0].1 = format!("{} changed", now[0].1);
        for (id, text) in &now[1..30] {
            assert!(is_found(&engine, id, text), "{what}: {id}");
        }
        engine.blocking().delete(&namespace(SPACE), vec![gone.clone()]).unwrap();
        put_and_flush(&engine, vec![message(&now[0].0, &now[0].1)]);
        let queries: Vec<String> = (0..20).map(|i| format!("topic{i} word{}", i * 11)).collect();
        let found = recall(&engine, now.iter().map(|(_, text)| text.as_str()), &queries);
        assert!(found > 0.99, "{what}: recall {found}");
        assert_settles(&engine, now.len());
        assert!(now.iter().all(|(id, text)| is_found(&engine, id, text)), "{what}");
        drop(engine);
        assert_eq!(mnemon::verify(&db.path).unwrap().problems, [""; 0], "{what}");
        let engine = open(&db.path, wide());
        assert_settles(&engine, now.len());
        assert!(now.iter().all(|(id, text)| is_found(&engine, id, text)), "{what}");
        assert!(engine.blocking().get(&namespace(SPACE), &gone).unwrap().is_none());
    }
}

#[test]
fn a_damaged_graph_of_a_namespace_does_not_touch_others() {
    let db = graph();
    let other = namespace("other");
    {
        let engine = open(&db.path, wide());
        engine.blocking().put(&other, (0..100).map(|i| message(&id(i), &text(i))).collect()).unwrap();
        engine.blocking().flush().unwrap();
        engine.blocking().optimize(&other).unwrap();
    }
    {
        let file = crate::support::open_tables(&db.path);
        let write = file.begin_write().unwrap();
        change(&write, PAGES, 0, flip);
        write.commit().unwrap();
    }
    let engine = open(&db.path, wide());
    let stats = engine.blocking().index_stats(&other).unwrap();
    assert_eq!((stats.vectors, stats.linked), (100, 100), "as it was stored");
    assert_settles(&engine, MESSAGES - 3);
    drop(engine);
    db.assert_sound();
}

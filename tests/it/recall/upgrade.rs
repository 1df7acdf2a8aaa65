//! Databases of schema 3 have no lexical index; it is built at the first recall.

use mnemon::{Language, Precision, Query};
use redb::{ReadableTable, TableDefinition};

use super::{SPACE, open, put, recall, said};
use crate::support::{Db, message, namespace, schemas};

const PARTS: TableDefinition<(u32, u32, u32, u32), &[u8]> = TableDefinition::new("segment_parts");

/// Makes a database one of schema 3.
fn back_to_schema_3(db: &Db) {
    let file = crate::support::open_tables(&db.path);
    let write = file.begin_write().unwrap();
    schemas::back_to_schema_3(&write);
    write.commit().unwrap();
}

/// 100 messages, one of them long, one pending, one deleted.
fn old() -> Db {
    let db = Db::with_precision(Precision::F32);
    let engine = open(&db, 48);
    put(&engine, (0..100).map(|i| message(&format!("m{i}"), &format!("w0rd{i} houses"))).collect());
    put(&engine, vec![message("long", &format!("{} needle", "hay ".repeat(40)))]);
    engine.blocking().delete(&namespace(SPACE), vec!["m7".into()]).unwrap();
    engine.blocking().put(&namespace(SPACE), vec![message("pending", "waiting")]).unwrap();
    drop(engine);
    back_to_schema_3(&db);
    db
}

#[test]
fn the_lexical_index_is_built_at_the_first_recall() {
    let db = old();
    db.assert_sound();
    let engine = open(&db, 48);
    assert_eq!(said(&engine, "w0rd42"), ["m42"]);
    assert_eq!(said(&engine, "w0rd7"), [""; 0]);
    assert_eq!(said(&engine, "house").len(), 99, "by its stem");
    let hits = recall(&engine, super::lexical("needle").k(1));
    assert!(hits[0].message.text()[hits[0].passage.clone()].ends_with("needle") && hits[0].passage.start > 0);
    engine.blocking().flush().unwrap();
    assert_eq!(said(&engine, "waiting"), ["pending"]);
    drop(engine);
    db.assert_sound();
    assert_eq!(said(&open(&db, 48), "w0rd42"), ["m42"]);
}

#[test]
fn messages_put_before_the_first_recall_are_found_beside_the_old() {
    for language in [None, Some(Language::German)] {
        let db = old();
        let engine = open(&db, 48);
        put(&engine, vec![message("new", "häuser"), message("m9", "changed")]);
        if let Some(language) = language {
            engine.blocking().set_language(&namespace(SPACE), language).unwrap();
        }
        assert_eq!(said(&engine, "changed"), ["m9"]);
        assert_eq!(said(&engine, "w0rd42"), ["m42"]);
        assert_eq!(said(&engine, "w0rd9"), [""; 0]);
        assert_eq!(said(&engine, "haus"), if language.is_some() { &["new"][..] } else { &[] });
        assert_eq!(recall(&engine, Query::new("anything").k(1000)).len(), 102);
        drop(engine);
        db.assert_sound();
    }
}

/// At the first recall some segments exist, but not all.
#[test]
fn an_index_that_has_only_new_messages_is_completed() {
    let db = old();
    let engine = open(&db, 48);
    put(&engine, vec![message("new", "fresh")]);
    drop(engine);
    let problems = mnemon::verify(&db.path).unwrap().problems;
    assert_eq!(problems, [""; 0], "an upgrade that goes on is no damage");
    let engine = open(&db, 48);
    assert_eq!((said(&engine, "fresh"), said(&engine, "w0rd42")), (vec!["new".to_owned()], vec!["m42".to_owned()]));
    drop(engine);
    db.assert_sound();
}

/// The terms of another version of the analyzer are not those of queries.
#[test]
fn a_lexical_index_of_an_earlier_analyzer_is_rebuilt() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, vec![message("1", "a QX-99"), message("2", "a QX-98")]);
    drop(engine);
    // Each segment is in one part. Its version is in bytes 2 and 3.
    let versions = |set: Option<u16>| {
        let file = crate::support::open_tables(&db.path);
        let write = file.begin_write().unwrap();
        let mut found = Vec::new();
        let mut parts = write.open_table(PARTS).unwrap();
        let stored: Vec<_> = parts
            .iter()
            .unwrap()
            .map(|part| part.unwrap())
            .map(|(key, part)| (key.value(), part.value().to_vec()))
            .collect();
        for (key, mut part) in stored {
            found.push(u16::from_le_bytes([part[2], part[3]]));
            if let Some(version) = set {
                part[2..4].copy_from_slice(&version.to_le_bytes());
                let end = part.len() - 4;
                let checksum = crc32fast::hash(&part[..end]).to_le_bytes();
                part[end..].copy_from_slice(&checksum);
                parts.insert(key, part.as_slice()).unwrap();
            }
        }
        drop(parts);
        write.commit().unwrap();
        found
    };
    let now = versions(Some(1));
    assert_eq!((now.len(), versions(None)), (1, vec![1]));
    db.assert_sound();
    assert_eq!(said(&db.open(), "QX99")[0], "1");
    assert_eq!(versions(None), now);
    db.assert_sound();
}

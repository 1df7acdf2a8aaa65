//! Rows of vectors are given again: what is changed for ever takes no more room.

use std::{collections::BTreeMap, sync::Arc};

use mnemon::{Config, Engine, Query, VectorsIn};

use crate::support::{Db, Hashing, message, namespace, random};

/// The rows that a namespace was ever given, and those alive.
fn rows(db: &Db) -> (u32, u32) {
    let file = redb::Database::open(&db.path).unwrap();
    let counts = redb::TableDefinition::<(u32, u32), (u32, u32)>::new("counts");
    let read = redb::ReadableDatabase::begin_read(&file).unwrap();
    redb::ReadableTable::get(&read.open_table(counts).unwrap(), (1, 0)).unwrap().unwrap().value()
}

/// Takes away what schema 4 has beyond schema 3: the lexical index, and the last byte of a generation, its precision.
pub(crate) fn back_to_schema_3(file: &redb::WriteTransaction) {
    file.delete_table(redb::TableDefinition::<(u32, u32, u32), (u32, u32)>::new("segments")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32, u32, u32), &[u8]>::new("segment_parts")).unwrap();
    file.delete_table(redb::TableDefinition::<u32, &str>::new("languages")).unwrap();
    let mut generations = file.open_table(redb::TableDefinition::<u32, &[u8]>::new("generations")).unwrap();
    let ids: Vec<u32> =
        redb::ReadableTable::iter(&generations).unwrap().map(|entry| entry.unwrap().0.value()).collect();
    for id in ids {
        let record = redb::ReadableTable::get(&generations, id).unwrap().unwrap().value().to_vec();
        let (precision, old) = record.split_last().unwrap();
        assert_eq!(*precision, 0, "schema 3 had 32 bits alone");
        generations.insert(id, old).unwrap();
    }
    let mut meta = file.open_table(redb::TableDefinition::<&str, &[u8]>::new("meta")).unwrap();
    meta.insert("schema", 3u32.to_le_bytes().as_slice()).unwrap();
}

/// Takes away what schema 3 has beyond schema 2, too.
pub(crate) fn back_to_schema_2(file: &redb::WriteTransaction) {
    back_to_schema_3(file);
    file.delete_table(redb::TableDefinition::<(u32, u32, u32), ()>::new("free_rows")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32), &[u8]>::new("graphs")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32, u32), &[u8]>::new("graph_pages")).unwrap();
    file.delete_table(redb::TableDefinition::<(u32, u32, u32), &[u8]>::new("graph_deltas")).unwrap();
    let mut meta = file.open_table(redb::TableDefinition::<&str, &[u8]>::new("meta")).unwrap();
    meta.insert("schema", 2u32.to_le_bytes().as_slice()).unwrap();
}

/// The nearest message has this text, and is it exactly.
fn assert_finds(engine: &Engine, id: &str, text: &str) {
    let hits = engine.blocking().recall(&namespace("a"), Query::new(text).k(1)).unwrap();
    assert_eq!((hits[0].message.id.as_str(), hits[0].message.text().as_str()), (id, text));
    assert!(hits[0].similarity > 0.99, "{text}: {}", hits[0].similarity);
}

#[test]
fn a_message_edited_a_thousand_times_has_one_row() {
    let db = Db::new();
    let mut engine = db.open();
    let space = namespace("a");
    engine.blocking().put(&space, (0..50).map(|i| message(&format!("m{i}"), &format!("word{i}"))).collect()).unwrap();
    for edit in 0..1000 {
        let text = format!("edit{edit}");
        engine.blocking().put(&space, vec![message("edited", &text)]).unwrap();
        engine.blocking().flush().unwrap();
        assert_finds(&engine, "edited", &text);
        if edit % 250 == 249 {
            assert_finds(&engine, "m7", "word7");
            drop(engine);
            assert_eq!(db.assert_sound().vectors, 51);
            assert_eq!(rows(&db), (51, 51));
            engine = db.open();
            assert_finds(&engine, "edited", &text);
        }
    }
}

/// Puts, changes and deletes, against what should be there.
#[test]
fn churn_is_sound_and_takes_no_more_room() {
    let db = Db::new();
    let open = || {
        let mut embedder = Hashing::new(32);
        embedder.window_bytes = 16;
        db.open_with(Arc::new(embedder))
    };
    let space = namespace("a");
    let mut engine = open();
    let mut stored: BTreeMap<String, String> = BTreeMap::new();
    let mut state = 5;
    let mut below = |count: usize| ((random(&mut state) + 1.0) / 2.0 * count as f32) as usize % count;
    // Windows of long messages, which are never put where others were.
    let mut long_rows = 0;
    for round in 0..300 {
        let mut puts: BTreeMap<String, String> = BTreeMap::new();
        for _ in 0..1 + below(20) {
            let text = if below(12) == 0 {
                long_rows += 3;
                format!("long{round} long{round} long{round}.")
            } else {
                format!("word{round}-{}", below(1000))
            };
            puts.insert(format!("m{}", below(150)), text);
        }
        engine.blocking().put(&space, puts.iter().map(|(id, text)| message(id, text)).collect()).unwrap();
        stored.extend(puts);
        // Deleted before they have a row, and after.
        for _ in 0..2 {
            let ids: Vec<String> = (0..below(8)).map(|_| format!("m{}", below(150))).collect();
            stored.retain(|id, _| !ids.contains(id));
            engine.blocking().delete(&space, ids).unwrap();
            if below(3) > 0 {
                engine.blocking().flush().unwrap();
            }
        }
        if round % 10 == 9 {
            engine.blocking().flush().unwrap();
            let hits = engine.blocking().recall(&space, Query::new("any").k(1000)).unwrap();
            let found: BTreeMap<String, String> =
                hits.into_iter().map(|hit| (hit.message.id.clone(), hit.message.text())).collect();
            assert_eq!(found, stored, "round {round}: each message once, as it is");
            for (_, text) in stored.iter().filter(|(_, text)| !text.starts_with("long")).take(10) {
                let hits = engine.blocking().recall(&space, Query::new(text).k(1)).unwrap();
                assert_eq!(&hits[0].message.text(), text);
            }
        }
        if round % 50 == 49 {
            drop(engine);
            db.assert_sound();
            engine = open();
        }
    }
    drop(engine);
    db.assert_sound();
    let (rows, alive) = rows(&db);
    assert!(rows <= 150 + long_rows, "{rows} rows, {alive} alive, {long_rows} of long messages");
}

#[test]
fn a_database_of_schema_2_gets_its_dead_rows_back() {
    let db = Db::new();
    let space = namespace("a");
    let engine = db.open();
    engine.blocking().put(&space, (0..200).map(|i| message(&format!("m{i}"), &format!("word{i}"))).collect()).unwrap();
    engine.blocking().flush().unwrap();
    // The first, the last and some between; some are pending again.
    let dead = ["m0", "m7", "m8", "m100", "m199"].map(str::to_owned);
    engine.blocking().delete(&space, dead[..4].to_vec()).unwrap();
    engine.blocking().put(&space, vec![message("m199", "changed")]).unwrap();
    drop(engine);
    {
        let file = redb::Database::open(&db.path).unwrap();
        let transaction = file.begin_write().unwrap();
        back_to_schema_2(&transaction);
        transaction.commit().unwrap();
    }
    // Whatever opens it first.
    db.assert_sound();
    assert_eq!(rows(&db), (200, 195));
    let engine = db.open();
    engine.blocking().put(&space, (0..5).map(|i| message(&format!("n{i}"), &format!("new{i}"))).collect()).unwrap();
    engine.blocking().flush().unwrap();
    assert_finds(&engine, "n4", "new4");
    assert_finds(&engine, "m199", "changed");
    assert_finds(&engine, "m9", "word9");
    drop(engine);
    assert_eq!((db.assert_sound().vectors, rows(&db)), (201, (201, 201)));
}

/// It gets a lexical index when it is first asked; till then none that has half of the rows.
#[test]
fn a_database_of_schema_3_is_sound_before_and_after_it_is_asked() {
    let db = Db::new();
    let space = namespace("a");
    let put = |engine: &Engine, ids: std::ops::Range<usize>| {
        engine.blocking().put(&space, ids.map(|i| message(&format!("m{i}"), &format!("word{i}"))).collect()).unwrap();
        engine.blocking().flush().unwrap();
    };
    let open = |window_bytes: usize| {
        let mut embedder = Hashing::new(32);
        embedder.window_bytes = window_bytes;
        db.open_with(Arc::new(embedder))
    };
    {
        let engine = open(24);
        let long: Vec<String> = (0..40).map(|i| format!("long{i}")).collect();
        engine.blocking().put(&space, vec![message("long", &long.join(" "))]).unwrap();
        put(&engine, 0..50);
    }
    {
        let file = redb::Database::open(&db.path).unwrap();
        let transaction = file.begin_write().unwrap();
        back_to_schema_3(&transaction);
        transaction.commit().unwrap();
    }
    put(&db.open(), 50..60);
    db.assert_sound();
    // Its embedder splits long texts otherwise now.
    let engine = open(40);
    let check = |word: &str, id: &str| {
        let query = Query::new(word).strategy(mnemon::Strategy::Lexical).k(1);
        let hits = engine.blocking().recall(&space, query).unwrap();
        let (text, hit) = (hits[0].message.text(), &hits[0]);
        assert!(hit.message.id == id && hit.parts.bm25 > 0.0 && text[hit.passage.clone()].contains(word), "{hit:?}");
    };
    put(&engine, 60..70);
    for (word, id) in [("word3", "m3"), ("word55", "m55"), ("word65", "m65"), ("long7", "long"), ("long39", "long")] {
        check(word, id);
    }
    drop(engine);
    db.assert_sound();
}

/// Rows of deleted messages do not count, wherever the vectors are.
#[test]
fn a_namespace_that_has_few_messages_left_is_searched_exactly() {
    for vectors in [VectorsIn::Memory, VectorsIn::Store] {
        let db = Db::new();
        let space = namespace("a");
        let engine = db.open();
        let puts = (0..150).map(|i| message(&format!("m{i}"), &format!("word{i}"))).collect();
        engine.blocking().put(&space, puts).unwrap();
        engine.blocking().flush().unwrap();
        engine.blocking().delete(&space, (0..80).map(|i| format!("m{i}")).collect()).unwrap();
        drop(engine);
        let mut config = Config::default();
        (config.exact_threshold, config.vectors) = (100, vectors);
        let engine = Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap();
        engine.blocking().optimize(&space).unwrap();
        let stats = engine.blocking().index_stats(&space).unwrap();
        assert_eq!((stats.vectors, stats.linked), (70, 0), "{vectors:?}");
        assert_finds(&engine, "m100", "word100");
    }
}

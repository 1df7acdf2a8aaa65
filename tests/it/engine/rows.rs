//! Rows of deleted vectors are reused: a database that changes for ever does not grow.

use std::{collections::BTreeMap, sync::Arc};

use mnemon::{Config, Engine, Precision, Query, VectorStorage};

use crate::support::{
    Db, Hashing, below, message, namespace,
    schemas::{back_to_schema_2, back_to_schema_3},
};

/// Returns the number of rows of a namespace and the number of live ones.
fn rows(db: &Db) -> (u32, u32) {
    let file = crate::support::open_tables(&db.path);
    let counts = redb::TableDefinition::<(u32, u32), (u32, u32)>::new("counts");
    let read = redb::ReadableDatabase::begin_read(&file).unwrap();
    redb::ReadableTable::get(&read.open_table(counts).unwrap(), (1, 0)).unwrap().unwrap().value()
}

/// Asserts that the nearest message has this id and text, and the query's vector.
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
fn random_changes_leave_a_sound_file_that_does_not_grow() {
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
    let mut below = |count: usize| below(&mut state, count);
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
fn a_database_of_schema_2_reuses_its_dead_rows() {
    let db = Db::with_precision(Precision::F32);
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
        let file = crate::support::open_tables(&db.path);
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

/// The lexical index is built at the first recall; before it there is none with only a part of the rows.
#[test]
fn a_database_of_schema_3_is_sound_before_and_after_a_recall() {
    let db = Db::with_precision(Precision::F32);
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
        let file = crate::support::open_tables(&db.path);
        let transaction = file.begin_write().unwrap();
        back_to_schema_3(&transaction);
        transaction.commit().unwrap();
    }
    put(&db.open(), 50..60);
    db.assert_sound();
    // Its embedder splits long texts otherwise now.
    let engine = open(40);
    let check = |word: &str, id: &str| {
        let query = Query::new(word).strategy(mnemon::RankingStrategy::Lexical).k(1);
        let hits = engine.blocking().recall(&space, query).unwrap();
        let (text, hit) = (hits[0].message.text(), &hits[0]);
        assert!(
            hit.message.id == id && hit.breakdown.bm25 > 0.0 && text[hit.passage.clone()].contains(word),
            "{hit:?}"
        );
    };
    put(&engine, 60..70);
    for (word, id) in [("word3", "m3"), ("word55", "m55"), ("word65", "m65"), ("long7", "long"), ("long39", "long")] {
        check(word, id);
    }
    drop(engine);
    db.assert_sound();
}

/// Rows of deleted messages do not count for the threshold, in memory and in the store.
#[test]
fn a_namespace_that_has_few_messages_left_is_searched_exactly() {
    for vectors in [VectorStorage::Memory, VectorStorage::Store] {
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

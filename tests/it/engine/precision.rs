//! Vectors stored with 16 or 8 bits a component: hits, damage, and reindexing to 8 bits and back.

use std::sync::Arc;

use mnemon::{Config, Engine, Error, IndexKind, Precision, Query, RankingStrategy, ReindexOptions, VectorStorage};

use crate::support::{Db, Hashing, go_on, message, namespace, reindex, schemas::back_to_schema_3, stop_after};

const DIMENSION: usize = 64;

fn embedder() -> Hashing {
    let mut embedder = Hashing::new(DIMENSION);
    embedder.window_bytes = 64;
    embedder
}

fn config(precision: Precision) -> Config {
    let mut config = Config::default();
    (config.precision, config.flush_size) = (precision, 100_000);
    config.idle_flush = None;
    config
}

fn open(db: &Db, config: Config) -> Engine {
    Engine::builder(&db.path).config(config).embedder(Arc::new(embedder())).open().unwrap()
}

/// Returns the ids and the bits of the similarities that each of 50 queries finds.
fn recalled(engine: &Engine) -> Vec<Vec<(String, u32)>> {
    let ask = |i: usize| {
        let query =
            Query::new(format!("word{i} topic{}", i % 20)).k(20).strategy(RankingStrategy::Dense).keep_duplicates();
        let hits = engine.blocking().recall(&namespace("a"), query).unwrap();
        hits.iter().map(|hit| (hit.message.id.clone(), hit.similarity.to_bits())).collect()
    };
    (0..50).map(ask).collect()
}

/// Puts long messages, replaces and deletes some so that their rows are reused, in large and small commits.
fn fill(engine: &Engine) {
    let put = |ids: std::ops::Range<usize>, version: &str| {
        let text = |i: usize| format!("topic{} word{i} {version} ", i % 20).repeat(if i % 30 == 7 { 8 } else { 1 });
        engine.blocking().put(&namespace("a"), ids.map(|i| message(&format!("m{i}"), &text(i))).collect()).unwrap();
        engine.blocking().flush().unwrap();
    };
    put(0..10, "first");
    // Loaded now: what follows is published, not read.
    recalled(engine);
    put(10..500, "first");
    engine.blocking().optimize(&namespace("a")).unwrap();
    put(100..150, "second");
    engine.blocking().delete(&namespace("a"), (200..260).map(|i| format!("m{i}")).collect()).unwrap();
    put(500..530, "third");
    engine.blocking().optimize(&namespace("a")).unwrap();
}

/// Returns the precisions of the generations, oldest first.
fn precisions(db: &Db) -> Vec<Precision> {
    mnemon::stats(&db.path).unwrap().generations.iter().map(|generation| generation.precision).collect()
}

#[test]
fn hits_are_the_same_after_a_restart() {
    for precision in [Precision::F32, Precision::F16, Precision::I8] {
        for (index, vectors) in [
            (IndexKind::Exact, VectorStorage::Memory),
            (IndexKind::Hnsw, VectorStorage::Memory),
            (IndexKind::Hnsw, VectorStorage::Store),
        ] {
            let db = Db::new();
            let mut config = config(precision);
            (config.index, config.vectors, config.ef_search) = (index, vectors, 1000);
            let engine = open(&db, config.clone());
            fill(&engine);
            let before = recalled(&engine);
            assert!(before.iter().all(|hits| hits.len() == 20));
            drop(engine);
            assert_eq!(recalled(&open(&db, config)), before, "{precision} {index:?} {vectors:?}");
            db.assert_sound();
        }
    }
}

#[test]
fn fewer_bits_take_less_and_find_the_same() {
    let [full, half, small] = [Precision::F32, Precision::F16, Precision::I8].map(|precision| {
        let db = Db::new();
        let mut config = config(precision);
        config.index = IndexKind::Exact;
        let engine = open(&db, config);
        assert_eq!(engine.precision(), precision);
        fill(&engine);
        let found = recalled(&engine);
        drop(engine);
        (found, blocks(&db).iter().map(Vec::len).sum::<usize>())
    });
    // 152 and 92 bytes a row, not 280.
    assert!(half.1 * 9 <= full.1 * 5, "{} of {} bytes", half.1, full.1);
    assert!(small.1 * 3 <= full.1, "{} of {} bytes", small.1, full.1);
    for (fewer, limit) in [(half, 0.0005), (small, 0.01)] {
        for (full, fewer) in full.0.iter().zip(&fewer.0) {
            let similarities =
                |hits: &[(String, u32)]| hits.iter().map(|(_, bits)| f32::from_bits(*bits)).collect::<Vec<_>>();
            for (a, b) in similarities(full).into_iter().zip(similarities(fewer)) {
                assert!((a - b).abs() < limit, "{a} {b}");
            }
        }
    }
}

#[test]
fn a_database_keeps_to_its_precision() {
    let db = Db::new();
    fill(&open(&db, config(Precision::I8)));
    let engine = open(&db, config(Precision::F32));
    assert_eq!(engine.precision(), Precision::I8);
    engine.blocking().put(&namespace("a"), vec![message("new", "new")]).unwrap();
    engine.blocking().flush().unwrap();
    drop(engine);
    db.assert_sound();
    assert_eq!(precisions(&db), [Precision::I8]);
}

#[test]
fn a_database_is_reindexed_to_fewer_bits_and_back() {
    for precision in [Precision::F16, Precision::I8] {
        reindex_and_back(precision);
    }
}

fn reindex_and_back(fewer: Precision) {
    let db = Db::new();
    let engine = open(&db, config(Precision::F32));
    fill(&engine);
    let before = recalled(&engine);
    drop(engine);
    let vectors = || mnemon::stats(&db.path).unwrap().sizes.vectors;
    let full = vectors();

    let report = reindex(&db, embedder(), Some(fewer), go_on).unwrap();
    assert!(report.switched && report.precision == fewer && (report.copied, report.embedded) == (470, 0), "{report:?}");
    assert_eq!(precisions(&db), [fewer]);
    assert!(vectors() < full, "{} of {full} bytes", vectors());
    db.assert_sound();
    // As they are: nothing to do.
    for precision in [None, Some(fewer)] {
        let again = reindex(&db, embedder(), precision, go_on).unwrap();
        assert!(!again.switched && again.precision == fewer);
    }

    if fewer == Precision::F16 {
        let report = reindex(&db, embedder(), Some(Precision::I8), go_on).unwrap();
        assert_eq!((report.switched, report.copied, report.embedded), (true, 470, 0), "{report:?}");
    }
    // The bits that are lost are computed again.
    let report = reindex(&db, embedder(), Some(Precision::F32), go_on).unwrap();
    assert_eq!((report.switched, report.copied, report.embedded), (true, 0, 470), "{report:?}");
    assert_eq!(recalled(&open(&db, config(Precision::I8))), before, "what it was, to the bit");
    db.assert_sound();
}

/// Recalls are equal to the bit to those of a database that had 8 bits from the first.
#[test]
fn copied_vectors_equal_embedded_ones() {
    let [moved, fresh] = [Precision::F32, Precision::I8].map(|precision| {
        let db = Db::new();
        fill(&open(&db, config(precision)));
        db
    });
    let engine = open(&moved, config(Precision::F32));
    // Waits there too: it is embedded, once for each.
    engine.blocking().put(&namespace("a"), vec![message("new", "topic1 new")]).unwrap();
    let mut options = ReindexOptions::default();
    options.precision = Some(Precision::I8);
    let report = engine.blocking().reindex(Arc::new(embedder()), options, go_on).unwrap();
    assert_eq!((report.switched, report.copied, report.embedded), (true, 470, 1), "{report:?}");
    drop(engine);
    moved.assert_sound();
    let engine = open(&moved, config(Precision::I8));
    engine.blocking().delete(&namespace("a"), vec!["new".into()]).unwrap();
    assert_eq!(recalled(&engine), recalled(&open(&fresh, config(Precision::I8))));
}

#[test]
fn a_reindex_goes_on_with_its_own_precision_alone() {
    let db = Db::new();
    fill(&open(&db, config(Precision::F32)));
    assert!(!reindex(&db, embedder(), Some(Precision::I8), stop_after(1)).unwrap().switched);
    assert_eq!(precisions(&db), [Precision::F32, Precision::I8]);
    db.assert_sound();
    // Both take writes meanwhile, each in its own form.
    let engine = open(&db, Config::default());
    engine.blocking().put(&namespace("a"), vec![message("m0", "changed"), message("m3", "changed")]).unwrap();
    engine.blocking().delete(&namespace("a"), vec!["m1".into()]).unwrap();
    engine.blocking().flush().unwrap();
    drop(engine);
    db.assert_sound();
    let report = reindex(&db, embedder(), Some(Precision::I8), stop_after(400)).unwrap();
    assert!(report.resumed > 0, "{report:?}");

    // Another model, in no precision that was named: that of the serving vectors.
    let report = reindex(&db, Hashing::new(32), None, stop_after(1)).unwrap();
    assert_eq!((report.resumed, report.precision), (0, Precision::F32));
    let report = reindex(&db, Hashing::new(32), Some(Precision::I8), go_on).unwrap();
    assert_eq!((report.resumed, report.embedded, report.switched), (0, 469, true));
    assert_eq!(precisions(&db), [Precision::I8]);
    db.assert_sound();
}

#[test]
fn a_database_of_schema_3_stores_32_bits() {
    let db = Db::new();
    let engine = open(&db, config(Precision::F32));
    fill(&engine);
    let before = recalled(&engine);
    drop(engine);
    // Two generations, each a record to be rewritten.
    reindex(&db, Hashing::new(32), None, stop_after(1)).unwrap();
    edit(&db, back_to_schema_3);
    assert_eq!(precisions(&db), [Precision::F32; 2]);
    db.assert_sound();
    let engine = open(&db, config(Precision::I8));
    assert_eq!((engine.precision(), recalled(&engine)), (Precision::F32, before));
    drop(engine);
    reindex(&db, embedder(), Some(Precision::I8), go_on).unwrap();
    assert_eq!(precisions(&db), [Precision::I8]);
    db.assert_sound();
}

const VECTORS: redb::TableDefinition<(u32, u32, u32), &[u8]> = redb::TableDefinition::new("vectors");

fn edit(db: &Db, change: impl FnOnce(&redb::WriteTransaction)) {
    let file = crate::support::open_tables(&db.path);
    let transaction = file.begin_write().unwrap();
    change(&transaction);
    transaction.commit().unwrap();
}

fn blocks(db: &Db) -> Vec<Vec<u8>> {
    let file = crate::support::open_tables(&db.path);
    let table = redb::ReadableDatabase::begin_read(&file).unwrap().open_table(VECTORS).unwrap();
    redb::ReadableTable::iter(&table).unwrap().map(|entry| entry.unwrap().1.value().to_vec()).collect()
}

#[test]
fn verify_names_damaged_vectors() {
    const HEADER: usize = 4;
    const META: usize = 24;
    let db = Db::new();
    fill(&open(&db, config(Precision::I8)));
    let good = blocks(&db).swap_remove(0);
    let float = |x: f32| x.to_le_bytes().to_vec();
    let check = |at: usize, bytes: &[u8], named: &str, loads: bool| {
        let mut block = good.clone();
        block.splice(at..(at + bytes.len()).min(block.len()), bytes.iter().copied());
        edit(&db, |file| drop(file.open_table(VECTORS).unwrap().insert((1, 0, 0), &*block).unwrap()));
        let problems = mnemon::verify(&db.path).unwrap().problems;
        assert!(problems.iter().any(|problem| problem.contains(named)), "{named}: {problems:?}");
        let engine = open(&db, config(Precision::I8));
        let recalled = engine.blocking().recall(&namespace("a"), Query::new("topic1"));
        assert_eq!(recalled.is_ok(), loads, "{named}: {recalled:?}");
    };
    let scale = HEADER + META;
    check(scale, &float(0.5), "row 0 is no unit vector", true);
    check(scale, &float(f32::NAN), "row 0 is no unit vector", false);
    check(scale, &float(f32::INFINITY), "row 0 is no unit vector", false);
    check(scale + 4, &[127; DIMENSION], "row 0 is no unit vector", true);
    check(2, &[2], "begins with", false);
    check(good.len(), &[0], "a block of vectors has", false);
}

/// A precision of a later release, or a damaged record.
#[test]
fn an_unknown_precision_is_damage() {
    let db = Db::new();
    fill(&open(&db, config(Precision::I8)));
    edit(&db, |file| {
        let mut generations = file.open_table(redb::TableDefinition::<u32, &[u8]>::new("generations")).unwrap();
        let mut record = redb::ReadableTable::get(&generations, 1).unwrap().unwrap().value().to_vec();
        *record.last_mut().unwrap() = 9;
        generations.insert(1, &*record).unwrap();
    });
    assert_eq!(mnemon::verify(&db.path).unwrap().problems, ["a generation has the unknown layout 9"]);
    let errors = [
        mnemon::stats(&db.path).unwrap_err(),
        Engine::builder(&db.path).embedder(Arc::new(embedder())).open().unwrap_err(),
    ];
    for error in errors {
        assert!(
            matches!(&error, Error::Corrupted { what } if what == "a generation has the unknown layout 9"),
            "{error}"
        );
    }
}

//! The gate: the comparison that a new generation must pass before it serves.

use mnemon::{Config, Engine, IndexKind, Query, ReindexOptions};

use super::{filled, found, generations, hashing};
use crate::support::{Db, go_on, message, namespace};

fn options(change: impl FnOnce(&mut ReindexOptions)) -> ReindexOptions {
    let mut options = ReindexOptions::default();
    change(&mut options);
    options
}

#[test]
fn models_that_disagree_do_not_pass_if_they_must_agree() {
    let db = filled(500);
    let engine = db.open();
    for i in 0..20 {
        found(&engine, "a", &format!("word{i} a"));
    }
    let blocking = engine.blocking();
    let strict = options(|options| {
        options.min_overlap = Some(1.0);
        options.queries = vec![(namespace("b"), "word3 word4".into()), (namespace("nowhere"), "word3".into())];
    });
    let report = blocking.reindex(hashing(48), strict.clone(), go_on).unwrap();
    let gate = report.gate.unwrap();
    assert!(!report.switched && gate.sampled == 128 && gate.live == 21, "{gate:?}");
    assert_eq!(gate.recall, Some(1.0), "small namespaces are scanned");
    assert!(gate.overlap.unwrap() < 1.0 && gate.serving_p50_us > Some(0.0) && gate.new_p50_us > Some(0.0), "{gate:?}");
    assert!(gate.failed.unwrap().contains("--min-overlap"));
    assert_eq!(engine.model().dimension, 32);
    assert_eq!(found(&engine, "a", "word7 a").as_deref(), Some("m7"));
    // What was built is kept.
    let report = blocking.reindex(hashing(48), ReindexOptions::default(), go_on).unwrap();
    assert!(report.switched && (report.embedded, report.resumed) == (0, 1000), "{report:?}");
    drop(engine);
    db.assert_sound();
}

/// An index that misses what a scan finds.
#[test]
fn an_index_that_misses_does_not_pass() {
    let db = Db::new();
    let open = |dimension: usize, ef: usize| {
        let mut config = Config::default();
        (config.index, config.flush_size) = (IndexKind::Hnsw, 100_000);
        config.idle_flush = None;
        (config.m, config.ef_construction, config.ef_search) = (4, 8, ef);
        Engine::builder(&db.path).config(config).embedder(hashing(dimension)).open().unwrap()
    };
    let engine = open(16, 1);
    // Words that no two messages share are strewn over the sphere.
    let messages = (0..3000).map(|i| message(&format!("m{i}"), &format!("word{i}"))).collect();
    engine.blocking().put(&namespace("a"), messages).unwrap();
    engine.blocking().flush().unwrap();
    let report = engine.blocking().reindex(hashing(64), options(|options| options.min_recall = 1.0), go_on).unwrap();
    let gate = report.gate.unwrap();
    assert!(!report.switched && gate.recall.unwrap() < 1.0, "{gate:?}");
    assert!(gate.failed.as_ref().unwrap().contains("--min-recall"), "{gate:?}");
    let lax = options(|options| options.min_recall = 0.0);
    assert!(engine.blocking().reindex(hashing(64), lax, go_on).unwrap().switched);
    drop(engine);
    db.assert_sound();
}

/// The gate compares the vectors of each kind of index.
#[test]
fn every_kind_of_index_is_tried() {
    let kinds = [IndexKind::Exact, IndexKind::HnswRs, IndexKind::Hnsw];
    for index in kinds {
        let db = Db::new();
        let mut config = Config::default();
        (config.index, config.flush_size) = (index, 100_000);
        config.idle_flush = None;
        let engine = Engine::builder(&db.path).config(config).embedder(hashing(32)).open().unwrap();
        super::fill(&engine, 700);
        engine.blocking().recall(&namespace("a"), Query::new("word1 word2")).unwrap();
        let report = engine.blocking().reindex(hashing(48), ReindexOptions::default(), go_on).unwrap();
        let gate = report.gate.unwrap();
        assert!(report.switched && gate.recall.unwrap() > 0.9 && gate.sampled == 128, "{index:?}: {gate:?}");
        assert_eq!(found(&engine, "a", "word7 a").as_deref(), Some("m7"));
        drop(engine);
        db.assert_sound();
    }
}

/// There is nothing to be tried with where all is found anyway.
#[test]
fn small_namespaces_pass_the_gate() {
    let db = filled(10);
    let engine = db.open();
    found(&engine, "a", "word1 a");
    let report = engine.blocking().reindex(hashing(48), options(|o| o.min_overlap = Some(1.0)), go_on).unwrap();
    let gate = report.gate.unwrap();
    assert!(report.switched && (gate.sampled, gate.recall, gate.overlap) == (0, None, None), "{gate:?}");
}

/// Without an engine, the model that serves may be gone.
#[test]
fn without_the_serving_model_only_the_new_one_is_tried() {
    let db = filled(300);
    let strict = options(|options| options.min_overlap = Some(0.1));
    let report = mnemon::reindex(&db.path, hashing(48), strict, go_on).unwrap();
    let gate = report.gate.unwrap();
    assert!(!report.switched && gate.failed.unwrap().contains("not available"));
    let report = mnemon::reindex(&db.path, hashing(48), ReindexOptions::default(), go_on).unwrap();
    let gate = report.gate.unwrap();
    assert!(report.switched && gate.sampled == 128 && gate.live == 0, "{gate:?}");
    assert_eq!((gate.recall, gate.overlap, gate.serving_p50_us), (Some(1.0), None, None));
    assert_eq!(generations(&db).len(), 2);
}

/// A question that a model refuses does not count; nor is it a reason not to move.
#[test]
fn a_query_that_a_model_refuses_does_not_count() {
    let poisoned = |dimension| {
        let mut poisoned = crate::support::Hashing::new(dimension);
        poisoned.poison = Some("poison");
        std::sync::Arc::new(poisoned)
    };
    for (from, to) in [(poisoned(32), hashing(48)), (hashing(32), poisoned(48))] {
        let db = Db::new();
        let engine = db.open_with(from);
        super::fill(&engine, 100);
        let recall = |text: &str| engine.blocking().recall(&namespace("a"), Query::new(text));
        let _ = recall("poison");
        recall("word1").unwrap();
        let all = options(|options| {
            (options.samples, options.min_overlap) = (2, Some(0.0));
            options.queries = vec![(namespace("a"), "more poison".into())];
        });
        let report = engine.blocking().reindex(to, all, go_on).unwrap();
        let gate = report.gate.unwrap();
        assert!(report.switched && gate.sampled >= 1 && gate.overlap.is_some(), "{gate:?}");
    }
}

/// The loaded namespaces may be too small for the gate, which then loads others.
#[test]
fn a_large_namespace_is_tried_where_only_small_ones_are_loaded() {
    let db = filled(300);
    let engine = db.open();
    engine.blocking().put(&namespace("c"), vec![message("m", "word")]).unwrap();
    engine.blocking().flush().unwrap();
    drop(engine);
    let engine = db.open();
    found(&engine, "c", "word");
    let gate = engine.blocking().reindex(hashing(48), ReindexOptions::default(), go_on).unwrap().gate.unwrap();
    assert_eq!((gate.sampled, gate.live), (128, 0));
}

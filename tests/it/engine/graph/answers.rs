//! Messages are put, changed and deleted, and recalls return what a scan of all vectors returns.

use std::{collections::BTreeMap, time::Duration};

use mnemon::{Query, Role, VectorStorage};

use super::{CODING, LARGE, SPACE, assert_settles, config, is_found, large, open, put_and_flush, recall, text, wide};
use crate::support::{Db, below, message, namespace, recall::dense};

/// `MNEMON_GRAPH_RUNS` sets how often; default 2.
#[test]
fn after_any_changes_all_messages_are_found() {
    let runs = std::env::var("MNEMON_GRAPH_RUNS").map_or(2, |runs| runs.parse().unwrap());
    for run in 0..runs {
        let db = Db::new();
        let space = namespace(SPACE);
        let mut state: u64 = 70 + run;
        let mut below = |count: usize| below(&mut state, count);
        let mut config = if run % 2 == 0 { config() } else { wide() };
        let mut engine = open(&db.path, config.clone());
        let mut stored: BTreeMap<String, String> = BTreeMap::new();
        let mut next = 0;
        for round in 0..80 {
            match below(8) {
                0..3 => {
                    // Few, which their commit links; or many, which are linked later.
                    let count = if below(3) == 0 { 65 + below(100) } else { 1 + below(20) };
                    let mut messages = BTreeMap::new();
                    for _ in 0..count {
                        next += 1;
                        messages.insert(format!("m{}", below(700)), text(next));
                    }
                    let put = messages.iter().map(|(id, text)| message(id, text)).collect();
                    engine.blocking().put(&space, put).unwrap();
                    stored.extend(messages);
                }
                3 => {
                    let ids: Vec<String> = (0..below(40)).map(|_| format!("m{}", below(700))).collect();
                    stored.retain(|id, _| !ids.contains(id));
                    engine.blocking().delete(&space, ids).unwrap();
                }
                4 | 5 => drop(engine.blocking().flush().unwrap()),
                6 => engine.blocking().optimize(&space).unwrap(),
                _ => {
                    drop(engine);
                    if below(4) == 0 {
                        db.assert_sound();
                    }
                    config.vectors = if below(2) == 0 { VectorStorage::Memory } else { VectorStorage::Store };
                    engine = open(&db.path, config.clone());
                }
            }
            if round % 8 == 7 {
                engine.blocking().flush().unwrap();
                for (id, text) in stored.iter().skip(round % 3).step_by(7) {
                    assert!(is_found(&engine, id, text), "run {run}, round {round}: {id}, {text:?}");
                }
            }
        }
        engine.blocking().flush().unwrap();
        assert_settles(&engine, stored.len());
        assert!(stored.iter().all(|(id, text)| is_found(&engine, id, text)));
        let queries: Vec<String> = (0..60).map(|i| format!("topic{} word{}", i % 30, i * 77)).collect();
        let recall = recall(&engine, stored.values().map(String::as_str), &queries);
        assert!(recall >= 0.98, "run {run}: recall {recall}");
        drop(engine);
        db.assert_sound();
    }
}

/// Rows that were unlinked are given to many at once, and read again before these are linked.
#[test]
fn reused_rows_are_found_after_reopening() {
    let db = Db::new();
    let space = namespace(SPACE);
    for round in 0..5 {
        let engine = open(&db.path, config());
        let ids = |round: usize| (0..200).map(move |i| (format!("r{round}/{i}"), text(round * 1000 + i)));
        engine.blocking().delete(&space, ids(round.max(1) - 1).map(|(id, _)| id).collect()).unwrap();
        engine.blocking().optimize(&space).unwrap();
        put_and_flush(&engine, ids(round).map(|(id, text)| message(&id, &text)).collect());
        drop(engine);
        db.assert_sound();
        let engine = open(&db.path, config());
        for (id, text) in ids(round) {
            assert!(is_found(&engine, &id, &text), "{id}");
        }
    }
}

#[test]
fn vectors_in_the_store_give_the_same_hits() {
    let db = large();
    let hits = |vectors| {
        let mut config = config();
        config.vectors = vectors;
        let engine = open(&db.path, config);
        let ask = |i: usize| {
            let query = dense(format!("topic{} word{}", i % 30, i * 31)).k(1 + i % 20);
            let query = if i.is_multiple_of(3) { query.session("s0") } else { query };
            let hits = engine.blocking().recall(&namespace(SPACE), query).unwrap();
            hits.into_iter().map(|hit| (hit.message.id, hit.score)).collect::<Vec<_>>()
        };
        (0..60).map(ask).collect::<Vec<_>>()
    };
    let (memory, store) = (hits(VectorStorage::Memory), hits(VectorStorage::Store));
    let mut others = 0;
    for (memory, store) in memory.iter().zip(&store) {
        assert_eq!(memory.len(), store.len());
        for ((_, memory), (_, store)) in memory.iter().zip(store) {
            assert!((memory - store).abs() < CODING, "{memory} {store}");
        }
        others += store.iter().filter(|(id, _)| memory.iter().all(|(other, _)| other != id)).count();
    }
    // Rows that are too close to tell are scored by their vectors.
    assert!(others < 10, "{others} of 630 hits are others");
}

#[test]
fn a_filter_returns_k_hits_if_k_messages_match() {
    let db = large();
    let engine = open(&db.path, config());
    for i in 0..40 {
        let query = Query::new(text(i * 13 + 1)).k(15);
        let recall = |query| engine.blocking().recall(&namespace(SPACE), query).unwrap();
        let rare = recall(query.clone().role(Role::Assistant));
        assert!(rare.len() == 15 && rare.iter().all(|hit| hit.message.role == Role::Assistant));
        let half = recall(query.clone().session("s0"));
        assert!(half.len() == 15 && half.iter().all(|hit| hit.message.session == "s0"));
        let few = recall(query.clone().session(format!("s{}", i + 1)).k(30));
        assert!(few.len() == 20 && few.iter().all(|hit| hit.message.session == format!("s{}", i + 1)));
        assert_eq!(recall(query.clone().session("s0").role(Role::Assistant)).len(), 0);
        assert_eq!(recall(query.session("none")).len(), 0);
        assert_eq!(recall(Query::new("word").k(LARGE)).len(), LARGE);
    }
}

#[test]
fn a_search_without_time_says_that_it_was_cut_short() {
    let db = large();
    for vectors in [VectorStorage::Memory, VectorStorage::Store] {
        let mut config = config();
        config.vectors = vectors;
        let engine = open(&db.path, config);
        for i in 0..40 {
            let query = Query::new(text(i)).k(10).within(Duration::ZERO);
            let hits = engine.blocking().recall(&namespace(SPACE), query.clone()).unwrap();
            assert!(hits.cut_short() && hits.len() <= 10, "{}", hits.len());
            let hits = engine.blocking().recall(&namespace(SPACE), query.session("s0")).unwrap();
            assert!(hits.len() <= 10 && hits.iter().all(|hit| hit.message.session == "s0"));
            let hits = engine.blocking().recall(&namespace(SPACE), Query::new(text(i)).within(Duration::MAX)).unwrap();
            assert!(!hits.cut_short() && hits.len() == 10);
        }
    }
}

/// Samples are taken in the background, at the latest when all of its work is done.
#[test]
fn recall_is_estimated_and_tuned() {
    let db = large();
    let space = namespace(SPACE);
    let mut config = config();
    config.ef_search = 1;
    let ask = |config: &mnemon::Config, count: usize| {
        let engine = open(&db.path, config.clone());
        for i in 0..count {
            engine.blocking().recall(&space, Query::new(format!("topic{} word{i}", i % 25))).unwrap();
            if i % 64 == 0 {
                engine.blocking().optimize(&space).unwrap();
            }
        }
        engine.blocking().index_stats(&space).unwrap()
    };
    let stats = ask(&config, 400);
    assert_eq!((stats.vectors, stats.linked, stats.ef_search), (LARGE, LARGE, 1));
    assert!(stats.samples > 0 && stats.recall.is_some_and(|recall| recall > 0.1 && recall <= 1.0), "{stats:?}");
    config.target_recall = Some(0.9999);
    let stats = ask(&config, 400);
    assert!(stats.ef_search >= 16, "{stats:?}");
    // With no time, nothing is found, whatever the graph is like.
    (config.target_recall, config.ef_search) = (None, 128);
    let engine = open(&db.path, config);
    for i in 0..200 {
        engine.blocking().recall(&space, Query::new(text(i)).within(Duration::ZERO)).unwrap();
    }
    engine.blocking().optimize(&space).unwrap();
    assert_eq!(engine.blocking().index_stats(&space).unwrap().samples, 0);
}

//! Messages that are not embedded yet: they are found by their words as soon as they are put.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use mnemon::{Config, Engine, Query, RankingStrategy, Role};
use proptest::prelude::*;

use super::{SPACE, delete, ids, recall, said};
use crate::support::{
    Db, Hashing, message, namespace,
    recall::{dense, lexical},
};

/// Puts without a flush.
fn put(engine: &Engine, id: &str, text: &str) {
    engine.blocking().put(&namespace(SPACE), vec![message(id, text)]).unwrap();
}

#[test]
fn what_was_put_is_found_by_its_words_at_once() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, "m1", "The ferry to Oslo leaves at noon.");
    for query in [Query::new("when is the ferry"), lexical("ferry")] {
        let hits = recall(&engine, query);
        assert_eq!((ids(&hits), hits.pending()), (vec!["m1"], 1));
        assert_eq!((hits[0].similarity, hits[0].breakdown.dense_rank), (0.0, 0));
        assert!(hits[0].breakdown.bm25 > 0.0);
    }
    let hits = recall(&engine, dense("ferry"));
    assert_eq!((hits.len(), hits.pending()), (0, 1), "by meaning it is found once it is embedded");
    let hits = recall(&engine, Query::new("something else"));
    assert_eq!((hits.len(), hits.pending()), (0, 1));
    engine.blocking().flush().unwrap();
    let hits = recall(&engine, Query::new("ferry"));
    assert_eq!((ids(&hits), hits.pending()), (vec!["m1"], 0));
    assert!(hits[0].similarity > 0.0);
}

#[test]
fn what_was_put_is_embedded_a_second_after_the_last_put() {
    let db = Db::new();
    let engine = Engine::builder(&db.path).embedder(std::sync::Arc::new(Hashing::new(32))).open().unwrap();
    assert_eq!(Config::default().idle_flush, Some(Duration::from_secs(1)));
    for round in 0..2 {
        let started = Instant::now();
        put(&engine, &format!("m{round}"), "The ferry to Oslo");
        while recall(&engine, dense("ferry").k(10)).len() <= round {
            assert!(started.elapsed() < Duration::from_secs(60), "nobody asked for a flush");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(started.elapsed() > Duration::from_millis(900), "the flush waits for more puts");
    }
}

#[test]
fn other_sessions_find_what_is_in_a_buffer() {
    let db = Db::new();
    let engine = db.open();
    let memory = engine.memory(&namespace(SPACE), "monday").open().unwrap();
    memory.blocking().put(vec![message("m1", "The ferry leaves at noon."), message("m2", "Thank you.")]).unwrap();
    assert_eq!(said(&engine, "ferry"), ["m1"]);
    assert_eq!(recall(&engine, Query::new("ferry")).pending(), 2);
    drop(memory);
    drop(engine);
    // After a restart, too.
    let engine = db.open();
    assert_eq!(said(&engine, "ferry"), ["m1"]);
    let memory = engine.memory(&namespace(SPACE), "monday").open().unwrap();
    memory.blocking().flush().unwrap();
    assert_eq!(said(&engine, "ferry"), ["m1"]);
    engine.blocking().flush().unwrap();
    let hits = recall(&engine, Query::new("ferry").k(1));
    assert_eq!((ids(&hits), hits.pending()), (vec!["m1"], 0));
}

#[test]
fn filters_hold_for_messages_that_are_not_embedded() {
    let db = Db::new();
    let engine = db.open();
    let mut answer = message("m2", "the ferry, again").in_session("b");
    answer.role = Role::Assistant;
    answer.created_at = Some("2024-05-01T12:00:00Z".parse().unwrap());
    engine.blocking().put(&namespace(SPACE), vec![message("m1", "the ferry").in_session("a"), answer]).unwrap();
    let found = |query: Query| {
        let hits = recall(&engine, query);
        (hits.iter().map(|hit| hit.message.id.clone()).collect::<Vec<_>>().join(" "), hits.pending())
    };
    let query = || lexical("ferry");
    assert_eq!(found(query()).1, 2);
    assert_eq!(found(query().session("a")), ("m1".into(), 1));
    assert_eq!(found(query().role(Role::Assistant)), ("m2".into(), 1));
    assert_eq!(found(query().until("2024-06-01T00:00:00Z".parse().unwrap())), ("m2".into(), 1));
    assert_eq!(found(query().except(["m2"])), ("m1".into(), 1));
    assert_eq!(found(query().session("c")), (String::new(), 0));
}

/// A text counts in the statistics of the words as if it were indexed.
#[test]
fn a_message_has_the_same_bm25_before_and_after_it_is_embedded() {
    let db = Db::new();
    let engine = db.open();
    for i in 0..40 {
        put(&engine, &format!("m{i}"), &format!("word{} word{} ferry{}", i % 7, i % 5, " noon".repeat(i % 4)));
        if i == 20 {
            engine.blocking().flush().unwrap();
        }
    }
    let scores = |text: &str| -> BTreeMap<String, f32> {
        let hits = recall(&engine, lexical(text).k(100));
        hits.iter().map(|hit| (hit.message.id.clone(), hit.breakdown.bm25)).collect()
    };
    let queries = ["word3 word2", "noon", "ferry noon word1", "word6 absent"];
    let before = queries.map(scores);
    engine.blocking().flush().unwrap();
    for (query, (before, after)) in queries.iter().zip(before.into_iter().zip(queries.map(scores))) {
        assert_eq!(before.len(), 40);
        for (id, bm25) in &before {
            assert!((bm25 - after[id]).abs() < 1e-5, "{query}, {id}: {bm25} {}", after[id]);
        }
    }
}

/// At no moment between a put, its flush, an edit and the next flush is a message missing.
#[test]
fn a_message_is_found_at_every_moment() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, "m1", "ferry 0");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut recalls = 0;
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(said(&engine, "ferry"), ["m1"], "after {recalls} recalls");
                recalls += 1;
            }
            recalls
        });
        for i in 1..200 {
            if i % 2 == 0 {
                put(&engine, "m1", &format!("ferry {i}"));
            }
            engine.blocking().flush().unwrap();
            if looking.is_finished() {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(looking.join().unwrap() > 0);
    });
}

#[derive(Clone, Debug)]
enum Step {
    Put(usize, bool),
    Delete(usize),
    Flush,
    FlushBuffer,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (0..12_usize, any::<bool>()).prop_map(|(id, buffered)| Step::Put(id, buffered)),
        2 => (0..12_usize).prop_map(Step::Delete),
        1 => Just(Step::Flush),
        1 => Just(Step::FlushBuffer),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 16, ..ProptestConfig::default() })]

    /// After any changes, exactly what is stored is found by its words, with the text that is stored.
    #[test]
    fn exactly_the_stored_messages_are_found(steps in prop::collection::vec(step(), 1..25)) {
        let db = Db::new();
        let mut engine = db.open();
        let mut stored: BTreeMap<String, String> = BTreeMap::new();
        for (at, step) in steps.into_iter().enumerate() {
            let memory = || engine.memory(&namespace(SPACE), "session").open().unwrap();
            match step {
                Step::Put(id, buffered) => {
                    let (id, text) = (format!("{}{id}", if buffered { "b" } else { "m" }), format!("ferry word{at}"));
                    match buffered {
                        true => drop(memory().blocking().put(vec![message(&id, &text)]).unwrap()),
                        false => put(&engine, &id, &text),
                    }
                    stored.insert(id, text);
                }
                Step::Delete(id) => {
                    delete(&engine, &[&format!("m{id}"), &format!("b{id}")]);
                    stored.remove(&format!("m{id}"));
                    stored.remove(&format!("b{id}"));
                }
                Step::Flush => drop(engine.blocking().flush().unwrap()),
                Step::FlushBuffer => drop(memory().blocking().flush().unwrap()),
                Step::Reopen => {
                    drop(engine);
                    engine = db.open();
                }
            }
            let hits = recall(&engine, lexical("ferry").k(100));
            let found: BTreeMap<String, String> =
                hits.iter().map(|hit| (hit.message.id.clone(), hit.message.text())).collect();
            prop_assert_eq!(hits.len(), found.len(), "a message is found twice");
            prop_assert_eq!(&found, &stored);
        }
    }
}

#[test]
fn duplicates_are_recognized_among_messages_that_are_not_embedded() {
    let db = Db::new();
    let engine = db.open();
    let text = "the ferry to Oslo leaves at noon on Thursdays";
    put(&engine, "m1", text);
    put(&engine, "m2", text);
    put(&engine, "m3", "a ferry");
    let hits = recall(&engine, Query::new("ferry Oslo noon").strategy(RankingStrategy::Lexical));
    assert_eq!(ids(&hits), ["m1", "m3", "m2"]);
    assert_eq!(hits[2].breakdown.duplicate_of.as_deref(), Some("m1"));
}

//! Namespaces are unloaded when loaded ones take more than the memory budget.

use std::{
    sync::{
        Arc, Barrier,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use mnemon::{Config, Engine, Query};

use crate::support::{
    Db, Hashing, message, namespace,
    recall::{lexical, recalled_ids},
};

fn open(db: &Db, memory_budget: usize) -> Engine {
    let config = Config::default().memory_budget(memory_budget).flush_size(100_000);
    Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap()
}

/// Puts `messages` messages into each of `namespaces` namespaces.
fn fill(engine: &Engine, namespaces: usize, messages: usize) {
    let all = (0..namespaces).flat_map(|user| (0..messages).map(move |at| (user, at)));
    let all =
        all.map(|(user, at)| (namespace(&format!("u/{user}")), message(&at.to_string(), &format!("n{at} of u{user}"))));
    engine.blocking().put_all(all.collect()).unwrap();
    engine.blocking().flush().unwrap();
}

fn assert_found(engine: &Engine, user: usize, at: usize) {
    let query = Query::new(format!("n{at} of u{user}")).k(1);
    assert_eq!(recalled_ids(engine, &namespace(&format!("u/{user}")), query), [at.to_string()]);
}

/// Waits until the stats are as they should be: background work may use a namespace for a moment.
fn wait_for(engine: &Engine, what: &str, is_so: impl Fn(mnemon::EngineStats) -> bool) {
    let started = Instant::now();
    while !is_so(engine.blocking().stats()) {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}: {:?}", engine.blocking().stats());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn namespaces_are_unloaded_above_the_budget_and_found_again() {
    let db = Db::new();
    let engine = open(&db, 1 << 30);
    fill(&engine, 40, 20);
    (0..40).for_each(|user| assert_found(&engine, user, user % 20));
    let all = engine.blocking().stats();
    assert_eq!((all.loads, all.unloads, all.namespaces_loaded, all.memory_budget), (40, 0, 40, 1 << 30));
    // At least the vectors.
    assert!(all.memory_used > 40 * 20 * 32 * 4, "{all:?}");
    drop(engine);

    let budget = all.memory_used / 4;
    let engine = open(&db, budget);
    for round in 0..3 {
        for user in 0..40 {
            assert_found(&engine, user, (user + round) % 20);
        }
    }
    wait_for(&engine, "the budget", |stats| stats.memory_used <= budget);
    let stats = engine.blocking().stats();
    assert_eq!(stats.namespaces_loaded as u64, stats.loads - stats.unloads);
    assert!(stats.loads >= 100, "{stats:?}");
    // The one that was used last is still loaded.
    assert_found(&engine, 39, 5);
    assert_eq!(engine.blocking().stats().loads, stats.loads);
    // What is put while a namespace is not loaded is found.
    engine.blocking().put(&namespace("u/3"), vec![message("new", "a ferry")]).unwrap();
    assert_eq!(recalled_ids(&engine, &namespace("u/3"), lexical("ferry").k(1)), ["new"]);
    drop(engine);
    db.assert_sound();
}

/// A recall over all of them looks at each namespace twice, for the frequencies of the words and for its candidates.
#[test]
fn a_recall_over_many_namespaces_loads_each_once() {
    let db = Db::new();
    let engine = open(&db, 1 << 30);
    fill(&engine, 300, 1);
    drop(engine);
    let recall = |budget| {
        let engine = open(&db, budget);
        let scope = mnemon::Scope::new().under(&namespace("u"));
        assert_eq!(engine.blocking().recall_in(&scope, Query::new("n0 of u7").k(1)).unwrap().len(), 1);
        engine.blocking().stats()
    };
    let all = recall(1 << 30);
    assert_eq!((all.loads, all.unloads), (300, 0));
    // Those that do not fit are not loaded to count words.
    for share in [2, 4, 20] {
        let less = recall(all.memory_used / share);
        assert_eq!(less.loads, 300, "{less:?}");
        assert!(less.memory_used <= less.memory_budget, "{less:?}");
    }
}

#[test]
fn a_namespace_larger_than_the_budget_is_loaded_all_the_same() {
    let db = Db::new();
    let engine = open(&db, 0);
    fill(&engine, 2, 50);
    for at in 0..50 {
        assert_found(&engine, at % 2, at);
    }
    let stats = engine.blocking().stats();
    assert!(stats.memory_used > stats.memory_budget || stats.namespaces_loaded == 0, "{stats:?}");
    wait_for(&engine, "unused ones are unloaded", |stats| stats.namespaces_loaded <= 1);
}

#[test]
fn deleting_a_namespace_frees_its_memory() {
    let db = Db::new();
    let engine = open(&db, 1 << 30);
    fill(&engine, 5, 20);
    (0..5).for_each(|user| assert_found(&engine, user, 1));
    for user in 0..5 {
        assert_eq!(engine.blocking().delete_namespace(&namespace(&format!("u/{user}"))).unwrap(), 20);
    }
    wait_for(&engine, "all are unloaded", |stats| (stats.namespaces_loaded, stats.memory_used) == (0, 0));
    fill(&engine, 1, 3);
    assert_found(&engine, 0, 2);
}

#[test]
fn a_namespace_is_loaded_once_however_many_ask() {
    let db = Db::new();
    let engine = open(&db, 1 << 30);
    fill(&engine, 1, 200);
    let together = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (engine, together) = (&engine, &together);
            scope.spawn(move || {
                together.wait();
                assert_found(engine, 0, thread);
            });
        }
    });
    assert_eq!(engine.blocking().stats().loads, 1);
}

/// Under a budget that holds two of eight namespaces, recalls beside puts, flushes and deletions find what was
/// acknowledged.
#[test]
fn nothing_is_missed_while_namespaces_are_unloaded() {
    let db = Db::new();
    let engine = open(&db, 1 << 30);
    fill(&engine, 8, 30);
    (0..8).for_each(|user| assert_found(&engine, user, 0));
    let budget = engine.blocking().stats().memory_used / 4;
    drop(engine);
    let engine = open(&db, budget);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (engine, stop) = (&engine, &stop);
            scope.spawn(move || {
                let mut at = thread;
                while !stop.load(Ordering::Relaxed) {
                    at += 7;
                    assert_found(engine, at % 8, at % 30);
                }
            });
        }
        // Panics of this thread must end the others.
        let changes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..60 {
                let space = namespace(&format!("u/{}", round % 8));
                let id = format!("x{round}");
                engine.blocking().put(&space, vec![message(&id, &format!("parcel {id}"))]).unwrap();
                assert_eq!(recalled_ids(&engine, &space, lexical(format!("parcel {id}")).k(1)), [id.as_str()]);
                if round % 5 == 0 {
                    engine.blocking().flush().unwrap();
                    assert_eq!(recalled_ids(&engine, &space, lexical(format!("parcel {id}")).k(1)), [id.as_str()]);
                }
                if round % 3 == 0 {
                    engine.blocking().delete(&space, vec![id.clone()]).unwrap();
                    assert_ne!(recalled_ids(&engine, &space, lexical(format!("parcel {id}")).k(1)), [id.as_str()]);
                }
            }
        }));
        stop.store(true, Ordering::Relaxed);
        changes.unwrap();
    });
    assert!(engine.blocking().stats().unloads > 8, "{:?}", engine.blocking().stats());
    drop(engine);
    db.assert_sound();
}

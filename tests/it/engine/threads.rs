//! No deadlock between planning of the graph, recalls and writes on few threads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mnemon::{Config, Engine, IndexKind, Message, Query};

use crate::support::{Db, Hashing, message, namespace, within};

/// Far more than these tests take: a test that is not done then never will be.
const LONGEST: Duration = Duration::from_secs(120);

fn open(db: &Db, threads: usize) -> Engine {
    let mut config = Config::default();
    (config.index, config.threads, config.flush_size) = (IndexKind::Hnsw, threads, 100_000);
    config.idle_flush = None;
    Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap()
}

fn messages(from: usize, count: usize) -> Vec<Message> {
    (from..from + count).map(|i| message(&format!("m{i}"), &format!("word{i} and word{}", i / 7))).collect()
}

/// A thread that plans may do another's recall while it waits for its own parts, and must hold nothing then that the
/// recall waits for.
#[test]
fn recalls_writes_and_planning_do_not_wait_for_each_other() {
    within(LONGEST, || {
        let db = Db::new();
        let engine = open(&db, 2);
        let space = namespace("a");
        engine.blocking().put(&space, messages(0, 500)).unwrap();
        engine.blocking().flush().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let recalls: Vec<_> = (0..8)
            .map(|task| {
                let (engine, space, is_over) = (engine.clone(), space.clone(), Arc::clone(&is_over));
                runtime.spawn(async move {
                    let mut i = task;
                    while !is_over.load(Ordering::Relaxed) {
                        i += 8;
                        let query = Query::new(format!("word{}", i % 500)).k(5);
                        assert_eq!(engine.recall(&space, query).await.unwrap().len(), 5);
                    }
                })
            })
            .collect();
        for round in 1..=10 {
            engine.blocking().put(&space, messages(500 * round, 100)).unwrap();
            engine.blocking().flush().unwrap();
            let ids = (0..10).map(|i| format!("m{}", 500 * round + i)).collect();
            engine.blocking().delete(&space, ids).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        for recall in recalls {
            runtime.block_on(recall).unwrap();
        }
        drop(engine);
        db.assert_sound();
    });
}

/// A program may wait for the engine on every thread of its own pool, rayon's global one say.
#[test]
fn linking_needs_no_thread_of_the_global_pool() {
    within(LONGEST, || {
        let db = Db::new();
        let engine = open(&db, 2);
        let space = namespace("a");
        engine.blocking().put(&space, messages(0, 200)).unwrap();
        engine.blocking().flush().unwrap();
        engine.blocking().optimize(&space).unwrap();
        rayon::broadcast(|thread| {
            for round in 0..3 {
                engine.blocking().put(&space, messages(1000 * (1 + thread.index()) + 20 * round, 20)).unwrap();
                engine.blocking().flush().unwrap();
            }
        });
        let stats = engine.blocking().index_stats(&space).unwrap();
        assert_eq!(stats.vectors, 200 + 60 * rayon::current_num_threads());
        drop(engine);
        db.assert_sound();
    });
}

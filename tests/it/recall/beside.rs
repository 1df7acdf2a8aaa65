//! Recalls while other threads change the namespace.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use mnemon::{Config, Engine, IndexKind, Language, Message, Query, RankingStrategy};

use super::{SPACE, hashing, lexical, said};
use crate::support::{Db, below, message, namespace, within};

const IDS: usize = 200;

fn seconds() -> u64 {
    std::env::var("MNEMON_STRESS_SECONDS").map_or(3, |seconds| seconds.parse().unwrap())
}

fn open(db: &Db, kind: IndexKind) -> Engine {
    let mut config = Config::default();
    (config.index, config.threads, config.flush_size) = (kind, 2, 100_000);
    config.idle_flush = None;
    Engine::builder(&db.path).config(config).embedder(Arc::new(hashing(32, 60))).open().unwrap()
}

/// Every version of a message has its own word.
fn version(id: usize, version: u64) -> Message {
    let long = if version.is_multiple_of(5) { "filler ".repeat(20) } else { String::new() };
    message(&format!("m{id}"), &format!("topic{} v3rs1on{version}x{id} {long}painted", id % 10))
        .in_session(format!("s{}", id % 4))
}

fn beside(kind: IndexKind) {
    let db = Db::new();
    let engine = open(&db, kind);
    let space = namespace(SPACE);
    engine.blocking().put(&space, (0..IDS).map(|id| version(id, 0)).collect()).unwrap();
    engine.blocking().flush().unwrap();
    let is_over = AtomicBool::new(false);
    let go_on = || !is_over.load(Ordering::Relaxed);
    let (versions, recalls) = (AtomicU64::new(0), AtomicU64::new(0));
    // Words that no answer given later may have.
    let dead: Mutex<BTreeSet<String>> = Mutex::default();
    let stored = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut state = 3;
            let mut below = |count: usize| below(&mut state, count);
            let mut stored: Vec<Option<u64>> = vec![Some(0); IDS];
            while go_on() {
                let number = versions.fetch_add(1, Ordering::Relaxed) + 1;
                let changed: BTreeSet<usize> = (0..1 + below(10)).map(|_| below(IDS)).collect();
                let deletes = below(3) == 0;
                if deletes {
                    let ids = changed.iter().map(|id| format!("m{id}")).collect();
                    engine.blocking().delete(&space, ids).unwrap();
                } else {
                    let messages = changed.iter().map(|&id| version(id, number)).collect();
                    engine.blocking().put(&space, messages).unwrap();
                }
                let mut dead = dead.lock().unwrap();
                for id in changed {
                    let old = std::mem::replace(&mut stored[id], (!deletes).then_some(number));
                    dead.extend(old.map(|old| format!("v3rs1on{old}x{id}")));
                }
            }
            stored
        });
        scope.spawn(|| {
            while go_on() {
                engine.blocking().flush().unwrap();
            }
        });
        scope.spawn(|| {
            for round in 0.. {
                std::thread::sleep(Duration::from_millis(40));
                if !go_on() {
                    break;
                }
                match round % 3 {
                    0 => engine
                        .blocking()
                        .set_language(&space, [Language::English, Language::German][round / 3 % 2])
                        .unwrap(),
                    _ => engine.blocking().optimize(&space).unwrap(),
                }
            }
        });
        for task in 0..2u64 {
            let (engine, space, dead, recalls, versions, go_on) = (&engine, &space, &dead, &recalls, &versions, &go_on);
            scope.spawn(move || {
                let mut state = task + 7;
                while go_on() {
                    let id = below(&mut state, IDS - 1);
                    let known = dead.lock().unwrap().clone();
                    let text = format!("topic{} v3rs1on{}x{id}", id % 10, versions.load(Ordering::Relaxed));
                    let query = match id % 4 {
                        0 => Query::new(text),
                        1 => Query::new(text).strategy(RankingStrategy::Lexical).session(format!("s{}", id % 4)),
                        2 => Query::new(text).diversity(0.5).except([format!("m{id}")]).per_batch(1),
                        _ => Query::new(text).k(IDS).keep_duplicates().strategy(RankingStrategy::ReciprocalRank),
                    };
                    let hits = engine.blocking().recall(space, query).unwrap();
                    let distinct: BTreeSet<&str> = hits.iter().map(|hit| hit.message.id.as_str()).collect();
                    assert_eq!(distinct.len(), hits.len(), "none twice");
                    for hit in &hits {
                        let text = hit.message.text();
                        let word = text.split(' ').nth(1).unwrap();
                        assert!(!known.contains(word), "{text} was deleted or replaced before it was asked");
                        assert!(hit.score.is_finite() && text.get(hit.passage.clone()).is_some());
                    }
                    recalls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(Duration::from_secs(seconds()));
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap()
    });
    assert!(recalls.load(Ordering::Relaxed) > 10, "{recalls:?} recalls");

    engine.blocking().flush().unwrap();
    engine.blocking().set_language(&space, Language::English).unwrap();
    assert_is(&engine, &stored);
    engine.blocking().optimize(&space).unwrap();
    assert_is(&engine, &stored);
    drop(engine);
    db.assert_sound();
    assert_is(&open(&db, kind), &stored);
}

/// Each version that is stored is found by its word, and nothing else.
fn assert_is(engine: &Engine, stored: &[Option<u64>]) {
    let living: BTreeSet<String> = (0..)
        .zip(stored)
        .filter(|(_, version)| version.is_some())
        .map(|(id, _): (usize, _)| format!("m{id}"))
        .collect();
    let hits = engine.blocking().recall(&namespace(SPACE), lexical("painting").k(1000)).unwrap();
    let found: BTreeSet<String> =
        hits.iter().filter(|hit| hit.breakdown.bm25 > 0.0).map(|hit| hit.message.id.clone()).collect();
    assert_eq!(found, living);
    for (id, version) in (0..).zip(stored).filter_map(|(id, version)| Some((id, (*version)?))).step_by(7) {
        assert_eq!(said(engine, &format!("v3rs1on{version}x{id}")), [format!("m{id}")]);
    }
}

#[test]
fn recalls_during_changes_return_no_dead_version() {
    within(Duration::from_secs(120), || beside(IndexKind::Auto));
}

#[test]
fn recalls_during_changes_of_a_graph_return_no_dead_version() {
    within(Duration::from_secs(120), || beside(IndexKind::Hnsw));
}

/// A damaged or older index is made anew while others write: what they put is in it.
#[test]
fn an_index_is_rebuilt_while_others_write() {
    let db = Db::new();
    let engine = open(&db, IndexKind::Exact);
    let space = namespace(SPACE);
    engine.blocking().put(&space, (0..IDS).map(|id| version(id, 0)).collect()).unwrap();
    // Loading takes so long that changes meet it.
    let others = (0..3_000).map(|i| message(&format!("other{i}"), "other"));
    engine.blocking().put(&space, others.collect()).unwrap();
    engine.blocking().flush().unwrap();
    drop(engine);
    {
        let file = crate::support::open_tables(&db.path);
        let write = file.begin_write().unwrap();
        let parts = redb::TableDefinition::<(u32, u32, u32, u32), &[u8]>::new("segment_parts");
        write.open_table(parts).unwrap().retain(|_, _| false).unwrap();
        write.commit().unwrap();
    }
    let engine = open(&db, IndexKind::Exact);
    let mut stored: Vec<Option<u64>> = vec![Some(0); IDS];
    std::thread::scope(|scope| {
        let recall = scope.spawn(|| {
            engine.blocking().recall(&space, Query::new("any")).unwrap();
        });
        for number in 1.. {
            let ids: Vec<usize> = (0..IDS).filter(|id| (*id as u64 + number).is_multiple_of(5)).collect();
            engine.blocking().delete(&space, ids.iter().map(|id| format!("m{id}")).collect()).unwrap();
            engine.blocking().put(&space, ids.iter().map(|&id| version(id, number)).collect()).unwrap();
            engine.blocking().flush().unwrap();
            ids.iter().for_each(|&id| stored[id] = Some(number));
            if recall.is_finished() && number > 2 {
                break;
            }
        }
    });
    assert_is(&engine, &stored);
    engine.blocking().optimize(&space).unwrap();
    assert_is(&engine, &stored);
    // Further changes, merged and written again.
    stored[..IDS - 20].fill(None);
    engine.blocking().delete(&space, (0..IDS - 20).map(|id| format!("m{id}")).collect()).unwrap();
    engine.blocking().optimize(&space).unwrap();
    assert_is(&engine, &stored);
    drop(engine);
    db.assert_sound();
    assert_is(&open(&db, IndexKind::Exact), &stored);
}

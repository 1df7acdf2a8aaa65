//! Searches while other threads change the graph.
//!
//! `MNEMON_STRESS_ROUNDS` sets how long; default 40.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, RwLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use mnemon::{Engine, Hits, Query, Role};

use super::{SPACE, assert_settles, dense, is_found, open, wide};
use crate::support::{Db, below, message, namespace};

/// Texts that must not be found any more: what had them was deleted or replaced, and that call has returned.
type Gone = RwLock<BTreeSet<String>>;

fn query(number: u64) -> (Query, bool) {
    let query = Query::new(format!("topic{} version{}", number % 25, number / 3)).k(1 + number as usize % 30);
    match number % 3 {
        0 => (query.session("s1"), true),
        1 => (query.role(Role::User), false),
        _ => (query, false),
    }
}

fn assert_right(hits: &Hits, gone: &BTreeSet<String>, of_session: bool) {
    let mut ids = BTreeSet::new();
    for hit in hits.iter() {
        let text = hit.message.text();
        assert!(!gone.contains(&text), "{text} was gone");
        assert!(text.contains("topic"), "{text} is of another namespace");
        assert!(!of_session || hit.message.session == "s1");
        assert!(ids.insert(hit.message.id.clone()), "{} twice", hit.message.id);
    }
    assert!(hits.iter().map(|hit| hit.score).is_sorted_by(|a, b| a >= b));
}

/// One that puts, replaces and deletes its own ids; returns what is left of them.
fn write(engine: &Engine, writer: usize, rounds: u64, gone: &Gone) -> Vec<(String, String)> {
    let space = namespace(SPACE);
    let mut state = writer as u64;
    let mut below = |count: usize| below(&mut state, count);
    let mut texts: Vec<Option<String>> = vec![None; 150];
    for round in 0..rounds {
        // Many at once are linked in the background, few with their commit.
        let count = if round % 4 == 0 { 70 } else { 1 + below(8) };
        let places: BTreeSet<usize> = (0..count).map(|_| below(texts.len())).collect();
        let mut messages = Vec::new();
        let mut old = Vec::new();
        for place in places {
            let text = format!("topic{} version{round} of{writer}x{place}", below(25));
            let session = format!("s{}", place % 3);
            messages.push(message(&format!("{writer}x{place}"), &text).in_session(session));
            old.extend(texts[place].replace(text));
        }
        engine.blocking().put(&space, messages).unwrap();
        gone.write().unwrap().extend(old);
        engine.blocking().put(&namespace("beside"), vec![message(&format!("{writer}"), "elsewhere")]).unwrap();
        if round % 3 > 0 {
            engine.blocking().flush().unwrap();
        }
        let deleted: BTreeSet<usize> = (0..below(12)).map(|_| below(texts.len())).collect();
        let ids = deleted.iter().map(|place| format!("{writer}x{place}")).collect();
        engine.blocking().delete(&space, ids).unwrap();
        gone.write().unwrap().extend(deleted.into_iter().filter_map(|place| texts[place].take()));
    }
    let left = texts.into_iter().enumerate();
    left.filter_map(|(place, text)| Some((format!("{writer}x{place}"), text?))).collect()
}

#[test]
fn searches_during_changes_return_no_dead_version() {
    let rounds = std::env::var("MNEMON_STRESS_ROUNDS").map_or(40, |rounds| rounds.parse().unwrap());
    let db = Db::new();
    let engine = open(&db.path, wide());
    let space = namespace(SPACE);
    let gone = Arc::new(Gone::default());
    let (is_done, searches) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let mut tasks = Vec::new();
    let left = std::thread::scope(|scope| {
        // On the engine's threads, several at a time.
        for searcher in 0..6 {
            let (engine, gone, is_done) = (engine.clone(), Arc::clone(&gone), Arc::clone(&is_done));
            let (space, searches) = (space.clone(), Arc::clone(&searches));
            tasks.push(runtime.spawn(async move {
                for number in searcher * 1000.. {
                    if is_done.load(Ordering::Relaxed) {
                        break;
                    }
                    let before = gone.read().unwrap().clone();
                    let (query, of_session) = query(number);
                    assert_right(&engine.recall(&space, query).await.unwrap(), &before, of_session);
                    searches.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        // And on those of the caller.
        let searcher = scope.spawn(|| {
            for number in 0.. {
                if is_done.load(Ordering::Relaxed) {
                    break;
                }
                let before = gone.read().unwrap().clone();
                let (query, of_session) = query(number);
                assert_right(&engine.blocking().recall(&space, query).unwrap(), &before, of_session);
            }
        });
        let optimizer = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                engine.blocking().optimize(&space).unwrap();
                let stats = engine.blocking().index_stats(&space).unwrap();
                assert!(stats.linked <= stats.vectors);
                std::thread::yield_now();
            }
        });
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (engine, gone) = (&engine, &gone);
                scope.spawn(move || write(engine, writer, rounds, gone))
            })
            .collect();
        let left: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        is_done.store(true, Ordering::Relaxed);
        searcher.join().unwrap();
        optimizer.join().unwrap();
        left.into_iter().flat_map(|left| left.unwrap()).collect::<Vec<_>>()
    });
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    engine.blocking().flush().unwrap();
    assert_settles(&engine, left.len());
    // The search is approximate: after hundreds of rounds of changes, one in a hundred may need more effort.
    let missed: Vec<_> = left.iter().filter(|(id, text)| !is_found(&engine, id, text)).collect();
    assert!(missed.len() * 50 <= left.len(), "{} of {} are not found: {missed:?}", missed.len(), left.len());
    for (id, text) in missed {
        let hits = engine.blocking().recall(&namespace(SPACE), dense(text).k(left.len())).unwrap();
        assert!(hits.first().is_some_and(|hit| hit.message.id == *id), "{id} is not found with any effort");
    }
    drop(engine);
    db.assert_sound();
    eprintln!("{} searches beside {} rounds", searches.load(Ordering::Relaxed), 2 * rounds);
}

//! Reindexing in a running engine, with recalls and writes at the same time.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

use mnemon::{Engine, Error, Language, Query, ReindexOptions, ReindexPhase};

use super::{fill, filled, found, generations, hashing, open, untried};
use crate::support::{
    Db, Hashing, below,
    embedders::{Call, Hooked},
    go_on, message, namespace,
};

/// Messages of each namespace; of the first the upper half may change.
const COUNT: usize = 600;

/// Puts, replaces, deletes and flushes until `stop`, and recalls what it has flushed. Returns the expected messages.
fn churn(engine: &Engine, stop: &AtomicBool, seed: u64) -> BTreeMap<String, String> {
    let (blocking, space) = (engine.blocking(), namespace("a"));
    let mut stored: BTreeMap<String, String> = BTreeMap::new();
    let mut state = seed;
    let mut below = |count: usize| below(&mut state, count);
    let mut round = 0;
    while !stop.load(Ordering::Relaxed) {
        round += 1;
        // Some of the new, some of those that are there, and of those that were there from the first.
        let messages: Vec<_> = (0..10)
            .map(|i| {
                let id =
                    if i < 8 { format!("churn{}", below(200)) } else { format!("m{}", COUNT / 2 + below(COUNT / 4)) };
                (id, format!("version{round}of{i} {seed}"))
            })
            .collect();
        blocking.put(&space, messages.iter().map(|(id, text)| message(id, text)).collect()).unwrap();
        stored.extend(messages);
        let gone: Vec<String> = stored.keys().nth(below(stored.len())).into_iter().cloned().collect();
        blocking.delete(&space, gone.clone()).unwrap();
        gone.iter().for_each(|id| drop(stored.remove(id)));
        blocking.flush().unwrap();
        let (id, text) = stored.iter().nth(below(stored.len())).unwrap();
        assert_eq!(found(engine, "a", text).as_ref(), Some(id), "round {round}");
        let deleted = blocking.recall(&space, Query::new(format!("version{round}of0")).k(400)).unwrap();
        assert!(deleted.iter().all(|hit| !gone.contains(&hit.message.id)), "round {round}");
    }
    stored
}

/// Asserts until `stop` that unchanged messages are found, and returns the number of recalls.
fn watch(engine: &Engine, stop: &AtomicBool) -> usize {
    let mut asked = 0;
    while !stop.load(Ordering::Relaxed) {
        let (space, id) = (["a", "b"][asked % 2], format!("m{}", asked * 7 % (COUNT / 2)));
        assert_eq!(found(engine, space, &format!("word{} {space}", &id[1..])).as_ref(), Some(&id));
        asked += 1;
    }
    asked
}

#[test]
fn no_message_is_missing_at_any_time() {
    let db = Db::new();
    let engine = open(&db, 32);
    fill(&engine, COUNT);
    let stop = AtomicBool::new(false);
    let mut stored = BTreeMap::new();
    thread::scope(|scope| {
        // A failure in one must not leave the others running.
        let end = EndOnDrop(&stop);
        let churning = scope.spawn(|| (EndOnDrop(&stop), churn(&engine, &stop, 7)).1);
        let watching = scope.spawn(|| (EndOnDrop(&stop), watch(&engine, &stop)).1);
        for dimension in [48, 24] {
            let mut phases = Vec::new();
            let report = engine
                .blocking()
                .reindex(hashing(dimension), ReindexOptions::default(), |progress| {
                    phases.push(progress.phase);
                    assert!(progress.done <= progress.total);
                    ControlFlow::Continue(())
                })
                .unwrap();
            assert!(report.switched && report.embedded as usize >= 2 * COUNT, "{report:?}");
            assert!(report.gate.as_ref().unwrap().live > 0, "{report:?}");
            assert_eq!(engine.model().dimension, dimension);
            phases.dedup();
            let all = [ReindexPhase::Embedding, ReindexPhase::Loading, ReindexPhase::Trying];
            // What came meanwhile is embedded too.
            assert_eq!(phases, [&all[..], &[ReindexPhase::Embedding, ReindexPhase::Switched]].concat());
            // Loaded and linked before it serves.
            let stats = engine.blocking().index_stats(&namespace("b")).unwrap();
            assert_eq!((stats.vectors, stats.linked), (COUNT, COUNT));
        }
        drop(end);
        stored.extend(churning.join().unwrap());
        assert!(watching.join().unwrap() > 100);
    });
    engine.blocking().flush().unwrap();
    for (id, text) in &stored {
        assert_eq!(found(&engine, "a", text).as_ref(), Some(id));
    }
    drop(engine);
    let report = db.assert_sound();
    // The last two generations.
    let kept = stored.keys().filter(|id| id.starts_with("churn")).count();
    assert!(report.messages as usize >= 2 * COUNT * 7 / 8 + kept, "{report:?}");
    let engine = open(&db, 24);
    for (id, text) in &stored {
        assert_eq!(found(&engine, "a", text).as_ref(), Some(id));
    }
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_second_reindex_is_refused_while_one_runs() {
    let db = filled(500);
    let engine = db.open();
    let (mut errors, blocking) = (Vec::new(), engine.blocking());
    blocking
        .reindex(hashing(48), ReindexOptions::default(), |_| {
            errors.push(blocking.reindex(hashing(64), untried(), go_on).unwrap_err());
            errors.push(blocking.rollback(hashing(32), go_on).unwrap_err());
            errors.push(blocking.drop_previous().unwrap_err());
            // All else goes on.
            assert_eq!(found(&engine, "a", "word7 a").as_deref(), Some("m7"));
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(errors.len() > 5 && errors.iter().all(|error| matches!(error, Error::ReindexRunning)), "{errors:?}");
    blocking.rollback(hashing(32), go_on).unwrap();
}

#[test]
fn a_reindex_to_the_same_model_does_nothing() {
    let db = filled(50);
    let engine = db.open();
    let embedder = hashing(32);
    let report = engine.blocking().reindex(embedder.clone(), ReindexOptions::default(), go_on).unwrap();
    assert_eq!((report.switched, report.embedded, report.gate), (false, 0, None));
    assert_eq!(embedder.embedded.load(Ordering::Relaxed), 0);
    drop(engine);
    assert_eq!(generations(&db).len(), 1);
}

#[test]
fn settings_out_of_range_are_errors() {
    let db = filled(5);
    let engine = db.open();
    let check = |change: fn(&mut ReindexOptions), named: &str| {
        let mut options = ReindexOptions::default();
        change(&mut options);
        let error = engine.blocking().reindex(hashing(48), options, go_on).unwrap_err();
        assert!(matches!(&error, Error::InvalidConfig { reason } if reason.contains(named)), "{error}");
    };
    check(|options| options.min_recall = 1.1, "min_recall is 1.1");
    check(|options| options.min_recall = f64::NAN, "min_recall");
    check(|options| options.min_overlap = Some(-0.1), "min_overlap is -0.1");
    check(|options| options.duty = 0.0, "duty is 0");
    check(|options| options.samples = 20_000, "samples is 20000");
}

#[test]
fn a_stopped_reindex_is_continued_live_and_offline() {
    let db = filled(1000);
    let engine = db.open();
    let stop = |phase: ReindexPhase| {
        let report = engine.blocking().reindex(hashing(48), ReindexOptions::default(), |progress| {
            if progress.phase == phase && progress.done > 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        report.unwrap()
    };
    let first = stop(ReindexPhase::Embedding);
    assert!(!first.switched && (1..2000).contains(&first.embedded), "{first:?}");
    let second = stop(ReindexPhase::Trying);
    assert_eq!((second.switched, second.resumed, second.embedded), (false, first.embedded, 2000 - first.embedded));
    assert_eq!(engine.model().dimension, 32);
    engine.blocking().put(&namespace("a"), vec![message("m7", "changed"), message("new", "new")]).unwrap();
    engine.blocking().delete(&namespace("a"), vec!["m8".into()]).unwrap();
    engine.blocking().flush().unwrap();
    drop(engine);
    db.assert_sound();
    let report = crate::support::reindex(&db, hashing(48), None, go_on).unwrap();
    assert_eq!((report.switched, report.resumed, report.embedded), (true, 1998, 2));
    db.assert_sound();
    let engine = open(&db, 48);
    assert_eq!(found(&engine, "a", "changed").as_deref(), Some("m7"));
    assert_eq!(found(&engine, "a", "word8 a"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_the_engine_ends_a_reindex_and_keeps_its_work() {
    let db = filled(5000);
    let engine = db.open();
    let begun = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&begun);
    let slow = Arc::new(Hooked::new(Hashing::new(48), move |call| {
        if matches!(call, Call::Documents(_)) {
            counter.fetch_add(1, Ordering::Relaxed);
            thread::sleep(std::time::Duration::from_millis(50));
        }
        Ok(())
    }));
    let running = tokio::spawn({
        let engine = engine.clone();
        async move {
            let future = engine.reindex(slow, ReindexOptions::default(), go_on);
            // The handle must not keep the engine open, as that of a caller who waits does.
            tokio::time::timeout(std::time::Duration::from_millis(300), future).await
        }
    });
    while begun.load(Ordering::Relaxed) < 3 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert!(running.await.unwrap().is_err(), "it goes on when the future is dropped");
    let before = begun.load(Ordering::Relaxed);
    engine.close().await;
    assert!(begun.load(Ordering::Relaxed) < before + 5, "it ended");
    let report = db.assert_sound();
    assert!((10_001..20_000).contains(&report.vectors), "{report:?}");
    let report = crate::support::reindex(&db, hashing(48), None, go_on).unwrap();
    assert!(report.switched && report.resumed > 0 && report.embedded + report.resumed == 10_000, "{report:?}");
}

/// It applies to the stored messages of each generation, and to messages put during the reindex.
#[test]
fn a_language_set_during_a_reindex_applies_to_both_generations() {
    let db = Db::new();
    let engine = open(&db, 32);
    fill(&engine, 1000);
    engine.blocking().put(&namespace("a"), vec![message("old", "häuser")]).unwrap();
    engine.blocking().flush().unwrap();
    let said = |word: &str| {
        let query = Query::new(word).strategy(mnemon::RankingStrategy::Lexical).k(1);
        let hits = engine.blocking().recall(&namespace("a"), query).unwrap();
        hits.iter().find(|hit| hit.breakdown.bm25 > 0.0).map(|hit| hit.message.id.clone())
    };
    assert_eq!(said("haus"), None);
    let seen = Mutex::new(Vec::new());
    engine
        .blocking()
        .reindex(hashing(48), untried(), |progress| {
            let mut seen = seen.lock().unwrap();
            if !seen.contains(&progress.phase) && progress.done > 0 {
                seen.push(progress.phase);
                let language = if seen.len() % 2 == 1 { Language::German } else { Language::French };
                engine.blocking().set_language(&namespace("a"), language).unwrap();
                let text = format!("größe{}", seen.len());
                engine.blocking().put(&namespace("a"), vec![message(&text, &text)]).unwrap();
                engine.blocking().flush().unwrap();
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(seen.into_inner().unwrap().len() >= 3);
    engine.blocking().set_language(&namespace("a"), Language::German).unwrap();
    assert_eq!(said("haus").as_deref(), Some("old"));
    assert_eq!(said("größe2").as_deref(), Some("größe2"));
    drop(engine);
    db.assert_sound();
    let engine = open(&db, 48);
    assert_eq!(found(&engine, "a", "größe1").as_deref(), Some("größe1"));
    engine.blocking().rollback(hashing(32), go_on).unwrap();
    let query = Query::new("haus").strategy(mnemon::RankingStrategy::Lexical).k(1);
    assert_eq!(engine.blocking().recall(&namespace("a"), query).unwrap()[0].message.id, "old");
    drop(engine);
    db.assert_sound();
}

/// The new model fails on a text that the old one knows: it must not be missing. On one that neither takes, nothing
/// hangs.
#[test]
fn a_text_that_only_the_old_model_takes_keeps_it() {
    let db = filled(300);
    let engine = db.open();
    let poisoned = |word: &'static str| {
        let mut poisoned = Hashing::new(48);
        poisoned.poison = Some(word);
        Arc::new(poisoned)
    };
    let error = engine.blocking().reindex(poisoned("word7 a"), ReindexOptions::default(), go_on).unwrap_err();
    assert!(matches!(&error, Error::Embedding { reason, .. } if reason.contains("m7")), "{error}");
    assert_eq!(engine.model().dimension, 32);
    // Pending in both.
    engine.blocking().put(&namespace("a"), vec![message("waiting", "poison")]).unwrap();
    let report = engine.blocking().reindex(poisoned("poison"), ReindexOptions::default(), go_on).unwrap();
    assert!(report.switched && report.resumed == 599, "{report:?}");
    assert_eq!(engine.blocking().pending().unwrap(), 1);
    drop(engine);
    db.assert_sound();
}

/// A text that neither model takes is no reason to stop, whatever else is put and flushed on the way.
#[test]
fn a_text_that_no_model_takes_keeps_nothing_from_moving() {
    let db = Db::new();
    let poisoned = |dimension| {
        let mut poisoned = Hashing::new(dimension);
        poisoned.poison = Some("poison");
        Arc::new(poisoned)
    };
    let engine = db.open_with(poisoned(32));
    fill(&engine, COUNT);
    let (blocking, space) = (engine.blocking(), namespace("a"));
    blocking.put(&space, vec![message("bad", "poison")]).unwrap();
    let mut put = 0;
    let report = blocking.reindex(poisoned(48), ReindexOptions::default(), |progress| {
        // In the namespace that the pass has behind it.
        if progress.phase == ReindexPhase::Embedding && progress.done >= 768 {
            blocking.put(&space, vec![message(&format!("on the way{put}"), &format!("way{put}"))]).unwrap();
            let error = blocking.flush().unwrap_err();
            assert!(error.to_string().contains("message \"bad\" stays pending, in namespace \"a\""), "{error}");
            put += 1;
        }
        ControlFlow::Continue(())
    });
    assert!(report.unwrap().switched && put > 0);
    assert_eq!((found(&engine, "a", "way0").as_deref(), blocking.pending().unwrap()), (Some("on the way0"), 1));
    drop(engine);
    db.assert_sound();
}

/// The model that served is not kept in memory.
#[test]
fn the_previous_generation_is_dropped() {
    let db = Db::new();
    let first = hashing(32);
    let weak = Arc::downgrade(&first);
    let engine = db.open_with(first);
    fill(&engine, 100);
    engine.blocking().reindex(hashing(48), ReindexOptions::default(), go_on).unwrap();
    assert!(weak.upgrade().is_none() && engine.blocking().cache_stats().is_some());
}

//! The journal of recalls: what it notes, what it drops, and what a question of the past finds today.

use std::{collections::BTreeSet, sync::Arc};

use mnemon::{
    Config, Engine, Error, Forget, HitChange, JournalEntry, Message, Query, RankingStrategy, Scope, TimeUse, Timestamp,
    VectorBlock,
};

use super::{SPACE, delete, ids, put, recall};
use crate::support::{Db, Hashing, message, namespace};

fn config(entries: usize) -> Config {
    let mut config = Config::default().journal(entries);
    (config.flush_size, config.idle_flush) = (100_000, None);
    config
}

fn open(db: &Db, entries: usize) -> Engine {
    Engine::builder(&db.path).config(config(entries)).embedder(Arc::new(Hashing::new(32))).open().unwrap()
}

fn journal(engine: &Engine) -> Vec<JournalEntry> {
    engine.blocking().journal(&namespace(SPACE), 1000, None).unwrap()
}

fn filled(entries: usize) -> (Db, Engine) {
    let db = Db::new();
    let engine = open(&db, entries);
    put(
        &engine,
        vec![
            message("boat", "The boat leaks, and the paint of the boat is blue."),
            message("bike", "My bike is in the cellar."),
            message("cat", "The cat sleeps on the boat."),
        ],
    );
    (db, engine)
}

#[test]
fn a_recall_is_noted_with_all_that_asks_it_again() {
    let (db, engine) = filled(100);
    let query =
        Query::new("Where is the boat?").k(2).role(mnemon::Role::User).half_life(std::time::Duration::from_secs(60));
    let hits = recall(&engine, query.clone());
    let entries = journal(&engine);
    let [entry] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((entry.number, &*entry.text, entry.namespace.as_str()), (1, "Where is the boat?", SPACE));
    assert_eq!(
        serde_json::to_value(&entry.options).unwrap(),
        serde_json::json!({"half_life": 60.0, "k": 2, "role": "user"})
    );
    assert_eq!((entry.answerability, entry.version), (hits.answerability(), None));
    assert_eq!(entry.query().unwrap(), query.now(entry.at));
    for (noted, hit) in entry.hits.iter().zip(&hits) {
        assert_eq!((&noted.id, noted.rank, noted.score), (&hit.message.id, hit.rank, hit.score));
        assert_eq!((noted.similarity, &noted.breakdown), (hit.similarity, &hit.breakdown));
    }
    assert_eq!(entry.hits.len(), 2);
    // Through serde and in another process's engine, too.
    let json = serde_json::to_string(entry).unwrap();
    assert_eq!(serde_json::from_str::<JournalEntry>(&json).unwrap(), *entry);
    assert!(!json.contains("paint"), "no text of a hit: {json}");
    drop(engine);
    let reader = Engine::builder(&db.path).embedder(Arc::new(Hashing::new(32))).open_read_only().unwrap();
    assert_eq!(journal(&reader), entries);
    recall(&reader, Query::new("boat"));
    assert_eq!(journal(&reader).len(), 1);
    drop(reader);
    db.assert_sound();
}

#[test]
fn only_recalls_of_one_known_namespace_are_noted_and_prompts_are() {
    let (_db, engine) = filled(100);
    engine.blocking().recall_in(&Scope::new().namespace(&namespace(SPACE)), Query::new("boat")).unwrap();
    engine.blocking().recall(&namespace("unknown"), Query::new("boat")).unwrap();
    assert!(engine.blocking().recall(&namespace(SPACE), Query::new("")).is_err());
    assert_eq!(journal(&engine), []);
    assert_eq!(engine.blocking().journal(&namespace("unknown"), 10, None).unwrap(), []);
    let memory = engine.memory(&namespace(SPACE), "chat").block(VectorBlock::new("found")).open().unwrap();
    memory.blocking().get(Some(Message::user("What color has the boat?"))).unwrap();
    let entries = journal(&engine);
    assert_eq!(entries.len(), 1);
    assert!(entries[0].text.contains("What color has the boat?"));
    // Off.
    let db = Db::new();
    let engine = db.open();
    put(&engine, vec![message("boat", "The boat leaks.")]);
    recall(&engine, Query::new("boat"));
    assert_eq!(journal(&engine), []);
    let error = Engine::builder(&db.path).config(Config::default().journal(usize::MAX)).open().unwrap_err();
    assert!(matches!(error, Error::InvalidConfig { .. }), "{error}");
}

#[test]
fn the_oldest_entries_of_all_namespaces_are_dropped_and_numbers_never_repeat() {
    let (db, engine) = filled(10);
    let other = namespace("other");
    engine.blocking().put(&other, vec![message("o", "another boat")]).unwrap();
    engine.blocking().recall(&other, Query::new("boat")).unwrap();
    for at in 0..150 {
        recall(&engine, Query::new(format!("boat {at}")).k(1));
    }
    let numbers = |engine: &Engine| journal(engine).iter().map(|entry| entry.number).collect::<Vec<_>>();
    assert_eq!(numbers(&engine), (142..=151).rev().collect::<Vec<_>>());
    assert_eq!(engine.blocking().journal(&other, 10, None).unwrap(), []);
    // In pages.
    let mut paged = Vec::new();
    while let page = engine.blocking().journal(&namespace(SPACE), 3, paged.last().copied()).unwrap()
        && !page.is_empty()
    {
        paged.extend(page.iter().map(|entry| entry.number));
    }
    assert_eq!(paged, numbers(&engine));
    engine.blocking().forget(Forget::from(&namespace(SPACE))).unwrap();
    drop(engine);
    let engine = open(&db, 5);
    put(&engine, vec![message("new", "a new boat")]);
    (0..7).for_each(|_| drop(recall(&engine, Query::new("boat"))));
    assert_eq!(numbers(&engine), (154..=158).rev().collect::<Vec<_>>());
    // A long question is not noted, and neither is one with very many ids.
    recall(&engine, Query::new("boat ".repeat(60_000)));
    assert_eq!(numbers(&engine)[0], 158);
    drop(engine);
    db.assert_sound();
}

#[test]
fn an_unchanged_memory_answers_the_same() {
    let (db, engine) = filled(100);
    let then: Timestamp = "2024-05-05T10:00:00Z".parse().unwrap();
    for query in [
        Query::new("Where is the boat?"),
        Query::new("boat").strategy(RankingStrategy::Dense).k(1),
        Query::new("cat").strategy(RankingStrategy::ReciprocalRank).except(["bike"]),
        // Set, because a recall takes its own time some milliseconds before it is noted.
        Query::new("boat").half_life(std::time::Duration::from_secs(1)).now(then),
        Query::new("what happened last week?").time(TimeUse::Boost),
        Query::new("boat").as_of(then),
        Query::new("boat").diversity(0.5).previous(["cat"]),
        Query::new("boat").answerable(0.99),
    ] {
        recall(&engine, query);
    }
    let check = |engine: &Engine| {
        let entries = journal(engine);
        assert_eq!(entries.len(), 8, "a replay is not noted");
        for entry in &entries {
            let replay = engine.blocking().replay(entry).unwrap();
            assert!(replay.is_unchanged() && !replay.is_other_model, "{entry:#?} {replay:#?}");
            assert_eq!(replay.hits.len(), entry.hits.len());
            assert_eq!((replay.entry, replay.answerability.0), (entry.number, replay.answerability.1));
        }
    };
    check(&engine);
    // Metadata is not the text.
    engine.blocking().set_metadata(&namespace(SPACE), "boat", Default::default()).unwrap();
    check(&engine);
    drop(engine);
    check(&db.open());
}

#[test]
fn a_replay_says_what_changed() {
    let (_db, engine) = filled(100);
    recall(&engine, Query::new("Where is the boat?").k(2));
    recall(&engine, Query::new("Where is the boat?").k(3));
    let [three, two] = &journal(&engine)[..] else { panic!() };
    let replay = |entry| engine.blocking().replay(entry).unwrap();
    let [first, second] = [0, 1].map(|at| two.hits[at].id.clone());

    put(&engine, vec![message("better", "Where is the boat? The boat is under the third plank.")]);
    let found = replay(two);
    assert!(!found.is_unchanged());
    let better = found.hit("better").unwrap();
    assert_eq!((better.change, better.is_newer, better.then), (HitChange::New, true, None));
    assert_eq!(better.now.unwrap().rank, 1);
    let moved = found.hit(&first).unwrap();
    assert_eq!((moved.change, moved.is_newer), (HitChange::Kept, false));
    assert_eq!((moved.then.unwrap().rank, moved.now.unwrap().rank), (1, 2));
    assert!(moved.terms.iter().any(|term| term.term == "lexical" && term.then != term.now), "{moved:?}");
    let outranked = found.hit(&second).unwrap();
    assert_eq!((outranked.change, outranked.now, outranked.is_newer), (HitChange::Outranked, None, false));

    delete(&engine, &["better", &first]);
    let found = replay(two);
    let gone = found.hit(&first).unwrap();
    assert_eq!((gone.change, gone.then.unwrap().rank, gone.now), (HitChange::Gone, 1, None));
    assert_eq!(found.hit(&second).unwrap().now.unwrap().rank, 1);
    assert!(found.hit("better").is_none());
    // What was stored then and is a hit only today is not newer.
    let risen = found.hits.iter().find(|hit| hit.change == HitChange::New).unwrap();
    assert!(!risen.is_newer && two.hit(&risen.id).is_none());

    put(&engine, vec![message(&second, "Something else.")]);
    let found = replay(three);
    assert!(found.hit(&second).unwrap().is_newer, "{found:?}");
    // Deleted, and put again with the same id.
    put(&engine, vec![message(&first, "The boat leaks, and the paint of the boat is blue.")]);
    let again = replay(three).hit(&first).unwrap().clone();
    assert_eq!((again.change, again.is_newer), (HitChange::Kept, true));
    let json = serde_json::to_string(&found).unwrap();
    assert_eq!(serde_json::from_str::<mnemon::Replay>(&json).unwrap(), found);

    engine.blocking().delete_namespace(&namespace(SPACE)).unwrap();
    assert_eq!(journal(&engine), []);
    assert!(replay(three).hits.iter().all(|hit| hit.change == HitChange::Gone));
}

#[test]
fn forgetting_drops_the_entries_of_the_namespace() {
    let (_db, engine) = filled(100);
    let (space, other) = (namespace(SPACE), namespace("other"));
    engine.blocking().put(&other, vec![message("o", "another boat")]).unwrap();
    let ask = || {
        recall(&engine, Query::new("boat"));
        engine.blocking().recall(&other, Query::new("boat")).unwrap();
    };
    ask();
    delete(&engine, &["cat"]);
    assert_eq!(journal(&engine).len(), 1, "a deletion is no forgetting");
    engine.blocking().forget(Forget::messages(&space, ["cat"])).unwrap();
    assert_eq!(journal(&engine), [], "a message that is deleted already may be in a question all the same");
    assert_eq!(engine.blocking().journal(&other, 10, None).unwrap().len(), 1);
    for what in [Forget::messages(&space, ["bike"]), Forget::session(&space, mnemon::DEFAULT_SESSION)] {
        ask();
        engine.blocking().forget(what).unwrap();
        assert_eq!(journal(&engine), []);
        put(&engine, vec![message("boat", "The boat leaks.")]);
    }
    assert_eq!(engine.blocking().journal(&other, 10, None).unwrap().len(), 3);
}

/// Recalls go on while everything is forgotten again and again: none of an earlier namespace is noted in a later one.
#[test]
fn no_recall_is_noted_after_what_it_found_was_forgotten() {
    let (_db, engine) = filled(1000);
    let space = namespace(SPACE);
    std::thread::scope(|scope| {
        let recalls = scope.spawn(|| {
            for at in 0..400 {
                recall(&engine, Query::new(format!("boat {at}")));
            }
        });
        let mut round = 0;
        while !recalls.is_finished() {
            round += 1;
            engine
                .blocking()
                .forget(Forget::matching(&space, mnemon::MetadataFilter::eq("$role", "user").unwrap()))
                .unwrap();
            engine.blocking().put(&space, vec![message(&format!("boat {round}"), "The boat leaks.")]).unwrap();
            let known: BTreeSet<String> =
                engine.blocking().history(&space, mnemon::DEFAULT_SESSION).unwrap().into_iter().map(|m| m.id).collect();
            for hit in journal(&engine).iter().flat_map(|entry| &entry.hits) {
                assert!(known.contains(&hit.id), "{} was forgotten", hit.id);
            }
        }
    });
    assert!(ids(&recall(&engine, Query::new("boat"))).len() == 1);
}

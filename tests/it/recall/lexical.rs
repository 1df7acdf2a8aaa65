//! The lexical index contains the terms of the current messages, after any changes.

use std::{ops::Range, sync::Arc};

use mnemon::{BufferLimits, Engine, Message, PerPartTokenCounter};

use super::{SPACE, delete, hashing, lexical, open, put, recall, said};
use crate::support::{Db, Hashing, below, go_on, message, namespace, reindex};

const WINDOW: usize = 48;

/// Random operations; MNEMON_CHURN_ROUNDS makes it longer.
fn rounds() -> usize {
    std::env::var("MNEMON_CHURN_ROUNDS").map_or(60, |rounds| rounds.parse().unwrap())
}

/// Id, BM25 and passage of all that shares a term with the question.
fn evidence(engine: &Engine, space: &str, text: &str, k: usize) -> Vec<(String, f32, Range<usize>)> {
    let hits = engine.blocking().recall(&namespace(space), lexical(text).k(k)).unwrap();
    let has_terms = hits.iter().filter(|hit| hit.breakdown.bm25 > 0.0);
    has_terms.map(|hit| (hit.message.id.clone(), hit.breakdown.bm25, hit.passage.clone())).collect()
}

fn embedder(dimension: usize) -> Hashing {
    hashing(dimension, WINDOW)
}

/// Answers are those of a database that was given these messages and nothing else.
#[track_caller]
fn assert_as_fresh(engine: &Engine, messages: &[Message], questions: &[String]) {
    let fresh = Db::new();
    let other = fresh.open_with(Arc::new(embedder(engine.model().dimension)));
    put(&other, messages.to_vec());
    for question in questions {
        for k in [1000, 7] {
            let (found, wanted) = (evidence(engine, SPACE, question, k), evidence(&other, SPACE, question, k));
            let names = |list: &[(String, f32, Range<usize>)]| -> Vec<_> {
                list.iter().map(|(id, _, passage)| (id.clone(), passage.clone())).collect()
            };
            assert_eq!(names(&found), names(&wanted), "{question:?}");
            for (found, wanted) in found.iter().zip(&wanted) {
                assert!((found.1 - wanted.1).abs() < 1e-5, "{question:?}: {found:?}, {wanted:?}");
            }
        }
    }
}

#[test]
fn after_random_changes_the_index_has_the_stored_messages_alone() {
    let db = Db::new();
    let mut dimension = 32;
    let open_again = |dimension| db.open_with(Arc::new(embedder(dimension)));
    let mut engine = open_again(dimension);
    let space = namespace(SPACE);
    // In the order of their first put since they were last deleted or changed their session: equals are ranked so.
    let mut stored: Vec<Message> = Vec::new();
    let mut state = 11;
    let mut below = |count: usize| below(&mut state, count);
    let rounds = rounds();
    for round in 0..rounds {
        for _ in 0..1 + below(30) {
            let id = format!("m{}", below(120));
            let words = if below(8) == 0 { 20 } else { 1 + below(5) };
            let rarest = 1 + below(60);
            let text: Vec<String> = (0..words).map(|_| format!("w0rd{}", below(rarest))).collect();
            let new = message(&id, &text.join(" ")).in_session(format!("s{}", below(3)));
            match stored.iter_mut().find(|old| old.id == id && old.session == new.session) {
                Some(old) => *old = new.clone(),
                None => {
                    stored.retain(|old| old.id != id);
                    stored.push(new.clone());
                }
            }
            engine.blocking().put(&space, vec![new]).unwrap();
        }
        if below(3) == 0 {
            let first = below(120);
            let gone: Vec<String> = (first..first + below(40)).map(|i| format!("m{i}")).collect();
            stored.retain(|message| !gone.contains(&message.id));
            engine.blocking().delete(&space, gone).unwrap();
        }
        if round == rounds / 2 {
            stored.clear();
            engine.blocking().delete_namespace(&space).unwrap();
            assert_eq!(recall(&engine, lexical("w0rd1")).len(), 0);
        }
        match below(6) {
            0 => {
                drop(engine);
                engine = open_again(dimension);
            }
            1 => engine.blocking().optimize(&space).unwrap(),
            2 if round % 4 == 0 => {
                drop(engine);
                dimension += 1;
                reindex(&db, embedder(dimension), None, go_on).unwrap();
                engine = open_again(dimension);
            }
            _ => {}
        }
        if round % 6 == 5 {
            engine.blocking().flush().unwrap();
            let questions: Vec<String> =
                (0..6).map(|i| format!("w0rd{} w0rd{} w0rd{}", i, below(60), below(60))).collect();
            assert_as_fresh(&engine, &stored, &questions);
            drop(engine);
            db.assert_sound();
            engine = open_again(dimension);
            assert_as_fresh(&engine, &stored, &questions[..2]);
        }
    }
}

#[test]
fn a_message_replaced_a_thousand_times_is_found_by_its_last_words_alone() {
    let db = Db::new();
    let engine = open(&db, WINDOW);
    put(&engine, (0..20).map(|i| message(&format!("m{i}"), &format!("0th3r{i}"))).collect());
    for edit in 0..1000 {
        // Now and then a long one, which takes other rows.
        let text = if edit % 50 == 0 { format!("ed1t{edit} ").repeat(20) } else { format!("ed1t{edit}") };
        put(&engine, vec![message("edited", &text)]);
        assert_eq!(said(&engine, &format!("ed1t{edit}")), ["edited"]);
        if edit > 0 {
            assert_eq!(said(&engine, &format!("ed1t{}", edit - 1)), [""; 0]);
        }
    }
    engine.blocking().optimize(&namespace(SPACE)).unwrap();
    drop(engine);
    db.assert_sound();
    let engine = open(&db, WINDOW);
    assert_eq!((said(&engine, "ed1t999"), said(&engine, "ed1t998 ed1t0")), (vec!["edited".to_owned()], vec![]));
    assert_eq!(said(&engine, "0th3r7"), ["m7"]);
}

#[test]
fn no_term_of_a_deleted_message_remains() {
    let db = Db::new();
    let engine = open(&db, WINDOW);
    let ids: Vec<String> = (0..300).map(|i| format!("m{i}")).collect();
    put(&engine, ids.iter().map(|id| message(id, &format!("word {id}"))).collect());
    delete(&engine, &ids.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(recall(&engine, lexical("word m7")).is_empty());
    engine.blocking().optimize(&namespace(SPACE)).unwrap();
    drop(engine);
    db.assert_sound();
    let engine = open(&db, WINDOW);
    assert!(recall(&engine, lexical("word m7")).is_empty());
    put(&engine, vec![message("new", "word")]);
    assert_eq!(said(&engine, "word"), ["new"]);
    drop(engine);
    db.assert_sound();
}

/// One namespace's rare word is another's common one.
#[test]
fn terms_of_one_namespace_are_not_found_in_another() {
    let db = Db::new();
    let engine = open(&db, WINDOW);
    let texts = |space: &str| -> Vec<Message> {
        (0..30).map(|i| message(&format!("{space}{i}"), &format!("common {space}w0rd{i}"))).collect()
    };
    for space in ["a", "b", "c"] {
        engine.blocking().put(&namespace(space), texts(space)).unwrap();
    }
    engine.blocking().flush().unwrap();
    let alone = Db::new();
    let other = open(&alone, WINDOW);
    put(&other, texts("a"));
    for question in ["common", "aw0rd3 common", "bw0rd3"] {
        assert_eq!(evidence(&engine, "a", question, 100), evidence(&other, "a", question, 100));
    }
    assert_eq!(evidence(&engine, "b", "bw0rd3", 100).len(), 1);
    assert_eq!(evidence(&engine, "c", "bw0rd3 aw0rd3", 100), []);
}

#[test]
fn copied_restored_and_deleted_sessions_are_found_as_they_are() {
    let db = Db::new();
    let engine = open(&db, WINDOW);
    let space = namespace(SPACE);
    let words = PerPartTokenCounter::new(|text: &str| text.split_whitespace().count());
    let memory =
        engine.memory(&space, "s").limits(BufferLimits::new(2, 1.0, 1).unwrap()).message_counter(words).open().unwrap();
    let sessions = |question: &str| -> Vec<String> {
        engine.blocking().flush().unwrap();
        let hits = recall(&engine, lexical(question).k(100));
        let mut found: Vec<String> =
            hits.iter().filter(|hit| hit.breakdown.bm25 > 0.0).map(|hit| hit.message.session.clone()).collect();
        found.sort();
        found
    };
    memory.blocking().put(vec![message("1", "red bike"), message("2", "green boat"), message("3", "tail")]).unwrap();
    let checkpoint = memory.blocking().checkpoint("before").unwrap();
    memory.blocking().put(vec![message("1", "yellow bike"), message("4", "brown horse"), message("5", "end")]).unwrap();
    assert_eq!((sessions("bike"), sessions("horse"), sessions("red").len()), (vec!["s".into()], vec!["s".into()], 0));
    let fork = memory.blocking().fork(Some(checkpoint), "fork").unwrap();
    engine.blocking().copy_session(&space, "s", "copy").unwrap();
    assert_eq!((sessions("red"), sessions("horse")), (vec!["fork".to_owned()], vec!["copy".into(), "s".into()]));
    memory.blocking().restore(checkpoint).unwrap();
    assert_eq!((sessions("red"), sessions("horse")), (vec!["fork".to_owned(), "s".into()], vec!["copy".to_owned()]));
    engine.blocking().delete_session(&space, "copy").unwrap();
    assert_eq!((sessions("horse").len(), sessions("bike")), (0, vec!["fork".to_owned(), "s".into()]));
    drop((memory, fork, engine));
    db.assert_sound();
}

//! The choice and order of hits: duplicates, diversity, batches, rerankers, previous hits.

use std::sync::Arc;

use mnemon::{BufferLimits, Engine, Message, PerPartTokenCounter, Query, RankingStrategy, Unit, VectorBlock};

use super::{SPACE, Terse, delete, filled, ids, put, recall};
use crate::support::{Db, Hashing, message, namespace};

fn by_terms(text: &str) -> Query {
    Query::new(text).strategy(RankingStrategy::Lexical)
}

/// Pairs of texts, of which the second is told to say what the first says, or not.
#[test]
fn a_near_duplicate_is_ranked_after_all_others() {
    for (first, second, is_duplicate) in [
        ("the red bike is in the garage", "the red bike is in the garage", true),
        ("the red bike is in the garage", "the red bike  is in\nthe garage", true),
        ("the red bike costs 900 euros", "the red bike costs 950 euros", false),
        ("the red bike costs 1.50 euros", "the red bike costs 15.0 euros", false),
        ("the red bike is in the garage", "the red bike is in the cellar", false),
        ("he told us that the red bike is sold to her", "he told us that the red bike is not sold to her", false),
        ("he told us that he sold her the red bike", "he told us that he never sold her the red bike", false),
        ("he told us that we can sell the red bike", "he told us that we can’t sell the red bike", false),
        ("he told us that we can sell the red bike", "he told us that we CANNOT sell the red bike", false),
    ] {
        let (_db, engine) = filled(vec![message("1", first), message("2", second), message("3", "a red boat")]);
        let hits = recall(&engine, by_terms(first));
        let second = hits.iter().find(|hit| hit.message.id == "2").unwrap();
        assert_eq!(
            second.breakdown.duplicate_of.as_deref(),
            is_duplicate.then_some("1"),
            "{first} / {}",
            second.message.text()
        );
        // A change comes before what it supersedes, and a near-duplicate after all others.
        assert_eq!(second.rank == 3, is_duplicate, "{first} / {}", second.message.text());
        assert!(
            recall(&engine, by_terms(first).keep_duplicates()).iter().all(|hit| hit.breakdown.duplicate_of.is_none())
        );
    }
}

/// Also where a search for a few hits finds nothing but near-duplicates, and where whole sessions are.
#[test]
fn near_duplicates_come_after_others_in_each_strategy_and_unit() {
    let copies = (0..60).map(|at| message(&format!("copy {at}"), "the red bike is in the garage"));
    let others = ["a red boat", "the red kite", "red paint"].map(|text| message(text, text));
    let each_in_a_session = |message: Message| Message { session: message.id.clone(), ..message };
    let (_db, engine) = filled(copies.chain(others).map(each_in_a_session).collect());
    for strategy in [RankingStrategy::Hybrid, RankingStrategy::Dense, RankingStrategy::Lexical] {
        for unit in [Unit::Message, Unit::Session, Unit::Turn] {
            let query = || Query::new("the red bike is in the garage").strategy(strategy).unit(unit).k(4);
            let hits = recall(&engine, query());
            let copies = hits.iter().filter(|hit| hit.message.id.starts_with("copy"));
            assert_eq!(copies.count(), 1, "{strategy:?} {unit}: {:?}", ids(&hits));
            let hits = recall(&engine, query().keep_duplicates());
            assert!(hits.iter().all(|hit| hit.message.id.starts_with("copy")), "{strategy:?} {unit}: {:?}", ids(&hits));
        }
    }
}

#[test]
fn the_same_words_of_another_speaker_are_no_duplicate() {
    let said = |id: &str, name: &str| Message { name: Some(name.into()), ..message(id, "I moved to the red house") };
    let (_db, engine) = filled(vec![said("1", "Ada"), said("2", "Bob"), said("3", "Ada"), message("4", "a red boat")]);
    let hits = recall(&engine, by_terms("who moved to the red house?"));
    let mut first = ids(&hits)[..2].to_vec();
    first.sort_unstable();
    assert_eq!((first, &ids(&hits)[2..]), (vec!["1", "2"], &["4", "3"][..]));
    assert_eq!(hits[3].breakdown.duplicate_of.as_deref(), Some("1"));
}

fn with_terse(messages: Vec<Message>) -> (Db, Engine) {
    let db = Db::new();
    let engine =
        Engine::builder(&db.path).embedder(Arc::new(Hashing::new(32))).reranker(Arc::new(Terse)).open().unwrap();
    put(&engine, messages);
    (db, engine)
}

#[test]
fn duplicates_come_last_also_when_hits_are_reranked_or_diverse() {
    let (_db, engine) = with_terse(vec![
        message("1", "a red bike"),
        message("2", "a red bike"),
        message("3", "a red boat with a long name"),
        message("4", "a red kite with a much longer name than that"),
    ]);
    for query in [
        Query::new("red bike"),
        Query::new("red bike").rerank(10),
        Query::new("red bike").diversity(1.0),
        Query::new("red bike").diversity(0.7).rerank(4),
    ] {
        let hits = recall(&engine, query.clone());
        assert_eq!(hits[3].message.id, "2", "{query:?}: {:?}", ids(&hits));
        assert_eq!(hits[3].breakdown.duplicate_of.as_deref(), Some("1"));
    }
}

/// Scores of a reranker and of a fusion cannot be compared: what was not reranked comes after.
#[test]
fn reranked_hits_come_before_hits_that_were_not_reranked() {
    let messages =
        (0..30).map(|i| message(&format!("m{i}"), &format!("red {}", format!("word{i} ").repeat(1 + i)))).collect();
    let (_db, engine) = with_terse(messages);
    for lambda in [1.0, 0.5] {
        let hits = recall(&engine, Query::new("red word1 word2").k(4).rerank(4).diversity(lambda));
        assert!(hits.iter().all(|hit| hit.breakdown.reranked.is_some()), "{:?}", ids(&hits));
    }
    let hits = recall(&engine, Query::new("red word1 word2").k(4).rerank(30));
    assert_eq!(ids(&hits), ["m0", "m1", "m2", "m3"]);
    assert_eq!(hits[0].score, hits[0].breakdown.reranked.unwrap());
}

#[test]
fn a_diverse_choice_is_less_alike() {
    let mut messages: Vec<Message> =
        (0..10).map(|i| message(&format!("a{i}"), &format!("red bike green{i}"))).collect();
    messages.push(message("b", "red kite over hills"));
    let (_db, engine) = filled(messages);
    let asked = |lambda: f32| Query::new("red bike").k(2).strategy(RankingStrategy::Dense).diversity(lambda);
    assert!(recall(&engine, asked(1.0)).iter().all(|hit| hit.message.id.starts_with('a')));
    assert_eq!(recall(&engine, asked(0.0).k(11)).len(), 11);
    let hits = recall(&engine, asked(0.0).k(8));
    assert!(ids(&hits)[1..].contains(&"b"), "{:?}", ids(&hits));
}

/// Flushed in batches of a session's turns.
fn batches(engine: &Engine, texts: &[&str]) {
    let words = PerPartTokenCounter::new(|text: &str| text.split_whitespace().count());
    let memory = engine.memory(&namespace(SPACE), "s").limits(BufferLimits::new(12, 1.0, 9).unwrap());
    let memory = memory.message_counter(words).open().unwrap();
    for (i, text) in texts.iter().enumerate() {
        memory.blocking().put(vec![message(&format!("m{i}"), text)]).unwrap();
    }
    memory.blocking().flush().unwrap();
    engine.blocking().flush().unwrap();
}

#[test]
fn per_batch_limits_the_hits_of_one_batch() {
    let db = Db::new();
    let engine = db.open();
    batches(
        &engine,
        &["a red bike", "a red bike", "a red boat", "a green kite", "a red horse", "two red birds", "a red end"],
    );
    let all = recall(&engine, by_terms("red").k(10).keep_duplicates());
    assert!(all.len() > 5);
    let one = recall(&engine, by_terms("red").k(10).per_batch(1));
    assert!(one.len() > 1 && one.len() < all.len(), "{:?}", ids(&one));
    // A duplicate is the last choice: it takes no other message's place.
    let two = recall(&engine, by_terms("red bike").k(10).per_batch(2));
    assert_eq!(ids(&two).iter().filter(|id| ["m0", "m1", "m2"].contains(id)).collect::<Vec<_>>(), [&"m0", &"m2"]);
}

#[test]
fn previous_hits_that_are_still_good_keep_their_ranks() {
    let messages =
        (0..40).map(|i| message(&format!("m{i}"), &format!("red {}", format!("word{i} ").repeat(1 + i)))).collect();
    let (_db, engine) = filled(messages);
    let first = recall(&engine, by_terms("red word1 word2 word3").k(4));
    let previous: Vec<String> = first.iter().rev().map(|hit| hit.message.id.clone()).collect();
    let again = recall(&engine, by_terms("red word1 word2 word3").k(4).previous(previous.clone()));
    assert_eq!(ids(&again), previous, "in the places they had");
    assert!((1..).zip(&again).all(|(rank, hit)| hit.rank == rank));
    let other = recall(&engine, by_terms("word20 word21 word22 word23").k(4).previous(previous.clone()));
    assert!(ids(&other).iter().all(|id| !previous.contains(&(*id).to_owned())), "{:?}", ids(&other));
    delete(&engine, &[&previous[0]]);
    let less = recall(&engine, by_terms("red word1 word2 word3").k(4).previous(previous.clone()));
    assert_eq!(ids(&less)[1..], previous[1..]);
    assert_ne!(ids(&less)[0], previous[0]);
}

/// A block that is sticky tells something else once there is something much better.
#[test]
fn a_sticky_block_keeps_its_messages_until_others_are_much_better() {
    let (_db, engine) = filled(
        ["red bike with bell", "red bike with light", "green boat with sail", "green boat with oars", "blue kite"]
            .iter()
            .enumerate()
            .map(|(i, text)| message(&format!("m{i}"), text).in_session("old"))
            .collect(),
    );
    let block = VectorBlock::new("v").retrieval_context_window(1).similarity_top_k(2).keep_previous_hits();
    let memory = engine.memory(&namespace(SPACE), "s").block(block).open().unwrap();
    let told = |question: &str| -> Vec<String> {
        let prompt = memory.blocking().assemble(Message::user(question)).unwrap();
        let text = prompt.messages.iter().map(Message::text).collect::<String>();
        let block =
            text.split_once("<v>").and_then(|(_, rest)| rest.split_once("</v>")).expect("the block says something").0;
        let words = block.split(|c: char| !c.is_alphabetic());
        words.filter(|word| ["bell", "light", "sail", "oars"].contains(word)).map(str::to_owned).collect()
    };
    let first = told("red bike bell");
    assert_eq!(first, ["bell", "light"]);
    assert_eq!(told("light of the red bike"), first, "both are still good: no place changes");
    let mut boats = told("green boat");
    boats.sort();
    assert_eq!(boats, ["oars", "sail"]);
}

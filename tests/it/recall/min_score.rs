//! The relevance of hits, and what a recall with a least one leaves out.

use mnemon::{Message, Query, RankingStrategy, Unit};
use proptest::prelude::*;

use super::{ids, put, recall};
use crate::support::{Db, message};

/// A namespace about boats, with `others` messages about nothing of the kind.
fn boats(others: usize) -> (Db, mnemon::Engine) {
    let db = Db::new();
    let engine = db.open();
    let mut messages: Vec<Message> =
        (0..others).map(|i| message(&format!("other{i}"), &format!("word{i} thing{} of that week", i * 7))).collect();
    messages.insert(others / 2, message("key", "The key of the boat shed hangs under the third plank"));
    put(&engine, messages);
    (db, engine)
}

#[test]
fn what_nothing_answers_finds_nothing() {
    let (_db, engine) = boats(40);
    let found = |text: &str, least: f32| ids(&recall(&engine, Query::new(text).min_score(least))).join(" ");
    assert_eq!(found("Where is the key of the boat shed?", 0.1), "key");
    assert_eq!(found("How do elephants sleep?", 0.1), "");
    assert_eq!(recall(&engine, Query::new("How do elephants sleep?").min_score(0.0)).len(), 10);
    assert_eq!(found("Where is the key of the boat shed?", 1.0), "");
}

#[test]
fn an_answer_is_relevant_in_small_and_large_namespaces() {
    let relevance = |others| recall(&boats(others).1, Query::new("Where is the key of the boat shed?"))[0].relevance;
    let all = [10, 100, 1000].map(relevance);
    assert!(all.iter().all(|relevance| *relevance > 0.5), "{all:?}");
}

#[test]
fn each_strategy_and_unit_has_relevances() {
    let (_db, engine) = boats(30);
    let query = || Query::new("Where is the key of the boat shed?").min_score(0.1);
    for strategy in ["hybrid", "dense", "lexical", "rrf", "weighted:0.5"] {
        let hits = recall(&engine, query().strategy(strategy.parse::<RankingStrategy>().unwrap()));
        assert_eq!(ids(&hits), ["key"], "{strategy}");
    }
    for unit in [Unit::Turn, Unit::Session] {
        assert_eq!(ids(&recall(&engine, query().unit(unit))), ["key"], "{unit}");
    }
}

#[test]
fn what_repeats_the_question_comes_last_and_is_no_evidence() {
    let db = Db::new();
    let engine = db.open();
    let question = "What is on the office lunch menu today?";
    let mut messages = vec![
        message("again", question),
        message("bare", "what is on the office lunch menu today"),
        message(
            "stuffed",
            "lunch menu office lunch today lunch menu office menu today lunch see evil.example for lunch",
        ),
        message("answer", "On Tuesdays the office lunch menu is dal, rice and salad"),
        message("yes", "The office lunch menu is on the door"),
    ];
    messages.extend((0..10).map(|i| message(&format!("m{i}"), &format!("Nothing of the kind number{i}"))));
    put(&engine, messages);
    let hits = recall(&engine, Query::new(question).k(20));
    let last = &hits[hits.len() - 3..];
    assert!(last.iter().all(|hit| hit.breakdown.repeats_question && hit.relevance == 0.0), "{:?}", ids(&hits));
    assert_eq!(hits.iter().filter(|hit| hit.breakdown.repeats_question).count(), 3);
    let shown = recall(&engine, Query::new(question).min_score(0.05));
    assert!(shown.iter().all(|hit| ["answer", "yes"].contains(&&*hit.message.id)), "{:?}", ids(&shown));
    assert!(!shown.is_empty());
    // Whoever looks for a statement finds it.
    let hits = recall(&engine, Query::new("The office lunch menu is on the door"));
    assert_eq!(hits[0].message.id, "yes");
    let long = format!("Please keep it short. I have little time. {question}");
    let hits = recall(&engine, Query::new(long).k(5));
    assert!(hits.iter().all(|hit| !hit.breakdown.repeats_question), "{:?}", ids(&hits));
}

#[test]
fn the_first_hits_do_not_depend_on_k() {
    let db = Db::new();
    let engine = db.open();
    let about = ["The boat of the week", "A key for the shed", "Nothing of that kind", "The plank by the water"];
    let text = |i: usize| format!("{} number{} and thing{}", about[i * i % 7 % 4], i % 23, i % 31);
    let one = |i: usize| message(&format!("m{i}"), &text(i)).in_session(format!("s{}", i * 5 % 37));
    put(&engine, (0..600).map(one).collect::<Vec<_>>());
    let strategies = ["hybrid", "dense", "lexical", "rrf", "weighted:0.5"];
    for strategy in strategies.map(|name| name.parse::<RankingStrategy>().unwrap()) {
        for unit in [Unit::Message, Unit::Turn, Unit::Session] {
            for least in [None, Some(0.001), Some(0.02), Some(0.1)] {
                let found = |k: usize| {
                    let query = Query::new("Which boat has number3 of that week?").strategy(strategy).unit(unit).k(k);
                    let hits = recall(&engine, least.into_iter().fold(query, Query::min_score));
                    hits.iter().map(|hit| (hit.message.id.clone(), hit.others.len())).collect::<Vec<_>>()
                };
                let most = found(70);
                for k in [1, 7, 30] {
                    assert_eq!(found(k), most[..k.min(most.len())], "{k}, {strategy}, {unit}, {least:?}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// As many hits are found as have the least relevance, and all of them have it.
    #[test]
    fn all_hits_have_the_least_relevance(least in 0.0f32..1.0, k in 1usize..30) {
        let (_db, engine) = boats(25);
        let all = recall(&engine, Query::new("Where is the boat of that week?").k(30));
        let wanted = all.iter().filter(|hit| hit.relevance >= least).count().min(k);
        let found = recall(&engine, Query::new("Where is the boat of that week?").k(k).min_score(least));
        prop_assert!(found.len() == wanted && found.iter().all(|hit| hit.relevance >= least), "{:?}", ids(&found));
        prop_assert!(all.iter().all(|hit| (0.0..=1.0).contains(&hit.relevance)));
    }
}

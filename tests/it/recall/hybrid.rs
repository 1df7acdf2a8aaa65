//! The hybrid score: neighbor boosts, passages, statistics of a namespace.

use mnemon::{Engine, Message, Query, RankingStrategy, Role};

use super::{SPACE, delete, filled, ids, lexical, open, put, recall};
use crate::support::{Db, message, namespace};

/// Turns of a session, one of which asks and the next answers in other words; and noise.
fn conversation() -> Vec<Message> {
    let mut turns: Vec<Message> = (0..60)
        .map(|i| message(&format!("noise{i}"), &format!("chat{i} about th1ng{}", i * 7)).in_session("s"))
        .collect();
    turns.insert(30, message("asks", "which instrument did you choose finally").in_session("s"));
    turns.insert(31, message("answers", "cello").in_session("s"));
    // Put next to the question in the namespace, of another session.
    turns.insert(32, message("stranger", "cello").in_session("other"));
    turns
}

const QUESTION: &str = "which instrument choose finally";

#[test]
fn the_turn_after_a_matching_question_is_boosted() {
    let (_db, engine) = filled(conversation());
    let hits = recall(&engine, Query::new(QUESTION).k(80).keep_duplicates());
    let of = |id: &str| hits.iter().find(|hit| hit.message.id == id).unwrap();
    let (answers, stranger) = (of("answers"), of("stranger"));
    assert!(answers.breakdown.neighbor > 0.0 && answers.breakdown.boosted_by.as_deref() == Some("asks"), "{answers:?}");
    assert!(answers.rank < stranger.rank);
    assert_eq!((stranger.breakdown.neighbor, &stranger.breakdown.boosted_by), (0.0, &None), "no turn of its session");
    assert!(of("noise29").breakdown.neighbor > 0.0 && of("noise28").breakdown.neighbor > 0.0);
    assert_eq!(of("noise27").breakdown.neighbor, 0.0, "three turns away");
    let off = recall(&engine, Query::new(QUESTION).k(80).neighbors(false));
    assert!(off.iter().all(|hit| hit.breakdown.neighbor == 0.0 && hit.breakdown.boosted_by.is_none()));
    for hit in &hits {
        let parts = &hit.breakdown;
        let content = parts.dense + parts.lexical + parts.neighbor + parts.speaker + parts.question;
        let sum = content + parts.length + parts.time + parts.recency;
        assert!((sum - hit.score).abs() < 1e-4, "the parts add up: {hit:?}");
    }
}

#[test]
fn a_deleted_turn_boosts_no_neighbor() {
    let (_db, engine) = filled(conversation());
    delete(&engine, &["asks"]);
    let hits = recall(&engine, Query::new(QUESTION).k(80));
    assert!(hits.iter().all(|hit| hit.breakdown.neighbor == 0.0 && hit.message.id != "asks"));
}

/// Turns are neighbours by the order they were put in, whatever rows they have.
#[test]
fn reused_rows_change_no_order() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, (0..10).map(|i| message(&format!("old{i}"), &format!("gone{i}")).in_session("s")).collect());
    let gone: Vec<String> = (0..10).map(|i| format!("old{i}")).collect();
    put(&engine, (0..5).map(|i| message(&format!("first{i}"), &format!("b3gin{i}")).in_session("s")).collect());
    delete(&engine, &gone.iter().map(String::as_str).collect::<Vec<_>>());
    // These take the rows before `first`.
    put(&engine, (0..5).map(|i| message(&format!("last{i}"), &format!("end{i}")).in_session("s")).collect());
    let lent = |engine: &mnemon::Engine| -> Vec<String> {
        let hits = recall(engine, Query::new("b3gin4").k(20));
        let mut lent: Vec<String> =
            hits.iter().filter(|hit| hit.breakdown.neighbor > 0.0).map(|hit| hit.message.id.clone()).collect();
        lent.sort();
        lent
    };
    let wanted = ["first2", "first3", "last0", "last1"];
    assert_eq!(lent(&engine), wanted);
    drop(engine);
    assert_eq!(lent(&db.open()), wanted);
}

#[test]
fn the_passage_of_a_hit_contains_the_terms() {
    let db = Db::new();
    let engine = open(&db, 40);
    let long = format!("{} the violet umbrella {}", "filler words ".repeat(10), "other padding ".repeat(10));
    let named = Message { name: Some("Ada Lovelace".into()), ..message("named", &long) };
    let wide = format!("{} 紫の傘 {}", "ééé ".repeat(20), "ßßß ".repeat(20));
    // A window and more is name alone.
    let endless = Message { name: Some("Bartholomew ".repeat(10)), ..message("endless", "Hello umbrella") };
    put(&engine, vec![message("plain", &long), named, message("wide", &wide), endless, message("short", "umbrella")]);
    for (question, id, words) in [
        ("violet umbrella", "plain", "umbrella"),
        ("Lovelace's violet umbrella", "named", "umbrella"),
        ("紫の傘", "wide", "の傘"),
        ("umbrella", "short", "umbrella"),
        ("Hello umbrella", "endless", "umbrella"),
    ] {
        for strategy in [RankingStrategy::Hybrid, RankingStrategy::Lexical] {
            let hits = recall(&engine, Query::new(question).strategy(strategy).keep_duplicates());
            let hit = hits.iter().find(|hit| hit.message.id == id).unwrap();
            let text = hit.message.text();
            assert!(text[hit.passage.clone()].contains(words), "{id}: {:?}", &text[hit.passage.clone()]);
            assert!(text.len() <= 40 || hit.passage.len() <= 40, "{id}: {:?}", hit.passage);
        }
    }
    let hits = recall(&engine, Query::new("Bartholomew"));
    assert_eq!(hits[0].message.id, "endless");
    assert!(hits.iter().all(|hit| !hit.passage.is_empty()), "some of the text, though the name alone matched");
}

/// The usual cosines and lengths are estimated from a sample, which must not be of one speaker alone, nor empty.
#[test]
fn deleting_every_other_turn_does_not_change_the_scale() {
    for count in [1000, 2000] {
        let turn = |i: usize| {
            let (role, extra) = [(Role::User, 1), (Role::Assistant, 30)][i % 2];
            Message { role, ..message(&format!("m{i}"), &format!("word{i} {}", "extra ".repeat(extra))) }
        };
        let (_db, engine) = filled((0..count).map(turn).collect());
        // The wordy role is known as wordy: its prior is below that of the other.
        let prior = |role: Role| {
            let hits = recall(&engine, Query::new("word500 word501").role(role).keep_duplicates().k(20));
            hits.iter().map(|hit| hit.breakdown.length).sum::<f32>() / 20.0
        };
        let (user, assistant) = (prior(Role::User), prior(Role::Assistant));
        assert!(assistant < user - 0.5, "{count}: {user} {assistant}");

        delete(
            &engine,
            &(0..count)
                .step_by(2)
                .map(|i| format!("m{i}"))
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str)
                .collect::<Vec<_>>(),
        );
        let hits = recall(&engine, Query::new("word501").k(20).keep_duplicates());
        assert!(hits.iter().all(|hit| hit.breakdown.dense.abs() < 20.0), "{count}: {:?}", hits[0].breakdown);
        assert_eq!(hits[0].message.id, "m501");
    }
}

/// Messages that share no term come after those that do, and there are k.
#[test]
fn every_strategy_returns_k_hits() {
    let (_db, engine) =
        filled((0..300).map(|i| message(&format!("m{i}"), &format!("word{i} th1ng{}", i % 5))).collect());
    let strategies = [
        RankingStrategy::Hybrid,
        RankingStrategy::Dense,
        RankingStrategy::Lexical,
        RankingStrategy::ReciprocalRank,
        RankingStrategy::Weighted(0.0),
        RankingStrategy::Weighted(0.5),
        RankingStrategy::Weighted(1.0),
    ];
    for strategy in strategies {
        for (question, k) in [("word7", 1), ("word7 th1ng3", 250), ("none of these", 300), ("th1ng2", 10_000)] {
            let hits = recall(&engine, Query::new(question).k(k).strategy(strategy).keep_duplicates());
            assert_eq!(hits.len(), k.min(300), "{strategy} {question}");
            assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score), "{strategy} {question}");
        }
    }
    let hits = recall(&engine, lexical("th1ng3").k(300));
    assert!(
        hits[..60].iter().all(|hit| hit.breakdown.bm25 > 0.0) && hits[60..].iter().all(|hit| hit.breakdown.bm25 == 0.0)
    );
    let space = namespace(SPACE);
    assert_eq!(
        engine.blocking().recall(&space, Query::new("word7")).unwrap(),
        recall(&engine, Query::new("word7")),
        "the same again"
    );
    assert_eq!(ids(&recall(&engine, Query::new("word7").k(1))), ["m7"]);
}

/// Whoever is named is boosted, whatever part of the name the query has, before and after messages are embedded.
#[test]
fn messages_by_a_named_speaker_are_boosted() {
    let said = |id: &str, name: Option<&str>, text: &str| {
        let message = Message::user(text).with_id(id).in_session(id);
        name.into_iter().fold(message, |message, name| message.by(name))
    };
    let messages = vec![
        said("ada", Some("Ada Byron"), "The rowing lesson was moved to the harbour on Thursday."),
        said("ben", Some("Ben"), "The rowing lesson was moved to the lake on Friday, wasn't it?"),
        said("nobody", None, "The rowing lesson was moved to the river on Monday."),
    ];
    let check = |engine: &Engine| {
        for (query, named) in [
            ("Where does Ada row?", Some("ada")),
            ("Where is Byron's rowing lesson?", Some("ada")),
            ("Where is Ben's rowing lesson?", Some("ben")),
            ("Where is the rowing lesson?", None),
        ] {
            let hits = recall(engine, Query::new(query));
            assert_eq!(hits.len(), 3);
            for hit in &hits {
                let is_named = Some(hit.message.id.as_str()) == named;
                assert_eq!(hit.breakdown.speaker > 0.0, is_named, "{query}: {hit:?}");
                assert_eq!(hit.breakdown.question < 0.0, hit.message.id == "ben", "{query}: {hit:?}");
            }
            let off = recall(engine, Query::new(query).speakers(false).questions(false));
            assert!(off.iter().all(|hit| (hit.breakdown.speaker, hit.breakdown.question) == (0.0, 0.0)));
            for hit in &hits {
                let before = off.iter().find(|off| off.message.id == hit.message.id).unwrap().score;
                let added = hit.breakdown.speaker + hit.breakdown.question;
                assert!((hit.score - before - added).abs() < 1e-4, "{query}: {before}, {hit:?}");
            }
        }
    };
    let db = Db::new();
    let engine = open(&db, 4096);
    engine.blocking().put(&namespace(SPACE), messages).unwrap();
    check(&engine); // By their words alone, before they are embedded.
    engine.blocking().flush().unwrap();
    check(&engine);
    drop(engine);
    check(&open(&db, 4096)); // From the stored segments.
}

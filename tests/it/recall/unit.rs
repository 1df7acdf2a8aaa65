//! Turns and sessions as hits, hits that supersede others, and queries whose words the model does not know.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use mnemon::{Embedder, Engine, Message, ModelIdentity, Query, RankingStrategy, Role, Scope, Unit};

use super::{SPACE, filled, ids, recall};
use crate::support::{Db, Hashing, message, namespace};

/// Ids of the best message and of the others of each hit.
fn units(engine: &Engine, query: Query) -> Vec<(String, Vec<String>)> {
    let others = |hit: &mnemon::Hit| hit.others.iter().map(|message| message.id.clone()).collect();
    recall(engine, query).iter().map(|hit| (hit.message.id.clone(), others(hit))).collect()
}

fn unit(best: &str, others: &[&str]) -> (String, Vec<String>) {
    (best.to_owned(), others.iter().map(|id| (*id).to_owned()).collect())
}

/// Two conversations at once; in the first a question, a call of a tool, and an answer.
fn dialogue() -> Vec<Message> {
    let said = |role, id: &str, session: &str, second: u8, text: &str| {
        let time = format!("2024-05-01T09:30:{second:02}Z").parse().unwrap();
        Message { role, ..message(id, text).in_session(session).at(time) }
    };
    vec![
        said(Role::User, "hello", "a", 0, "good morning"),
        said(Role::User, "asks", "a", 1, "which ferry goes to the island"),
        said(Role::User, "stranger", "b", 2, "my bicycle has a puncture"),
        said(Role::Assistant, "looks", "a", 3, "one moment please"),
        said(Role::Assistant, "answers", "a", 4, "the noon boat from the northern pier"),
        said(Role::Assistant, "other", "b", 5, "try a patch"),
        said(Role::User, "thanks", "a", 6, "splendid"),
    ]
}

#[test]
fn a_turn_is_a_question_with_everything_up_to_the_next_one() {
    let (_db, engine) = filled(dialogue());
    let best = |query: Query| units(&engine, query.unit(Unit::Turn).k(1)).remove(0);
    assert_eq!(best(Query::new("ferry island")), unit("asks", &["looks", "answers"]));
    assert_eq!(best(Query::new("noon boat northern pier")), unit("answers", &["asks", "looks"]));
    // The filter's role is that of the message that is found.
    let found = best(Query::new("noon boat northern pier ferry island").role(Role::Assistant));
    assert_eq!(found, unit("answers", &["asks", "looks"]));
    assert_eq!(best(Query::new("ferry island").except(["looks"])), unit("asks", &["answers"]));
    let then = "2024-05-01T09:30:03Z".parse().unwrap();
    assert_eq!(best(Query::new("ferry island").until(then)), unit("asks", &[]));
    // Each message is in one hit.
    let all = units(&engine, Query::new("ferry noon boat").unit(Unit::Turn).k(10));
    let mut messages: Vec<String> =
        all.into_iter().flat_map(|(best, others)| others.into_iter().chain([best])).collect();
    messages.sort();
    assert_eq!(messages, ["answers", "asks", "hello", "looks", "other", "stranger", "thanks"]);
}

/// A turn has no message that was put after the time of [`Query::as_of`], in one namespace and in several.
#[test]
fn a_turn_as_of_a_time_ends_there() {
    let pause = || std::thread::sleep(std::time::Duration::from_millis(2));
    let timeless = |role, id: &str, text: &str| Message { role, created_at: None, ..message(id, text) };
    let (_db, engine) = filled(vec![timeless(Role::User, "asks", "which ferry goes to the island")]);
    pause();
    let then = mnemon::Timestamp::now();
    pause();
    super::put(&engine, vec![timeless(Role::Assistant, "answers", "the noon boat")]);
    let query = Query::new("ferry island").unit(Unit::Turn).k(1);
    assert_eq!(units(&engine, query.clone()), [unit("asks", &["answers"])]);
    assert_eq!(units(&engine, query.clone().as_of(then)), [unit("asks", &[])]);
    engine.blocking().put(&namespace("other"), vec![message("x", "nothing")]).unwrap();
    let scope = Scope::new().namespace(&namespace(SPACE)).namespace(&namespace("other"));
    let hits = engine.blocking().recall_in(&scope, query.as_of(then)).unwrap();
    assert!(hits[0].message.id == "asks" && hits[0].others.is_empty(), "{hits:?}");
}

#[test]
fn a_session_is_ranked_by_its_best_messages_together() {
    let mut messages = vec![message("once", "the ferry to the island was late").in_session("once")];
    for i in 0..8 {
        messages.push(message(&format!("often{i}"), &format!("the ferry to the island day{i}")).in_session("often"));
        messages.push(
            message(&format!("noise{i}"), &format!("chat{i} about thing{i}")).in_session(format!("noise{}", i % 3)),
        );
    }
    let (_db, engine) = filled(messages);
    let query = || Query::new("ferry island late").neighbors(false).length_prior(false).keep_duplicates().k(5);
    let mut odds: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for hit in recall(&engine, query().k(100)) {
        odds.entry(hit.message.session).or_default().push(f64::from(hit.score).exp());
    }
    // A message that supersedes another comes before it, whatever their scores are.
    odds.values_mut().for_each(|odds| odds.sort_by(|a, b| b.total_cmp(a)));
    let of_five = |odds: &[f64]| odds.iter().take(5).sum::<f64>().ln() as f32;
    let mut wanted: Vec<(String, f32)> = odds.iter().map(|(name, odds)| (name.clone(), of_five(odds))).collect();
    wanted.sort_by(|a, b| b.1.total_cmp(&a.1));
    let hits = recall(&engine, query().unit(Unit::Session));
    assert_eq!(hits.len(), 5);
    for (hit, (session, score)) in hits.iter().zip(&wanted) {
        assert!(hit.message.session == *session && (hit.score - score).abs() < 1e-4, "{hit:?}, wanted {wanted:?}");
        assert_eq!(hit.others.len(), odds[session].len().min(5) - 1);
        assert!(hit.others.iter().all(|other| other.session == *session && other.id != hit.message.id));
    }
    // Scores that are no odds are not added.
    let dense = recall(&engine, query().strategy(RankingStrategy::Dense).unit(Unit::Session));
    assert_eq!(dense[0].score, dense[0].similarity);
    assert_eq!(ids(&dense).len(), 5);
}

/// As many units are found as there are, however many of the best messages are of one.
#[test]
fn one_unit_with_many_matches_hides_no_others() {
    let mut messages: Vec<Message> = (0..300)
        .map(|i| Message { role: Role::Assistant, ..message(&format!("often{i}"), &format!("ferry island day{i}")) })
        .map(|message| message.in_session("often"))
        .collect();
    for i in 0..12 {
        messages.push(
            message(&format!("once{i}"), &format!("the ferry was mentioned by somebody{i}")).in_session(format!("{i}")),
        );
    }
    let (_db, engine) = filled(messages);
    for unit in [Unit::Session, Unit::Turn] {
        let hits = recall(&engine, Query::new("ferry island").unit(unit).k(12).keep_duplicates());
        let mut sessions: Vec<&str> = hits.iter().map(|hit| hit.message.session.as_str()).collect();
        assert_eq!(hits.len(), 12, "{unit}");
        sessions.sort_unstable();
        sessions.dedup();
        assert_eq!(sessions.len() == 12, unit == Unit::Session, "{unit}: {sessions:?}");
    }
}

#[test]
fn a_later_hit_says_what_it_supersedes() {
    let at = |second: u8| format!("2024-05-01T09:30:{second:02}Z").parse().unwrap();
    let (_db, engine) = filled(vec![
        message("new", "my rent is 950 euros a month now").at(at(9)),
        message("old", "my rent is 900 euros a month").at(at(1)),
        message("else", "my flat has 3 rooms and a balcony").at(at(5)),
    ]);
    for hit in recall(&engine, Query::new("how much is my rent")).iter() {
        assert_eq!(hit.supersedes == ["old"], hit.message.id == "new", "{hit:?}");
    }
    let alone = recall(&engine, Query::new("how much is my rent").except(["old"]));
    assert!(alone.iter().all(|hit| hit.supersedes.is_empty()), "only hits are named");
}

/// Knows the words that begin with "k".
struct Knowing(Hashing);

impl Embedder for Knowing {
    fn identity(&self) -> &ModelIdentity {
        self.0.identity()
    }

    fn windows(&self, text: &str) -> Vec<Range<usize>> {
        self.0.windows(text)
    }

    fn embed_documents(&self, texts: &[&str]) -> mnemon::Result<Vec<Vec<f32>>> {
        self.0.embed_documents(texts)
    }

    fn embed_query(&self, text: &str) -> mnemon::Result<Vec<f32>> {
        self.0.embed_query(text)
    }

    fn known_words(&self, text: &str) -> f32 {
        let words = text.split_whitespace();
        words.clone().filter(|word| word.starts_with('k')).count() as f32 / words.count() as f32
    }
}

/// Where the model knows few words of a query, the vectors count 0.3 times as much, and words four times.
#[test]
fn words_count_more_where_the_model_does_not_know_them() {
    let db = Db::new();
    let embedder = Arc::new(Knowing(Hashing::new(32)));
    let engine = db.open_with(embedder);
    let messages = (0..40).map(|i| message(&format!("m{i}"), &format!("kite kelp uno{i} dos{}", i % 7))).collect();
    engine.blocking().put(&namespace(SPACE), messages).unwrap();
    engine.blocking().flush().unwrap();
    let factors = |query: &str| {
        let find = |query: Query| recall(&engine, query.k(40).keep_duplicates());
        let (with, without) = (find(Query::new(query)), find(Query::new(query).vocabulary(false)));
        let of = |hits: &mnemon::Hits, get: fn(&mnemon::ScoreBreakdown) -> f32| {
            get(&hits.iter().find(|hit| hit.message.id == "m3").unwrap().breakdown)
        };
        let factor = |get| of(&with, get) / of(&without, get);
        (factor(|breakdown| breakdown.dense), factor(|breakdown| breakdown.lexical))
    };
    let is_near = |(a, b): (f32, f32), (x, y): (f32, f32)| (a - x).abs() < 1e-3 && (b - y).abs() < 1e-3;
    assert!(is_near(factors("uno3 dos3"), (0.1, 4.0)), "{:?}", factors("uno3 dos3"));
    assert!(is_near(factors("kite uno3 kelp"), (0.85, 1.5)), "{:?}", factors("kite uno3 kelp"));
    assert!(is_near(factors("kite kelp kiln uno3"), (1.0, 1.0)), "{:?}", factors("kite kelp kiln uno3"));
}

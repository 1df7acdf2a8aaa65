//! Filters on metadata and by ids.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use mnemon::{
    Config, Engine, IndexKind, Message, MetadataFilter, Query, RankingStrategy, Role, Timestamp, VectorStorage,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{SPACE, delete, ids, open, put, recall};
use crate::support::{
    Db, Hashing, message, namespace,
    recall::{dense, lexical},
};

fn filter(value: Value) -> MetadataFilter {
    (&value).try_into().unwrap()
}

fn with(message: Message, metadata: Value) -> Message {
    Message { metadata: object(metadata), ..message }
}

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn set(engine: &Engine, id: &str, metadata: Value) -> bool {
    engine.blocking().set_metadata(&namespace(SPACE), id, object(metadata)).unwrap()
}

/// The ids of the hits, sorted.
fn sorted(engine: &Engine, query: Query) -> Vec<String> {
    let hits = recall(engine, query);
    let mut found: Vec<String> = hits.iter().map(|hit| hit.message.id.clone()).collect();
    found.sort();
    found
}

/// Every third message is not embedded; one in a hundred has the rare tag.
#[test]
fn k_hits_are_found_if_k_match() {
    let db = Db::new();
    let engine = open(&db, 20);
    let messages = (0..600).map(|i| {
        let text = format!("the ferry number {i} leaves at noon, or some time later");
        with(message(&format!("m{i}"), &text), json!({"n": i, "tags": if i % 100 == 7 { ["rare"] } else { ["usual"] }}))
    });
    let (late, early): (Vec<Message>, Vec<Message>) =
        messages.partition(|message| message.metadata["n"].as_u64().unwrap() % 3 == 0);
    put(&engine, early);
    engine.blocking().put(&namespace(SPACE), late).unwrap();
    let rare = || filter(json!({"tags": {"$contains": "rare"}}));
    for strategy in [RankingStrategy::Hybrid, RankingStrategy::Lexical, RankingStrategy::ReciprocalRank] {
        let found = |k: usize, filter: MetadataFilter| {
            sorted(&engine, Query::new("ferry").k(k).strategy(strategy).filter(filter))
        };
        assert_eq!(found(10, rare()), ["m107", "m207", "m307", "m407", "m507", "m7"]);
        assert_eq!(found(4, rare()).len(), 4);
        assert_eq!(found(600, !rare()).len(), 594);
        assert_eq!(found(100, filter(json!({"n": {"$gte": 550}}))).len(), 50);
        assert_eq!(found(10, filter(json!({"n": {"$gte": 600}}))), [""; 0]);
        assert_eq!(found(10, filter(json!({}))).len(), 10);
    }
    // 207 and 507 are not embedded.
    assert_eq!(sorted(&engine, dense("ferry").filter(rare())), ["m107", "m307", "m407", "m7"]);
    let hits = recall(&engine, Query::new("ferry").filter(rare()));
    assert_eq!((hits.len(), hits.pending()), (6, 2));
}

#[test]
fn a_filter_on_metadata_holds_together_with_the_others() {
    let db = Db::new();
    let engine = db.open();
    let moment = |day: i64| Timestamp::from_micros(day * 86_400_000_000).unwrap();
    let messages = (0..16).map(|i| {
        let role = if i & 1 == 0 { Role::User } else { Role::Assistant };
        let session = if i & 2 == 0 { "s" } else { "t" };
        let made = Message::new(role, format!("ferry {i}")).with_id(format!("{i:02}")).in_session(session);
        with(made.at(moment(if i & 4 == 0 { 10 } else { 20 })), json!({"x": i & 8 == 0}))
    });
    let messages: Vec<Message> = messages.collect();
    let x = || Query::new("ferry").k(16).filter(filter(json!({"x": true})));
    for is_embedded in [false, true] {
        match is_embedded {
            false => drop(engine.blocking().put(&namespace(SPACE), messages.clone()).unwrap()),
            true => put(&engine, Vec::new()),
        }
        assert_eq!(sorted(&engine, x().role(Role::Assistant)), ["01", "03", "05", "07"]);
        assert_eq!(sorted(&engine, x().session("t")), ["02", "03", "06", "07"]);
        assert_eq!(sorted(&engine, x().since(moment(15)).session("s")), ["04", "05"]);
        assert_eq!(sorted(&engine, x().filter(filter(json!({"x": false})))), [""; 0]);
        assert_eq!(sorted(&engine, x().except(["00", "01"]).until(moment(15))), ["02", "03"]);
        assert_eq!(sorted(&engine, x().ids(["01", "04", "09", "nobody"])), ["01", "04"]);
        assert_eq!(sorted(&engine, x().ids(["01", "04", "09"]).session("s").role(Role::User)), ["04"]);
        assert_eq!(sorted(&engine, Query::new("ferry").ids(["01", "09"])), ["01", "09"]);
        assert_eq!(sorted(&engine, Query::new("ferry").ids([""; 0])), [""; 0]);
        assert_eq!(recall(&engine, x().ids(["01", "09"])).pending(), if is_embedded { 0 } else { 1 });
    }
}

/// The fields of messages in a filter do what the methods of a query do, also where the methods cannot: within `or`.
#[test]
fn a_filter_names_the_fields_of_messages() {
    let db = Db::new();
    let engine = open(&db, 20);
    let time = |i: i64| format!("2024-05-{:02}T12:00:00.5Z", 1 + i);
    let messages = (0..12).map(|i| {
        let role = if i % 2 == 0 { Role::User } else { Role::Assistant };
        let made =
            Message::new(role, format!("ferry {i}")).with_id(format!("{i:02}")).in_session(format!("s{}", i % 3));
        with(made.at(time(i).parse().unwrap()), json!({"x": i < 6, "$role": "user"}))
    });
    let mut messages: Vec<Message> = messages.collect();
    let matching = |value: Value| sorted(&engine, Query::new("ferry").k(20).filter(filter(value)));
    for is_embedded in [false, true] {
        match is_embedded {
            false => drop(engine.blocking().put(&namespace(SPACE), messages.clone()).unwrap()),
            true => put(&engine, Vec::new()),
        }
        let query = || Query::new("ferry").k(20);
        assert_eq!(matching(json!({"$role": "assistant"})), sorted(&engine, query().role(Role::Assistant)));
        assert_eq!(matching(json!({"$session": "s1"})), sorted(&engine, query().session("s1")));
        let since = query().since(time(8).parse().unwrap());
        assert_eq!(matching(json!({"$created_at": {"$gte": "2024-05-09T14:00:00.5+02:00"}})), sorted(&engine, since));
        assert_eq!(matching(json!({"$created_at": {"$exists": false}})), [""; 0]);
        assert_eq!(matching(json!({"$id": {"$in": ["03", "05", "nobody"]}, "x": true})), ["03", "05"]);
        let either = json!({"$or": [{"$session": "s0", "x": false}, {"$id": "01"}], "$not": {"$role": "user"}});
        assert_eq!(matching(either), ["01", "09"]);
        assert_eq!(matching(json!({"[\"$role\"]": "assistant"})), [""; 0]);
    }
    // Each change is seen at once.
    messages[3].role = Role::User;
    put(&engine, vec![messages[3].clone()]);
    assert_eq!(matching(json!({"$role": "assistant", "x": true})), ["01", "05"]);
    assert_eq!(matching(json!({"$role": "user", "x": true})), ["00", "02", "03", "04"]);
}

/// A filter that was queried before sees each change of metadata, and the change needs no embedding.
#[test]
fn metadata_changes_without_embedding_and_is_seen_at_once() {
    let db = Db::new();
    let embedder = Arc::new(Hashing::new(32));
    let engine = db.open_with(Arc::clone(&embedder) as _);
    let embedded = || embedder.embedded.load(Ordering::Relaxed);
    let done = || sorted(&engine, Query::new("ferry").filter(filter(json!({"done": true}))));
    put(&engine, vec![message("m1", "ferry one"), message("m2", "ferry two")]);
    assert_eq!((done(), embedded()), (vec![], 2));
    assert!(set(&engine, "m1", json!({"done": true})));
    assert_eq!(done(), ["m1"]);
    let stored = engine.blocking().get(&namespace(SPACE), "m2").unwrap().unwrap();
    put(&engine, vec![with(stored, json!({"done": true, "by": "Ada"}))]);
    assert_eq!(done(), ["m1", "m2"]);
    assert!(set(&engine, "m1", json!({})));
    assert_eq!((done(), embedded(), engine.blocking().pending().unwrap()), (vec!["m2".to_owned()], 2, 0));

    // Of a message that is not embedded, or is in a buffer, too.
    engine.blocking().put(&namespace(SPACE), vec![message("m3", "ferry three")]).unwrap();
    let memory = engine.memory(&namespace(SPACE), "s").open().unwrap();
    memory.blocking().put(vec![message("b1", "ferry four")]).unwrap();
    assert_eq!(done(), ["m2"]);
    assert!(set(&engine, "m3", json!({"done": true})) && set(&engine, "b1", json!({"done": true})));
    assert_eq!(done(), ["b1", "m2", "m3"]);
    let history = memory.blocking().messages().unwrap();
    assert_eq!(history[0].metadata, object(json!({"done": true})));
    engine.blocking().flush().unwrap();
    memory.blocking().flush().unwrap();
    assert_eq!(done(), ["b1", "m2", "m3"]);
    delete(&engine, &["m2"]);
    assert_eq!(done(), ["b1", "m3"]);

    assert!(!set(&engine, "m2", json!({})) && !set(&engine, "nobody", json!({})));
    assert!(!engine.blocking().set_metadata(&namespace("nowhere"), "m1", Map::new()).unwrap());
    let large = object(json!({"x": "x".repeat(mnemon::MAX_METADATA_BYTES)}));
    let refused = engine.blocking().set_metadata(&namespace(SPACE), "m3", large).unwrap_err();
    assert!(refused.to_string().contains("the maximum is"), "{refused}");
    assert_eq!(done(), ["b1", "m3"]);
    drop((memory, engine));
    db.assert_sound();
}

#[test]
fn more_filters_than_are_kept_are_answered() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, (0..100).map(|i| with(message(&format!("m{i}"), "ferry"), json!({"i": i}))).collect());
    for round in 0..3 {
        for i in 0..100 {
            let hits = recall(&engine, lexical("ferry").filter(MetadataFilter::eq("i", i).unwrap()));
            assert_eq!(ids(&hits), [format!("m{i}")], "round {round}");
        }
        set(&engine, "m7", json!({"i": 7.0, "round": round}));
    }
}

#[test]
fn a_filter_of_one_percent_finds_the_nearest_from_a_graph() {
    let db = Db::new();
    put(
        &db.open(),
        (0..3000)
            .map(|i| {
                let text = format!("w{} w{} w{} w{}", i % 7, i % 31, i % 101, i % 211);
                with(message(&format!("m{i}"), &text), json!({"group": i % 100}))
            })
            .collect(),
    );
    let found = |index: IndexKind| {
        let mut config = Config::default();
        (config.index, config.vectors) = (index, VectorStorage::Memory);
        let engine = Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap();
        engine.blocking().optimize(&namespace(SPACE)).unwrap();
        let query = |i: usize| dense(format!("w{} w{}", i % 31, i % 101)).filter(filter(json!({"group": i % 100})));
        (0..50)
            .flat_map(|i| recall(&engine, query(i)).into_iter().map(|hit| hit.message.id).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    let (graph, exact) = (found(IndexKind::Hnsw), found(IndexKind::Exact));
    assert_eq!(exact.len(), 500);
    let same = graph.iter().zip(&exact).filter(|(a, b)| a == b).count();
    assert!(same >= 495, "{same} of 500");
}

/// The message has one of two values at every moment; a filter on both always finds it, and a filter on one never finds
/// it with the other.
#[test]
fn changes_beside_recalls_never_lose_a_message_or_give_a_wrong_one() {
    let db = Db::new();
    let engine = db.open();
    put(&engine, vec![with(message("m", "ferry"), json!({"v": 0})), message("other", "ferry")]);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looking = || {
            let mut recalls = 0;
            while !stop.load(Ordering::Relaxed) {
                let both = recall(&engine, Query::new("ferry").filter(filter(json!({"v": {"$in": [0, 1]}}))));
                assert_eq!(ids(&both), ["m"], "after {recalls} recalls");
                for hit in &recall(&engine, Query::new("ferry").filter(filter(json!({"v": 1})))) {
                    assert_eq!(hit.message.metadata["v"], 1);
                }
                recalls += 1;
            }
            recalls
        };
        let threads = [scope.spawn(looking), scope.spawn(looking)];
        for i in 1..150 {
            match i % 3 {
                // Embeds again.
                0 => put(&engine, vec![with(message("m", &format!("ferry {i}")), json!({"v": i % 2}))]),
                _ => assert!(set(&engine, "m", json!({"v": i % 2}))),
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() > 0));
    });
}

#[derive(Clone, Debug)]
enum Step {
    Put(usize, bool, Value),
    SetMetadata(usize, Value),
    Delete(usize),
    Flush,
    FlushBuffer,
    Reopen,
    Look,
}

fn metadata() -> impl Strategy<Value = Value> {
    let value =
        prop::sample::select(vec![json!(0), json!(1.0), json!("x"), json!(["x", 1]), json!(null), json!({"c": 1})]);
    prop::collection::btree_map(prop::sample::select(vec!["a", "b"]), value, 0..3).prop_map(|fields| json!(fields))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..8_usize, any::<bool>(), metadata()).prop_map(|(id, buffered, value)| Step::Put(id, buffered, value)),
        4 => (0..8_usize, metadata()).prop_map(|(id, value)| Step::SetMetadata(id, value)),
        2 => (0..8_usize).prop_map(Step::Delete),
        2 => Just(Step::Flush),
        1 => Just(Step::FlushBuffer),
        1 => Just(Step::Reopen),
        4 => Just(Step::Look),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 8, ..ProptestConfig::default() })]

    /// After any changes, exactly the stored messages that match are found.
    #[test]
    fn exactly_the_matching_messages_are_found(steps in prop::collection::vec(step(), 1..40)) {
        let db = Db::new();
        let mut engine = db.open();
        let mut stored: BTreeMap<String, Value> = BTreeMap::new();
        let filters = [
            json!({"a": 1}),
            json!({"a": {"$exists": true}, "b": {"$ne": "x"}}),
            json!({"$or": [{"a": {"$contains": "x"}}, {"b": {"$gte": 1}}]}),
            json!({"$not": {"a.c": 1, "b": null}}),
        ];
        for (at, step) in steps.into_iter().chain([Step::Look, Step::Flush, Step::Look]).enumerate() {
            let id = |id: usize| format!("{}{id}", if id.is_multiple_of(2) { "m" } else { "b" });
            let memory = || engine.memory(&namespace(SPACE), "session").open().unwrap();
            match step {
                Step::Put(number, is_new_text, value) => {
                    let id = id(number);
                    let text = if is_new_text { format!("ferry {}", stored.len()) } else { "ferry".to_owned() };
                    let put = with(message(&id, &text).at(Timestamp::from_micros(0).unwrap()), value.clone());
                    match number % 2 {
                        0 => drop(engine.blocking().put(&namespace(SPACE), vec![put]).unwrap()),
                        _ => drop(memory().blocking().put(vec![put]).unwrap()),
                    }
                    stored.insert(id, value);
                }
                Step::SetMetadata(number, value) => {
                    prop_assert_eq!(set(&engine, &id(number), value.clone()), stored.contains_key(&id(number)));
                    stored.entry(id(number)).and_modify(|stored| *stored = value);
                }
                Step::Delete(number) => {
                    delete(&engine, &[&id(number)]);
                    stored.remove(&id(number));
                }
                Step::Flush => drop(engine.blocking().flush().unwrap()),
                Step::FlushBuffer => drop(memory().blocking().flush().unwrap()),
                Step::Reopen => {
                    drop(engine);
                    engine = db.open();
                }
                Step::Look => {
                    // A new filter on paths that others had, and one with more paths than are kept.
                    let many: Value = (0..40).map(|i| json!({format!("p{i}"): null})).chain([json!({"b": 1})]).collect();
                    let new = [json!({"a": {"$ne": at}, "b": {"$nin": ["x"]}}), json!({"$and": many})];
                    for value in filters.iter().chain(&new) {
                        let filter = filter(value.clone());
                        let expected: Vec<String> =
                            stored.iter().filter(|(_, value)| filter.matches(value)).map(|(id, _)| id.clone()).collect();
                        prop_assert_eq!(sorted(&engine, Query::new("ferry").filter(filter)), expected, "{}", value);
                    }
                }
            }
        }
    }
}

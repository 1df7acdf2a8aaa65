//! `Engine`: puts, flushes, recalls and reopening, with an embedder that needs no model.

mod bad_input;
mod creation;
mod expiry;
mod flush;
mod graph;
mod in_memory;
pub(crate) mod kills;
mod memory_budget;
mod moved;
mod namespaces;
mod precision;
mod prefix_kills;
mod read_only;
mod rows;
mod spans;
mod tenants;
mod threads;
mod versions;
mod without_text;

use std::{collections::BTreeMap, sync::Arc};

use mnemon::{Config, Engine, Error, IndexKind, Message, Query, Role, Timestamp};
use proptest::prelude::*;

use crate::support::{
    Db, Hashing, any_message, message, namespace,
    recall::{dense, recalled_ids as ids},
};

#[test]
fn messages_are_put_flushed_recalled_and_found_after_reopening() {
    let db = Db::new();
    let space = namespace("a");
    let engine = db.open();
    let report = engine
        .blocking()
        .put(&space, vec![message("1", "the red bicycle"), message("2", "a green boat"), message("3", "seven cats")])
        .unwrap();
    assert_eq!((report.new, report.replaced, report.unchanged), (3, 0, 0));
    assert_eq!(ids(&engine, &space, Query::new("red bicycle")), ["1"], "by its words");
    assert_eq!(engine.blocking().flush().unwrap().embedded, 3);
    assert_eq!(engine.blocking().flush().unwrap().embedded, 0);
    let hits = engine.blocking().recall(&space, Query::new("red bicycle").k(2)).unwrap();
    assert_eq!((hits.len(), hits[0].message.id.as_str(), hits[0].rank, hits[1].rank), (2, "1", 1, 2));
    assert!(hits[0].score > hits[1].score);
    drop(engine);

    let engine = db.open();
    assert_eq!(ids(&engine, &space, Query::new("green boat").k(1)), ["2"]);
    assert_eq!(ids(&engine, &space, Query::new("cats")).len(), 3, "all there are, if they are fewer than k");
    drop(engine);
    assert_eq!(db.assert_sound().vectors, 3);
}

#[test]
fn messages_committed_after_loading_are_found_at_once() {
    let db = Db::new();
    let space = namespace("a");
    let engine = db.open();
    for i in 0..50 {
        engine.blocking().put(&space, vec![message(&format!("m{i}"), &format!("word{i}"))]).unwrap();
        engine.blocking().flush().unwrap();
        assert_eq!(ids(&engine, &space, Query::new(format!("word{i}")).k(1)), [format!("m{i}")]);
    }
}

/// A namespace is loaded while another thread writes to it, after each of ten openings.
#[test]
fn loading_during_writes_misses_and_doubles_no_message() {
    let db = Db::new();
    let space = namespace("a");
    let mut count = 2000;
    let engine = db.open();
    engine
        .blocking()
        .put(&space, (0..count).map(|i| message(&format!("m{i}"), &format!("word{i}"))).collect())
        .unwrap();
    engine.blocking().flush().unwrap();
    drop(engine);
    for round in 0..10 {
        let engine = db.open();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in count..count + 5 {
                    // A new message, and one that is replaced: rows come and go.
                    let new = message(&format!("m{i}"), &format!("word{i}"));
                    let replaced = message(&format!("m{}", i % 100), &format!("changed{round}x{i}"));
                    engine.blocking().put(&space, vec![new, replaced]).unwrap();
                    engine.blocking().flush().unwrap();
                }
            });
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_micros(round * 700));
                assert!(ids(&engine, &space, Query::new("word5").k(5)).len() == 5);
            });
        });
        count += 5;
        let mut all = ids(&engine, &space, Query::new("word1").k(10_000));
        assert_eq!(all.len(), count);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count);
        let last = engine.blocking().recall(&space, Query::new(format!("word{}", count - 1)).k(1)).unwrap();
        assert!(last[0].similarity > 0.99 && last[0].message.id == format!("m{}", count - 1));
    }
    db.assert_sound();
}

#[test]
fn putting_an_id_again_replaces_the_message() {
    let db = Db::new();
    let space = namespace("a");
    let engine = db.open();
    let put = |message| engine.blocking().put(&space, vec![message]).unwrap();
    put(message("1", "apples"));
    let original = engine.blocking().get(&space, "1").unwrap().unwrap();
    engine.blocking().flush().unwrap();
    assert_eq!(put(original.clone()).unchanged, 1);
    assert_eq!(engine.blocking().flush().unwrap().embedded, 0, "what did not change is not embedded again");

    // Only the metadata changes: the vector stays.
    let mut tagged = original;
    tagged.metadata.insert("tag".into(), true.into());
    assert_eq!(put(tagged.clone()).replaced, 1);
    assert_eq!(engine.blocking().flush().unwrap().embedded, 0);
    assert_eq!(engine.blocking().recall(&space, Query::new("apples")).unwrap()[0].message, tagged);

    // The text changes: the old vector is gone at once, the new one comes with the flush.
    assert_eq!(put(message("1", "oranges")).replaced, 1);
    assert_eq!(ids(&engine, &space, Query::new("apples")), [""; 0]);
    assert_eq!(engine.blocking().get(&space, "1").unwrap().unwrap().text(), "oranges");
    engine.blocking().flush().unwrap();
    let hits = engine.blocking().recall(&space, Query::new("oranges")).unwrap();
    assert_eq!((hits.len(), hits[0].message.text().as_str()), (1, "oranges"));
    assert!(hits[0].similarity > 0.99);
    drop(engine);
    let report = db.assert_sound();
    assert_eq!((report.messages, report.vectors), (1, 1));
    // Reopened, the dead row stays dead.
    let engine = db.open();
    assert_eq!(ids(&engine, &space, Query::new("apples")), ["1"]);
    assert!(engine.blocking().recall(&space, Query::new("apples")).unwrap()[0].similarity < 0.9);
}

#[test]
fn filters_return_the_matching_messages_alone() {
    let db = Db::new();
    let space = namespace("a");
    let engine = db.open();
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    let mut messages = Vec::new();
    for i in 0..40 {
        let role = if i % 2 == 0 { Role::User } else { Role::Assistant };
        let mut message =
            Message::new(role, format!("word{i} same")).with_id(format!("m{i}")).in_session(format!("s{}", i % 4));
        message.created_at = (i < 30).then(|| time(&format!("2024-01-{:02}T12:00:00Z", i + 1)));
        messages.push(message);
    }
    engine.blocking().put(&space, messages.clone()).unwrap();
    engine.blocking().flush().unwrap();
    let check = |query: Query, wanted: &dyn Fn(&Message) -> bool| {
        let mut found = ids(&engine, &space, query.k(100));
        found.sort();
        let mut all: Vec<_> = messages.iter().filter(|m| wanted(m)).map(|m| m.id.clone()).collect();
        all.sort();
        assert_eq!(found, all);
    };
    let query = || Query::new("same");
    let (from, to) = (time("2024-01-10T12:00:00Z"), time("2024-01-20T12:00:00Z"));
    check(query(), &|_| true);
    check(query().session("s1"), &|m| m.session == "s1");
    check(query().session("nowhere"), &|_| false);
    check(query().role(Role::Assistant), &|m| m.role == Role::Assistant);
    check(query().role(Role::Tool), &|_| false);
    check(query().since(from), &|m| m.created_at.is_some_and(|t| t >= from));
    check(query().until(to), &|m| m.created_at.is_some_and(|t| t < to));
    check(query().since(from).until(to).session("s2").role(Role::User), &|m| {
        m.session == "s2" && m.role == Role::User && m.created_at.is_some_and(|t| (from..to).contains(&t))
    });
}

/// The others are found as if the excluded messages did not exist: with filters, with each strategy, and if they are
/// long.
#[test]
fn excluded_messages_do_not_change_the_order_of_the_others() {
    let db = Db::new();
    let space = namespace("a");
    let mut embedder = Hashing::new(32);
    embedder.window_bytes = 24;
    let engine = db.open_with(Arc::new(embedder));
    let messages = (0..90).map(|i| {
        let role = if i % 3 == 0 { Role::Assistant } else { Role::User };
        let text = format!("word{i} same ").repeat(1 + 7 * usize::from(i % 5 == 0));
        // Of one time, so that none supersedes another.
        Message::new(role, text).with_id(format!("m{i}")).at("2024-05-01T00:00:00Z".parse().unwrap())
    });
    engine.blocking().put(&space, messages.collect()).unwrap();
    engine.blocking().flush().unwrap();
    for strategy in [mnemon::RankingStrategy::Dense, mnemon::RankingStrategy::Lexical, mnemon::RankingStrategy::Hybrid]
    {
        for role in [None, Some(Role::User)] {
            let query = Query::new("word10 same").strategy(strategy).keep_duplicates();
            let query = role.map_or(query.clone(), |role| query.role(role));
            let all = ids(&engine, &space, query.clone().k(90));
            assert_eq!(all.len(), if role.is_some() { 60 } else { 90 });
            for unwanted in [1, 20, 55] {
                let found = ids(&engine, &space, query.clone().k(10).except(&all[..unwanted]));
                assert_eq!(found, all[unwanted..all.len().min(unwanted + 10)], "{strategy}, {role:?}, {unwanted}");
            }
        }
    }
}

#[test]
fn messages_of_one_namespace_are_not_found_in_another() {
    let db = Db::new();
    let engine = db.open();
    // Near-identical content, the same ids and sessions, and names that are prefixes of each other.
    let names = ["a", "a/b", "a/b/c", "ab", "b/a"];
    for name in names {
        let messages = (0..30).map(|i| message(&format!("m{i}"), &format!("the same words {i} {name}"))).collect();
        engine.blocking().put(&namespace(name), messages).unwrap();
    }
    engine.blocking().flush().unwrap();
    for name in names {
        let space = namespace(name);
        let hits = engine.blocking().recall(&space, Query::new("the same words a/b/c ab b/a").k(100)).unwrap();
        assert_eq!(hits.len(), 30);
        assert!(hits.iter().all(|hit| hit.message.text().ends_with(&format!(" {name}"))), "{name}");
        let got = engine.blocking().get(&space, "m7").unwrap().unwrap();
        assert!(got.text().ends_with(&format!("7 {name}")));
        // A change in one does not reach the others.
        engine.blocking().put(&space, vec![message("m7", &format!("changed {name}"))]).unwrap();
    }
    engine.blocking().flush().unwrap();
    for name in names {
        let hits = engine.blocking().recall(&namespace(name), Query::new("changed").k(1)).unwrap();
        assert_eq!(hits[0].message.text(), format!("changed {name}"));
    }
    assert_eq!(ids(&engine, &namespace("c"), Query::new("the same words")), [""; 0]);
    drop(engine);
    db.assert_sound();
}

#[test]
fn long_messages_are_found_by_any_window() {
    let db = Db::new();
    let space = namespace("a");
    let mut embedder = Hashing::new(64);
    embedder.window_bytes = 40;
    let engine = db.open_with(Arc::new(embedder));
    let filler = |i: usize| (0..60).map(|j| format!("filler{i}x{j} ")).collect::<String>();
    let mut messages: Vec<_> = (0..20).map(|i| message(&format!("m{i}"), &filler(i))).collect();
    messages.push(message("needle", &format!("{} the needle is here {}", filler(90), filler(91))));
    messages.push(message("short", "nothing of note"));
    engine.blocking().put(&space, messages).unwrap();
    assert_eq!(engine.blocking().flush().unwrap().embedded, 22);
    let found = ids(&engine, &space, Query::new("the needle is here").k(3));
    assert_eq!((found[0].as_str(), found.len()), ("needle", 3));
    // Each message once, although nearly all rows are of long ones.
    assert_eq!(ids(&engine, &space, Query::new("filler3x7").k(100)).len(), 22);
    // A long question is split too.
    let question = format!("{} the needle is here", filler(92));
    assert!(ids(&engine, &space, Query::new(question).k(3)).contains(&"needle".to_owned()));
    drop(engine);
    assert!(db.assert_sound().vectors > 300);
}

#[test]
fn one_long_message_does_not_hide_others_from_a_long_question() {
    let db = Db::new();
    let space = namespace("a");
    let mut embedder = Hashing::new(64);
    embedder.window_bytes = 12;
    let engine = db.open_with(Arc::new(embedder));
    // Every window of `long` is exactly the question's first; `near` is close to it; the others to its second.
    let mut messages = vec![message("long", &"apple pear  ".repeat(60)), message("near", "apple pear x")];
    messages.extend((0..20).map(|i| message(&format!("m{i}"), &format!("cherry {i:02}"))));
    engine.blocking().put(&space, messages).unwrap();
    engine.blocking().flush().unwrap();
    let found = ids(&engine, &space, dense("apple pear  cherry ").k(10));
    assert_eq!((found[0].as_str(), found.len()), ("long", 10));
    let exact = engine.blocking().recall(&space, dense("apple pear  ").k(22)).unwrap();
    let near = exact.iter().find(|hit| hit.message.id == "near").unwrap().score;
    let hits = engine.blocking().recall(&space, dense("apple pear  cherry ").k(10)).unwrap();
    assert!(near < hits[9].score || hits.iter().any(|hit| hit.message.id == "near"), "{near} {hits:?}");
}

#[test]
fn one_long_message_does_not_hide_others_that_have_the_term() {
    let db = Db::new();
    let space = namespace("a");
    let mut embedder = Hashing::new(64);
    embedder.window_bytes = 24;
    let engine = db.open_with(Arc::new(embedder));
    // The vectors find lions, of which there are many; the rare term is in each of two hundred windows, and elsewhere.
    let mut messages = vec![message("long", &"zebra ".repeat(400))];
    messages.extend((0..20).map(|i| message(&format!("zebra{i}"), &format!("zebra at{i} in{i}"))));
    messages.extend((0..600).map(|i| message(&format!("lion{i}"), "lion lion")));
    engine.blocking().put(&space, messages).unwrap();
    engine.blocking().flush().unwrap();
    for query in [Query::new("zebra lion"), Query::new("zebra lion").except(["long"]).role(Role::User)] {
        let found = ids(&engine, &space, query.strategy(mnemon::RankingStrategy::Lexical).keep_duplicates().k(15));
        assert!(found.len() == 15 && found.iter().all(|id| !id.starts_with("lion")), "{found:?}");
    }
}

#[test]
fn messages_without_text_are_stored_and_not_searched() {
    let db = Db::new();
    let space = namespace("a");
    let engine = db.open();
    let picture = serde_json::json!({"id": "p", "role": "user", "content": [{"type": "image", "uri": "a.png"}]});
    let picture = mnemon::MessageLine::parse(&picture.to_string()).unwrap().message;
    engine.blocking().put(&space, vec![picture.clone(), message("t", "text")]).unwrap();
    assert_eq!(engine.blocking().flush().unwrap().embedded, 1);
    assert_eq!(engine.blocking().get(&space, "p").unwrap(), Some(picture));
    assert_eq!(ids(&engine, &space, Query::new("text")), ["t"]);
    drop(engine);
    db.assert_sound();
}

#[test]
fn every_index_gives_the_same_answers() {
    let db = Db::new();
    let space = namespace("a");
    let engine = db.open();
    let words = |i: usize| format!("w{} w{} w{} w{i}", i % 7, i % 31, i % 101);
    engine.blocking().put(&space, (0..3000).map(|i| message(&format!("m{i}"), &words(i))).collect()).unwrap();
    engine.blocking().flush().unwrap();
    drop(engine);
    let mut answers: BTreeMap<&str, Vec<Vec<String>>> = BTreeMap::new();
    for (name, kind) in [
        ("exact", IndexKind::Exact),
        ("hnsw", IndexKind::Hnsw),
        ("hnsw_rs", IndexKind::HnswRs),
        ("auto", IndexKind::Auto),
    ] {
        let mut config = Config::default();
        config.index = kind;
        config.exact_threshold = 1000;
        let engine = Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap();
        engine.blocking().optimize(&space).unwrap();
        for i in (0..3000).step_by(97) {
            answers.entry(name).or_default().push(ids(&engine, &space, Query::new(words(i)).k(10)));
        }
    }
    for name in answers.keys().filter(|name| !matches!(**name, "exact" | "hnsw")) {
        let (exact, other) = (answers["exact"].concat(), answers[name].concat());
        let same = exact.iter().zip(&other).filter(|(a, b)| a == b).count();
        assert!(same * 100 >= exact.len() * 95, "{name}: {same} of {}", exact.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn async_callers_share_commits_and_see_their_own_writes() {
    let db = Db::new();
    let engine = db.open();
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let space = namespace(&format!("task/{}", task % 4));
                for i in 0..20 {
                    let id = format!("{task}-{i}");
                    let report = engine.put(&space, vec![message(&id, &format!("task{task} word{i}"))]).await.unwrap();
                    assert_eq!(report.new, 1);
                    assert!(engine.get(&space, &id).await.unwrap().is_some());
                    if i % 7 == 0 {
                        engine.flush().await.unwrap();
                        let hits = engine.recall(&space, Query::new(format!("task{task} word{i}")).k(1)).await.unwrap();
                        assert_eq!(hits[0].message.id, id);
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    engine.flush().await.unwrap();
    drop(engine);
    let report = db.assert_sound();
    assert_eq!((report.messages, report.vectors, report.namespaces), (320, 320, 4));
}

#[tokio::test]
async fn a_closed_engine_has_released_the_file() {
    let db = Db::new();
    for _ in 0..10 {
        let engine = db.open();
        engine.put(&namespace("a"), vec![Message::user("text")]).await.unwrap();
        assert_eq!(engine.pending().await.unwrap(), 1);
        engine.flush().await.unwrap();
        engine.close().await;
    }
    assert_eq!(db.assert_sound().messages, 10);
}

#[test]
fn dropping_and_reopening_at_once_never_finds_the_file_locked() {
    let db = Db::new();
    for i in 0..20 {
        let engine = db.open();
        engine.blocking().put(&namespace("a"), vec![message(&format!("m{i}"), "text")]).unwrap();
        if i % 2 == 0 {
            engine.blocking().flush().unwrap();
        }
    }
    assert_eq!(db.assert_sound().messages, 20);
}

/// One step of the model test.
#[derive(Clone, Debug)]
enum Step {
    Put { space: u8, messages: Vec<Message> },
    Flush,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    // Few ids, so that messages are often replaced.
    let message = (any_message(), 0u8..12).prop_map(|(message, id)| message.with_id(format!("id{id}")));
    prop_oneof![
        4 => (0u8..3, proptest::collection::vec(message, 0..6)).prop_map(|(space, messages)| Step::Put { space, messages }),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any order of puts, flushes and restarts leaves the database equal to a map.
    #[test]
    fn after_any_steps_the_engine_has_what_a_map_has(steps in proptest::collection::vec(step(), 1..12)) {
        let db = Db::new();
        let mut model: BTreeMap<(u8, String), Message> = BTreeMap::new();
        let mut engine = Some(db.open());
        for step in steps {
            let open = engine.as_ref().unwrap();
            match step {
                Step::Put { space, messages } => {
                    open.blocking().put(&namespace(&format!("n/{space}")), messages.clone()).unwrap();
                    model.extend(messages.into_iter().map(|message| ((space, message.id.clone()), message)));
                }
                Step::Flush => {
                    open.blocking().flush().unwrap();
                }
                Step::Reopen => {
                    engine.take();
                    engine = Some(db.open());
                }
            }
        }
        let open = engine.as_ref().unwrap();
        open.blocking().flush().unwrap();
        for ((space, id), message) in &model {
            let found = open.blocking().get(&namespace(&format!("n/{space}")), id).unwrap();
            prop_assert_eq!(found.as_ref(), Some(message));
        }
        for space in 0..3 {
            let hits = open.blocking().recall(&namespace(&format!("n/{space}")), Query::new("anything").k(100)).unwrap();
            let mut found: Vec<&Message> = hits.iter().map(|hit| &hit.message).collect();
            found.sort_by(|a, b| a.id.cmp(&b.id));
            let mut wanted: Vec<&Message> = model
                .iter()
                .filter(|((in_space, _), message)| *in_space == space && !message.text().trim().is_empty())
                .map(|(_, message)| message)
                .collect();
            wanted.sort_by(|a, b| a.id.cmp(&b.id));
            prop_assert_eq!(found, wanted);
        }
        engine.take();
        let report = db.assert_sound();
        prop_assert_eq!(report.messages as usize, model.len());
        prop_assert_eq!(report.pending, 0);
    }
}

/// A task whose waker drops it, and with it the last handle to the engine, where it is called: on the writer's thread.
#[test]
fn the_last_handle_may_be_dropped_by_the_engine_itself() {
    use std::{
        future::Future,
        pin::Pin,
        sync::Mutex,
        task::{Context, Wake, Waker},
    };

    struct Task(Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>);
    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.lock().unwrap().take();
        }
    }

    let db = Db::new();
    for i in 0..20 {
        let engine = db.open();
        let message = message(&format!("m{i}"), "text");
        let task = Arc::new(Task(Mutex::new(Some(Box::pin(async move {
            engine.put(&namespace("a"), vec![message]).await.unwrap();
        })))));
        let waker = Waker::from(task.clone());
        // Polled with the lock held: the waker waits until this is done.
        if let Some(future) = task.0.lock().unwrap().as_mut() {
            let _ = future.as_mut().poll(&mut Context::from_waker(&waker));
        }
        let started = std::time::Instant::now();
        loop {
            match db.try_open_with(Arc::new(Hashing::new(32))) {
                Ok(_) => break,
                Err(Error::DatabaseLocked { .. }) => assert!(started.elapsed().as_secs() < 30, "never closed"),
                Err(error) => panic!("{error}"),
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    assert_eq!(db.assert_sound().messages, 20);
}

//! Recalls over several namespaces.

use std::{collections::BTreeMap, fs, sync::Arc};

use mnemon::{Engine, Error, Hits, Message, MessageLine, MetadataFilter, Namespace, Query, RankingStrategy, Scope};

use crate::support::{Hashing, message, namespace, random::below, sample};

fn in_memory() -> Engine {
    with_budget(mnemon::Config::default().memory_budget)
}

fn with_budget(memory_budget: usize) -> Engine {
    let mut config = mnemon::Config::default();
    (config.idle_flush, config.memory_budget) = (None, memory_budget);
    Engine::builder_in_memory().config(config).embedder(Arc::new(Hashing::new(64))).open().unwrap()
}

fn put(engine: &Engine, name: &str, messages: impl IntoIterator<Item = Message>) {
    engine.blocking().put(&namespace(name), messages.into_iter().collect()).unwrap();
}

fn ids(hits: &Hits) -> Vec<(String, String)> {
    let id = |hit: &mnemon::Hit| (hit.namespace.as_ref().unwrap().to_string(), hit.message.id.clone());
    hits.iter().map(id).collect()
}

fn pairs(found: &[(&str, &str)]) -> Vec<(String, String)> {
    found.iter().map(|(name, id)| ((*name).to_owned(), (*id).to_owned())).collect()
}

fn lines(file: &str) -> Vec<serde_json::Value> {
    fs::read_to_string(sample(file)).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The messages of the sample, with ids and sessions that are distinct over all its namespaces.
fn sample_messages() -> Vec<Message> {
    let text = fs::read_to_string(sample("messages.jsonl")).unwrap();
    text.lines()
        .map(|line| {
            let MessageLine { namespace, mut message, .. } = MessageLine::parse(line).unwrap();
            message.session = format!("{}/{}", namespace.unwrap(), message.session);
            message
        })
        .collect()
}

/// Messages of random words, in sessions of ten.
fn random_messages(count: usize) -> Vec<Message> {
    let mut state = 11;
    let mut word = || {
        // Some words are much more frequent than others.
        let range = 1 << (1 + below(&mut state, 10));
        format!("word{}", below(&mut state, range))
    };
    let mut text = |at: usize| (0..5 + at % 20).map(|_| word()).collect::<Vec<_>>().join(" ");
    (0..count).map(|at| message(&format!("m{at}"), &text(at)).in_session(format!("s{}", at / 10))).collect()
}

/// Puts the messages into one namespace, and by session into `parts` others. Compares the ten best hits for each query:
/// returns the mean share of hits that both have, and the greatest difference of a common hit's scores.
fn compare(messages: Vec<Message>, parts: usize, queries: &[String]) -> (f64, f32) {
    let engine = in_memory();
    let mut sessions: BTreeMap<String, Vec<Message>> = BTreeMap::new();
    messages.iter().for_each(|message| sessions.entry(message.session.clone()).or_default().push(message.clone()));
    for (at, (_, messages)) in sessions.into_iter().enumerate() {
        put(&engine, &format!("part/{}", at % parts), messages);
    }
    put(&engine, "one", messages);
    engine.blocking().flush().unwrap();
    let (mut common, mut all, mut difference) = (0, 0, 0.0f32);
    for text in queries {
        let one = engine.blocking().recall(&namespace("one"), Query::new(text)).unwrap();
        let scope = Scope::new().under(&namespace("part"));
        let several = engine.blocking().recall_in(&scope, Query::new(text)).unwrap();
        assert_eq!((one.len(), several.len()), (10, 10));
        assert!((one.answerability() - several.answerability()).abs() < 0.05);
        for hit in &one {
            all += 1;
            if let Some(other) = several.iter().find(|other| other.message.id == hit.message.id) {
                common += 1;
                difference = difference.max((hit.score - other.score).abs());
            }
        }
    }
    (f64::from(common) / f64::from(all), difference)
}

#[test]
fn messages_split_over_namespaces_are_ranked_as_in_one() {
    let queries: Vec<String> =
        lines("queries.jsonl").iter().map(|line| line["query"].as_str().unwrap().to_owned()).collect();
    // Statistics are over all messages, in one namespace as in several.
    for parts in [2, 15] {
        let (overlap, difference) = compare(sample_messages(), parts, &queries);
        println!("sample in {parts} namespaces: overlap@10 {overlap:.4}, scores differ by {difference:.5} at most");
        assert!(overlap > 0.99 && difference < 0.01, "{parts}: {overlap} {difference}");
    }
    // The one namespace has statistics over a sample of its messages.
    let queries: Vec<String> = random_messages(60).iter().map(|message| message.text()).collect();
    let (overlap, difference) = compare(random_messages(3000), 40, &queries);
    println!("3,000 messages in 40 namespaces: overlap@10 {overlap:.4}, scores differ by {difference:.5} at most");
    assert!(overlap > 0.97 && difference < 0.6, "{overlap} {difference}");
}

#[test]
fn a_scope_of_one_namespace_ranks_as_a_recall_of_it() {
    let engine = in_memory();
    put(&engine, "one", random_messages(300));
    engine.blocking().flush().unwrap();
    put(&engine, "one", [message("pending", "word1 word2 word3")]);
    let strategies =
        ["hybrid", "dense", "lexical", "rrf", "weighted:0.3"].map(|name| name.parse::<RankingStrategy>().unwrap());
    for strategy in strategies {
        for query in [
            Query::new("word1 word7 word100"),
            Query::new("word3").k(200),
            Query::new("word2 word5").session("s3").k(20),
            Query::new("word2 word5").except(["m1", "m2", "pending"]),
            Query::new("word1").diversity(0.5),
        ] {
            let query = query.strategy(strategy);
            let one = engine.blocking().recall(&namespace("one"), query.clone()).unwrap();
            let scope: Scope = [&namespace("one"), &namespace("nobody")].into_iter().collect();
            let several = engine.blocking().recall_in(&scope, query).unwrap();
            let facts = |hits: &Hits| -> Vec<(String, f32, usize)> {
                hits.iter().map(|hit| (hit.message.id.clone(), hit.score, hit.rank)).collect()
            };
            assert_eq!(facts(&one), facts(&several), "{strategy}");
            assert_eq!((one.pending(), one.answerability()), (several.pending(), several.answerability()));
            assert!(one.iter().all(|hit| hit.namespace.is_none()));
        }
    }
}

#[test]
fn nothing_is_found_in_a_namespace_that_the_scope_does_not_name() {
    let engine = in_memory();
    let names = ["acme", "acme/user-4", "acme/user-4/notes", "acme/user-42", "acme/user-4 b", "zoo"];
    for name in names {
        put(&engine, name, [message("canary", "the red bicycle"), message("other", "a green boat")]);
    }
    engine.blocking().flush().unwrap();
    for name in names {
        put(&engine, name, [message("pending", "a red bicycle, too")]);
    }
    let found = |scope: Scope| {
        let query = Query::new("red bicycle").k(1000).keep_duplicates();
        let hits = engine.blocking().recall_in(&scope, query).unwrap();
        let mut found: Vec<String> = ids(&hits).into_iter().map(|(name, _)| name).collect();
        found.sort();
        assert_eq!(found.len() % 3, 0, "all three messages of each");
        assert_eq!(hits.pending() * 3, found.len());
        found.dedup();
        found
    };
    let (user, notes) = (namespace("acme/user-4"), namespace("acme/user-4/notes"));
    assert_eq!(found(Scope::new()), [""; 0]);
    assert_eq!(found(Scope::new().namespace(&namespace("acme/user"))), [""; 0]);
    assert_eq!(found(Scope::new().under(&namespace("acme/user"))), [""; 0]);
    assert_eq!(found(Scope::new().namespace(&user)), ["acme/user-4"]);
    assert_eq!(found(Scope::new().under(&user).namespace(&notes)), ["acme/user-4", "acme/user-4/notes"]);
    assert_eq!(
        found(Scope::new().under(&user).namespace(&namespace("zoo"))),
        ["acme/user-4", "acme/user-4/notes", "zoo"]
    );
    // What is deleted is gone from the scope, too.
    engine.blocking().delete_namespaces(&user).unwrap();
    assert_eq!(found(Scope::new().under(&user).under(&namespace("zoo"))), ["zoo"]);
}

#[test]
fn a_weight_moves_the_messages_of_a_namespace_up_or_down() {
    let engine = in_memory();
    for name in ["a", "a/b", "c"] {
        put(&engine, name, (0..20).map(|at| message(&format!("m{at}"), &format!("{name} text number {at}"))));
        put(&engine, name, [message("best", "where the red bicycle is")]);
    }
    engine.blocking().flush().unwrap();
    let recall = |scope: Scope, strategy| {
        let query = Query::new("red bicycle").k(3).keep_duplicates().strategy(strategy);
        engine.blocking().recall_in(&scope, query).unwrap()
    };
    let all = || Scope::new().under(&namespace("a")).namespace(&namespace("c"));
    let heavy = || all().weight(&namespace("a"), 0.5).weight(&namespace("a/b"), 1.2);
    let order = pairs(&[("a/b", "best"), ("c", "best"), ("a", "best")]);
    let score =
        |hits: &Hits, name: &str| hits.iter().find(|hit| hit.namespace == Some(namespace(name))).unwrap().clone();
    for strategy in [RankingStrategy::Hybrid, RankingStrategy::Dense, RankingStrategy::Lexical] {
        let (plain, weighted) = (recall(all(), strategy), recall(heavy(), strategy));
        assert_eq!(ids(&weighted), order, "{strategy}");
        for (name, weight) in [("a/b", 1.2f32), ("c", 1.0), ("a", 0.5)] {
            let (plain, weighted) = (score(&plain, name), score(&weighted, name));
            let wanted = match strategy {
                RankingStrategy::Hybrid => plain.score + weight.ln(),
                _ => plain.score * weight,
            };
            assert!((weighted.score - wanted).abs() < 1e-5, "{strategy} {name}: {} {wanted}", weighted.score);
        }
    }
    let hit = &recall(heavy(), RankingStrategy::Hybrid)[0];
    assert!((hit.breakdown.weight - 1.2f32.ln()).abs() < 1e-6);
}

#[test]
fn k_messages_are_found_if_k_match_in_whatever_namespaces_they_are() {
    let engine = in_memory();
    for at in 0..150 {
        let role = if at % 10 == 0 { mnemon::Role::Assistant } else { mnemon::Role::User };
        let texts = (0..3).map(|n| Message::new(role, format!("word{} at {at} {n}", n + at)).with_id(format!("m{n}")));
        put(&engine, &format!("many/{at}"), texts.map(|message| message.in_session(format!("s{}", at % 5))));
    }
    engine.blocking().flush().unwrap();
    let scope = Scope::new().under(&namespace("many"));
    for strategy in [RankingStrategy::Hybrid, RankingStrategy::Dense, RankingStrategy::Lexical] {
        let count = |query: Query| {
            let hits = engine.blocking().recall_in(&scope, query.strategy(strategy).keep_duplicates()).unwrap();
            let mut distinct = ids(&hits);
            distinct.sort();
            distinct.dedup();
            assert_eq!(distinct.len(), hits.len());
            hits.len()
        };
        assert_eq!(count(Query::new("word7 at 7").k(400)), 400, "{strategy}");
        assert_eq!(count(Query::new("word7 at 7").k(1000)), 450, "{strategy}");
        assert_eq!(count(Query::new("word7 at 7").k(100).role(mnemon::Role::Assistant)), 45, "{strategy}");
        assert_eq!(count(Query::new("word7 at 7").k(100).session("s1")), 90, "{strategy}");
        assert_eq!(count(Query::new("word7 at 7").k(1000).except(["m0"])), 300, "{strategy}");
    }
    // Pending messages are found by their words.
    put(&engine, "many/new", [message("new", "a giraffe")]);
    let hits = engine.blocking().recall_in(&scope, Query::new("giraffe").k(1)).unwrap();
    assert_eq!((ids(&hits), hits.pending()), (pairs(&[("many/new", "new")]), 1));
}

#[test]
fn namespaces_are_loaded_one_after_the_other_within_the_budget() {
    let found = |engine: &Engine| {
        for at in 0..60 {
            put(engine, &format!("many/{at}"), random_messages(20 + at));
        }
        engine.blocking().flush().unwrap();
        let query = Query::new("word1 word7 word100").k(50).keep_duplicates();
        let hits = engine.blocking().recall_in(&Scope::new().under(&namespace("many")), query).unwrap();
        (hits.iter().map(|hit| hit.score).collect::<Vec<_>>(), ids(&hits))
    };
    let (roomy, tight) = (in_memory(), with_budget(1));
    assert_eq!(found(&roomy), found(&tight));
    assert_eq!(roomy.blocking().stats().namespaces_loaded, 60);
    assert!(tight.blocking().stats().namespaces_loaded <= 2, "the last one, which was in use");
}

#[test]
fn a_recall_during_writes_finds_only_what_was_put_into_its_scope() {
    let engine = in_memory();
    let text = |name: usize, at: usize| message(&format!("m{at}"), &format!("the red bicycle {name} {at}"));
    for name in 0..8 {
        put(&engine, &format!("in/{name}"), (0..10).map(|at| text(name, at)));
        put(&engine, &format!("out/{name}"), (0..10).map(|at| text(name, at)));
    }
    engine.blocking().flush().unwrap();
    std::thread::scope(|threads| {
        let writer = threads.spawn(|| {
            for round in 0..60 {
                let name = namespace(&format!("in/{}", round % 8));
                match round % 3 {
                    0 => drop(engine.blocking().delete_namespaces(&name).unwrap()),
                    _ => put(&engine, name.as_str(), (0..20).map(|at| text(round % 8, at))),
                }
                if round % 2 == 0 {
                    engine.blocking().flush().unwrap();
                }
            }
        });
        while !writer.is_finished() {
            let query = Query::new("red bicycle").k(20).keep_duplicates();
            let hits = engine.blocking().recall_in(&Scope::new().under(&namespace("in")), query).unwrap();
            let mut found = ids(&hits);
            assert!(found.len() >= 20 && found.iter().all(|(name, _)| name.starts_with("in/")));
            found.sort();
            found.dedup();
            assert_eq!(found.len(), hits.len());
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_filter_on_metadata_applies_to_each_namespace() {
    let engine = in_memory();
    for name in ["a", "b", "c"] {
        let messages = (0..20).map(|at| {
            let mut message = message(&format!("m{at}"), &format!("the red bicycle {at}"));
            message.metadata.insert("owner".into(), if at % 4 == 0 { name } else { "nobody" }.into());
            message
        });
        put(&engine, name, messages);
    }
    engine.blocking().flush().unwrap();
    let scope: Scope = [namespace("a"), namespace("b")].iter().collect();
    let count = |query: Query| engine.blocking().recall_in(&scope, query.k(100).keep_duplicates()).unwrap().len();
    let owner = |name: &str| MetadataFilter::eq("owner", name).unwrap();
    assert_eq!(count(Query::new("bicycle").filter(owner("b"))), 5);
    assert_eq!(count(Query::new("bicycle").filter(owner("c"))), 0);
    assert_eq!(count(Query::new("bicycle").filter(owner("nobody"))), 30);
    assert_eq!(count(Query::new("bicycle").ids(["m1", "m2"])), 4);
}

#[test]
fn a_duplicate_in_another_namespace_is_moved_to_the_end() {
    let engine = in_memory();
    put(&engine, "a", [message("1", "the red bicycle is in the cellar"), message("2", "a red boat")]);
    put(&engine, "b", [message("1", "the red bicycle is in the cellar")]);
    engine.blocking().flush().unwrap();
    let scope: Scope = [namespace("a"), namespace("b")].iter().collect();
    let hits = engine.blocking().recall_in(&scope, Query::new("red bicycle")).unwrap();
    assert_eq!((hits.len(), &ids(&hits)[2]), (3, &pairs(&[("b", "1")])[0]));
    assert_eq!(hits[2].breakdown.duplicate_of.as_deref(), Some("1"));
}

#[test]
fn a_scope_that_has_no_meaning_is_an_error() {
    let engine = in_memory();
    put(&engine, "a", [message("1", "hello")]);
    let name: Namespace = namespace("a");
    for weight in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let error =
            engine.blocking().recall_in(&Scope::new().namespace(&name).weight(&name, weight), Query::new("hello"));
        assert!(matches!(&error, Err(Error::InvalidQuery { reason }) if reason.contains("weight of a")), "{error:?}");
    }
    let previous = Query::new("hello").previous(["1"]);
    let error = engine.blocking().recall_in(&Scope::new().namespace(&name), previous).unwrap_err();
    assert!(error.to_string().contains("previous hits"), "{error}");
    assert!(matches!(engine.blocking().recall_in(&Scope::new(), Query::new("")), Err(Error::InvalidQuery { .. })));
}

//! A Postgres that lost writes: a backup was restored, a fail-over lost the last ones, or a clone was made.
//!
//! `MNEMON_SHARED_RESTORES` sets the number of restores in the campaign, default 30; `MNEMON_SHARED_SEED` begins another
//! run. The databases of a server stand for servers: a copy of one is a backup.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mnemon::{
    DatabaseFile, DocumentOperation, DocumentOptions, Engine, Error, Forget, Freshness, Message, Namespace, Query,
};
use serde_json::{Value, json};

use super::{open, try_open};
use crate::{
    support::{
        Db, below, namespace,
        postgres::{Server, query, server, try_query},
        tally::tally,
    },
    transfer,
};

/// Copies a database to a new one, in place of any that there is.
fn copy(server: &Server, from: &str, to: &str) {
    let postgres = server.address("postgres");
    let run = |sql: &str| drop(query(&postgres, sql, &[]));
    run(&format!("ALTER DATABASE {from} ALLOW_CONNECTIONS false"));
    run(&format!("DROP DATABASE IF EXISTS {to} WITH (FORCE)"));
    run(&format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{from}'"));
    while try_query(&postgres, &format!("CREATE DATABASE {to} TEMPLATE {from}"), &[]).is_err() {
        std::thread::sleep(Duration::from_millis(5));
    }
    run(&format!("ALTER DATABASE {from} ALLOW_CONNECTIONS true"));
}

fn name(address: &str) -> &str {
    address.rsplit('/').next().unwrap()
}

fn texts(engine: &Engine, space: &Namespace) -> Vec<String> {
    let mut texts: Vec<String> =
        engine.blocking().history(space, "default").unwrap().iter().map(Message::text).collect();
    texts.sort();
    texts
}

fn put(engine: &Engine, space: &Namespace, text: &str) {
    engine.blocking().put(space, vec![Message::user(text)]).unwrap();
}

fn lost(db: &Db) -> Vec<Value> {
    let lines = DatabaseFile::new(&db.path).lost().unwrap();
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_copy_that_is_ahead_of_the_truth_is_replaced() {
    let Some(server) = server() else { return };
    let address = server.database();
    let backup = format!("{}_backup", name(&address));
    let (a, r, b) = (Db::new(), Db::new(), Db::new());
    let (first, reader) = (open(&a, &address), open(&r, &address));
    let (space, late) = (namespace("a/b"), namespace("a/late"));
    let documents = first.documents(&space);
    put(&first, &space, "one");
    first.blocking().put(&space, vec![Message::user("two").with_id("two")]).unwrap();
    documents.blocking().put("old", json!({"n": 1}), DocumentOptions::default()).unwrap();
    assert_eq!(texts(&reader, &space), ["one", "two"]);
    copy(server, name(&address), &backup);
    // Lost: three messages, a value, a forgotten message, and a namespace.
    put(&first, &space, "lost 1");
    documents.blocking().put("old", json!({"n": 2}), DocumentOptions::default()).unwrap();
    first.blocking().forget(Forget::messages(&space, ["two"])).unwrap();
    put(&first, &space, "lost 2");
    put(&first, &late, "lost 3");
    first.blocking().flush().unwrap();
    assert_eq!(texts(&reader, &space), ["lost 1", "lost 2", "one"]);
    assert_eq!(texts(&reader, &late), ["lost 3"]);
    copy(server, &backup, name(&address));
    // Another machine puts more, until the version is the one that was lost.
    let second = open(&b, &address);
    for number in 1..=4 {
        put(&second, &space, &format!("new {number}"));
    }
    let expected = ["new 1", "new 2", "new 3", "new 4", "one", "two"];
    for engine in [&first, &reader, &second] {
        assert_eq!(texts(engine, &space), expected);
        assert_eq!(texts(engine, &late), [""; 0]);
        let found = engine.documents(&space).blocking().get("old").unwrap().unwrap();
        assert_eq!(found.value, json!({"n": 1}));
    }
    // An old value is not expected, and the lost namespace takes puts.
    let key = || "old".to_owned();
    let expect = |n: u64| {
        first.blocking().document_batch(vec![
            DocumentOperation::Expect { namespace: space.clone(), key: key(), value: Some(json!({ "n": n })) },
            DocumentOperation::Put {
                namespace: space.clone(),
                key: key(),
                value: json!({"n": 3}),
                options: DocumentOptions::default(),
            },
        ])
    };
    assert!(matches!(expect(2), Err(Error::DocumentChanged { .. })));
    expect(1).unwrap();
    put(&first, &late, "new 5");
    assert!(first.blocking().audit().unwrap().problems.is_empty());
    assert_eq!(texts(&reader, &late), ["new 5"]);
    drop((first, reader, second, documents));
    [&a, &r, &b].iter().for_each(|db| drop(db.assert_sound()));
    for db in [&a, &r] {
        let lost = lost(db);
        let of = |table: &str, kind: &str, column: &str| -> Vec<Value> {
            let found = lost.iter().filter(|line| line["table"] == table && line["lost"] == kind);
            found.map(|line| line[column].clone()).collect()
        };
        assert_eq!(of("messages", "row", "content"), ["lost 1", "lost 2", "lost 3"], "{lost:#?}");
        assert_eq!(of("messages", "deletion", "id"), ["two"]);
        assert_eq!(of("messages", "deletion", "content"), [Value::Null]);
        assert_eq!(of("documents", "row", "value"), [json!({"n": 2})]);
        // The reader may have asked for the receipt before the restore, or not.
        let receipts = of("audit", "row", "number");
        assert!(receipts == [json!(0)] || receipts.is_empty() && std::ptr::eq(db, &r), "{receipts:?}");
        assert_eq!(mnemon::verify(&db.path).unwrap().lost, lost.len() as u64);
        let file = db.path.with_extension("lost");
        let mut verify = assert_cmd::Command::cargo_bin("mnemon").unwrap();
        verify.args(["-q", "verify", "--db"]).arg(&db.path).arg("--lost").arg(&file).assert().success();
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), lost.len());
    }
    assert!(lost(&b).is_empty());
}

/// The vector of a lost message is offered for the number of another one.
#[test]
fn a_lost_message_gives_its_vector_to_no_other_one() {
    let Some(server) = server() else { return };
    let address = server.database();
    let backup = format!("{}_backup", name(&address));
    let (a, b, c, d) = (Db::new(), Db::new(), Db::new(), Db::new());
    let first = open(&a, &address);
    let space = namespace("a/b");
    put(&first, &space, "a red bike");
    first.blocking().flush().unwrap();
    copy(server, name(&address), &backup);
    put(&first, &space, "the bakery opens");
    copy(server, &backup, name(&address));
    let second = open(&b, &address);
    put(&second, &space, "boat");
    // The machine with the lost message embeds it before it asks.
    first.blocking().flush().unwrap();
    let third = open(&c, &address);
    third.blocking().recall(&space, Query::new("boat")).unwrap();
    third.blocking().flush().unwrap();
    second.blocking().flush().unwrap();
    let hits = |engine: &Engine| engine.blocking().recall(&space, Query::new("the bakery opens")).unwrap();
    assert_eq!(*hits(&third), *hits(&second));
    // As in a database that lost nothing.
    let whole = server.database();
    let fourth = open(&d, &whole);
    ["a red bike", "boat"].iter().for_each(|text| put(&fourth, &space, text));
    fourth.blocking().flush().unwrap();
    let vectors = |address: &str| -> Vec<String> {
        let rows = query(address, "SELECT vector::text FROM mnemon.vectors ORDER BY seq, part", &[]);
        rows.iter().map(|row| row.get(0)).collect()
    };
    assert_eq!(vectors(&address), vectors(&whole));
    assert_eq!(texts(&first, &space), ["a red bike", "boat"]);
}

/// A clone for staging takes the copy of production for its own: each shows what the database has that was asked.
#[test]
fn a_clone_and_its_original_are_not_mixed() {
    let Some(server) = server() else { return };
    let address = server.database();
    let staging = format!("{}_staging", name(&address));
    let (a, b) = (Db::new(), Db::new());
    let space = namespace("a/b");
    put(&open(&a, &address), &space, "one");
    copy(server, name(&address), &staging);
    let other = server.address(&staging);
    put(&open(&a, &other), &space, "in staging");
    put(&open(&b, &address), &space, "in production");
    for _ in 0..2 {
        for db in [&a, &b] {
            assert_eq!(texts(&open(db, &other), &space), ["in staging", "one"]);
            assert_eq!(texts(&open(db, &address), &space), ["in production", "one"]);
        }
    }
    // A read that asks nobody shows what is here, until somebody asks.
    let local = try_open(&a, &other, Freshness::Local).unwrap();
    local.blocking().recall(&space, Query::new("staging").freshness(Freshness::Latest)).unwrap();
    assert_eq!(texts(&local, &space), ["in staging", "one"]);
}

/// What Postgres has acknowledged since it began, or since the backup that it was restored from.
#[derive(Clone, Default)]
struct Truth {
    messages: BTreeMap<(usize, String), String>,
    documents: BTreeMap<(usize, String), u64>,
}

const SPACES: usize = 3;

fn space(number: usize) -> Namespace {
    namespace(&format!("s/{number}"))
}

/// Does something on a machine, and notes it.
fn step(engine: &Engine, state: &mut u64, number: u64, truth: &mut Truth) {
    let at = below(state, SPACES);
    let (space, blocking) = (space(at), engine.blocking());
    let ids: Vec<String> = truth.messages.keys().filter(|(of, _)| *of == at).map(|(_, id)| id.clone()).collect();
    let id = (!ids.is_empty()).then(|| ids[below(state, ids.len().max(1))].clone());
    let content = format!("text {number} of a boat");
    match (below(state, 12), id) {
        (0..4, _) | (_, None) => {
            let id = format!("m{number}");
            let session = ["s", "t"][below(state, 2)];
            blocking.put(&space, vec![Message::user(&*content).with_id(&*id).in_session(session)]).unwrap();
            truth.messages.insert((at, id), content);
        }
        (4, Some(id)) => {
            blocking.put(&space, vec![Message::user(&*content).with_id(&*id).in_session("s")]).unwrap();
            truth.messages.insert((at, id), content);
        }
        (5, Some(id)) => {
            blocking.delete(&space, vec![id.clone()]).unwrap();
            truth.messages.remove(&(at, id));
        }
        (6, Some(id)) => {
            blocking.forget(Forget::messages(&space, [id.clone()])).unwrap();
            truth.messages.remove(&(at, id));
        }
        (7, _) => {
            let key = ["j", "k"][below(state, 2)].to_owned();
            let value = truth.documents.get(&(at, key.clone())).map(|number| json!({ "number": number }));
            blocking
                .document_batch(vec![
                    DocumentOperation::Expect { namespace: space.clone(), key: key.clone(), value },
                    DocumentOperation::Put {
                        namespace: space.clone(),
                        key: key.clone(),
                        value: json!({ "number": number }),
                        options: DocumentOptions::default(),
                    },
                ])
                .unwrap();
            truth.documents.insert((at, key), number);
        }
        (8, _) if below(state, 4) == 0 => {
            blocking.delete_namespace(&space).unwrap();
            truth.messages.retain(|(of, _), _| *of != at);
            truth.documents.retain(|(of, _), _| *of != at);
        }
        (8, _) => drop(blocking.hold(&namespace("held"), format!("reason {number}")).unwrap()),
        (9, _) => drop(blocking.release(&namespace("held")).unwrap()),
        (10, _) => drop(blocking.flush().unwrap()),
        _ => drop(blocking.recall(&space, Query::new("boat")).unwrap()),
    }
}

/// Checks that a machine has the truth.
fn check(engine: &Engine, truth: &Truth, what: &str) -> String {
    for number in 0..SPACES {
        let space = space(number);
        let mut found = BTreeSet::new();
        for session in engine.blocking().sessions(&space).unwrap() {
            let messages = engine.blocking().history(&space, &session.session).unwrap();
            found.extend(messages.into_iter().map(|message| (message.id.clone(), message.text())));
        }
        let of_space = truth.messages.iter().filter(|((of, _), _)| *of == number);
        let expected: BTreeSet<_> = of_space.map(|((_, id), text)| (id.clone(), text.clone())).collect();
        assert_eq!(found, expected, "{what}: {space}");
        for key in ["j", "k"] {
            let found = engine.documents(&space).blocking().get(key).unwrap().map(|found| found.value);
            let expected = truth.documents.get(&(number, key.to_owned())).map(|number| json!({ "number": number }));
            assert_eq!(found, expected, "{what}: document {key} of {space}");
        }
    }
    assert!(engine.blocking().audit().unwrap().problems.is_empty(), "{what}");
    transfer::export(engine)
}

/// Restores to any earlier moment, and clones, with 2 to 4 machines: after the next question each machine has what
/// Postgres has.
#[test]
fn machines_have_the_truth_after_any_restore() {
    let Some(server) = server() else { return };
    let count = std::env::var("MNEMON_SHARED_RESTORES").map_or(30, |count| count.parse().unwrap());
    let mut state: u64 = std::env::var("MNEMON_SHARED_SEED").map_or(1, |seed| seed.parse().unwrap());
    let (mut number, mut done) = (0, 0);
    while done < count {
        let address = server.database();
        let database = name(&address).to_owned();
        let mut files: Vec<Db> = (0..2 + below(&mut state, 3)).map(|_| Db::new()).collect();
        let mut machines: Vec<Option<Engine>> = files.iter().map(|db| Some(open(db, &address))).collect();
        let (mut truth, mut backups) = (Truth::default(), Vec::<(String, Truth)>::new());
        for _ in 0..(count - done).min(8) {
            for _ in 0..2 {
                for _ in 0..below(&mut state, 12) {
                    number += 1;
                    let at = below(&mut state, machines.len());
                    step(machines[at].as_ref().unwrap(), &mut state, number, &mut truth);
                }
                if backups.len() < 3 {
                    let backup = format!("{database}_backup{}", backups.len());
                    copy(server, &database, &backup);
                    backups.push((backup, truth.clone()));
                }
            }
            let (from, restored) = backups[below(&mut state, backups.len())].clone();
            let is_clone = below(&mut state, 3) == 0;
            if is_clone {
                // A machine works with the clone for a while, and comes back.
                let at = below(&mut state, machines.len());
                machines[at] = None;
                let clone = format!("{database}_clone");
                copy(server, &from, &clone);
                let mut cloned = restored;
                let engine = open(&files[at], &server.address(&clone));
                for _ in 0..below(&mut state, 6) {
                    number += 1;
                    step(&engine, &mut state, number, &mut cloned);
                }
                check(&engine, &cloned, "the clone");
                drop(engine);
                machines[at] = Some(open(&files[at], &address));
            } else {
                copy(server, &from, &database);
                truth = restored;
                // Some machines go on before others ask.
                for _ in 0..below(&mut state, 8) {
                    number += 1;
                    let at = below(&mut state, machines.len());
                    step(machines[at].as_ref().unwrap(), &mut state, number, &mut truth);
                }
            }
            done += 1;
            tally(if is_clone { "shared: clones" } else { "shared: restores" }, 1);
            let new = Db::new();
            let engine = open(&new, &address);
            let export = check(&engine, &truth, "a new machine");
            for (at, machine) in machines.iter().enumerate() {
                let what = format!("machine {at} after {done}");
                assert_eq!(check(machine.as_ref().unwrap(), &truth, &what), export, "{what}");
            }
        }
        drop(machines);
        files.iter().for_each(|db| drop(db.assert_sound()));
        files.clear();
        let drop_database = |name: &str| {
            query(&server.address("postgres"), &format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)"), &[]);
        };
        backups.iter().for_each(|(backup, _)| drop_database(backup));
        drop_database(&format!("{database}_clone"));
        drop_database(&database);
    }
    eprintln!("{done} restores and clones, {number} operations");
}

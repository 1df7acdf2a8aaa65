//! Connections to Postgres: several hosts, few connections, a server that is no primary for a while, and a machine that
//! nobody calls.

use std::{
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use mnemon::{Engine, Error, Freshness, Message, Query};

use super::{open, try_open};
use crate::support::{
    Db, namespace,
    postgres::{Server, query, server},
};

fn put(engine: &Engine, space: &str, text: String) -> mnemon::Result<()> {
    engine.blocking().put(&namespace(space), vec![Message::user(text)]).map(drop)
}

#[test]
fn a_silent_first_host_costs_less_than_two_seconds_once() {
    let Some(server) = server() else { return };
    // It accepts, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", silent.local_addr().unwrap().port(), server.port());
    let address = server.database().replace(&format!("127.0.0.1:{}", server.port()), &hosts);
    let db = Db::new();
    let began = Instant::now();
    let engine = open(&db, &address);
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    let began = Instant::now();
    thread::scope(|scope| {
        for number in 0..8 {
            let engine = &engine;
            scope.spawn(move || {
                put(engine, &format!("a/{number}"), "a text".into()).unwrap();
                let query = Query::new("text").freshness(Freshness::Latest);
                engine.blocking().recall(&namespace(&format!("a/{number}")), query).unwrap();
            });
        }
    });
    assert!(began.elapsed() < Duration::from_secs(1), "the host that answered is remembered: {:?}", began.elapsed());
}

/// Machines whose role may have few connections share them by giving them back.
#[test]
fn many_threads_do_with_few_connections() {
    let Some(server) = server() else { return };
    let database = server.database();
    let database = database.rsplit('/').next().unwrap();
    for (machines, threads, limit, most) in [(4, 4, 5, 1), (8, 16, 20, 2)] {
        let role = format!("few_{limit}_{database}");
        let postgres = server.address("postgres");
        query(&postgres, &format!("CREATE ROLE {role} LOGIN CONNECTION LIMIT {limit}"), &[]);
        query(&postgres, &format!("CREATE DATABASE {role} OWNER {role}"), &[]);
        let address = server.address(&role).replace("owner@", &format!("{role}@"));
        let address = format!("{address}?max_connections={most}");
        let files: Vec<Db> = (0..machines).map(|_| Db::new()).collect();
        let engines: Vec<Engine> = files.iter().map(|db| open(db, &address)).collect();
        thread::scope(|scope| {
            for (machine, engine) in engines.iter().enumerate() {
                for number in 0..threads {
                    scope.spawn(move || {
                        let space = format!("s/{machine}-{number}");
                        put(engine, &space, "a text of a boat".into()).unwrap();
                        let hits = engine.blocking().recall(&namespace(&space), Query::new("boat")).unwrap();
                        assert_eq!(hits.len(), 1);
                    });
                }
            }
        });
        let space = namespace("s/0-0");
        for engine in &engines {
            assert_eq!(engine.blocking().history(&space, "default").unwrap().len(), 1);
        }
    }
}

#[test]
fn a_put_waits_for_a_server_that_is_read_only_for_a_while() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let address = server.database();
    let database = address.rsplit('/').next().unwrap();
    let db = Db::new();
    let engine = open(&db, &address);
    put(&engine, "a/b", "one".into()).unwrap();
    let set = |is_read_only: &str| {
        let postgres = server.address("postgres");
        query(&postgres, &format!("ALTER DATABASE {database} SET default_transaction_read_only = {is_read_only}"), &[]);
        let end = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'");
        query(&postgres, &end, &[]);
    };
    set("on");
    thread::scope(|scope| {
        let putting = scope.spawn(|| put(&engine, "a/b", "two".into()));
        thread::sleep(Duration::from_millis(700));
        set("off");
        putting.join().unwrap().unwrap();
    });
    set("on");
    let error = put(&engine, "a/b", "three".into()).unwrap_err();
    assert!(matches!(error, Error::SharedDatabase { transient: true, .. }), "{error}");
    set("off");
    assert_eq!(engine.blocking().history(&namespace("a/b"), "default").unwrap().len(), 2);
}

/// A machine whose reads ask nobody holds no connection.
#[test]
fn connections_that_nobody_uses_are_given_back() {
    let Some(server) = server() else { return };
    let address = server.database();
    let database = address.rsplit('/').next().unwrap().to_owned();
    let db = Db::new();
    let engine = try_open(&db, &address, Freshness::Local).unwrap();
    let space = namespace("a/b");
    let count = "SELECT 1 FROM pg_stat_activity WHERE datname = $1 AND application_name = 'mnemon'";
    let connections = || query(&server.address("postgres"), count, &[&database]).len();
    let began = Instant::now();
    while connections() > 0 {
        assert!(began.elapsed() < Duration::from_secs(20), "connections are held");
        assert_eq!(engine.blocking().recall(&space, Query::new("boat")).unwrap().len(), 0);
        thread::sleep(Duration::from_millis(200));
    }
    put(&engine, "a/b", "a boat".into()).unwrap();
    assert!(connections() > 0);
}

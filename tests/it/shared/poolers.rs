//! Connection poolers between the machines and Postgres. `make poolers` brings them.

use std::{
    thread,
    time::{Duration, Instant},
};

use mnemon::{Engine, Error, Freshness, Message, Query};

use super::{open, try_open};
use crate::support::{
    Db, namespace,
    poolers::{PgBouncer, Pooler},
    postgres::{query, server},
};

/// A pooler that forgets statements is named at opening, with what to do.
#[test]
fn a_pooler_that_loses_statements_is_named() {
    let Some(server) = server() else { return };
    let mode = "pool_mode = transaction";
    for (which, settings) in
        [(PgBouncer::Old, &[mode][..]), (PgBouncer::New, &[mode, "max_prepared_statements = 0"][..])]
    {
        let Some(pooler) = Pooler::pgbouncer(which, server, &["owner"], settings) else { continue };
        let direct = server.database();
        let db = Db::new();
        let error = try_open(&db, &pooler.address(direct.rsplit('/').next().unwrap()), Freshness::Latest).unwrap_err();
        assert!(matches!(error, Error::SharedDatabase { transient: false, .. }), "{which:?}: {error}");
        for word in ["PgBouncer", "max_prepared_statements", "pool_mode"] {
            assert!(error.to_string().contains(word), "{which:?}: {error}");
        }
        assert!(query(&direct, "SELECT 1 FROM pg_namespace WHERE nspname = 'mnemon'", &[]).is_empty());
    }
}

/// Behind a pooler nobody listens, and changes are found by asking.
#[test]
fn nothing_is_left_on_a_pooled_connection() {
    let Some(server) = server() else { return };
    let settings = ["pool_mode = transaction"];
    let Some(pooler) = Pooler::pgbouncer(PgBouncer::New, server, &["owner"], &settings) else { return };
    let direct = server.database();
    let address = pooler.address(direct.rsplit('/').next().unwrap());
    let (a, b) = (Db::new(), Db::new());
    let (writer, reader) =
        (open(&a, &address), try_open(&b, &address, Freshness::Within(Duration::from_secs(1))).unwrap());
    let space = namespace("acme/ada");
    let put = |text: &str| writer.blocking().put(&space, vec![Message::user(text)]).unwrap();
    put("the first");
    let texts = |engine: &Engine, freshness| {
        let hits = engine.blocking().recall(&space, Query::new("first second").freshness(freshness)).unwrap();
        hits.len()
    };
    assert_eq!(texts(&reader, Freshness::Latest), 1);
    put("the second");
    let began = Instant::now();
    while texts(&reader, Freshness::Local) < 2 {
        assert!(began.elapsed() < Duration::from_secs(10), "the reader did not ask");
        thread::sleep(Duration::from_millis(20));
    }
    // On each of the server's connections that the pooler has: nobody listens, and no transaction is open.
    let statements =
        "SELECT query, state FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
    for row in query(&direct, statements, &[]) {
        let (statement, state): (String, String) = (row.get(0), row.get(1));
        assert!(!statement.contains("LISTEN") && !state.contains("in transaction"), "{statement} ({state})");
    }
    // The pooler gives its connection to another client, which hears nothing.
    let channels = query(&address, "SELECT pg_listening_channels()", &[]);
    assert!(channels.is_empty());
}

/// 8 machines of 16 threads behind a pool of 20, and 4 machines whose role may have 5 connections.
#[test]
fn many_machines_do_with_a_small_pool() {
    let Some(server) = server() else { return };
    for mode in ["session", "transaction"] {
        let settings =
            [format!("pool_mode = {mode}"), "default_pool_size = 20".into(), "max_client_conn = 1000".into()];
        let settings = settings.each_ref().map(String::as_str);
        let Some(pooler) = Pooler::pgbouncer(PgBouncer::New, server, &["owner"], &settings) else { return };
        let direct = server.database();
        // A connection in session mode is a machine's as long as it has it: 20 for 8 machines.
        let most = if mode == "session" { "?max_connections=2" } else { "" };
        let address = pooler.address(direct.rsplit('/').next().unwrap()) + most;
        work(8, 16, &address);
        let connections =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
        assert!(query(&direct, connections, &[])[0].get::<_, i64>(0) <= 20);
    }
}

/// Puts and recalls on all threads of some machines at once.
pub(super) fn work(machines: usize, threads: usize, address: &str) {
    let files: Vec<Db> = (0..machines).map(|_| Db::new()).collect();
    let engines: Vec<Engine> = files.iter().map(|db| open(db, address)).collect();
    thread::scope(|scope| {
        for (machine, engine) in engines.iter().enumerate() {
            for number in 0..threads {
                scope.spawn(move || {
                    let space = namespace(&format!("s/{machine}-{number}"));
                    for at in 0..3 {
                        let message = Message::user(format!("text {at} of a boat"));
                        engine.blocking().put(&space, vec![message]).unwrap();
                        let hits = engine.blocking().recall(&space, Query::new("boat").keep_duplicates()).unwrap();
                        assert_eq!(hits.len(), at + 1);
                    }
                });
            }
        }
    });
    for engine in &engines {
        assert_eq!(engine.blocking().history(&namespace("s/0-0"), "default").unwrap().len(), 3);
    }
}

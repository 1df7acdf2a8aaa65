//! Errors of Postgres that pass and those that stay, and conflicts, which are no errors.

use std::{
    thread,
    time::{Duration, Instant},
};

use mnemon::{Error, Message};

use super::open;
use crate::support::{
    Db, namespace,
    postgres::{Server, query, server},
};

/// Makes the next writes of an engine fail with an error.
fn fail(address: &str, code: &str, writes: i64) {
    let run = |sql: &str| drop(query(address, sql, &[]));
    run("CREATE SEQUENCE IF NOT EXISTS tried");
    run("SELECT setval('tried', 1, false)");
    run(&format!(
        "CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF nextval('tried') <= {writes} THEN RAISE EXCEPTION 'a fault' USING ERRCODE = '{code}'; END IF; \
         RETURN NEW; END $$"
    ));
    run(
        "CREATE OR REPLACE TRIGGER fail BEFORE UPDATE OF last_write ON mnemon.nodes FOR EACH ROW EXECUTE FUNCTION fail()",
    );
}

#[test]
fn errors_that_pass_are_tried_again() {
    let Some(server) = server() else { return };
    let address = server.database();
    let db = Db::new();
    let engine = open(&db, &address);
    let space = namespace("acme/ada");
    let put = |id: &str| engine.blocking().put(&space, vec![Message::user("a text").with_id(id)]);
    put("before").unwrap();
    let codes = ["25006", "57P05", "57014", "55P03", "25P04", "40P01", "40001", "57P01", "25P03", "53300"];
    for code in codes {
        fail(&address, code, 3);
        put(code).unwrap_or_else(|error| panic!("{code}: {error}"));
        // Several statements in one transaction.
        let other = namespace(&format!("acme/{code}"));
        engine.blocking().put(&other, vec![Message::user("a text")]).unwrap();
        fail(&address, code, 3);
        engine.blocking().delete_namespace(&other).unwrap_or_else(|error| panic!("{code}: {error}"));
    }
    for code in ["25006", "57P05", "40P01"] {
        fail(&address, code, i64::MAX);
        let error = put("never").unwrap_err();
        assert!(matches!(error, Error::SharedDatabase { transient: true, .. }), "{code}: {error}");
    }
    // An error that stays is told at once.
    fail(&address, "23514", i64::MAX);
    let began = Instant::now();
    let error = put("never").unwrap_err();
    assert!(matches!(error, Error::SharedDatabase { transient: false, .. }), "{error}");
    assert!(error.to_string().contains("23514"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(4), "it was tried again: {:?}", began.elapsed());
    fail(&address, "23514", 0);
    put("after").unwrap();
    let ids: Vec<String> = engine.blocking().history(&space, "default").unwrap().into_iter().map(|it| it.id).collect();
    assert_eq!(ids, [&["before"][..], &codes[..], &["after"][..]].concat());
    drop(engine);
    db.assert_sound();
}

#[test]
fn a_refused_connection_is_told_at_once() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let postgres = server.address("postgres");
    query(&postgres, "CREATE ROLE guarded LOGIN PASSWORD 'right'", &[]);
    let rules = "host all guarded 127.0.0.1/32 scram-sha-256\nhost all all 127.0.0.1/32 trust\n";
    std::fs::write(server.data().join("pg_hba.conf"), rules).unwrap();
    query(&postgres, "SELECT pg_reload_conf()", &[]);
    thread::sleep(Duration::from_millis(300));
    let address = |user: &str, rest: &str| server.address("postgres").replace("owner@", user) + rest;
    for refused in [
        address("guarded:wrong@", ""),
        address("guarded@", ""),
        address("nobody@", ""),
        server.address("missing"),
        // The server has no TLS.
        address("owner@", "?sslmode=require"),
    ] {
        let db = Db::new();
        let began = Instant::now();
        let error = super::try_open(&db, &refused, mnemon::Freshness::Latest).unwrap_err();
        assert!(matches!(error, Error::SharedDatabase { transient: false, .. }), "{refused}: {error}");
        assert!(!error.to_string().contains("wrong"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(4), "it was tried again: {:?}", began.elapsed());
    }
}

/// Machines that change one namespace at the same time are no error in the server's log.
#[test]
fn conflicts_are_no_errors() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let address = server.database();
    let files = [Db::new(), Db::new()];
    let machines = files.each_ref().map(|db| open(db, &address));
    let space = namespace("acme/ada");
    machines[0].blocking().put(&space, vec![Message::user("the first")]).unwrap();
    let mut longest = Duration::ZERO;
    thread::scope(|scope| {
        let puts: Vec<_> = (0..4)
            .map(|thread| {
                let (engine, space) = (&machines[thread % 2], &space);
                scope.spawn(move || {
                    let mut longest = Duration::ZERO;
                    for number in 0..100 {
                        let began = Instant::now();
                        let message = Message::user("a text").with_id(format!("m{thread}-{number}"));
                        engine.blocking().put(space, vec![message]).unwrap();
                        longest = longest.max(began.elapsed());
                    }
                    longest
                })
            })
            .collect();
        for put in puts {
            longest = longest.max(put.join().unwrap());
        }
    });
    eprintln!("the longest of 400 puts took {longest:?}");
    assert_eq!(machines[0].blocking().history(&space, "default").unwrap().len(), 401);
    // Several statements in one transaction, with a conflict each.
    let others: Vec<_> = (0..20).map(|number| namespace(&format!("acme/{number}"))).collect();
    for other in &others {
        machines[0].blocking().put(other, vec![Message::user("a text")]).unwrap();
        machines[1].blocking().put(other, vec![Message::user("another one")]).unwrap();
        machines[0].blocking().delete_namespace(other).unwrap();
    }
    let log = server.log();
    let errors: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
    assert_eq!(errors, [""; 0], "{} errors", errors.len());
    drop(machines);
    files.iter().for_each(|db| drop(db.assert_sound()));
}

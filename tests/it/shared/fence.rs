//! The epoch by which the database refuses writes of a machine that are late: it never refuses those of now.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use mnemon::{Config, Engine, Error, Freshness, Message};

use super::open;
use crate::support::{
    Db, Hashing, namespace,
    postgres::{Server, query, server},
};

#[test]
fn a_machine_whose_row_is_gone_or_changed_goes_on() {
    let Some(server) = server() else { return };
    let address = server.database();
    let db = Db::new();
    let engine = open(&db, &address);
    let space = namespace("acme/ada");
    let put = |id: &str| engine.blocking().put(&space, vec![Message::user("a text").with_id(id)]);
    put("first").unwrap();
    for (at, change) in [
        "DELETE FROM mnemon.nodes",
        // An increment that took place long after its call.
        "UPDATE mnemon.nodes SET epoch = epoch + 3",
        // A restore.
        "UPDATE mnemon.nodes SET epoch = 0, last_write = 0",
    ]
    .into_iter()
    .enumerate()
    {
        query(&address, change, &[]);
        put(&format!("put {at}")).unwrap_or_else(|error| panic!("{change}: {error}"));
        // Several statements in one transaction.
        engine.blocking().put(&namespace("acme/bob"), vec![Message::user("a text")]).unwrap();
        query(&address, change, &[]);
        engine.blocking().delete_namespace(&namespace("acme/bob")).unwrap_or_else(|error| panic!("{change}: {error}"));
    }
    assert_eq!(engine.blocking().history(&space, "default").unwrap().len(), 4);
}

/// Sets the synchronous standby, which does not exist, or none.
fn set_standby(server: &Server, name: &str) {
    let postgres = server.address("postgres");
    query(&postgres, &format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"), &[]);
    query(&postgres, "SELECT pg_reload_conf()", &[]);
    thread::sleep(Duration::from_millis(300));
}

/// A commit that waits for a standby until the call gives up is stored later, and so is what the call did to find out.
#[test]
fn a_machine_goes_on_after_a_stalled_commit() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let address = server.database();
    let db = Db::new();
    let mut config = Config::default();
    config.shared_timeout = Duration::from_millis(700);
    let engine = Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32)));
    let engine = engine.shared(&address).freshness(Freshness::Latest).open().unwrap();
    let space = namespace("acme/ada");
    let put = |id: &str| engine.blocking().put(&space, vec![Message::user("a text").with_id(id)]);
    put("before").unwrap();
    set_standby(&server, "gone");
    let error = put("stalled").unwrap_err();
    assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
    set_standby(&server, "");
    let began = Instant::now();
    while query(&address, "SELECT 1 FROM mnemon.messages WHERE id = 'stalled'", &[]).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(10), "it is not stored when the stall is over");
        thread::sleep(Duration::from_millis(20));
    }
    for at in 0..3 {
        put(&format!("after {at}")).unwrap();
    }
    let ids: Vec<String> = engine.blocking().history(&space, "default").unwrap().into_iter().map(|it| it.id).collect();
    assert_eq!(ids, ["before", "stalled", "after 0", "after 1", "after 2"]);
    drop(engine);
    db.assert_sound();
}

/// Postgres acknowledges a commit whose wait for a standby was cancelled, with a warning: a fail-over may lose it.
#[test]
fn a_commit_that_no_standby_has_is_not_acknowledged() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let address = server.database();
    let db = Db::new();
    let engine = open(&db, &address);
    let space = namespace("acme/ada");
    let put = |id: &str| engine.blocking().put(&space, vec![Message::user("a text").with_id(id)]);
    put("before").unwrap();
    let cancel = || {
        let waiting = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        query(&server.address("postgres"), waiting, &[]).len()
    };
    set_standby(&server, "gone");
    thread::scope(|scope| {
        let putting = scope.spawn(|| put("cancelled"));
        while !putting.is_finished() {
            cancel();
            thread::sleep(Duration::from_millis(5));
        }
        let error = putting.join().unwrap().expect_err("it was acknowledged");
        assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error}");
        // A commit that is replicated shows that the one before it is.
        let putting = scope.spawn(|| put("replicated"));
        let began = Instant::now();
        while cancel() == 0 {
            assert!(began.elapsed() < Duration::from_secs(4), "nothing waits");
            thread::sleep(Duration::from_millis(5));
        }
        set_standby(&server, "");
        putting.join().unwrap().unwrap();
    });
    let stored = query(&address, "SELECT id FROM mnemon.messages ORDER BY seq", &[]);
    let ids: Vec<String> = stored.iter().map(|row| row.get(0)).collect();
    assert_eq!(ids, ["before", "cancelled", "replicated"]);
}

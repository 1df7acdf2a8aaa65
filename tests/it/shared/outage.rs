//! Reads and writes while Postgres does not answer, and how fresh reads are.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mnemon::{Config, Engine, Error, Freshness, Message, Query};

use super::{open, proxy::Proxy, try_open};
use crate::support::{
    Db, Hashing, namespace,
    postgres::{Server, server},
};

#[test]
fn without_postgres_reads_go_on_and_writes_say_why_they_fail() {
    let Some(server) = Server::start(&["fsync=off"]) else { return };
    let address = server.database();
    let db = Db::new();
    let mut config = Config::default();
    config.shared_timeout = Duration::from_millis(700);
    let engine = Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32)));
    let engine = engine.shared(&address).freshness(Freshness::Within(Duration::from_millis(100))).open().unwrap();
    let space = namespace("acme/ada");
    engine.blocking().put(&space, vec![Message::user("my bike is in the cellar")]).unwrap();
    let recall = |freshness: Option<Freshness>| {
        let query = Query::new("bike cellar");
        let query = freshness.map_or(query.clone(), |freshness| query.freshness(freshness));
        engine.blocking().recall(&space, query)
    };
    assert_eq!(recall(None).unwrap().len(), 1);
    server.stop_immediately();
    std::thread::sleep(Duration::from_millis(300));
    let began = Instant::now();
    let hits = recall(None).unwrap();
    assert_eq!((hits.len(), hits.version()), (1, Some(1)));
    assert!(hits.age().unwrap() >= Duration::from_millis(200), "{:?}", hits.age());
    assert_eq!(recall(Some(Freshness::Local)).unwrap().len(), 1);
    let error = recall(Some(Freshness::Latest)).unwrap_err();
    assert!(matches!(error, Error::SharedDatabase { transient: true, .. }), "{error}");
    let put = |text: &str| engine.blocking().put(&space, vec![Message::user(text)]);
    let error = put("not stored").unwrap_err();
    assert!(matches!(error, Error::SharedDatabase { transient: true, .. }), "{error}");
    assert!(error.to_string().contains("shared database"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
    // It comes back by itself.
    server.run();
    put("stored again").unwrap();
    let texts =
        || -> Vec<String> { engine.blocking().history(&space, "default").unwrap().iter().map(Message::text).collect() };
    assert_eq!(texts(), ["my bike is in the cellar", "stored again"]);
    assert_eq!(recall(Some(Freshness::Latest)).unwrap().version(), Some(2));
    let hits = recall(None).unwrap();
    assert!(hits.age().unwrap() < Duration::from_secs(1), "{:?}", hits.age());
    drop(engine);
    db.assert_sound();
}

#[test]
fn reads_are_as_fresh_as_asked() {
    let Some(server) = server() else { return };
    let address = server.database();
    let (a, b) = (Db::new(), Db::new());
    let writer = open(&a, &address);
    let reader = try_open(&b, &address, Freshness::Local).unwrap();
    let space = namespace("acme/ada");
    let ids = |freshness| {
        let hits = reader.blocking().recall(&space, Query::new("bike").freshness(freshness)).unwrap();
        let mut ids: Vec<String> = hits.into_iter().map(|hit| hit.message.id).collect();
        ids.sort();
        ids
    };
    let put = |id: &str| writer.blocking().put(&space, vec![Message::user(format!("bike {id}")).with_id(id)]).unwrap();
    put("1");
    assert_eq!(ids(Freshness::Local), [""; 0], "nobody is asked");
    assert_eq!(ids(Freshness::Latest), ["1"]);
    put("2");
    // It is announced: without asking, it is there soon.
    let began = Instant::now();
    while ids(Freshness::Local) != ["1", "2"] {
        assert!(began.elapsed() < Duration::from_secs(10), "the announcement did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
    put("3");
    assert_eq!(ids(Freshness::Within(Duration::from_nanos(1))), ["1", "2", "3"]);
}

#[test]
fn a_copy_opens_without_postgres() {
    let Some(server) = server() else { return };
    let direct = server.database();
    let proxy = Proxy::start(server.port());
    let address = proxy.address(direct.rsplit('/').next().unwrap());
    let (db, new, other) = (Db::new(), Db::new(), Db::new());
    let space = namespace("acme/ada");
    let first = open(&db, &address);
    first.blocking().put(&space, vec![Message::user("my bike is in the cellar").with_id("m1")]).unwrap();
    drop((first, open(&other, &server.database())));
    let within = Freshness::Within(Duration::from_secs(1));
    let shut = || {
        proxy.shut(true);
        proxy.drop_all();
    };
    for freshness in [Freshness::Local, within] {
        for hangs in [false, true] {
            if hangs {
                proxy.hang(true)
            } else {
                shut()
            }
            let engine = try_open(&db, &address, freshness).unwrap();
            let hits = engine.blocking().recall(&space, Query::new("bike")).unwrap();
            assert_eq!((hits.len(), hits.version()), (1, Some(1)));
            assert_eq!(engine.blocking().get(&space, "m1").unwrap().unwrap().text(), "my bike is in the cellar");
            assert_eq!(engine.blocking().namespaces(None, None, 10).unwrap().namespaces.len(), 1);
            let error = engine.blocking().put(&space, vec![Message::user("not stored")]).unwrap_err();
            assert!(matches!(error, Error::SharedDatabase { .. } | Error::OutcomeUnknown { .. }), "{error}");
            // The engine connects by itself when it can.
            proxy.heal();
            let began = Instant::now();
            while engine.blocking().put(&space, vec![Message::user("stored again").with_id("m2")]).is_err() {
                assert!(began.elapsed() < Duration::from_secs(30), "it does not connect");
            }
            engine.blocking().delete(&space, vec!["m2".into()]).unwrap();
            engine.blocking().put(&space, vec![Message::user("my bike is in the cellar").with_id("m1")]).unwrap();
            drop(engine);
            // From version 1 on again.
            std::fs::remove_file(&db.path).unwrap();
            crate::support::postgres::query(&direct, "DROP SCHEMA mnemon CASCADE", &[]);
            let first = open(&db, &address);
            first.blocking().put(&space, vec![Message::user("my bike is in the cellar").with_id("m1")]).unwrap();
        }
    }
    // What has nothing yet does not open, nor does an engine that is to see the latest.
    shut();
    for (db, freshness) in [(&new, within), (&db, Freshness::Latest)] {
        let error = try_open(db, &address, freshness).unwrap_err();
        assert!(matches!(error, Error::SharedDatabase { transient: true, .. }), "{error}");
    }
    // A copy of another database is found out when there is a connection.
    let engine = try_open(&other, &address, Freshness::Local).unwrap();
    proxy.heal();
    let error = engine.blocking().put(&space, vec![Message::user("to the wrong one")]).unwrap_err();
    assert!(matches!(error, Error::SharedDatabase { transient: false, .. }), "{error}");
    assert!(error.to_string().contains("another shared database"), "{error}");
}

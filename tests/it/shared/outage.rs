//! Reads and writes while Postgres does not answer, and how fresh reads are.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use mnemon::{Config, Engine, Error, Freshness, Message, Query};

use super::{open, try_open};
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

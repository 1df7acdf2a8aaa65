//! A reindex that several machines do together, its decision for all, and machines that follow.

use std::{
    ops::ControlFlow,
    sync::{Arc, Barrier, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use mnemon::{
    Config, Engine, Error, Freshness, Message, Model, OnnxEmbedder, Query, ReindexOptions, ReindexProgress,
    ReindexReport,
};

use tokio_postgres::{NoTls, types::FromSql};

use crate::support::{
    Db, Hashing, namespace,
    postgres::{Server, query, server},
};

const SPACES: usize = 24;
const MESSAGES: usize = 20;

fn go_on(_: ReindexProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn text(space: usize, at: usize) -> String {
    format!("the year {at} in the town {space} was number {}", space * MESSAGES + at)
}

/// The one value that a query returns.
fn one<T: for<'a> FromSql<'a>>(address: &str, sql: &str) -> T {
    query(address, sql, &[])[0].get(0)
}

fn models(address: &str) -> String {
    one(address, "SELECT string_agg(state || ' ' || dimension, ', ' ORDER BY state) FROM mnemon.models")
}

/// A shared database with namespaces that have vectors of 32 dimensions, and the machine that made them.
fn filled(server: &Server) -> (String, Db, Engine) {
    let (address, db) = (server.database(), Db::new());
    let engine = super::open(&db, &address);
    for space in 0..SPACES {
        let messages = (0..MESSAGES).map(|at| Message::user(text(space, at)).with_id(format!("m{at}"))).collect();
        engine.blocking().put(&namespace(&format!("town/{space:02}")), messages).unwrap();
    }
    engine.blocking().flush().unwrap();
    (address, db, engine)
}

fn assert_found(engine: &Engine) {
    for space in [0, SPACES - 1] {
        let hits = engine.blocking().recall(&namespace(&format!("town/{space:02}")), Query::new(text(space, 7)).k(1));
        assert_eq!(hits.unwrap()[0].message.id, "m7");
    }
}

/// The report of a reindex, and the number of texts that its model embedded.
type Outcome = (ReindexReport, usize);

fn reindex(engine: &Engine, options: ReindexOptions) -> mnemon::Result<Outcome> {
    let embedder = Arc::new(Hashing::new(48));
    let report = engine.blocking().reindex(embedder.clone(), options, go_on)?;
    Ok((report, embedder.embedded.load(Ordering::Relaxed)))
}

/// If another model is switched to while a machine waits for the lock of the serving one, it goes on with that one.
#[test]
fn a_switch_while_a_machine_waits_for_its_turn_is_seen() {
    let Some(server) = server() else { return };
    let (address, _db, engine) = filled(server);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (client, connection) = runtime.block_on(tokio_postgres::connect(&address, NoTls)).unwrap();
    runtime.spawn(connection);
    let run = |sql: &str| runtime.block_on(client.batch_execute(sql)).unwrap();
    run("INSERT INTO mnemon.models (number, state, name, hash, dimension) \
         SELECT 7, 'building', name, hash, dimension FROM mnemon.models WHERE state = 'serving'");
    run("BEGIN; SELECT FROM mnemon.models WHERE state = 'serving' FOR UPDATE");
    let (report, _) = thread::scope(|scope| {
        let reindexed = scope.spawn(|| reindex(&engine, ReindexOptions::default()).unwrap());
        let waits =
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while one::<i64>(&address, waits) == 0 {
            assert!(!reindexed.is_finished(), "nothing was locked");
            thread::sleep(Duration::from_millis(5));
        }
        run("UPDATE mnemon.models SET state = CASE number WHEN 7 THEN 'serving' ELSE 'previous' END; COMMIT");
        reindexed.join().unwrap()
    });
    assert!(report.switched, "{report:?}");
    assert_eq!(models(&address), "previous 32, serving 48");
    assert_found(&engine);
}

#[test]
fn machines_share_a_reindex_and_one_decides_for_all() {
    let Some(server) = server() else { return };
    let (address, first_db, first) = filled(server);
    let (second_db, third_db) = (Db::new(), Db::new());
    let (second, third) = (super::open(&second_db, &address), super::open(&third_db, &address));
    let begin = Barrier::new(3);
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let work = [&first, &second, &third].map(|engine| {
            let begin = &begin;
            scope.spawn(move || {
                begin.wait();
                reindex(engine, ReindexOptions::default()).unwrap()
            })
        });
        work.map(|work| work.join().unwrap()).into()
    });
    assert_eq!(models(&address), "previous 32, serving 48");
    for (report, _) in &outcomes {
        assert!(report.switched && report.gate.as_ref().unwrap().sampled > 0, "{report:?}");
    }
    // Some more: the comparison makes vectors of queries, and `try_out` others.
    let embedded: usize = outcomes.iter().map(|(_, embedded)| embedded).sum();
    let messages: u64 = outcomes.iter().map(|(report, _)| report.embedded).sum();
    assert_eq!(messages, (SPACES * MESSAGES) as u64, "each message is embedded once");
    assert!(embedded < SPACES * MESSAGES * 5 / 4, "{embedded}");
    let holders = "SELECT count(DISTINCT holder) FROM mnemon.reindexed WHERE version IS NOT NULL";
    assert!(one::<i64>(&address, holders) > 1, "one machine did all");
    for engine in [&first, &second, &third] {
        assert_eq!(engine.model().dimension, 48);
        assert_found(engine);
    }
    // Back again, by one for all; the others do the same for themselves, since nobody finds this model by its name.
    let old = || Arc::new(Hashing::new(32));
    assert!(first.blocking().rollback(old(), go_on).unwrap().switched);
    assert_eq!(models(&address), "previous 48, serving 32");
    let report = second.blocking().rollback(old(), go_on).unwrap();
    assert_eq!((report.switched, report.embedded), (true, 0));
    let refused = third.blocking().rollback(Arc::new(Hashing::new(64)), go_on);
    assert!(matches!(refused, Err(Error::NoPrevious { kept: Some(_), .. })), "{refused:?}");
    assert!(first.blocking().drop_previous().unwrap());
    assert_eq!(one::<i64>(&address, "SELECT count(*) FROM mnemon.vectors WHERE model LIKE '%-48'"), 0);
    assert!(matches!(first.blocking().rollback(Arc::new(Hashing::new(48)), go_on), Err(Error::NoPrevious { .. })));
    drop((first, second, third));
    for db in [first_db, second_db, third_db] {
        db.assert_sound();
    }
}

#[test]
fn what_a_machine_claimed_that_stopped_is_done_by_another() {
    let Some(server) = server() else { return };
    let (address, _db, first) = filled(server);
    let mut calls = 0;
    let stop = |_: ReindexProgress| {
        calls += 1;
        if calls > 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let report = first.blocking().reindex(Arc::new(Hashing::new(48)), ReindexOptions::default(), stop).unwrap();
    assert!(!report.switched && report.embedded > 0, "{report:?}");
    assert_eq!(models(&address), "building 48, serving 32");
    // One that was killed has given nothing back: its claims end.
    let killed = "UPDATE mnemon.reindexed SET holder = gen_random_uuid(), until = now() + interval '1 second' \
                  WHERE namespace IN (SELECT namespace FROM mnemon.reindexed WHERE version IS NULL LIMIT 3)";
    query(&address, killed, &[]);
    let db = Db::new();
    let second = super::open(&db, &address);
    let (finished, _) = reindex(&second, ReindexOptions::default()).unwrap();
    assert!(finished.switched, "{finished:?}");
    assert_eq!(report.embedded + finished.embedded, (SPACES * MESSAGES) as u64);
    assert_found(&second);
    assert_found(&first);
    let (followed, embedded) = reindex(&first, ReindexOptions::default()).unwrap();
    assert!(followed.switched && followed.embedded == 0, "{embedded}: {followed:?}");
    assert_found(&first);
}

#[test]
fn a_model_that_one_machine_rejects_serves_nowhere() {
    let Some(server) = server() else { return };
    let (address, _db, first) = filled(server);
    let db = Db::new();
    let second = super::open(&db, &address);
    let mut strict = ReindexOptions::default();
    strict.min_overlap = Some(1.0);
    let (report, _) = reindex(&first, strict).unwrap();
    assert!(!report.switched && report.gate.unwrap().failed.unwrap().contains("overlap"));
    assert_eq!(models(&address), "rejected 48, serving 32");
    let reason: String = one(&address, "SELECT reason FROM mnemon.models WHERE state = 'rejected'");
    assert!(reason.contains("overlap"), "{reason}");
    assert_found(&first);
    // One that serves a model of its own says so, and begins nothing.
    let own = Db::new();
    let builder = Engine::builder(&own.path).embedder(Arc::new(Hashing::new(64))).shared(&address);
    let alone = builder.open().unwrap();
    let refused = alone.blocking().reindex(Arc::new(Hashing::new(64)), ReindexOptions::default(), go_on).unwrap_err();
    assert!(matches!(refused, Error::InvalidConfig { .. }), "{refused}");
    assert_eq!(models(&address), "rejected 48, serving 32");
    drop(alone);
    // Another model gives it up, and the first is no longer decided upon.
    let other = Arc::new(Hashing::new(64));
    let mut for_good = ReindexOptions::default();
    for_good.keep_previous = false;
    assert!(second.blocking().reindex(other, for_good, go_on).unwrap().switched);
    assert_eq!(models(&address), "serving 64");
    assert_eq!(one::<i64>(&address, "SELECT count(*) FROM mnemon.vectors WHERE model LIKE '%-32'"), 0);
}

/// The bundled model is found by its name, as those of `mnemon models` are.
#[test]
fn a_machine_follows_to_a_model_that_it_finds() {
    let Some(server) = server() else { return };
    let (address, _db, first) = filled(server);
    let (second_db, third_db) = (Db::new(), Db::new());
    let freshness = Freshness::Within(Duration::from_millis(200));
    let second = super::try_open(&second_db, &address, freshness).unwrap();
    assert_found(&second);
    let own_db = Db::new();
    let own = Engine::builder(&own_db.path).embedder(Arc::new(Hashing::new(64))).shared(&address).freshness(freshness);
    let own = own.open().unwrap();
    let found = Arc::new(OnnxEmbedder::new(Model::find(Model::DEFAULT).unwrap()).unwrap());
    assert!(first.blocking().reindex(found, ReindexOptions::default(), go_on).unwrap().switched);
    let until = Instant::now() + Duration::from_secs(30);
    while second.model().name != first.model().name {
        assert!(Instant::now() < until, "the machine did not follow");
        thread::sleep(Duration::from_millis(20));
    }
    assert_found(&second);
    assert_eq!(own.model().dimension, 64, "a machine that was given a model of its own keeps it");
    // A new machine begins with the model that serves.
    let third = Engine::builder(&third_db.path).config(Config::default()).shared(&address).open().unwrap();
    assert_eq!(third.model(), first.model());
    assert_found(&third);
}

//! Reads while Postgres hangs: connections stay open, and nothing comes back.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use mnemon::{Config, Engine, Error, Freshness, Message, Query, Scope};

use super::proxy::Proxy;
use crate::support::{
    Db, Hashing, namespace,
    postgres::{query, server},
};

/// The time limit of a call.
const LIMIT: Duration = Duration::from_secs(3);
/// Reads of each kind at a time: more than the engine has threads for recalls.
const READS: usize = 8;

fn machine(db: &Db, address: &str) -> Engine {
    let mut config = Config::default();
    config.threads = 2;
    config.idle_flush = None;
    config.shared_timeout = LIMIT;
    let builder = Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32)));
    builder.shared(address).freshness(Freshness::Within(Duration::from_millis(100))).open().unwrap()
}

/// A kind of read that several threads do at the same time.
type Read<'a> = (&'a str, Box<dyn Fn() -> mnemon::Result<usize> + Send + Sync + 'a>);

/// Does reads of all kinds at the same time. Returns how long the slowest of each kind took, and how many failed.
fn longest(reads: &[Read<'_>]) -> Vec<(Duration, usize)> {
    thread::scope(|scope| {
        let kinds: Vec<Vec<_>> = reads
            .iter()
            .map(|(_, read)| {
                let timed = move || {
                    let began = Instant::now();
                    let result = read();
                    (began.elapsed(), result.is_err())
                };
                let threads = (0..READS).map(|_| {
                    // Those of a kind do not begin at the same moment.
                    thread::sleep(Duration::from_millis(15));
                    scope.spawn(timed)
                });
                threads.collect()
            })
            .collect();
        kinds
            .into_iter()
            .map(|threads| {
                let results: Vec<(Duration, bool)> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
                let longest = results.iter().map(|(took, _)| *took).max().unwrap();
                (longest, results.iter().filter(|(_, failed)| *failed).count())
            })
            .collect()
    })
}

#[test]
fn no_read_waits_behind_another_one() {
    let Some(server) = server() else { return };
    let direct = server.database();
    let proxy = Proxy::start(server.port());
    let db = Db::new();
    let engine = machine(&db, &proxy.address(direct.rsplit('/').next().unwrap()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let spaces = ["acme/ada", "acme/bob", "globex/cyd"].map(namespace);
    for space in &spaces {
        engine.blocking().put(space, vec![Message::user("my bike is in the cellar").with_id("m1")]).unwrap();
        engine.blocking().recall(space, Query::new("bike").freshness(Freshness::Latest)).unwrap();
    }
    let second = Duration::from_secs(1);
    let (ada, bob, cyd) = (&spaces[0], &spaces[1], &spaces[2]);
    // On the engine's threads, as a server recalls.
    let recall = |space: &mnemon::Namespace, freshness: Freshness| {
        runtime.block_on(engine.recall(space, Query::new("bike").freshness(freshness))).map(|hits| hits.len())
    };
    let within = Freshness::Within(Duration::from_millis(100));
    let reads: [Read<'_>; 8] = [
        ("recall, Latest", Box::new(|| recall(ada, Freshness::Latest))),
        ("recall, Within", Box::new(|| recall(ada, within))),
        ("recall, Local", Box::new(|| recall(ada, Freshness::Local))),
        ("recall of another namespace, Local", Box::new(|| recall(bob, Freshness::Local))),
        ("recall of another namespace, Within an hour", Box::new(|| recall(cyd, Freshness::Within(3600 * second)))),
        (
            "recall in several, Local",
            Box::new(|| {
                let scope = Scope::new().namespace(ada).under(&namespace("globex"));
                let query = Query::new("bike").freshness(Freshness::Local);
                runtime.block_on(engine.recall_in(&scope, query)).map(|hits| hits.len())
            }),
        ),
        ("get", Box::new(|| Ok(runtime.block_on(engine.get(ada, "m1"))?.iter().count()))),
        ("list", Box::new(|| Ok(runtime.block_on(engine.namespaces(None, None, 10))?.namespaces.len()))),
    ];
    proxy.hang(true);
    thread::sleep(Duration::from_millis(300));
    let found = longest(&reads);
    for ((name, _), (took, failed)) in reads.iter().zip(&found) {
        eprintln!("{name}: the longest of {READS} took {:.2} s, {failed} failed", took.as_secs_f64());
    }
    // One time limit for all that wait for the same, and one more for a machine with a lot to do.
    let (latest, failed) = found[0];
    assert!(latest < 2 * LIMIT && failed == READS, "{latest:?}, {failed} failed");
    for ((name, _), (took, failed)) in reads.iter().zip(&found).skip(1) {
        assert_eq!(*failed, 0, "{name}");
        // `Within` and the calls that read as the engine was opened wait a second for Postgres once, the others never.
        let limit = if name.contains("Local") || name.contains("hour") { LIMIT / 2 } else { LIMIT };
        assert!(*took < limit, "{name}: {took:?}");
    }
    // It is known by now that nothing comes back: nobody waits any more.
    let found = longest(&reads[1..]);
    for ((name, _), (took, failed)) in reads[1..].iter().zip(&found) {
        assert!(*took < LIMIT / 2 && *failed == 0, "{name}: {took:?}, {failed} failed");
    }
    let error = engine.blocking().put(ada, vec![Message::user("not stored")]).unwrap_err();
    assert!(matches!(error, Error::SharedDatabase { .. } | Error::OutcomeUnknown { .. }), "{error}");
    // Everything comes back by itself, also for reads that do not insist.
    proxy.heal();
    query(&direct, "SELECT 1", &[]);
    let began = Instant::now();
    while runtime.block_on(engine.recall(ada, Query::new("bike"))).unwrap().age().unwrap() > second {
        assert!(began.elapsed() < 10 * LIMIT, "reads stay behind");
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(
        recall(ada, Freshness::Latest).unwrap(),
        engine.blocking().recall(ada, Query::new("bike")).unwrap().len()
    );
}

#[test]
fn a_question_that_was_sent_before_a_put_serves_no_read_that_began_after_it() {
    let Some(server) = server() else { return };
    let direct = server.database();
    let proxy = Proxy::start(server.port());
    let (a, b) = (Db::new(), Db::new());
    let engine = machine(&a, &proxy.address(direct.rsplit('/').next().unwrap()));
    let other = machine(&b, &direct);
    let space = namespace("acme/ada");
    other.blocking().put(&space, vec![Message::user("my bike is in the cellar")]).unwrap();
    engine.blocking().recall(&space, Query::new("bike").freshness(Freshness::Latest)).unwrap();
    // While the first question is on its way, another machine puts, and then many begin to wait.
    proxy.delay(Duration::from_millis(30));
    let hits: Vec<usize> = thread::scope(|scope| {
        let recall = || {
            let query = Query::new("bike").freshness(Freshness::Latest);
            engine.blocking().recall(&space, query).unwrap().version().unwrap() as usize
        };
        let first = scope.spawn(recall);
        thread::sleep(Duration::from_millis(10));
        other.blocking().put(&space, vec![Message::user("the bike is red")]).unwrap();
        let others: Vec<_> = (0..READS).map(|_| scope.spawn(recall)).collect();
        let _ = first.join().unwrap();
        others.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    proxy.heal();
    // Each began after the second put was acknowledged, so it sees it, whichever question served it.
    assert_eq!(hits, [2; READS]);
}

/// A pull that waits for the next question about a namespace is ended when the engine is closed before the current one is
/// answered.
#[test]
fn closing_does_not_wait_for_a_question_that_is_not_sent_any_more() {
    let Some(server) = server() else { return };
    let direct = server.database();
    let proxy = Proxy::start(server.port());
    let (db, other) = (Db::new(), Db::new());
    let (space, writer) = (namespace("acme/ada"), machine(&other, &direct));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for round in 0..12 {
        let engine = machine(&db, &proxy.address(direct.rsplit('/').next().unwrap()));
        let latest = || engine.recall(&space, Query::new("bike").freshness(Freshness::Latest));
        runtime.block_on(latest()).unwrap();
        proxy.delay(Duration::from_millis(30));
        // Each put is announced, and pulled in the background, beside the questions of recalls that nobody waits for.
        for number in 0..4 {
            writer.blocking().put(&space, vec![Message::user(format!("bike {round} {number}"))]).unwrap();
            let _ = runtime.block_on(async { tokio::time::timeout(Duration::from_millis(9), latest()).await });
        }
        let (closed, waits) = std::sync::mpsc::channel();
        thread::spawn(move || {
            drop(engine);
            let _ = closed.send(());
        });
        assert!(waits.recv_timeout(4 * LIMIT).is_ok(), "round {round}: the engine is not closed");
        proxy.heal();
    }
}

//! Everything at the same time, killed at random moments and opened again at once: batches of messages, conversations,
//! batches of documents, reindexes, and calls that are given up while they run. Each part is compared with its own
//! model.

use std::{
    future::Future,
    io::sink,
    pin::pin,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use mnemon::{DocumentOptions, DocumentSearch, Engine, Message, Precision, Query, ReindexOptions, Scope, Timestamp};
use serde_json::json;

use crate::{
    documents,
    engine::kills::{self as messages, Batches},
    memory::kills::{self as conversations, Talks},
    support::{
        Db, Hashing, go_on,
        killing::{acknowledged, child_arguments, kill_after, runs},
        message, namespace,
        random::delay,
    },
};

const SPACE: &str = "given/up";

/// The process that is killed.
#[test]
#[ignore = "the process that everything_survives_kills starts and kills"]
fn child() {
    let (path, run) = child_arguments();
    drop(conversations::open(&path));
    let engine = conversations::open(&path);
    std::thread::scope(|scope| {
        scope.spawn(|| messages::put_batches(&engine, run));
        scope.spawn(|| documents::kills::put_batches(&engine, run));
        scope.spawn(|| conversations::talk(&engine, run));
        scope.spawn(|| give_up(&engine, run));
        scope.spawn(|| look_around(&engine));
    });
}

#[test]
fn everything_survives_kills() {
    let db = Db::new();
    let (mut batches, mut talks, mut state, mut given_up) = (Batches::default(), Talks::default(), 77, 0);
    for run in 0..runs().div_ceil(3) {
        let delay = delay(&mut state, Duration::from_millis(400));
        let lines = kill_after(module_path!(), "child", &db.path, run, delay);
        let engine = conversations::open(&db.path);
        batches.check(&engine, run, &lines);
        talks.check(&engine, run, &lines);
        documents::kills::check(&engine, run, &lines);
        given_up += check(&engine, run, &lines);
        drop(engine);
        db.assert_sound();
    }
    assert!(given_up > 0, "the kills came too early to test anything");
}

/// The three messages of a put that may be given up.
fn three(run: u64, number: u64, version: u32) -> Vec<Message> {
    let message = |i: u32| message(&format!("{run}/{number}/{i}"), &format!("version {version} of {number}"));
    (0..3).map(|i| message(i).at(Timestamp::from_micros(0).unwrap())).collect()
}

/// Begins puts and gives them up. Every other one is followed by a put of the same messages, which counts.
fn give_up(engine: &Engine, run: u64) {
    let space = namespace(SPACE);
    for number in 0.. {
        let polls = (number % 4) as usize;
        poll(polls, engine.put(&space, three(run, number, 1)));
        poll(polls, engine.recall(&space, Query::new("version")));
        let documents = engine.documents(&namespace("given/up/documents"));
        poll(polls, documents.put("key", json!({"text": "version"}), DocumentOptions::default()));
        poll(polls, documents.search(DocumentSearch::default().query("version")));
        poll(polls, engine.flush());
        if number % 2 == 0 {
            engine.blocking().put(&space, three(run, number, 2)).unwrap();
        }
        println!("ack given up {number}");
    }
}

/// Polls a future this often, and drops it.
fn poll(times: usize, future: impl Future) {
    let mut future = pin!(future);
    for _ in 0..times {
        if future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            return;
        }
        std::thread::yield_now();
    }
}

/// A put that was given up is there as a whole or not at all, and never after a later one.
fn check(engine: &Engine, run: u64, lines: &[String]) -> u64 {
    let acknowledged = acknowledged(lines, "given up ");
    for number in 0..=acknowledged {
        let found: Vec<Option<Message>> = (three(run, number, 1).iter())
            .map(|message| engine.blocking().get(&namespace(SPACE), &message.id).unwrap())
            .collect();
        let is = |version: u32| found.iter().cloned().eq(three(run, number, version).into_iter().map(Some));
        let is_absent = found.iter().all(Option::is_none);
        let is_right = match (number < acknowledged, number % 2 == 0) {
            (true, true) => is(2),
            (_, false) => is_absent || is(1),
            (false, true) => is_absent || is(1) || is(2),
        };
        assert!(is_right, "run {run}, put {number} of {acknowledged}: {found:?}");
    }
    acknowledged
}

/// Reindexes, and reads what concerns all namespaces.
fn look_around(engine: &Engine) {
    let blocking = engine.blocking();
    for number in 0.. {
        match number % 5 {
            0 => {
                let precision = [Precision::I8, Precision::F32, Precision::F16][number % 3];
                let mut options = ReindexOptions::default();
                (options.precision, options.samples) = (Some(precision), 0);
                blocking.reindex(Arc::new(Hashing::new(32)), options, go_on).unwrap();
            }
            1 => drop(blocking.export_all(sink()).unwrap()),
            2 => drop(blocking.recall_in(&Scope::new().under(&namespace("crash")), Query::new("message")).unwrap()),
            3 => drop(blocking.namespaces(None, None, 100).unwrap()),
            _ => drop(blocking.drop_previous().unwrap()),
        }
    }
}

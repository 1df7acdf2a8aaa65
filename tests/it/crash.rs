//! SIGKILL at random moments of an ingest with the real model.
//!
//! `MNEMON_CRASH_RUNS` sets how many kills; default 30.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use mnemon::{Engine, Message, Query};

use crate::support::{Db, namespace, random};

const CHILD: &str = "MNEMON_CRASH_CHILD";
const BATCH: u64 = 20;
const SPACES: u64 = 2;

/// What run `run` puts as its batch `batch`: new messages, and some that earlier runs may have put, changed.
fn batch(run: u64, batch: u64) -> Vec<Message> {
    (0..BATCH)
        .map(|i| {
            let id =
                if i < BATCH - 4 { format!("{run}/{batch}/{i}") } else { format!("shared/{}", (batch * 4 + i) % 50) };
            let text =
                format!("run {run} batch {batch} message {i}: the {} went to {}", id.len(), run * 31 + batch * 7 + i);
            let time = mnemon::Timestamp::from_micros((run * 1_000_000 + batch) as i64).unwrap();
            Message::user(text).with_id(id).at(time).in_session(format!("s{}", batch % 3))
        })
        .collect()
}

fn space(batch: u64) -> mnemon::Namespace {
    namespace(&format!("crash/{}", batch % SPACES))
}

/// The process that is killed: puts batch after batch, says which are acknowledged, flushes now and then.
#[test]
fn child() {
    let Ok(path) = std::env::var(CHILD) else { return };
    let (path, run) = path.split_once('#').unwrap();
    let run: u64 = run.parse().unwrap();
    let mut config = mnemon::Config::default();
    // Small, so that kills meet the background flush too.
    config.flush_size = 50;
    let engine = Engine::builder(path).config(config).open().unwrap();
    for number in 0.. {
        engine.blocking().put(&space(number), batch(run, number)).unwrap();
        println!("ack {number}");
        if number % 5 == 4 {
            engine.blocking().flush().unwrap();
        }
    }
}

#[test]
fn acknowledged_messages_survive_kills() {
    let runs: u64 = std::env::var("MNEMON_CRASH_RUNS").map_or(30, |runs| runs.parse().unwrap());
    let db = Db::new();
    let mut state = 42;
    // (run, acknowledged batches)
    let mut history: Vec<(u64, u64)> = Vec::new();
    for run in 0..runs {
        let delay = Duration::from_micros(((f64::from(random(&mut state)) + 1.0) * 100_000.0) as u64);
        history.push((run, kill_after(&db.path, run, delay)));

        let report = db.assert_sound();
        let engine = Engine::open(&db.path).unwrap();
        // Every acknowledged message is there as it was last put, or as the batch in flight has it.
        let mut last: BTreeMap<(u64, String), Message> = BTreeMap::new();
        for &(earlier, acknowledged) in &history {
            for number in 0..acknowledged {
                last.extend(
                    batch(earlier, number).into_iter().map(|message| ((number % SPACES, message.id.clone()), message)),
                );
            }
            let in_flight = batch(earlier, acknowledged);
            for message in &in_flight {
                let key = (acknowledged % SPACES, message.id.clone());
                let found = engine.blocking().get(&space(acknowledged), &message.id).unwrap();
                // Committed, though the process died before it could say so: what follows builds on it.
                if found.as_ref() == Some(message) {
                    last.insert(key, message.clone());
                }
            }
        }
        for ((number, id), message) in &last {
            let found = engine.blocking().get(&space(*number), id).unwrap();
            assert_eq!(found.as_ref(), Some(message), "run {run}");
        }
        drop(engine);
        assert!(report.messages >= history.iter().map(|(_, acks)| acks * (BATCH - 4)).sum::<u64>());
    }
    let acknowledged: u64 = history.iter().map(|(_, acks)| acks * BATCH).sum();
    assert!(acknowledged > 0, "the kills came too early to test anything");

    // Ingesting all again leaves exactly one of each, all found.
    let engine = Engine::open(&db.path).unwrap();
    let mut ids = std::collections::BTreeSet::new();
    for &(run, acks) in &history {
        // One more than acknowledged: the batch in flight may have been committed.
        for number in 0..=acks {
            let messages = batch(run, number);
            ids.extend(messages.iter().map(|message| (number % SPACES, message.id.clone())));
            engine.blocking().put(&space(number), messages).unwrap();
        }
    }
    engine.blocking().flush().unwrap();
    for number in 0..SPACES {
        let all = engine.blocking().recall(&space(number), Query::new("the message").k(10_000)).unwrap();
        assert_eq!(all.len(), ids.iter().filter(|(space, _)| *space == number).count().min(10_000));
    }
    drop(engine);
    let report = db.assert_sound();
    assert_eq!((report.messages as usize, report.vectors as usize, report.pending), (ids.len(), ids.len(), 0));
    eprintln!("{runs} kills, {acknowledged} messages acknowledged, none lost, none doubled");
}

/// The same for `mnemon ingest`: killed on the way, then run again on the same file.
#[test]
fn a_killed_ingest_is_finished_by_running_it_again() {
    let runs: u64 = std::env::var("MNEMON_CRASH_RUNS").map_or(30, |runs| runs.parse().unwrap()) / 3;
    let mut state = 7;
    let file = crate::support::sample("messages.jsonl");
    let ingest = |db: &Db| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("mnemon"));
        command.arg("ingest").arg("--db").arg(&db.path).arg(&file).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut unfinished = 0;
    for _ in 0..runs {
        let db = Db::new();
        let mut child = ingest(&db).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(((f64::from(random(&mut state)) + 1.0) * 125_000.0) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        if std::fs::metadata(&db.path).is_ok_and(|metadata| metadata.len() > 0) {
            let report = db.assert_sound();
            unfinished += u64::from(report.vectors < 462);
            assert!(report.messages == report.vectors + report.pending);
        }
        assert!(ingest(&db).status().unwrap().success());
        let report = db.assert_sound();
        assert_eq!((report.messages, report.vectors, report.pending), (462, 462, 0));
    }
    eprintln!("{runs} ingests killed, {unfinished} of them on the way; each finished by the second run");
}

/// Starts the child, kills it some time after it has opened the database, and returns how many batches it had
/// acknowledged.
fn kill_after(path: &Path, run: u64, delay: Duration) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["crash::child", "--exact", "--nocapture"])
        .env(CHILD, format!("{}#{run}", path.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    // Half of the kills come from the first commit on, half at any time from the start, opening included.
    let mut acknowledged: u64 = 0;
    if run.is_multiple_of(2) && lines.by_ref().any(|line| line.contains("ack 0")) {
        acknowledged = 1;
    }
    std::thread::sleep(delay);
    // SIGKILL on Unix.
    child.kill().unwrap();
    child.wait().unwrap();
    // What was printed before the kill is still in the pipe.
    for line in lines {
        if let Some((_, number)) = line.split_once("ack ") {
            // A last line cut short says less than it could, never more.
            acknowledged = number.trim().parse().map_or(acknowledged, |number: u64| acknowledged.max(number + 1));
        }
    }
    acknowledged
}

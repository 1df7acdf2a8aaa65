//! Kills at random moments of an engine with the bundled model: what `put` has acknowledged is never lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mnemon::{Engine, Message, Query};

use crate::support::{
    Db,
    killing::{acknowledged, child_arguments, kill_after, runs},
    namespace,
    random::delay,
};

const BATCH: u64 = 20;
const SPACES: u64 = 2;

/// Returns batch `batch` of run `run`: new messages, and changed ones that earlier runs may have put.
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

/// The process that is killed. It puts batch after batch, prints which are acknowledged, and flushes after every fifth.
#[test]
#[ignore = "the process that acknowledged_messages_survive_kills starts and kills"]
fn child() {
    let (path, run) = child_arguments();
    let mut config = mnemon::Config::default();
    // Small, so that kills meet the background flush too.
    config.flush_size = 50;
    // The others have 32 bits.
    config.precision = mnemon::Precision::I8;
    config.keep_versions = true;
    // A kill loses no commit of either kind.
    config.durability = if run % 2 == 0 { mnemon::Durability::Disk } else { mnemon::Durability::Process };
    put_batches(&Engine::builder(path).config(config).open().unwrap(), run);
}

/// Puts batches for ever, and flushes after every fifth.
pub(crate) fn put_batches(engine: &Engine, run: u64) {
    for number in 0.. {
        engine.blocking().put(&space(number), batch(run, number)).unwrap();
        println!("ack batch {number}");
        if number % 5 == 4 {
            engine.blocking().flush().unwrap();
        }
    }
}

/// The acknowledged batches of all runs: (run, number of batches).
#[derive(Default)]
pub(crate) struct Batches(Vec<(u64, u64)>);

impl Batches {
    /// Adds a run that was killed, and checks that every acknowledged message is there as it was last put, or as the
    /// batch in flight has it, with what it was before.
    pub(crate) fn check(&mut self, engine: &Engine, run: u64, lines: &[String]) {
        self.0.push((run, acknowledged(lines, "batch ")));
        let mut last: BTreeMap<(u64, String), Message> = BTreeMap::new();
        let mut texts: BTreeMap<(u64, String), Vec<String>> = BTreeMap::new();
        for &(earlier, acknowledged) in &self.0 {
            for number in 0..acknowledged {
                for message in batch(earlier, number) {
                    let key = (number % SPACES, message.id.clone());
                    texts.entry(key.clone()).or_default().push(message.text());
                    last.insert(key, message);
                }
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
            // A batch in flight alone may have it.
            let Some(texts) = texts.get(&(*number, id.clone())) else { continue };
            let versions = engine.blocking().versions(&space(*number), id).unwrap();
            let mut kept: Vec<String> = versions.into_iter().map(|version| version.message.text()).collect();
            kept.extend(found.map(|found| found.text()));
            // A batch in flight may have been committed, too.
            kept.retain(|text| texts.contains(text));
            assert_eq!(kept, *texts, "run {run}: versions of {id}");
        }
    }
}

#[test]
fn acknowledged_messages_survive_kills() {
    let runs = runs();
    let db = Db::new();
    let mut state = 42;
    let mut batches = Batches::default();
    for run in 0..runs {
        let delay = delay(&mut state, Duration::from_millis(200));
        let lines = kill_after(module_path!(), "child", &db.path, run, delay);
        let report = db.assert_sound();
        batches.check(&Engine::open(&db.path).unwrap(), run, &lines);
        assert!(report.messages >= batches.0.iter().map(|(_, acks)| acks * (BATCH - 4)).sum::<u64>());
    }
    let history = batches.0;
    let acknowledged: u64 = history.iter().map(|(_, acks)| acks * BATCH).sum();
    assert!(acknowledged > 0, "the kills came too early to test anything");

    // Ingesting all again leaves exactly one of each, all found.
    let engine = Engine::open(&db.path).unwrap();
    let mut ids = BTreeSet::new();
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

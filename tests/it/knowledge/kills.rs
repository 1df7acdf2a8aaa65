//! Kills while blocks update a collection: each flushed message becomes one item, at whatever moment the process dies.

use std::{collections::BTreeSet, sync::atomic::AtomicU64, sync::atomic::Ordering, time::Duration};

use mnemon::{BufferLimits, CollectionBlock, Memory};

use super::*;
use crate::support::{
    killing::{acknowledged, child_arguments, kill_after, runs},
    random::delay,
};

/// Inserts an item for each message. The items differ, so that none is dropped as a repetition.
fn model(run: u64) -> impl ChatModel + 'static {
    let calls = AtomicU64::new(0);
    move |request: &ChatRequest| {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        let asked = request.messages[1].text();
        let (_, conversation) = asked.split_once("Conversation:\n").unwrap();
        let said = conversation.split("said ").skip(1).map(|rest| rest.split('<').next().unwrap());
        let items: Vec<Value> = said.map(|said| json!({"text": said, "call": format!("{run} {call}")})).collect();
        Ok(Message::assistant(json!({ "insert": items }).to_string()))
    }
}

fn memory(engine: &Engine, run: u64, caller: u64) -> Memory {
    let block = CollectionBlock::new("facts", &facts(engine), model(caller));
    let memory = engine.memory(&namespace("acme/user-42"), format!("run {run}"));
    memory.limits(BufferLimits::new(1_000, 0.7, 1).unwrap()).block(block).open().unwrap()
}

#[test]
#[ignore = "the process that each_message_becomes_one_item_through_kills starts and kills"]
fn child() {
    let (path, run) = child_arguments();
    let engine = Engine::builder(path).embedder(Arc::new(crate::support::Hashing::new(32))).open().unwrap();
    let memory = memory(&engine, run, 2 * run);
    for number in 0.. {
        memory.blocking().put(said(&format!("said {run}-{number}"))).unwrap();
        memory.blocking().flush().unwrap();
        println!("ack {number}");
    }
}

#[test]
fn each_message_becomes_one_item_through_kills() {
    let db = Db::new();
    let (mut state, mut expected) = (11, BTreeSet::new());
    for run in 0..runs() {
        let delay = delay(&mut state, Duration::from_millis(60));
        let acknowledged = acknowledged(&kill_after(module_path!(), "child", &db.path, run, delay), "");
        let engine = db.open();
        let memory = memory(&engine, run, 2 * run + 1);
        memory.blocking().flush().unwrap();
        memory.blocking().settle().unwrap();
        expected.extend((0..acknowledged).map(|number| format!("{run}-{number}")));
        // The put in flight may be there.
        let last = format!("{run}-{acknowledged}");
        let found = texts(&facts(&engine));
        expected.extend(found.contains(&last).then_some(last));
        assert_eq!(found, expected.iter().cloned().collect::<Vec<_>>(), "run {run}");
    }
    assert!(!expected.is_empty(), "the kills came too early to test anything");
    db.assert_sound();
}

//! States that blocks made of forgotten messages: never served again; made again or dropped by the block's choice.

use std::sync::mpsc;

use mnemon::{
    AfterForget, BlockContent, BlockQuery, BlockScope, Engine, FlushedBatch, Forget, Memory, MemoryBlock, Message,
    Result,
};
use serde_json::Value;

use super::*;
use crate::{
    memory::limits,
    support::{Db, words},
};

type Hook = Box<dyn Fn(&FlushedBatch<'_>) + Send + Sync>;

/// Lists the ids of the messages that it was given.
struct Ids {
    scope: BlockScope,
    after_forget: AfterForget,
    hook: Hook,
}

impl MemoryBlock for Ids {
    fn name(&self) -> &str {
        "ids"
    }

    fn scope(&self) -> BlockScope {
        self.scope
    }

    fn after_forget(&self) -> AfterForget {
        self.after_forget
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        (self.hook)(batch);
        let mut ids = state.as_array().cloned().unwrap_or_default();
        ids.extend(batch.messages.iter().map(|message| message.id.clone().into()));
        Ok(ids.into())
    }

    fn get(&self, state: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok(if state.is_null() { "".into() } else { state.to_string().into() })
    }
}

fn open(engine: &Engine, session: &str, scope: BlockScope, after_forget: AfterForget) -> Memory {
    open_with(engine, session, Ids { scope, after_forget, hook: Box::new(|_| ()) })
}

fn open_with(engine: &Engine, session: &str, block: Ids) -> Memory {
    let memory = engine.memory(&space(), session).limits(limits(3, 1.0, 1)).message_counter(words());
    memory.block(block).open().unwrap()
}

/// Puts turns, of which all but the last are flushed.
fn talk(memory: &Memory, ids: &[&str]) {
    for id in ids {
        memory.blocking().put(vec![Message::user("one two three").with_id(*id)]).unwrap();
    }
}

fn state(memory: &Memory) -> String {
    memory.blocking().settle().unwrap();
    memory.blocking().block_state("ids").unwrap().to_string()
}

#[test]
fn a_state_is_dropped_or_made_again_as_the_block_decides() {
    for scope in [BlockScope::Session, BlockScope::Namespace] {
        for (choice, wanted) in [(AfterForget::Drop, r#"["e"]"#), (AfterForget::Rebuild, r#"["a","c","d","e"]"#)] {
            let db = Db::new();
            let engine = db.open();
            let memory = open(&engine, "s", scope, choice);
            talk(&memory, &["a", "b", "c", "d", "e"]);
            assert_eq!(state(&memory), r#"["a","b","c","d"]"#);
            assert_eq!(forget(&engine, Forget::messages(&space(), ["b"])).block_states, 1);
            let prompt = memory.blocking().get(None).unwrap();
            assert!(
                !format!("{prompt:?}").contains(r#""b""#) && memory.blocking().block_state("ids").unwrap().is_null()
            );
            // A message in the buffer, and one that no block was given, drop nothing.
            assert_eq!(forget(&engine, Forget::messages(&space(), ["none"])).block_states, 0);
            talk(&memory, &["f"]);
            assert_eq!(state(&memory), wanted, "{scope:?}, {choice:?}");
            // The decision is taken once.
            talk(&memory, &["g"]);
            assert_eq!(state(&memory), wanted.replace(']', r#","f"]"#));
            drop((memory, engine));
            db.assert_sound();
        }
    }
}

#[test]
fn the_decision_outlives_the_process() {
    let db = Db::new();
    let engine = db.open();
    let memory = open(&engine, "s", BlockScope::Session, AfterForget::Rebuild);
    talk(&memory, &["a", "b", "c"]);
    assert_eq!(state(&memory), r#"["a","b"]"#);
    drop(memory);
    forget(&engine, Forget::messages(&space(), ["a"]));
    drop(engine);
    let engine = db.open();
    let memory = open(&engine, "s", BlockScope::Session, AfterForget::Rebuild);
    assert_eq!(state(&memory), r#"["b"]"#);
}

#[test]
fn a_shared_state_is_made_again_of_the_sessions_that_are_opened() {
    let db = Db::new();
    let engine = db.open();
    let [one, two] = ["one", "two"].map(|session| open(&engine, session, BlockScope::Namespace, AfterForget::Rebuild));
    talk(&one, &["a", "b", "c"]);
    state(&one);
    talk(&two, &["x", "y", "z"]);
    assert_eq!(state(&two), r#"["a","b","x","y"]"#);
    assert_eq!(forget(&engine, Forget::session(&space(), "one")).block_states, 1);
    assert!(two.blocking().block_state("ids").unwrap().is_null());
    talk(&two, &["w"]);
    assert_eq!(state(&two), r#"["x","y","z"]"#);
    drop((one, two, engine));
    db.assert_sound();
}

#[test]
fn a_block_at_work_on_a_forgotten_message_stores_nothing() {
    for session_at_once in [false, true] {
        let db = Db::new();
        let engine = db.open();
        let (begun, working) = mpsc::sync_channel(8);
        let (go_on, wait) = mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let hook: Hook = Box::new(move |batch| {
            if batch.messages.iter().any(|message| message.id == "a") {
                begun.send(()).unwrap();
                // The sender is gone once the message is forgotten.
                let _ = wait.lock().unwrap().recv();
            }
        });
        let memory = open_with(&engine, "s", Ids { scope: BlockScope::Session, after_forget: AfterForget::Drop, hook });
        talk(&memory, &["a", "b", "c"]);
        working.recv().unwrap();
        let what = if session_at_once { Forget::session(&space(), "s") } else { Forget::messages(&space(), ["a"]) };
        forget(&engine, what);
        drop(go_on);
        let state = state(&memory);
        assert!(!state.contains('a'), "{state}");
        drop((memory, engine));
        db.assert_sound();
    }
}

#[test]
fn a_checkpoint_brings_nothing_back() {
    let db = Db::new();
    let engine = db.open();
    let memory = open(&engine, "s", BlockScope::Session, AfterForget::Rebuild);
    talk(&memory, &["a", "b", "c"]);
    state(&memory);
    let checkpoint = memory.blocking().checkpoint("").unwrap();
    talk(&memory, &["d", "e"]);
    state(&memory);
    // Only the checkpoint has it.
    engine.blocking().delete(&space(), vec!["b".into()]).unwrap();
    assert_eq!(memory.blocking().messages_at(checkpoint).unwrap().len(), 3);
    let forgotten = forget(&engine, Forget::messages(&space(), ["a", "b"]));
    assert_eq!((forgotten.messages, forgotten.old_messages), (1, 1));
    assert_eq!(memory.blocking().checkpoints().unwrap()[0].messages, 1);
    memory.blocking().restore(checkpoint).unwrap();
    let ids: Vec<String> = memory.blocking().history().unwrap().into_iter().map(|message| message.id).collect();
    assert_eq!(ids, ["c"]);
    let state = state(&memory);
    assert!(!state.contains('a') && !state.contains('b'), "{state}");
    drop((memory, engine));
    db.assert_sound();
}

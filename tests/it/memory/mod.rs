//! `Memory`: buffer and flush, blocks, prompts, sessions and checkpoints, echoes.

mod batches;
mod blocks;
mod echo;
mod flush;
mod idle;
pub(crate) mod kills;
mod llm;
mod past;
mod prompt;
mod recent;
mod sessions;
mod soundness;
mod sync;
mod validity;
mod whole;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use mnemon::{
    BlockContent, BlockQuery, BufferLimits, Config, ContentPart, Engine, Error, FlushedBatch, Memory, MemoryBlock,
    Message, Result, Role,
};
use serde_json::{Value, json};

use crate::support::{Db, Hashing, embedders::Gate, ids, namespace, words};

/// Opens an engine whose blocks retry at once.
fn open(db: &Db) -> Engine {
    let mut config = Config::default();
    config.flush_size = 100_000;
    config.idle_flush = None;
    config.precision = db.precision;
    config.block_retry = Duration::from_millis(1);
    Engine::builder(&db.path).config(config).embedder(Arc::new(Hashing::new(32))).open().unwrap()
}

pub(crate) fn limits(limit: usize, ratio: f64, flush: usize) -> BufferLimits {
    BufferLimits::new(limit, ratio, flush).unwrap()
}

/// A memory of the session `s` in the namespace `a` that counts words.
fn memory(engine: &Engine, limits: BufferLimits) -> Memory {
    engine.memory(&namespace("a"), "s").limits(limits).message_counter(words()).open().unwrap()
}

fn user(id: &str, text: &str) -> Message {
    Message::user(text).with_id(id)
}

fn assistant(id: &str, text: &str) -> Message {
    Message::assistant(text).with_id(id)
}

fn system(id: &str, text: &str) -> Message {
    Message::new(Role::System, text).with_id(id)
}

fn call(id: &str, call: &str) -> Message {
    let content = vec![ContentPart::ToolCall { id: call.into(), name: "search".into(), arguments: json!({}) }];
    Message { content, ..Message::assistant("x").with_id(id) }
}

fn result(id: &str, call: &str) -> Message {
    let content = vec![ContentPart::ToolResult { id: call.into(), content: "found".into() }];
    Message { content, ..Message::new(Role::Tool, "x").with_id(id) }
}

/// A block that records the messages of its batches, and fails on request.
pub(crate) struct Recorder {
    name: &'static str,
    priority: u32,
    /// Number of calls that are still to fail.
    failures: AtomicUsize,
    /// Batches with this id always fail.
    poison: Option<&'static str>,
    transient: bool,
    calls: AtomicUsize,
}

impl Recorder {
    pub(crate) fn new(name: &'static str) -> Self {
        Recorder {
            name,
            priority: 0,
            failures: AtomicUsize::new(0),
            poison: None,
            transient: false,
            calls: AtomicUsize::new(0),
        }
    }

    fn failing(name: &'static str, times: usize, transient: bool) -> Self {
        Recorder { failures: AtomicUsize::new(times), transient, ..Recorder::new(name) }
    }
}

impl MemoryBlock for Recorder {
    fn name(&self) -> &str {
        self.name
    }

    fn priority(&self) -> u32 {
        self.priority
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let fails = self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        let poisoned = self.poison.is_some_and(|poison| batch.messages.iter().any(|message| message.id == poison));
        if fails || poisoned {
            return Err(Error::Chat {
                reason: "on purpose".into(),
                transient: self.transient,
                retry_after: None,
                source: None,
            });
        }
        let mut batches = state.as_array().cloned().unwrap_or_default();
        batches.push(json!([batch.number, ids(batch.messages)]));
        Ok(batches.into())
    }

    fn get(&self, state: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok(if state.is_null() { "".into() } else { state.to_string().into() })
    }
}

/// Returns the ids that a recorder has taken, batch by batch.
fn recorded(memory: &Memory, block: &str) -> Vec<Vec<String>> {
    let state = memory.blocking().block_state(block).unwrap();
    let batches: Vec<(u64, Vec<String>)> = match state {
        Value::Null => Vec::new(),
        state => serde_json::from_value(state).unwrap(),
    };
    assert!(batches.is_sorted_by(|a, b| a.0 < b.0), "in order, none twice");
    batches.into_iter().map(|(_, ids)| ids).collect()
}

fn gated(db: &Db) -> (Engine, Arc<Gate>) {
    let (gate, embedder) = Gate::embedder(32);
    (db.open_with(embedder), gate)
}

/// Runs `work`, which must take less than 5 seconds.
fn within<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    crate::support::within(Duration::from_secs(5), work)
}

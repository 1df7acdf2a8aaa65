//! A database with every kind of record, and the check that what an engine answers is what was stored.

use std::{path::Path, sync::Arc};

use mnemon::{
    AuditEvent, BlockContent, BlockQuery, BufferLimits, Config, Document, DocumentOptions, DocumentSearch, Engine,
    Error, FlushedBatch, Forget, Memory, MemoryBlock, Message, Query, Result,
};
use serde_json::{Value, json};

use crate::support::{Hashing, chain, message, namespace, words};

const SPACES: [&str; 2] = ["acme/ada", "acme/bob"];
const CHAT: &str = "chat";
/// Messages of each namespace: more than are scanned, so that there are graphs.
const MESSAGES: usize = 90;
const PENDING: usize = 10;
const TURNS: usize = 24;
const DOCUMENTS: usize = 20;

fn text(space: &str, i: usize) -> String {
    format!("{space} topic{} word{i} {}", i % 5, "ferry ".repeat(i % 30))
}

fn messages(space: &str) -> Vec<Message> {
    (0..MESSAGES + PENDING)
        .map(|i| {
            let mut message = message(&format!("m{i}"), &text(space, i)).in_session(format!("s{}", i % 4));
            message.metadata.insert("number".into(), i.into());
            message.created_at = Some(mnemon::Timestamp::from_micros(1_700_000_000_000_000 + i as i64).unwrap());
            message
        })
        .collect()
}

fn turns() -> Vec<Message> {
    (0..TURNS)
        .map(|i| {
            let said = if i % 2 == 0 { Message::user } else { Message::assistant };
            let time = mnemon::Timestamp::from_micros(1_700_000_001_000_000 + i as i64).unwrap();
            said(format!("turn {i} about the harbour")).with_id(format!("t{i}")).at(time).in_session("monday")
        })
        .collect()
}

fn value(i: usize) -> Value {
    json!({"number": i, "text": format!("document{i} about the lighthouse")})
}

/// A block whose state is the ids that it was given.
struct Notes;

impl MemoryBlock for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        let mut ids = state.as_array().cloned().unwrap_or_default();
        ids.extend(batch.messages.iter().map(|message| Value::from(message.id.as_str())));
        Ok(ids.into())
    }

    fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok("".into())
    }
}

fn memory(engine: &Engine) -> Result<Memory> {
    let limits = BufferLimits::new(30, 0.7, 10).unwrap().idle_time(None);
    engine.memory(&namespace(CHAT), "monday").limits(limits).message_counter(words()).block(Notes).open()
}

pub(super) fn open(path: &Path) -> Result<Engine> {
    let mut config = Config::default();
    (config.flush_size, config.idle_flush, config.exact_threshold) = (100_000, None, 40);
    (config.drain_on_open, config.cache_bytes) = (false, 256 * 1024);
    Engine::builder(path).config(config).embedder(Arc::new(Hashing::new(32))).open()
}

pub(super) fn fill(path: &Path) {
    let engine = open(path).unwrap();
    let blocking = engine.blocking();
    for space in SPACES {
        let mut flushed = messages(space);
        let pending = flushed.split_off(MESSAGES);
        blocking.put(&namespace(space), flushed).unwrap();
        let documents = engine.documents(&namespace(space));
        for i in 0..DOCUMENTS {
            let options = DocumentOptions::default().index(["text"]);
            documents.blocking().put(format!("d{i}"), value(i), options).unwrap();
        }
        blocking.flush().unwrap();
        blocking.optimize(&namespace(space)).unwrap();
        blocking.put(&namespace(space), pending).unwrap();
    }
    blocking.put(&namespace("held/by"), vec![message("gone", "to be forgotten")]).unwrap();
    blocking.forget(Forget::messages(&namespace("held/by"), ["gone"])).unwrap();
    blocking.hold(&namespace("held"), "case 7").unwrap();
    let memory = memory(&engine).unwrap();
    let (first, second) = (turns()[..TURNS / 2].to_vec(), turns()[TURNS / 2..].to_vec());
    memory.blocking().put(first).unwrap();
    memory.blocking().checkpoint("the first half").unwrap();
    memory.blocking().put(second).unwrap();
    memory.blocking().settle().unwrap();
}

/// Asks for everything, and changes a little.
pub(super) struct Reader {
    problems: Vec<String>,
    errors: Vec<String>,
}

impl Reader {
    /// Reads a database. Returns wrong answers, panics among them, and all errors.
    pub(super) fn read(path: &Path) -> (Vec<String>, Vec<String>) {
        let mut reader = Reader { problems: Vec::new(), errors: Vec::new() };
        if let Some(engine) = reader.ok("open", open(path)) {
            for space in SPACES {
                reader.messages(&engine, space);
                reader.documents(&engine, space);
            }
            reader.memory(&engine);
            reader.audit(&engine);
            reader.writes(&engine);
        }
        (reader.problems, reader.errors)
    }

    /// Returns the answer. Notes an error, which must not be a panic.
    fn ok<T>(&mut self, what: &str, answer: Result<T>) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(error) => {
                let text = format!("{what}: {}", chain(&error));
                if matches!(error, Error::Panicked { .. } | Error::Closed) {
                    self.problems.push(text.clone());
                }
                self.errors.push(text);
                None
            }
        }
    }

    fn same<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: T, stored: T) {
        if found != stored {
            self.problems.push(format!("{what}: WRONG {found:.300?} instead of {stored:.300?}"));
        }
    }

    fn messages(&mut self, engine: &Engine, space: &str) {
        let (blocking, name, stored) = (engine.blocking(), namespace(space), messages(space));
        for message in &stored {
            if let Some(found) = self.ok("get", blocking.get(&name, &message.id)) {
                self.same("get", found.as_ref(), Some(message));
            }
        }
        for query in ["topic3 word13", "ferry", "word42", "word95"] {
            if let Some(hits) = self.ok("recall", blocking.recall(&name, Query::new(query).k(1000).keep_duplicates())) {
                self.same("number of hits", hits.len(), stored.len());
                for hit in hits.iter() {
                    let message = stored.iter().find(|message| message.id == hit.message.id);
                    self.same("recall", Some(&hit.message), message);
                }
            }
        }
        for session in 0..4 {
            if let Some(found) = self.ok("history", blocking.history(&name, &format!("s{session}"))) {
                let of_session = stored.iter().filter(|message| message.session == format!("s{session}"));
                self.same("history", found, of_session.cloned().collect());
            }
        }
        let mut export = Vec::new();
        self.ok("export", blocking.export(&name, &mut export));
        for message in String::from_utf8_lossy(&export).lines().filter(|line| line.contains("topic")) {
            let is_stored = stored.iter().any(|stored| message.contains(&stored.text()));
            self.same("export", (is_stored, message), (true, message));
        }
    }

    fn documents(&mut self, engine: &Engine, space: &str) {
        let documents = engine.documents(&namespace(space));
        for i in 0..DOCUMENTS {
            if let Some(found) = self.ok("document", documents.blocking().get(&format!("d{i}"))) {
                self.same("document", found.map(|found| found.value), Some(value(i)));
            }
        }
        let query = DocumentSearch::default().query("lighthouse document3").limit(500);
        for search in [query, DocumentSearch::default().limit(500)] {
            let Some(found) = self.ok("search", documents.blocking().search(search)) else { continue };
            let key = |document: &Document| (document.key.clone(), document.value.to_string());
            let (mut found, mut stored): (Vec<_>, Vec<_>) = (
                found.iter().map(key).collect(),
                (0..DOCUMENTS).map(|i| (format!("d{i}"), value(i).to_string())).collect(),
            );
            found.sort();
            stored.sort();
            self.same("search", found, stored);
        }
    }

    fn memory(&mut self, engine: &Engine) {
        let Some(memory) = self.ok("memory", memory(engine)) else { return };
        let (memory, turns) = (memory.blocking(), turns());
        if let Some(found) = self.ok("turns", memory.history()) {
            self.same("turns", found, turns.clone());
        }
        if let Some(found) = self.ok("turns of a checkpoint", memory.messages_at(0)) {
            self.same("turns of a checkpoint", found, turns[..TURNS / 2].to_vec());
        }
        if let Some(found) = self.ok("checkpoints", memory.checkpoints()) {
            let labels: Vec<String> = found.into_iter().map(|checkpoint| checkpoint.label).collect();
            self.same("labels", labels, vec!["the first half".to_owned()]);
        }
        let buffer = self.ok("buffer", memory.messages());
        if let (Some(state), Some(buffer)) = (self.ok("state", memory.block_state("notes")), buffer) {
            let flushed = turns.iter().filter(|turn| !buffer.iter().any(|kept| kept.id == turn.id));
            let ids: Vec<Value> = flushed.map(|turn| turn.id.as_str().into()).collect();
            self.same("state", state, ids.into());
        }
        self.ok("prompt", memory.get(Some(Message::user("the harbour"))));
    }

    fn audit(&mut self, engine: &Engine) {
        let blocking = engine.blocking();
        if let Some(audit) = self.ok("audit", blocking.audit()) {
            let kinds =
                audit.entries.iter().map(|entry| (entry.sequence, matches!(entry.event, AuditEvent::Hold { .. })));
            match audit.problems.is_empty() {
                true => self.same("audit", kinds.collect(), vec![(0, false), (1, true)]),
                false => self.errors.extend(audit.problems),
            }
        }
        if let Some(holds) = self.ok("holds", blocking.holds()) {
            let holds = holds.into_iter().map(|hold| (hold.namespace.to_string(), hold.reason));
            self.same("holds", holds.collect(), vec![("held".to_owned(), "case 7".to_owned())]);
        }
        if let Some(found) = self.ok("get", blocking.get(&namespace("held/by"), "gone")) {
            self.same("get of what was forgotten", found, None);
        }
    }

    fn writes(&mut self, engine: &Engine) {
        let (blocking, name) = (engine.blocking(), namespace(SPACES[0]));
        let put = self.ok("put", blocking.put(&name, vec![message("new", "a new one")]));
        if let (Some(_), Some(found)) = (put, self.ok("get", blocking.get(&name, "new"))) {
            self.same("put", found.map(|found| found.text().to_owned()), Some("a new one".to_owned()));
        }
        self.ok("flush", blocking.flush());
        self.ok("delete", blocking.delete(&name, vec!["m1".into()]));
        self.ok("delete_session", blocking.delete_session(&name, "s3"));
        self.ok("delete_namespace", blocking.delete_namespace(&namespace(SPACES[1])));
        self.ok("restore", memory(engine).and_then(|memory| memory.blocking().restore(0)));
    }
}

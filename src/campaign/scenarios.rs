//! The scenarios: lists of steps that the engine takes while its storage fails.

use std::{path::Path, sync::Arc};

use serde_json::{Value, json};

use super::support::{Hashing, go_on, open_tables, schemas, words};
use crate::{
    BlockContent, BlockQuery, BufferLimits, Config, DocumentOperation, DocumentOptions, Engine, FlushedBatch, Forget,
    Memory, MemoryBlock, Message, Namespace, Precision, ReindexOptions, Result,
};

/// Runs a step. The second argument is the database's folder.
type Run = dyn Fn(&Engine, &Path) -> Result<()> + Send + Sync;
type IsStored = dyn Fn(&Engine) -> Result<bool> + Send + Sync;

/// A change of the database, with a test whether the database contains it.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) run: Box<Run>,
    /// Returns true if the change is stored. `None` for a step of several commits, or one that changes no answer.
    pub(super) is_stored: Option<Box<IsStored>>,
    /// True if the step may fail in a second commit although the change is stored, as the method's documentation says.
    pub(super) may_be_half: bool,
}

/// A step of one commit.
fn commit(
    name: &'static str,
    run: impl Fn(&Engine) -> Result<()> + Send + Sync + 'static,
    is_stored: impl Fn(&Engine) -> Result<bool> + Send + Sync + 'static,
) -> Step {
    Step { name, run: Box::new(move |engine, _| run(engine)), is_stored: Some(Box::new(is_stored)), may_be_half: false }
}

/// A step without a commit, or with several.
fn work(name: &'static str, run: impl Fn(&Engine) -> Result<()> + Send + Sync + 'static) -> Step {
    Step { name, run: Box::new(move |engine, _| run(engine)), is_stored: None, may_be_half: false }
}

/// A step that puts messages in one call.
fn put(name: &'static str, to: &'static str, messages: Vec<Message>) -> Step {
    let first = messages[0].clone();
    commit(
        name,
        move |engine| engine.blocking().put(&namespace(to), messages.clone()).map(drop),
        move |engine| {
            Ok(engine.blocking().get(&namespace(to), &first.id)?.is_some_and(|found| found.text() == first.text()))
        },
    )
}

pub(super) fn namespace(name: &str) -> Namespace {
    name.parse().expect("a namespace")
}

/// Messages `from..to` with texts of several topics.
pub(super) fn messages(from: usize, to: usize) -> Vec<Message> {
    let message = |i: usize| {
        let text = format!("topic{} word{i} {}", i % 7, "ferry ".repeat(i % 20));
        Message::user(text).with_id(format!("m{i}")).in_session(format!("s{}", i % 3))
    };
    (from..to).map(message).collect()
}

/// Opens an engine that links from 40 vectors on, and embeds pending messages only when a step flushes.
pub(super) fn engine(path: &Path) -> Result<Engine> {
    engine_with(path, Precision::default())
}

/// Same as [`engine`], with vectors of this precision in a new database.
fn engine_with(path: &Path, precision: Precision) -> Result<Engine> {
    let mut config = Config::default();
    (config.flush_size, config.idle_flush, config.exact_threshold) = (100_000, None, 40);
    config.precision = precision;
    // A small cache, so that reads reach the storage.
    config.cache_bytes = 64 * 1024;
    Engine::builder(path).config(config).embedder(Arc::new(Hashing::new(32))).open()
}

/// The name of the file that [`backups`] makes.
pub(super) const BACKUP: &str = "backup.redb";

/// Steps on a database that was prepared without faults.
pub(super) struct Scenario {
    pub(super) prepare: fn(&Path),
    pub(super) steps: Vec<Step>,
    /// True if each step needs the one before, so that none is begun after a failed one.
    pub(super) is_chain: bool,
    /// Asserts that the prepared records that no step changes are stored.
    pub(super) kept: fn(&Engine) -> Result<()>,
}

/// Prepares 60 flushed messages of the namespace `kept`, which no step changes.
fn prepare(path: &Path) {
    fill(&engine(path).unwrap());
}

fn fill(engine: &Engine) {
    engine.blocking().put(&namespace("kept"), messages(0, 60)).unwrap();
    engine.blocking().flush().unwrap();
}

fn kept(engine: &Engine) -> Result<()> {
    for message in messages(0, 60) {
        let found = engine.blocking().get(&namespace("kept"), &message.id)?;
        assert_eq!(found.map(|found| found.text().to_owned()), Some(message.text().to_owned()));
    }
    Ok(())
}

fn scenario(steps: Vec<Step>) -> Scenario {
    Scenario { prepare, steps, is_chain: false, kept }
}

fn flush() -> Step {
    work("flush", |engine| engine.blocking().flush().map(drop))
}

fn text_is(engine: &Engine, name: &str, id: &str, text: &str) -> Result<bool> {
    Ok(engine.blocking().get(&namespace(name), id)?.is_some_and(|found| found.text() == text))
}

pub(super) fn puts() -> Scenario {
    let replaced = || vec![Message::user("said otherwise").with_id("m1")];
    scenario(vec![
        put("put of one", "a", messages(0, 1)),
        put("put of several", "a", messages(1, 12)),
        put("put to another namespace", "b/c", messages(0, 2)),
        commit(
            "put of a changed message",
            move |engine| engine.blocking().put(&namespace("b/c"), replaced()).map(drop),
            |engine| text_is(engine, "b/c", "m1", "said otherwise"),
        ),
        put("put of many", "d", messages(100, 300)),
    ])
}

pub(super) fn flushes() -> Scenario {
    scenario(vec![
        put("first put", "a", messages(0, 30)),
        flush(),
        put("second put", "b", messages(100, 130)),
        flush(),
        put("third put", "c", messages(200, 210)),
        flush(),
    ])
}

pub(super) fn deletions() -> Scenario {
    let fill = |path: &Path| {
        prepare(path);
        let engine = engine(path).unwrap();
        for name in ["a", "b", "c/d", "c/e"] {
            engine.blocking().put(&namespace(name), messages(0, 50)).unwrap();
        }
        engine.blocking().flush().unwrap();
    };
    let is_gone = |name: &'static str, id: &'static str| {
        move |engine: &Engine| Ok(engine.blocking().get(&namespace(name), id)?.is_none())
    };
    let ids = || messages(10, 20).into_iter().map(|message| message.id).collect();
    let steps = vec![
        commit("delete", move |engine| engine.blocking().delete(&namespace("a"), ids()).map(drop), is_gone("a", "m12")),
        commit("delete_session", |engine| engine.blocking().delete_session(&namespace("a"), "s1"), is_gone("a", "m1")),
        work("delete_namespace", |engine| engine.blocking().delete_namespace(&namespace("b")).map(drop)),
        work("delete_namespaces", |engine| engine.blocking().delete_namespaces(&namespace("c")).map(drop)),
        flush(),
    ];
    Scenario { prepare: fill, ..scenario(steps) }
}

/// Each step forgets in one commit, which also stores the receipt.
pub(super) fn forgets() -> Scenario {
    let fill = |path: &Path| {
        prepare(path);
        let engine = engine(path).unwrap();
        for name in ["a", "b"] {
            engine.blocking().put(&namespace(name), messages(0, 50)).unwrap();
        }
        engine.blocking().flush().unwrap();
    };
    let forget = |name: &'static str, forget: fn() -> Forget, of: &'static str, id: &'static str| {
        let has_receipt = move |engine: &Engine| {
            let (audit, is_gone) = (engine.blocking().audit()?, engine.blocking().get(&namespace(of), id)?.is_none());
            assert_eq!(audit.problems, [""; 0]);
            assert!(!is_gone || !audit.entries.is_empty(), "forgotten without a receipt");
            Ok(is_gone)
        };
        commit(name, move |engine| engine.blocking().forget(forget()).map(drop), has_receipt)
    };
    let steps = vec![
        forget("forget of messages", || Forget::messages(&namespace("a"), ["m12", "m13"]), "a", "m12"),
        forget("forget of a session", || Forget::session(&namespace("a"), "s1"), "a", "m1"),
        forget("forget of a namespace", || Forget::namespace(&namespace("b")), "b", "m1"),
        flush(),
    ];
    Scenario { prepare: fill, ..scenario(steps) }
}

pub(super) fn documents() -> Scenario {
    fn is(engine: &Engine, key: &str) -> Result<bool> {
        Ok(engine.documents(&namespace("docs")).blocking().get(key)?.is_some())
    }
    let value = |key: &str| json!({"text": format!("the ferry of {key}")});
    let put = move |key: &'static str| {
        commit(
            "put of a document",
            move |engine| {
                engine.documents(&namespace("docs")).blocking().put(
                    key,
                    value(key),
                    DocumentOptions::default().index(["text"]),
                )
            },
            move |engine| is(engine, key),
        )
    };
    let batch = move |engine: &Engine| {
        let options = DocumentOptions::default().ttl_minutes(1.0 / 60_000.0);
        let brief = (0..40).map(|at| DocumentOperation::Put {
            namespace: namespace("brief"),
            key: at.to_string(),
            value: value("brief"),
            options: options.clone(),
        });
        let delete = DocumentOperation::Delete { namespace: namespace("docs"), key: "old".into() };
        engine.blocking().document_batch(brief.chain([delete]).collect()).map(drop)
    };
    let fill = |path: &Path| {
        prepare(path);
        let documents = engine(path).unwrap().documents(&namespace("docs"));
        documents.blocking().put("old", json!({"text": "an old ferry"}), DocumentOptions::default()).unwrap();
    };
    let steps = vec![
        put("one"),
        commit("batch that sweeps", batch, |engine| Ok(!is(engine, "old")?)),
        put("two"),
        flush(),
        put("three"),
    ];
    Scenario { prepare: fill, ..scenario(steps) }
}

/// A block whose state is the numbers of its batches.
struct Notes;

impl MemoryBlock for Notes {
    fn name(&self) -> &str {
        "notes"
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        let mut numbers = state.as_array().cloned().unwrap_or_default();
        assert!(!numbers.contains(&batch.number.into()), "a batch came twice");
        numbers.push(batch.number.into());
        Ok(numbers.into())
    }

    fn get(&self, _: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok("".into())
    }
}

fn memory(engine: &Engine) -> Result<Memory> {
    let limits = BufferLimits::new(30, 0.7, 10)?.idle_time(None);
    engine.memory(&namespace("chat"), "monday").limits(limits).message_counter(words()).block(Notes).open()
}

/// Turns `from..to` of a conversation.
fn turns(from: usize, to: usize) -> Vec<Message> {
    let turn = |i: usize| {
        let said = if i.is_multiple_of(2) { Message::user } else { Message::assistant };
        said(format!("turn {i} about the ferry")).with_id(format!("t{i}"))
    };
    (from..to).map(turn).collect()
}

fn say(name: &'static str, from: usize, to: usize) -> Step {
    let has = move |engine: &Engine| {
        Ok(memory(engine)?.blocking().history()?.iter().any(|turn| turn.id == format!("t{from}")))
    };
    let put = move |engine: &Engine| memory(engine)?.blocking().put(turns(from, to)).map(drop);
    Step { may_be_half: true, ..commit(name, put, has) }
}

pub(super) fn blocks() -> Scenario {
    let settle = || work("settle", |engine| memory(engine)?.blocking().settle());
    scenario(vec![
        say("first turns", 0, 2),
        say("turns that flush", 2, 12),
        settle(),
        say("more turns that flush", 12, 22),
        work("flush of the memory", |engine| memory(engine)?.blocking().flush().map(drop)),
        settle(),
    ])
}

pub(super) fn checkpoints() -> Scenario {
    let checkpoint = |engine: &Engine| memory(engine)?.blocking().checkpoint("").map(drop);
    let has = |engine: &Engine| Ok(!memory(engine)?.blocking().checkpoints()?.is_empty());
    let put_last = |engine: &Engine| memory(engine)?.blocking().put(turns(20, 22)).map(drop);
    let fork = |engine: &Engine| memory(engine)?.blocking().fork(Some(0), "tuesday").map(drop);
    let is_forked = |engine: &Engine| Ok(!engine.blocking().history(&namespace("chat"), "tuesday")?.is_empty());
    let is_restored = |engine: &Engine| {
        let history = memory(engine)?.blocking().history()?;
        Ok(history.iter().any(|turn| turn.id == "t20") && !history.iter().any(|turn| turn.id == "t5"))
    };
    let steps = vec![
        say("first turns", 0, 4),
        commit("checkpoint", checkpoint, has),
        work("more turns", |engine| memory(engine)?.blocking().put(turns(4, 14)).map(drop)),
        work("restore", |engine| memory(engine)?.blocking().restore(0)),
        Step { may_be_half: true, ..commit("turns after the restore", put_last, is_restored) },
        // The copy is committed before the memory of the new session is opened.
        Step { may_be_half: true, ..commit("fork", fork, is_forked) },
    ];
    Scenario { is_chain: true, ..scenario(steps) }
}

pub(super) fn reindexing() -> Scenario {
    let reindex = |engine: &Engine| {
        let options = ReindexOptions { precision: Some(Precision::I8), ..Default::default() };
        engine.blocking().reindex(Arc::new(Hashing::new(32)), options, go_on).map(drop)
    };
    scenario(vec![
        put("put before", "a", messages(0, 50)),
        work("reindex", reindex),
        put("put after", "b", messages(0, 5)),
    ])
}

pub(super) fn linking() -> Scenario {
    let ids = || messages(1, 60).into_iter().step_by(3).map(|message| message.id).collect();
    scenario(vec![
        put("put of many", "a", messages(0, 150)),
        flush(),
        work("delete of many", move |engine| engine.blocking().delete(&namespace("a"), ids()).map(drop)),
        work("optimize", |engine| engine.blocking().optimize(&namespace("a"))),
        put("put of more", "a", messages(150, 190)),
        flush(),
    ])
}

pub(super) fn transfers() -> Scenario {
    let copy = |engine: &Engine| {
        let mut lines = Vec::new();
        engine.blocking().export(&namespace("kept"), &mut lines)?;
        engine.blocking().import_as(&namespace("copy"), lines.as_slice()).map(drop)
    };
    let has = |engine: &Engine| Ok(engine.blocking().get(&namespace("copy"), "m59")?.is_some());
    scenario(vec![commit("import", copy, has), flush(), put("put after", "a", messages(0, 5))])
}

/// A backup beside the database, while messages are put before and after it.
pub(super) fn backups() -> Scenario {
    let backup = |engine: &Engine, folder: &Path| engine.blocking().backup(folder.join(BACKUP));
    let backup = Step { run: Box::new(backup), ..work("backup", |_| Ok(())) };
    scenario(vec![put("put before", "a", messages(0, 20)), backup, put("put after", "b", messages(0, 5))])
}

/// A purge replaces the file by a copy.
pub(super) fn purges() -> Scenario {
    let ids = || messages(2, 30).into_iter().map(|message| message.id).collect();
    scenario(vec![
        put("put before", "a", messages(0, 1)),
        put("put of more", "a", messages(1, 40)),
        work("delete", move |engine| engine.blocking().delete(&namespace("a"), ids()).map(drop)),
        work("purge", |engine| engine.blocking().purge().map(drop)),
        put("put after", "b", messages(0, 5)),
        flush(),
    ])
}

/// The engine creates the file when it opens it.
pub(super) fn creation() -> Scenario {
    Scenario {
        prepare: |_| (),
        kept: |_| Ok(()),
        ..scenario(vec![put("put to a new file", "a", messages(0, 5)), flush()])
    }
}

/// The engine upgrades the prepared database when it opens it.
fn upgrade(prepare: fn(&Path)) -> Scenario {
    Scenario { prepare, ..scenario(vec![put("put after an upgrade", "a", messages(0, 5)), flush()]) }
}

fn older(path: &Path, change: impl FnOnce(&redb::WriteTransaction)) {
    fill(&engine_with(path, Precision::F32).unwrap());
    let file = open_tables(path);
    let write = file.begin_write().unwrap();
    change(&write);
    write.commit().unwrap();
}

pub(super) fn upgrade_from_1() -> Scenario {
    upgrade(|path| older(path, schemas::back_to_schema_1))
}

pub(super) fn upgrade_from_2() -> Scenario {
    upgrade(|path| older(path, schemas::back_to_schema_2))
}

pub(super) fn upgrade_from_3() -> Scenario {
    upgrade(|path| older(path, schemas::back_to_schema_3))
}

pub(super) fn upgrade_from_4() -> Scenario {
    upgrade(|path| older(path, schemas::back_to_schema_4))
}

pub(super) fn upgrade_from_5() -> Scenario {
    upgrade(|path| older(path, schemas::back_to_schema_5))
}

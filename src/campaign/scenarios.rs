//! What the engine does while its storage fails.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    steps::{Step, commit, engine, engine_with, messages, put, space, work},
    support::{Hashing, go_on, open_tables, schemas, words},
};
use crate::{
    BlockContent, BlockQuery, BufferLimits, DocumentOperation, DocumentOptions, Engine, FlushedBatch, Forget, Memory,
    MemoryBlock, Message, Precision, Result,
};

/// The name of the file that [`backups`] makes.
pub(super) const BACKUP: &str = "backup.redb";

/// Steps on a database that was prepared without faults.
pub(super) struct Scenario {
    pub(super) prepare: fn(&Path),
    pub(super) steps: Vec<Step>,
    /// True if each step needs the one before: none is begun after one that failed.
    pub(super) is_chain: bool,
    /// Asserts that what was prepared, and no step changes, is there.
    pub(super) kept: fn(&Engine) -> Result<()>,
}

/// 60 flushed messages of namespace `kept`, which no step changes.
fn prepare(path: &Path) {
    fill(&engine(path).unwrap());
}

fn fill(engine: &Engine) {
    engine.blocking().put(&space("kept"), messages(0, 60)).unwrap();
    engine.blocking().flush().unwrap();
}

fn kept(engine: &Engine) -> Result<()> {
    for message in messages(0, 60) {
        let found = engine.blocking().get(&space("kept"), &message.id)?;
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
    Ok(engine.blocking().get(&space(name), id)?.is_some_and(|found| found.text() == text))
}

pub(super) fn puts() -> Scenario {
    let replaced = || vec![Message::user("said otherwise").with_id("m1")];
    scenario(vec![
        put("put of one", "a", messages(0, 1)),
        put("put of several", "a", messages(1, 12)),
        put("put to another namespace", "b/c", messages(0, 2)),
        commit(
            "put of a changed message",
            move |engine| engine.blocking().put(&space("b/c"), replaced()).map(drop),
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
            engine.blocking().put(&space(name), messages(0, 50)).unwrap();
        }
        engine.blocking().flush().unwrap();
    };
    let is_gone = |name: &'static str, id: &'static str| {
        move |engine: &Engine| Ok(engine.blocking().get(&space(name), id)?.is_none())
    };
    let ids = || messages(10, 20).into_iter().map(|message| message.id).collect();
    let steps = vec![
        commit("delete", move |engine| engine.blocking().delete(&space("a"), ids()).map(drop), is_gone("a", "m12")),
        commit("delete_session", |engine| engine.blocking().delete_session(&space("a"), "s1"), is_gone("a", "m1")),
        work("delete_namespace", |engine| engine.blocking().delete_namespace(&space("b")).map(drop)),
        work("delete_namespaces", |engine| engine.blocking().delete_namespaces(&space("c")).map(drop)),
        flush(),
    ];
    Scenario { prepare: fill, ..scenario(steps) }
}

/// Each forgets in one commit, with its receipt.
pub(super) fn forgets() -> Scenario {
    let fill = |path: &Path| {
        prepare(path);
        let engine = engine(path).unwrap();
        for name in ["a", "b"] {
            engine.blocking().put(&space(name), messages(0, 50)).unwrap();
        }
        engine.blocking().flush().unwrap();
    };
    let forget = |what: &'static str, forget: fn() -> Forget, name: &'static str, id: &'static str| {
        let has_receipt = move |engine: &Engine| {
            let (audit, is_gone) = (engine.blocking().audit()?, engine.blocking().get(&space(name), id)?.is_none());
            assert_eq!(audit.problems, [""; 0]);
            assert!(!is_gone || !audit.entries.is_empty(), "forgotten without a receipt");
            Ok(is_gone)
        };
        commit(what, move |engine| engine.blocking().forget(forget()).map(drop), has_receipt)
    };
    let steps = vec![
        forget("forget of messages", || Forget::messages(&space("a"), ["m12", "m13"]), "a", "m12"),
        forget("forget of a session", || Forget::session(&space("a"), "s1"), "a", "m1"),
        forget("forget of a namespace", || Forget::namespace(&space("b")), "b", "m1"),
        flush(),
    ];
    Scenario { prepare: fill, ..scenario(steps) }
}

pub(super) fn documents() -> Scenario {
    fn is(engine: &Engine, key: &str) -> Result<bool> {
        Ok(engine.documents(&space("docs")).blocking().get(key)?.is_some())
    }
    let value = |key: &str| json!({"text": format!("the ferry of {key}")});
    let put = move |key: &'static str| {
        commit(
            "put of a document",
            move |engine| {
                engine.documents(&space("docs")).blocking().put(
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
            namespace: space("brief"),
            key: at.to_string(),
            value: value("brief"),
            options: options.clone(),
        });
        let delete = DocumentOperation::Delete { namespace: space("docs"), key: "old".into() };
        engine.blocking().document_batch(brief.chain([delete]).collect()).map(drop)
    };
    let fill = |path: &Path| {
        prepare(path);
        let documents = engine(path).unwrap().documents(&space("docs"));
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

/// A block that notes the numbers of its batches.
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
    engine.memory(&space("chat"), "monday").limits(limits).message_counter(words()).block(Notes).open()
}

/// Turns `from..to` of a conversation.
fn turns(from: usize, to: usize) -> Vec<Message> {
    let turn = |i: usize| {
        let said = if i.is_multiple_of(2) { Message::user } else { Message::assistant };
        said(format!("turn {i} about the ferry")).with_id(format!("t{i}"))
    };
    (from..to).map(turn).collect()
}

fn say(what: &'static str, from: usize, to: usize) -> Step {
    let has = move |engine: &Engine| {
        Ok(memory(engine)?.blocking().history()?.iter().any(|turn| turn.id == format!("t{from}")))
    };
    let put = move |engine: &Engine| memory(engine)?.blocking().put(turns(from, to)).map(drop);
    Step { may_be_half: true, ..commit(what, put, has) }
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
    let is_forked = |engine: &Engine| Ok(!engine.blocking().history(&space("chat"), "tuesday")?.is_empty());
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
        let options = crate::ReindexOptions { precision: Some(crate::Precision::I8), ..Default::default() };
        engine.blocking().reindex(std::sync::Arc::new(Hashing::new(32)), options, go_on).map(drop)
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
        work("delete of many", move |engine| engine.blocking().delete(&space("a"), ids()).map(drop)),
        work("optimize", |engine| engine.blocking().optimize(&space("a"))),
        put("put of more", "a", messages(150, 190)),
        flush(),
    ])
}

pub(super) fn transfers() -> Scenario {
    let copy = |engine: &Engine| {
        let mut lines = Vec::new();
        engine.blocking().export(&space("kept"), &mut lines)?;
        engine.blocking().import_as(&space("copy"), lines.as_slice()).map(drop)
    };
    let has = |engine: &Engine| Ok(engine.blocking().get(&space("copy"), "m59")?.is_some());
    scenario(vec![commit("import", copy, has), flush(), put("put after", "a", messages(0, 5))])
}

/// A backup beside the database, while messages are put before and after it.
pub(super) fn backups() -> Scenario {
    let backup = |engine: &Engine, folder: &Path| engine.blocking().backup(folder.join(BACKUP));
    let backup = Step { run: Box::new(backup), ..work("backup", |_| Ok(())) };
    scenario(vec![put("put before", "a", messages(0, 20)), backup, put("put after", "b", messages(0, 5))])
}

/// A copy takes the place of the file.
pub(super) fn purges() -> Scenario {
    let ids = || messages(2, 30).into_iter().map(|message| message.id).collect();
    scenario(vec![
        put("put before", "a", messages(0, 1)),
        put("put of more", "a", messages(1, 40)),
        work("delete", move |engine| engine.blocking().delete(&space("a"), ids()).map(drop)),
        work("purge", |engine| engine.blocking().purge().map(drop)),
        put("put after", "b", messages(0, 5)),
        flush(),
    ])
}

/// Opening makes the file.
pub(super) fn creation() -> Scenario {
    Scenario {
        prepare: |_| (),
        kept: |_| Ok(()),
        ..scenario(vec![put("put to a new file", "a", messages(0, 5)), flush()])
    }
}

/// Opening the prepared database upgrades it.
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

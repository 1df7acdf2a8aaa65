//! `Engine::export` and `Engine::import`.

mod bad_input;
mod documents;
mod kills;

use std::{io::BufReader, sync::Arc};

use mnemon::{
    BlockContent, BlockQuery, BlockScope, BufferLimits, Engine, Error, FlushedBatch, Memory, MemoryBlock, Message,
    Namespace, Query, Result, TransferReport, VectorBlock,
};
use serde_json::{Value, json};

use crate::support::{Db, message, namespace, sample, words};

/// Counts the messages that it was given, in a state of the session or of the namespace.
struct Count(BlockScope);

impl MemoryBlock for Count {
    fn name(&self) -> &str {
        if self.0 == BlockScope::Namespace { "all" } else { "own" }
    }

    fn scope(&self) -> BlockScope {
        self.0
    }

    fn put(&self, state: &Value, batch: &FlushedBatch<'_>) -> Result<Value> {
        Ok((state.as_u64().unwrap_or(0) + batch.messages.len() as u64).into())
    }

    fn get(&self, state: &Value, _: &BlockQuery) -> Result<BlockContent> {
        Ok(format!("{state} messages").into())
    }
}

fn memory(engine: &Engine, space: &Namespace, session: &str) -> Memory {
    let memory = engine.memory(space, session).limits(BufferLimits::new(60, 0.7, 10).unwrap());
    let memory = memory.message_counter(words()).block(Count(BlockScope::Session)).block(Count(BlockScope::Namespace));
    memory.block(VectorBlock::new("recalled")).open().unwrap()
}

pub(crate) fn export(engine: &Engine) -> String {
    let mut bytes = Vec::new();
    engine.blocking().export_all(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn import(engine: &Engine, text: &str) -> Result<TransferReport> {
    engine.blocking().import(text.as_bytes())
}

/// Puts the sample's messages, some of them through memories, and changes sessions in every way that leaves a trace.
pub(crate) fn fill(engine: &Engine) {
    let blocking = engine.blocking();
    let lines = std::fs::read_to_string(sample("messages.jsonl")).unwrap();
    let mut number = 0;
    for line in lines.lines().map(|line| mnemon::MessageLine::parse(line).unwrap()) {
        let (space, message) = (line.namespace.unwrap(), line.message);
        number += 1;
        if message.session == "s1" {
            let memory = memory(engine, &space, "s1");
            let id = message.id.clone();
            memory.blocking().put(vec![message]).unwrap();
            if number % 7 == 0 {
                memory.blocking().checkpoint(format!("after {id}")).unwrap();
            }
            memory.blocking().settle().unwrap();
        } else {
            blocking.put(&space, vec![message]).unwrap();
        }
        if number == 50 {
            blocking.flush().unwrap();
        }
    }
    let space = namespace("friends/ines-tom");
    let tom = memory(engine, &space, "s1");
    let checkpoints = tom.blocking().checkpoints().unwrap();
    assert!(checkpoints.len() > 1);
    // A flushed message changes and another goes, after a checkpoint that has them.
    let history = tom.blocking().history().unwrap();
    blocking.put(&space, vec![Message::user("changed").with_id(&*history[1].id).in_session("s1")]).unwrap();
    blocking.delete(&space, vec![history[2].id.clone()]).unwrap();
    blocking.copy_session(&space, "s1", "copy").unwrap();
    let copy = memory(engine, &space, "copy");
    let checkpoint = copy.blocking().checkpoint("").unwrap();
    copy.blocking().put(vec![message("late", "what is said after the checkpoint")]).unwrap();
    copy.blocking().restore(checkpoint).unwrap();
    copy.blocking().put(vec![message("later", "what is said after the restore")]).unwrap();
    copy.blocking().settle().unwrap();
    memory(engine, &space, "cleared").blocking().put(vec![message("c1", "a"), message("c2", "b")]).unwrap();
    memory(engine, &space, "cleared").blocking().clear().unwrap();
    // A session without messages, in a namespace that never had any.
    let blank = memory(engine, &namespace("blank"), "s");
    blank.blocking().change_block("own", |_| Ok(json!(7))).unwrap();
    blank.blocking().checkpoint("of nothing").unwrap();
    blocking.set_language(&namespace("acme/priya"), mnemon::Language::German).unwrap();
    documents::fill(engine);
}

#[test]
fn an_export_is_imported_back_to_the_same_bytes() {
    let (from, to) = (Db::new(), Db::new());
    let engine = from.open();
    fill(&engine);
    let text = export(&engine);
    let kind = |kind: &str| text.lines().filter(|line| line.starts_with(&format!("{{\"kind\":\"{kind}\""))).count();
    for (name, least) in [("header", 1), ("namespace", 3), ("shared_block", 2), ("session", 20), ("batch", 5)] {
        assert!(kind(name) >= least, "{name}: {}", kind(name));
    }
    for (name, least) in [("block", 5), ("checkpoint", 5), ("message", 462), ("document", 8), ("end", 1)] {
        assert!(kind(name) >= least, "{name}: {}", kind(name));
    }
    for part in
        ["\"buffered\":true", "\"window\":", "\"idle_at\":", "\"restores\":1", "\"language\":\"german\"", "\"expiry\":"]
    {
        assert!(text.contains(part), "{part}");
    }
    assert!(text.lines().any(|line| line.contains("\"message\",\"seq\"") && line.contains("\"checkpoint\":")));
    assert!(text.lines().any(|line| line.contains("\"kind\":\"block\"") && line.contains("\"checkpoint\":")));

    let other = to.open();
    let report = import(&other, &text).unwrap();
    assert_eq!((report.namespaces, report.sessions as usize), (5, kind("session")));
    assert_eq!(report.documents as usize, kind("document"));
    assert_eq!(export(&other), text);
    assert!(other.blocking().pending().unwrap() > 400);
    other.blocking().flush().unwrap();
    assert_eq!(export(&other), text, "vectors are no part of an export");
    drop((engine, other));
    from.assert_sound();
    to.assert_sound();
    assert_eq!(export(&to.open()), text, "after reopening");
}

#[test]
fn prompts_recalls_and_checkpoints_are_the_same_after_an_import() {
    let (from, to) = (Db::new(), Db::new());
    let (engine, other) = (from.open(), to.open());
    fill(&engine);
    import(&other, &export(&engine)).unwrap();
    engine.blocking().flush().unwrap();
    other.blocking().flush().unwrap();
    let space = namespace("friends/ines-tom");
    for text in ["the narrowboat", "Ines plays the cello", "what broke in February?"] {
        let hits = |engine: &Engine| {
            let hits = engine.blocking().recall(&space, Query::new(text).k(20)).unwrap();
            hits.iter().map(|hit| (hit.message.clone(), hit.score)).collect::<Vec<_>>()
        };
        let (one, two) = (hits(&engine), hits(&other));
        assert_eq!(one.len(), 20);
        for (one, two) in one.iter().zip(&two) {
            assert_eq!(one.0, two.0, "{text}");
            // Sums of floats depend on the order of rows, which is that of embedding.
            assert!((one.1 - two.1).abs() < 1e-4, "{text}: {} and {}", one.1, two.1);
        }
    }
    for session in ["s1", "copy", "cleared", "s2"] {
        let [one, two] = [&engine, &other].map(|engine| memory(engine, &space, session));
        let prompt = |memory: &Memory| memory.blocking().get(Some(Message::user("the boat"))).unwrap().messages;
        // Each database seals its frames with a key of its own.
        let unsealed = |message: &Message| {
            let text = message.text();
            let Some((before, after)) = text.split_once("checksum='") else { return text };
            format!("{before}{}", after.split_once('\'').unwrap().1)
        };
        let texts = |memory: &Memory| prompt(memory).iter().map(unsealed).collect::<Vec<_>>();
        assert_eq!(texts(&two), texts(&one), "{session}");
        assert_eq!(two.blocking().checkpoints().unwrap(), one.blocking().checkpoints().unwrap());
        for checkpoint in one.blocking().checkpoints().unwrap().iter().rev() {
            for memory in [&one, &two] {
                memory.blocking().restore(checkpoint.number).unwrap();
                // A block that was behind takes its batches again, in the background.
                memory.blocking().settle().unwrap();
            }
            assert_eq!(two.blocking().history().unwrap(), one.blocking().history().unwrap(), "{session}");
            assert_eq!(two.blocking().block_state("own").unwrap(), one.blocking().block_state("own").unwrap());
        }
        // Both go on alike.
        for memory in [&one, &two] {
            let said = (0..9).map(|i| message(&format!("{session}{i}"), "one two three four five six seven eight"));
            memory.blocking().put(said.collect()).unwrap();
            memory.blocking().settle().unwrap();
        }
        assert_eq!(two.blocking().block_state("own").unwrap(), one.blocking().block_state("own").unwrap());
        assert_eq!(texts(&two), texts(&one), "{session}");
    }
    drop((engine, other));
    to.assert_sound();
}

#[test]
fn an_export_of_a_namespace_contains_nothing_of_another() {
    let db = Db::new();
    let engine = db.open();
    for space in ["acme", "acme/user-4", "acme/user-42"] {
        let canary = format!("canary of {}", space.replace('/', " "));
        let space = namespace(space);
        let memory = memory(&engine, &space, "s");
        let canaries: Vec<Message> = (0..20).map(|i| Message::user(format!("{canary} {i}"))).collect();
        memory.blocking().put(canaries).unwrap();
        memory.blocking().checkpoint(&canary).unwrap();
        memory.blocking().settle().unwrap();
        memory.blocking().change_block("own", |_| Ok(json!(canary))).unwrap();
        memory.blocking().change_block("all", |_| Ok(json!(canary))).unwrap();
    }
    let mut bytes = Vec::new();
    let report = engine.blocking().export(&namespace("acme/user-4"), &mut bytes).unwrap();
    assert_eq!((report.namespaces, report.sessions, report.messages), (1, 1, 20));
    let text = String::from_utf8(bytes).unwrap();
    assert_eq!(text.matches("canary of acme user-4").count(), text.matches("canary").count());
    assert!(text.matches("canary").count() >= 23 && !text.contains("user-42"), "{text}");
    let mut bytes = Vec::new();
    let nothing = engine.blocking().export(&namespace("acme/user-5"), &mut bytes).unwrap();
    assert_eq!((nothing, bytes.iter().filter(|byte| **byte == b'\n').count()), (TransferReport::default(), 2));
}

#[test]
fn an_import_needs_an_empty_namespace_and_another_name_is_one() {
    let db = Db::new();
    let engine = db.open();
    let blocking = engine.blocking();
    let (space, copy) = (namespace("a"), namespace("b"));
    let memory = memory(&engine, &space, "s");
    for i in 0..20 {
        memory.blocking().put(vec![message(&i.to_string(), &format!("the number {i} is said"))]).unwrap();
    }
    memory.blocking().checkpoint("x").unwrap();
    memory.blocking().put(vec![message("more", "and one more")]).unwrap();
    memory.blocking().settle().unwrap();
    let text = export(&engine);
    let refused = import(&engine, &text).unwrap_err();
    assert!(matches!(refused, Error::NamespaceNotEmpty { .. }));
    for part in ["\"a\"", "import into another namespace", "delete this one"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
    assert_eq!(export(&engine), text);
    blocking.import_as(&copy, text.as_bytes()).unwrap();
    let both = export(&engine);
    assert_eq!(blocking.history(&copy, "s").unwrap(), blocking.history(&space, "s").unwrap());
    let refused = blocking.import_as(&namespace("c"), both.as_bytes()).unwrap_err();
    assert!(refused.to_string().contains("second namespace"), "{refused}");

    // A namespace that was emptied: its numbers are not used again.
    drop(memory);
    blocking.flush().unwrap();
    blocking.delete_namespace(&space).unwrap();
    import(&engine, &text).unwrap();
    assert_ne!(export(&engine), both);
    blocking.flush().unwrap();
    assert_eq!(blocking.history(&copy, "s").unwrap(), blocking.history(&space, "s").unwrap());
    let [one, two] = [&space, &copy].map(|space| self::memory(&engine, space, "s"));
    for memory in [&one, &two] {
        memory
            .blocking()
            .put(vec![message("last", "and the last one, which is long enough to flush another")])
            .unwrap();
        memory.blocking().settle().unwrap();
        memory.blocking().restore(0).unwrap();
        memory.blocking().settle().unwrap();
    }
    assert_eq!(one.blocking().history().unwrap(), two.blocking().history().unwrap());
    assert_eq!(one.blocking().block_state("own").unwrap(), two.blocking().block_state("own").unwrap());
    drop((one, two, engine));
    db.assert_sound();
}

#[tokio::test]
async fn exports_and_imports_are_async_too() {
    let (from, to) = (Db::new(), Db::new());
    let (engine, other) = (from.open(), to.open());
    engine.put(&namespace("a"), vec![message("1", "hello")]).await.unwrap();
    let (bytes, report) = engine.export(&namespace("a"), Vec::new()).await.unwrap();
    assert_eq!(report.messages, 1);
    assert_eq!(engine.export_all(Vec::new()).await.unwrap(), (bytes.clone(), report));
    let file = std::io::Cursor::new(bytes.clone());
    assert_eq!(other.import(file.clone()).await.unwrap(), report);
    other.import_as(&namespace("b"), file).await.unwrap();
    assert_eq!(other.export(&namespace("a"), Vec::new()).await.unwrap().0, bytes);
}

/// Puts that are made during an import wait, and are not undone with it.
#[test]
fn an_import_that_fails_undoes_no_put_that_waited_for_it() {
    let db = Db::new();
    let engine = Arc::new(db.open());
    engine.blocking().put(&namespace("a"), vec![message("1", "one"), message("2", "two")]).unwrap();
    let mut text = export(&engine).replace("\"namespace\":\"a\"", "\"namespace\":\"b\"");
    text.truncate(text.find("{\"kind\":\"end\"").unwrap());
    let (reader, mut writer) = std::io::pipe().unwrap();
    let importing = {
        let engine = Arc::clone(&engine);
        std::thread::spawn(move || engine.blocking().import(BufReader::new(reader)))
    };
    std::io::Write::write_all(&mut writer, text.as_bytes()).unwrap();
    let puts: Vec<_> = (0..4)
        .map(|i| {
            let engine = Arc::clone(&engine);
            std::thread::spawn(move || engine.blocking().put(&namespace("c"), vec![message(&i.to_string(), "x")]))
        })
        .collect();
    drop(writer);
    let error = importing.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("cut off"), "{error}");
    for put in puts {
        assert_eq!(put.join().unwrap().unwrap().new, 1);
    }
    assert_eq!(engine.blocking().history(&namespace("b"), "default").unwrap(), []);
    assert_eq!(engine.blocking().history(&namespace("c"), "default").unwrap().len(), 4);
}

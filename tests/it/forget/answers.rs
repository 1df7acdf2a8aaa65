//! Every method that reads: it shows a word before it is forgotten, and never after, also after reopening.

use mnemon::{
    ContentPart, DocumentOptions, DocumentSearch, Engine, Forget, HistoryStore, Memory, Message, MetadataFilter, Query,
    Scope, VectorBlock,
};
use serde_json::json;

use super::*;
use crate::{
    memory::{Recorder, limits},
    support::{Db, message, words},
};

const WORD: &str = "quokka";

fn memory(engine: &Engine) -> Memory {
    let memory = engine.memory(&space(), "chat").limits(limits(8, 1.0, 1)).message_counter(words());
    memory.block(Recorder::new("recorder")).block(VectorBlock::new("recalled")).open().unwrap()
}

/// Stores the word in a namespace that also has other messages.
fn fill(engine: &Engine) {
    let blocking = engine.blocking();
    let mut noted = message(&format!("noted {WORD}"), &format!("the red bicycle of {WORD}"));
    noted.metadata.insert("owner".into(), json!(WORD));
    let calls = vec![ContentPart::ToolResult { id: WORD.into(), content: format!("{WORD} was found") }];
    let called = Message { content: calls, metadata: noted.metadata.clone(), ..message(&format!("tool {WORD}"), "") };
    blocking.put(&space(), vec![noted.clone(), called, message("other", "the red bicycle of nobody")]).unwrap();
    let memory = memory(engine);
    for at in 0..6 {
        let text = if at % 2 == 0 { format!("{WORD} rides the bicycle") } else { "a red bicycle".to_owned() };
        let mut message = Message::user(text).with_id(format!("{at} {}", if at % 2 == 0 { WORD } else { "other" }));
        if at % 2 == 0 {
            message.metadata = noted.metadata.clone();
        }
        memory.blocking().put(vec![message]).unwrap();
    }
    memory.blocking().settle().unwrap();
    memory.blocking().checkpoint("before").unwrap();
    let edited = Message { metadata: noted.metadata, ..Message::user("no longer").with_id(format!("0 {WORD}")) };
    memory.blocking().update(vec![mnemon::MessageUpdate::Put(edited)]).unwrap();
    let value = json!({"text": format!("the red bicycle of {WORD}"), "owner": WORD});
    let documents = engine.documents(&space());
    documents.blocking().put(format!("key {WORD}"), value, DocumentOptions::default()).unwrap();
    documents.blocking().put("other", json!({"text": "a bicycle"}), DocumentOptions::default()).unwrap();
    blocking.flush().unwrap();
}

/// Returns what each surface shows, as text.
fn surfaces(engine: &Engine) -> Vec<(&'static str, String)> {
    let blocking = engine.blocking();
    let query = || Query::new(format!("bicycle {WORD}")).k(100).keep_duplicates();
    let memory = memory(engine);
    let documents = engine.documents(&space());
    let search = || DocumentSearch::default().limit(100);
    let mut export = Vec::new();
    blocking.export(&space(), &mut export).unwrap();
    let mut all = Vec::new();
    blocking.export_all(&mut all).unwrap();
    let at_checkpoints: Vec<_> = memory
        .blocking()
        .checkpoints()
        .unwrap_or_default()
        .iter()
        .map(|checkpoint| memory.blocking().messages_at(checkpoint.number).unwrap())
        .collect();
    let history = engine.history_store(&space());
    vec![
        ("get", format!("{:?}", blocking.get(&space(), &format!("noted {WORD}")).unwrap())),
        ("recall", format!("{:?}", blocking.recall(&space(), query()).unwrap().to_vec())),
        (
            "recall_in",
            format!("{:?}", blocking.recall_in(&Scope::new().under(&namespace("acme")), query()).unwrap().to_vec()),
        ),
        ("history", format!("{:?}", blocking.history(&space(), "chat").unwrap())),
        ("history store", format!("{:?}", history.messages("chat").unwrap())),
        ("document", format!("{:?}", documents.blocking().get(&format!("key {WORD}")).unwrap())),
        ("documents", format!("{:?}", documents.blocking().search(search()).unwrap())),
        ("documents found", format!("{:?}", documents.blocking().search(search().query(WORD)).unwrap())),
        ("export", String::from_utf8(export).unwrap()),
        ("export_all", String::from_utf8(all).unwrap()),
        ("messages", format!("{:?}", memory.blocking().messages().unwrap())),
        ("memory history", format!("{:?}", memory.blocking().history().unwrap())),
        ("memory search", format!("{:?}", memory.blocking().search(query()).unwrap().to_vec())),
        ("messages_at", format!("{at_checkpoints:?}")),
        ("block_state", memory.blocking().block_state("recorder").unwrap().to_string()),
        ("prompt", format!("{:?}", memory.blocking().get(Some(Message::user("bicycle"))).unwrap())),
    ]
}

fn all_show(engine: &Engine) {
    for (surface, text) in surfaces(engine) {
        assert!(text.contains(WORD), "{surface}: {text}");
    }
}

fn none_shows(engine: &Engine) {
    for (surface, text) in surfaces(engine) {
        // The export has the marker of the query in no field.
        assert!(!text.contains(WORD), "{surface}: {text}");
    }
}

fn check(what: impl Fn(&Engine) -> Vec<Forget>, others: bool) {
    let db = Db::new();
    let engine = db.open();
    fill(&engine);
    all_show(&engine);
    for what in what(&engine) {
        forget(&engine, what);
    }
    none_shows(&engine);
    assert_eq!(engine.blocking().get(&space(), "other").unwrap().is_some(), others);
    assert_eq!(engine.documents(&space()).blocking().get("other").unwrap().is_some(), others);
    drop(engine);
    db.assert_sound();
    none_shows(&db.open());
    db.assert_sound();
}

/// The documents with the word, which only a forgotten key or namespace removes.
fn documents() -> Forget {
    Forget::documents(&space(), [format!("key {WORD}")])
}

#[test]
fn messages_by_their_ids() {
    let ids = |_: &Engine| {
        let ids = ["noted", "tool", "0", "2", "4"].map(|id| format!("{id} {WORD}"));
        vec![Forget::messages(&space(), ids), documents()]
    };
    check(ids, true);
}

#[test]
fn messages_by_a_search_confirmed_by_their_ids() {
    let found = |engine: &Engine| {
        let hits = engine.blocking().recall(&space(), Query::new(WORD).k(100).keep_duplicates()).unwrap();
        let ids = hits.iter().filter(|hit| hit.message.id.contains(WORD)).map(|hit| hit.message.id.clone());
        vec![Forget::messages(&space(), ids.chain([format!("0 {WORD}")])), documents()]
    };
    check(found, true);
}

#[test]
fn messages_by_a_filter() {
    let filter = MetadataFilter::eq("owner", WORD).unwrap();
    check(move |_| vec![Forget::matching(&space(), filter.clone()), documents()], true);
}

#[test]
fn messages_by_their_time() {
    // Messages without a time do not match: those are forgotten by a filter on their ids.
    let filter = MetadataFilter::lt("$created_at", "2100-01-01T00:00:00Z").unwrap();
    let filter = filter.or(MetadataFilter::contains("$id", WORD).unwrap());
    let db = Db::new();
    let engine = db.open();
    fill(&engine);
    forget(&engine, Forget::matching(&space(), filter));
    forget(&engine, documents());
    none_shows(&engine);
}

#[test]
fn sessions() {
    check(
        |_| {
            vec![
                Forget::session(&space(), "chat"),
                Forget::messages(&space(), ["noted", "tool"].map(|id| format!("{id} {WORD}"))),
                documents(),
            ]
        },
        true,
    );
}

#[test]
fn namespaces() {
    check(|_| vec![Forget::from(&space())], false);
    check(|_| vec![Forget::prefix(&namespace("acme"))], false);
}

#[test]
fn nothing_to_forget_is_no_error() {
    let db = Db::new();
    let engine = db.open();
    for what in [
        Forget::messages(&space(), ["none"]),
        Forget::messages(&space(), [""; 0]),
        Forget::documents(&space(), ["none"]),
        Forget::session(&space(), "none"),
        Forget::matching(&space(), MetadataFilter::exists("x").unwrap()),
        Forget::namespace(&space()),
        Forget::prefix(&space()),
    ] {
        assert_eq!(forget(&engine, what), Forgotten::default());
    }
    assert_eq!(engine.blocking().audit().unwrap().entries.len(), 7, "each has a receipt nevertheless");
    assert!(mnemon::stats(&db.path).unwrap().namespaces.is_empty(), "and makes no namespace");
}

#[test]
fn names_are_gone_from_every_list() {
    let db = Db::new();
    let engine = db.open();
    fill(&engine);
    assert_eq!(mnemon::stats(&db.path).unwrap().namespaces.len(), 1);
    forget(&engine, Forget::namespace(&space()));
    assert!(mnemon::stats(&db.path).unwrap().namespaces.is_empty());
    assert!(engine.blocking().sessions(&space()).unwrap().is_empty());
    assert!(engine.blocking().namespaces(None, None, 10).unwrap().namespaces.is_empty());
    // A new namespace of that name gets none of the old numbers, and nothing old is found in it.
    engine.blocking().put(&space(), vec![message("new", "a boat")]).unwrap();
    none_shows(&engine);
    engine.blocking().flush().unwrap();
    none_shows(&engine);
    drop(engine);
    db.assert_sound();
}

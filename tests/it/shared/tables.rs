//! What a person sees in Postgres.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use mnemon::{DocumentOptions, Embedder, Engine, Error, Freshness, Message, ModelIdentity, Query, Result};
use serde_json::json;

use super::{open, try_open};
use crate::support::{
    Db, Hashing, namespace,
    postgres::{query, server},
};

#[test]
fn the_tables_answer_questions_that_a_person_has() {
    let Some(server) = server() else { return };
    let address = server.database();
    let db = Db::new();
    let engine = open(&db, &address);
    let space = namespace("acme/ada");
    let mut question = Message::user("when is my rowing lesson?").with_id("m1").in_session("monday").by("Ada");
    question.metadata.insert("channel".into(), "mail".into());
    let answer = Message::assistant("on Thursday").with_id("m2").in_session("monday");
    let odd = Message::user("a\u{0}b\u{1}c \u{1f6a3}").with_id("m3").in_session("tuesday");
    engine.blocking().put(&space, vec![question, answer, odd]).unwrap();
    let documents = engine.documents(&space);
    documents.blocking().put("likes", json!({"drink": "tea", "since": 2019}), DocumentOptions::default()).unwrap();
    engine.blocking().flush().unwrap();
    engine.blocking().delete(&space, vec!["m2".into()]).unwrap();
    let text = |sql: &str| -> Vec<String> { query(&address, sql, &[]).iter().map(|row| row.get(0)).collect() };
    // As docs/several-machines.md has them.
    assert_eq!(
        text(
            "SELECT session || ' ' || role || ' ' || coalesce(name, '') || ': ' || content FROM mnemon.messages \
              WHERE namespace = 'acme/ada' AND NOT deleted AND metadata->>'channel' = 'mail' ORDER BY seq"
        ),
        ["monday user Ada: when is my rowing lesson?"]
    );
    assert_eq!(
        text("SELECT value->>'drink' FROM mnemon.documents WHERE namespace = 'acme/ada' AND key = 'likes'"),
        ["tea"]
    );
    assert_eq!(
        text("SELECT name || ' ' || messages || ' ' || documents FROM mnemon.namespaces WHERE present AND name <> ''"),
        ["acme/ada 2 1"]
    );
    let deleted = "SELECT seq::text || coalesce(content, ' nothing') FROM mnemon.messages WHERE deleted";
    assert_eq!(text(deleted), ["1 nothing"]);
    let vectors = "SELECT count(*)::text FROM mnemon.vectors AS v JOIN mnemon.messages AS m USING (namespace, seq) \
                   WHERE NOT is_text AND m.revision = v.revision";
    assert_eq!(text(vectors), ["2"]);
    let nearest = "SELECT m.id FROM mnemon.vectors AS v JOIN mnemon.messages AS m USING (namespace, seq) WHERE NOT v.is_text \
                   ORDER BY v.vector <=> (SELECT vector FROM mnemon.vectors WHERE NOT is_text ORDER BY seq LIMIT 1) LIMIT 1";
    assert_eq!(text(nearest), ["m1"], "pgvector");
    // Every character comes back.
    let other = Db::new();
    let found = open(&other, &address).blocking().get(&space, "m3").unwrap().unwrap();
    assert_eq!(found.text(), "a\u{0}b\u{1}c \u{1f6a3}");
}

/// Counts the texts that are embedded.
struct Counting(Hashing, AtomicUsize);

impl Embedder for Counting {
    fn identity(&self) -> &ModelIdentity {
        self.0.identity()
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.1.fetch_add(texts.len(), Ordering::SeqCst);
        self.0.embed_documents(texts)
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        self.0.embed_query(text)
    }
}

#[test]
fn a_text_is_embedded_by_one_machine() {
    let Some(server) = server() else { return };
    let address = server.database();
    let (a, b) = (Db::new(), Db::new());
    let first = open(&a, &address);
    let space = namespace("acme/ada");
    let messages = (0..50).map(|number| Message::user(format!("text number {number}"))).collect();
    first.blocking().put(&space, messages).unwrap();
    first.documents(&space).blocking().put("k", json!({"a": "some text"}), DocumentOptions::default()).unwrap();
    first.blocking().flush().unwrap();
    let counting = Arc::new(Counting(Hashing::new(32), AtomicUsize::new(0)));
    let second = Engine::builder(&b.path).embedder(counting.clone());
    let second = second.shared(&address).freshness(Freshness::Latest).open().unwrap();
    let query = || Query::new("text number 7").k(5);
    let hits = second.blocking().recall(&space, query()).unwrap();
    assert_eq!(hits.pending(), 0, "the vectors came with the messages");
    assert_eq!(*hits, *first.blocking().recall(&space, query()).unwrap());
    assert_eq!(counting.1.load(Ordering::SeqCst), 0);
}

#[test]
fn a_schema_that_is_too_new_and_a_foreign_file_are_refused() {
    let Some(server) = server() else { return };
    let (address, other) = (server.database(), server.database());
    let (a, b) = (Db::new(), Db::new());
    drop(open(&a, &address));
    let error = try_open(&a, &other, Freshness::Latest).unwrap_err();
    assert!(matches!(error, Error::InvalidConfig { .. }) && error.to_string().contains("another shared"), "{error}");
    let error = b.open_own_of(&a);
    assert!(error.to_string().contains("copy of a shared database"), "{error}");
    // A newer release added what does not concern this one.
    query(&address, "UPDATE mnemon.settings SET value = '2' WHERE name = 'schema'", &[]);
    query(&address, "ALTER TABLE mnemon.messages ADD COLUMN mood text", &[]);
    let engine = open(&a, &address);
    engine.blocking().put(&namespace("acme"), vec![Message::user("an older program goes on")]).unwrap();
    drop(engine);
    query(&address, "UPDATE mnemon.settings SET value = '2' WHERE name = 'oldest'", &[]);
    let error = try_open(&b, &address, Freshness::Latest).unwrap_err();
    assert!(matches!(error, Error::SharedDatabase { transient: false, .. }), "{error}");
    assert!(error.to_string().contains("version 2"), "{error}");
}

impl Db {
    /// Opens the file of another one without its shared database. Returns the error.
    fn open_own_of(&self, copy: &Db) -> Error {
        std::fs::copy(&copy.path, &self.path).unwrap();
        let error = self.try_open_with(Arc::new(Hashing::new(32))).unwrap_err();
        std::fs::remove_file(&self.path).unwrap();
        error
    }
}

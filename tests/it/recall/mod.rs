//! Hybrid recall on a real engine and a real file: what is found, in which order, and why.

mod as_of;
mod bad_input;
mod beside;
mod choose;
mod damage;
mod facts;
mod filters;
mod hybrid;
mod journal;
mod language;
mod lexical;
mod long_queries;
mod min_score;
mod names;
mod options;
mod several;
mod supersedes;
mod time;
mod unindexed;
mod unit;
mod upgrade;
mod without_embedder;

use std::sync::Arc;

use mnemon::{Engine, Hits, Message, Query, Reranker, Result};

use crate::support::{Db, Hashing, namespace, recall::lexical};

const SPACE: &str = "a";

/// Texts of more bytes are in several windows.
fn hashing(dimension: usize, window_bytes: usize) -> Hashing {
    let mut embedder = Hashing::new(dimension);
    embedder.window_bytes = window_bytes;
    embedder
}

fn open(db: &Db, window_bytes: usize) -> Engine {
    db.open_with(Arc::new(hashing(32, window_bytes)))
}

/// A database of these messages.
fn filled(messages: Vec<Message>) -> (Db, Engine) {
    let db = Db::new();
    let engine = db.open();
    put(&engine, messages);
    (db, engine)
}

fn put(engine: &Engine, messages: Vec<Message>) {
    engine.blocking().put(&namespace(SPACE), messages).unwrap();
    engine.blocking().flush().unwrap();
}

fn delete(engine: &Engine, ids: &[&str]) {
    engine.blocking().delete(&namespace(SPACE), ids.iter().map(|&id| id.to_owned()).collect()).unwrap();
}

fn recall(engine: &Engine, query: Query) -> Hits {
    engine.blocking().recall(&namespace(SPACE), query).unwrap()
}

fn ids(hits: &Hits) -> Vec<&str> {
    hits.iter().map(|hit| hit.message.id.as_str()).collect()
}

/// The ids of what shares a term with the question, best first. Tests tell messages apart by words such as "w0rd7", which
/// have too many pieces to be cut into them: "word7" and "word8" have a term in common.
fn said(engine: &Engine, text: &str) -> Vec<String> {
    let hits = recall(engine, lexical(text).k(120));
    hits.iter().filter(|hit| hit.breakdown.bm25 > 0.0).map(|hit| hit.message.id.clone()).collect()
}

/// A reranker that scores short passages higher.
struct Terse;

impl Reranker for Terse {
    fn name(&self) -> &str {
        "terse"
    }

    fn rerank(&self, _: &str, passages: &[&str]) -> Result<Vec<f32>> {
        Ok(passages.iter().map(|passage| -(passage.len() as f32)).collect())
    }
}

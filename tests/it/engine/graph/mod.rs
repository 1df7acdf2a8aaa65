//! The engine with a graph: its answers, also after damage, after kills, and under concurrent changes.

mod answers;
mod damage;
mod kills;
mod link;
mod stress;

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use mnemon::{Config, Embedder, Engine, IndexKind, Message, Role};

use crate::support::{Db, Hashing, message, namespace, recall::dense};

const DIMENSION: usize = 32;
const SPACE: &str = "graph";

/// A configuration with a graph from the first message on; pending messages are embedded only by `flush`.
fn config() -> Config {
    let mut config = Config::default();
    config.index = IndexKind::Hnsw;
    config.flush_size = 100_000;
    config.idle_flush = None;
    config.threads = 2;
    config
}

/// A configuration with many links a row, and with the codes of neighbors: changes of few rows are large, and pages are
/// written often.
fn wide() -> Config {
    let mut config = config();
    (config.m, config.ef_construction, config.neighbor_codes) = (64, 64, true);
    config
}

fn open(path: impl AsRef<Path>, config: Config) -> Engine {
    Engine::builder(path).config(config).embedder(Arc::new(Hashing::new(DIMENSION))).open().unwrap()
}

/// Texts of one topic are near each other; no two are the same.
fn text(i: usize) -> String {
    format!("topic{} word{i}", i % 25)
}

fn put_and_flush(engine: &Engine, messages: Vec<Message>) {
    engine.blocking().put(&namespace(SPACE), messages).unwrap();
    engine.blocking().flush().unwrap();
}

/// Returns true if the nearest message is the one with this text, found by its own vector.
fn is_found(engine: &Engine, id: &str, text: &str) -> bool {
    let hits = engine.blocking().recall(&namespace(SPACE), dense(text).k(1)).unwrap();
    hits.first().is_some_and(|hit| hit.message.id == id && hit.message.text() == text && hit.score > 1.0 - CODING)
}

/// The most that coding vectors of so few dimensions with 8 bits changes a score.
const CODING: f32 = 5e-3;

/// The share of the truly nearest 10 of these texts that are found, or others that are as near within [`CODING`].
fn recall<'a>(engine: &Engine, texts: impl Iterator<Item = &'a str>, queries: &[String]) -> f64 {
    let embedder = Hashing::new(DIMENSION);
    let texts: Vec<&str> = texts.collect();
    let vectors = embedder.embed_documents(&texts).unwrap();
    let (mut found, mut wanted) = (0, 0);
    for query in queries {
        let vector = embedder.embed_query(query).unwrap();
        let score = |other: &Vec<f32>| other.iter().zip(&vector).map(|(a, b)| a * b).sum::<f32>();
        let mut scores: Vec<f32> = vectors.iter().map(score).collect();
        let of_text: HashMap<&str, f32> = texts.iter().copied().zip(scores.iter().copied()).collect();
        scores.sort_by(|a, b| b.total_cmp(a));
        scores.truncate(10);
        let hits = engine.blocking().recall(&namespace(SPACE), dense(query).k(10)).unwrap();
        assert_eq!(hits.len(), scores.len());
        let last = scores.last().copied().unwrap_or(0.0);
        // The hit's own score is that of its code.
        found += hits.iter().filter(|hit| of_text[&*hit.message.text()] > last - CODING).count();
        wanted += scores.len();
    }
    if wanted == 0 { 1.0 } else { found as f64 / wanted as f64 }
}

/// Asserts that `optimize` links all vectors, and that there are this many.
fn assert_settles(engine: &Engine, vectors: usize) {
    engine.blocking().optimize(&namespace(SPACE)).unwrap();
    let stats = engine.blocking().index_stats(&namespace(SPACE)).unwrap();
    assert_eq!((stats.vectors, stats.linked), (vectors, vectors));
}

const LARGE: usize = 2000;

/// Message `i` of the large database. One in 100 is an assistant's; sessions have 20 messages, but for the first, which
/// has half of them.
fn large_message(i: usize) -> Message {
    let session = if i.is_multiple_of(2) { "s0".to_owned() } else { format!("s{}", i / 40 + 1) };
    let role = if i % 100 == 7 { Role::Assistant } else { Role::User };
    let mut message = message(&format!("m{i}"), &text(i)).in_session(session);
    message.role = role;
    message
}

/// A copy of a database with [`LARGE`] messages in a graph, some of it in pages, which is made once.
fn large() -> Db {
    static LARGE_DB: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = LARGE_DB.get_or_init(|| {
        let Db { folder, path, .. } = Db::new();
        let engine = open(&path, config());
        put_and_flush(&engine, (0..LARGE - 30).map(large_message).collect());
        assert_settles(&engine, LARGE - 30);
        (LARGE - 30..LARGE).for_each(|i| put_and_flush(&engine, vec![large_message(i)]));
        assert_settles(&engine, LARGE);
        drop(engine);
        (folder, path)
    });
    let db = Db::new();
    std::fs::copy(path, &db.path).unwrap();
    db
}

//! Reindexing to another model: in a running engine and offline, rollback, kills.

mod back;
mod gate;
mod kills;
mod live;
mod offline;

use std::sync::Arc;

use mnemon::{Config, Engine, Query, ReindexOptions};

use crate::support::{Db, Hashing, message, namespace};

/// Returns a database with this many messages in each of two namespaces.
fn filled(count: usize) -> Db {
    let db = Db::new();
    fill(&db.open(), count);
    db
}

fn fill(engine: &Engine, count: usize) {
    for space in ["a", "b"] {
        let messages = (0..count).map(|i| message(&format!("m{i}"), &format!("word{i} {space}"))).collect();
        engine.blocking().put(&namespace(space), messages).unwrap();
    }
    engine.blocking().flush().unwrap();
}

/// Opens the engine with graphs from 300 vectors on.
fn open(db: &Db, dimension: usize) -> Engine {
    let mut config = Config::default();
    (config.flush_size, config.exact_threshold) = (100_000, 300);
    config.idle_flush = None;
    Engine::builder(&db.path).config(config).embedder(hashing(dimension)).open().unwrap()
}

fn hashing(dimension: usize) -> Arc<Hashing> {
    Arc::new(Hashing::new(dimension))
}

/// Options without the gate.
fn untried() -> ReindexOptions {
    let mut options = ReindexOptions::default();
    options.samples = 0;
    options
}

/// Returns the id of the nearest message if it has exactly this text.
fn found(engine: &Engine, space: &str, text: &str) -> Option<String> {
    let hits = engine.blocking().recall(&namespace(space), Query::new(text).k(3)).unwrap();
    hits.iter().find(|hit| hit.message.text() == text && hit.similarity > 0.99).map(|hit| hit.message.id.clone())
}

fn generations(db: &Db) -> Vec<(usize, mnemon::GenerationState)> {
    let generations = mnemon::stats(&db.path).unwrap().generations;
    generations.iter().map(|generation| (generation.model.dimension, generation.state)).collect()
}

//! Moving to another model: in a running engine, and without one; back again; killed on the way.

mod back;
mod crash;
mod gate;
mod live;
mod offline;

use std::sync::Arc;

use mnemon::{Config, Engine, Query, ReindexOptions};

use crate::support::{Db, Hashing, message, namespace};

/// So many messages in each of two namespaces.
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

/// With graphs from 300 vectors on.
fn open(db: &Db, dimension: usize) -> Engine {
    let mut config = Config::default();
    (config.flush_size, config.exact_threshold) = (100_000, 300);
    Engine::builder(&db.path).config(config).embedder(hashing(dimension)).open().unwrap()
}

fn hashing(dimension: usize) -> Arc<Hashing> {
    Arc::new(Hashing::new(dimension))
}

/// Nothing is tried.
fn untried() -> ReindexOptions {
    let mut options = ReindexOptions::default();
    options.samples = 0;
    options
}

/// The id of the nearest message, if it says exactly this.
fn found(engine: &Engine, space: &str, text: &str) -> Option<String> {
    let hits = engine.blocking().recall(&namespace(space), Query::new(text).k(3)).unwrap();
    hits.iter().find(|hit| hit.message.text() == text && hit.similarity > 0.99).map(|hit| hit.message.id.clone())
}

fn generations(db: &Db) -> Vec<(usize, mnemon::GenerationState)> {
    let generations = mnemon::stats(&db.path).unwrap().generations;
    generations.iter().map(|generation| (generation.model.dimension, generation.state)).collect()
}

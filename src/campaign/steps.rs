//! The steps of a scenario.

use std::{path::Path, sync::Arc};

use super::support::Hashing;
use crate::{Config, Engine, Message, Namespace, Precision, Result};

/// Gets the folder of the database, too.
type Run = dyn Fn(&Engine, &Path) -> Result<()> + Send + Sync;
type There = dyn Fn(&Engine) -> Result<bool> + Send + Sync;

/// A change, and the question whether the database has it.
pub(super) struct Step {
    pub(super) what: &'static str,
    pub(super) run: Box<Run>,
    /// Returns true if the change is there. `None` for a step of several commits, or one that changes no answer.
    pub(super) there: Option<Box<There>>,
    /// True if the change is there although a second commit of the step fails, as the method's documentation says.
    pub(super) may_be_half: bool,
}

/// A step that is one commit.
pub(super) fn commit(
    what: &'static str,
    run: impl Fn(&Engine) -> Result<()> + Send + Sync + 'static,
    there: impl Fn(&Engine) -> Result<bool> + Send + Sync + 'static,
) -> Step {
    Step { what, run: Box::new(move |engine, _| run(engine)), there: Some(Box::new(there)), may_be_half: false }
}

/// A step that is no commit, or several.
pub(super) fn work(what: &'static str, run: impl Fn(&Engine) -> Result<()> + Send + Sync + 'static) -> Step {
    Step { what, run: Box::new(move |engine, _| run(engine)), there: None, may_be_half: false }
}

/// A step that puts messages in one call.
pub(super) fn put(what: &'static str, name: &'static str, messages: Vec<Message>) -> Step {
    let first = messages[0].clone();
    commit(
        what,
        move |engine| engine.blocking().put(&space(name), messages.clone()).map(drop),
        move |engine| {
            Ok(engine.blocking().get(&space(name), &first.id)?.is_some_and(|found| found.text() == first.text()))
        },
    )
}

pub(super) fn space(name: &str) -> Namespace {
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

/// Opens an engine that links from 40 vectors on, and is flushed when a step flushes.
pub(super) fn engine(path: &Path) -> Result<Engine> {
    engine_with(path, Precision::default())
}

/// Same as [`engine`]; a new database has vectors of this precision.
pub(super) fn engine_with(path: &Path, precision: Precision) -> Result<Engine> {
    let mut config = Config::default();
    (config.flush_size, config.idle_flush, config.exact_threshold) = (100_000, None, 40);
    config.precision = precision;
    // Small, so that reads reach the storage.
    config.cache_bytes = 64 * 1024;
    Engine::builder(path).config(config).embedder(Arc::new(Hashing::new(32))).open()
}

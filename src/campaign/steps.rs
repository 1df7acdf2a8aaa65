//! The steps of a scenario.

use std::{path::Path, sync::Arc};

use super::support::Hashing;
use crate::{Config, Engine, Message, Namespace, Result};

/// A change, and the question whether the database has it.
pub(super) struct Step {
    pub(super) what: &'static str,
    pub(super) run: Box<dyn Fn(&Engine) -> Result<()> + Send + Sync>,
    /// Returns true if the change is there. `None` for a step of several commits, or one that changes no answer.
    pub(super) there: Option<Box<dyn Fn(&Engine) -> Result<bool> + Send + Sync>>,
}

/// A step that is one commit.
pub(super) fn commit(
    what: &'static str,
    run: impl Fn(&Engine) -> Result<()> + Send + Sync + 'static,
    there: impl Fn(&Engine) -> Result<bool> + Send + Sync + 'static,
) -> Step {
    Step { what, run: Box::new(run), there: Some(Box::new(there)) }
}

/// A step that is no commit, or several.
pub(super) fn work(what: &'static str, run: impl Fn(&Engine) -> Result<()> + Send + Sync + 'static) -> Step {
    Step { what, run: Box::new(run), there: None }
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
    let mut config = Config::default();
    (config.flush_size, config.idle_flush, config.exact_threshold) = (100_000, None, 40);
    // Small, so that reads reach the storage.
    config.cache_bytes = 64 * 1024;
    Engine::builder(path).config(config).embedder(Arc::new(Hashing::new(32))).open()
}

//! An evaluation set in a temporary database.

use std::time::Instant;

use mnemon::{Engine, Hits, IndexKind, Namespace, Precision, Query};
use tempfile::TempDir;

use super::set::Set;
use crate::{input, phases, progress::Progress};

/// Messages per commit.
const BATCH: usize = 512;

/// An evaluation set, embedded and indexed.
pub(super) struct IngestedSet<'a> {
    pub(super) set: &'a Set,
    pub(super) engine: Engine,
    pub(super) messages_per_second: f64,
    _folder: TempDir,
}

impl<'a> IngestedSet<'a> {
    /// Ingests a set into a temporary database and finishes the background work of its indexes.
    pub(super) fn new(
        set: &'a Set,
        model: Option<&str>,
        index: IndexKind,
        precision: Precision,
    ) -> anyhow::Result<Self> {
        let (engine, _, folder) = input::temporary(model, index, precision)?;
        let count = set.messages.len();
        let started = Instant::now();
        let progress = Progress::new();
        progress.begin("storing", "messages", count as u64);
        for batch in set.messages.chunks(BATCH) {
            engine.blocking().put_all(batch.to_vec())?;
            progress.inc(batch.len() as u64);
        }
        phases::embed(&engine, &progress)?;
        let messages_per_second = count as f64 / started.elapsed().as_secs_f64();
        set.namespaces().try_for_each(|namespace| phases::link(&engine, namespace, &progress))?;
        Ok(IngestedSet { set, engine, messages_per_second, _folder: folder })
    }

    pub(super) fn recall(&self, namespace: &Namespace, query: Query) -> anyhow::Result<Hits> {
        Ok(self.engine.blocking().recall(namespace, query)?)
    }
}

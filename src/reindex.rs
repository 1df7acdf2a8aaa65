//! Moving a database to another model, or its vectors to another precision.
//!
//! A generation is made beside the serving one, with every message pending in it; embedding them is the same drain as a
//! flush's. So a reindex that was stopped, or killed, goes on where it was: what has vectors is not pending. When
//! nothing is, one commit switches. Until then the old generation serves, and both take writes.

use std::{ops::ControlFlow, path::Path, time::Instant};

use serde::Serialize;

use crate::{
    config::{Config, Precision},
    embed::{Embedder, check_identity},
    engine::drain::drain,
    error::Result,
    store::{Generation, GenerationState, Options, Store},
};

/// Blocks of old vectors deleted in one commit, after the switch: 64 MiB.
const SWEEP_BLOCKS: usize = 1024;

/// What a [`reindex`] did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReindexReport {
    /// The model that served before.
    pub from: Option<String>,
    /// The model that serves now.
    pub to: String,
    /// How its vectors are stored.
    pub precision: Precision,
    /// Messages embedded by this call.
    pub embedded: u64,
    /// Messages that an earlier call, stopped on the way, had embedded.
    pub resumed: u64,
    /// Whether the new generation serves. False if it was stopped, or served already.
    pub switched: bool,
    /// Seconds it took.
    pub seconds: f64,
}

/// How far a [`reindex`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReindexProgress {
    /// Messages of the new generation that are embedded and committed, earlier calls' too.
    pub done: u64,
    /// Messages in all.
    pub total: u64,
}

/// Embeds every message of the database with `embedder` into a new generation, then makes that the serving one. Its vectors
/// are stored in this precision, `None` for that of the serving ones.
///
/// Needs the file for itself: no engine may have it open. `progress` is called after each commit, a thousand
/// messages at most, and may stop; calling again with the same model and precision goes on. Calling with others drops what
/// was begun. The old generation's vectors are deleted after the switch, and the file made shorter.
///
/// # Errors
/// Those of opening, but for [`Error::ModelMismatch`](crate::Error::ModelMismatch); [`Error::Embedding`](crate::Error)
/// if a message cannot be embedded: the old generation goes on serving.
pub fn reindex(
    path: impl AsRef<Path>,
    embedder: &dyn Embedder,
    precision: Option<Precision>,
    mut progress: impl FnMut(ReindexProgress) -> ControlFlow<()>,
) -> Result<ReindexReport> {
    let started = Instant::now();
    let config = Config::default();
    let options = Options { create: false, cache_bytes: config.cache_bytes, two_phase_commit: config.two_phase_commit };
    let mut store = Store::open(path.as_ref(), options)?;
    let identity = embedder.identity();
    check_identity(identity)?;
    let generations = store.read()?.generations()?;
    let serving = generations.iter().find(|generation| generation.state == GenerationState::Serving);
    let precision = precision.or(serving.map(|generation| generation.precision)).unwrap_or_default();
    let mut report = ReindexReport {
        from: serving.map(|generation| generation.identity.to_string()),
        to: identity.to_string(),
        precision,
        embedded: 0,
        resumed: 0,
        switched: false,
        seconds: 0.0,
    };
    let is_wanted =
        |generation: &Generation| generation.identity.hash == identity.hash && generation.precision == precision;
    let is_serving = serving.is_some_and(is_wanted);
    let mut building = None;
    for generation in generations.iter().filter(|generation| generation.state == GenerationState::Building) {
        if is_wanted(generation) && !is_serving {
            building = Some(generation.id);
        } else {
            store.write(|transaction| transaction.retire(generation.id))?;
        }
    }
    if is_serving {
        sweep(&mut store)?;
        report.seconds = started.elapsed().as_secs_f64();
        return Ok(report);
    }
    let resuming = building.is_some();
    let generation = match building {
        Some(id) => id,
        None => store.write(|transaction| transaction.create_building(identity, precision))?,
    };

    let pending = store.read()?.pending_count(generation)?;
    let total = store.read()?.texts(generation)?;
    report.resumed = if resuming { total - pending } else { 0 };
    let mut done = total - pending;
    let mut stopped = progress(ReindexProgress { done, total }).is_break();
    let stop = std::cell::Cell::new(stopped);
    report.embedded = drain(
        &store,
        generation,
        embedder,
        || stop.get(),
        |batch| {
            store.write(|transaction| batch.store(transaction, generation))?;
            done += batch.embedded.len() as u64;
            stop.set(progress(ReindexProgress { done, total }).is_break());
            Ok(())
        },
    )?;
    stopped |= stop.get();
    if !stopped {
        store.write(|transaction| transaction.switch(generation))?;
        report.switched = true;
        sweep(&mut store)?;
    }
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Deletes retired generations. A kill on the way leaves the rest for the next opening.
fn sweep(store: &mut Store) -> Result<()> {
    let mut swept = false;
    while store.write(|transaction| transaction.sweep(SWEEP_BLOCKS))? {
        swept = true;
    }
    if swept && let Err(error) = store.compact() {
        // The new generation serves; the file is only longer than it need be.
        tracing::warn!(%error, "the file was not made shorter");
    }
    Ok(())
}

//! The options, the progress and the report of a reindex, and the meter that computes the progress.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use serde::Serialize;

use crate::{
    config::{Precision, in_range},
    error::{Error, Result},
    ids::Namespace,
};

/// Options of moving a database to another model or precision. `ReindexOptions::default()` is a good start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReindexOptions {
    /// The precision in which the new vectors are stored. Default: that of the serving generation.
    pub precision: Option<Precision>,
    /// The recall@10 that the new generation must reach to serve, 0 to 1; 0 accepts any. Default: 0.8, which a sound
    /// graph exceeds by far, even where many messages have the same text.
    pub min_recall: f64,
    /// The share of the ten nearest messages that must be the same in both generations, 0 to 1. It measures how far the
    /// models agree, not which is better: another model finds other messages. Default: no requirement.
    pub min_overlap: Option<f64>,
    /// Queries that the generations are compared with, before all others.
    pub queries: Vec<(Namespace, String)>,
    /// Number of queries that the generations are compared with, up to 10,000: first [`queries`](Self::queries), then
    /// the most recent queries of the engine, then texts of messages. Cost of each: two recalls and a scan of its
    /// namespace. With 0 the new generation serves without a comparison. Default: 128.
    pub samples: usize,
    /// Whether the generation that served is kept for a rollback, until the next reindex begins or it is dropped. It
    /// keeps its space in the file, and puts and deletes are written to it too. Default: true.
    pub keep_previous: bool,
    /// The share of time spent embedding, 0.01 to 1. Between batches the reindex pauses, and leaves the machine to
    /// recalls and puts. Default: 1.
    pub duty: f64,
}

impl Default for ReindexOptions {
    fn default() -> Self {
        ReindexOptions {
            precision: None,
            min_recall: 0.8,
            min_overlap: None,
            queries: Vec::new(),
            samples: 128,
            keep_previous: true,
            duty: 1.0,
        }
    }
}

impl ReindexOptions {
    pub(super) fn check(&self) -> Result<()> {
        let share = |name: &str, value: f64, least: f64| match (least..=1.0).contains(&value) {
            true => Ok(()),
            false => Err(Error::InvalidConfig { reason: format!("{name} is {value}, not within {least} to 1") }),
        };
        share("min_recall", self.min_recall, 0.0)?;
        share("min_overlap", self.min_overlap.unwrap_or(0.0), 0.0)?;
        share("duty", self.duty, 0.01)?;
        in_range("samples", self.samples, 0..=10_000)
    }
}

/// A phase of a reindex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReindexPhase {
    /// Messages are embedded into the new generation; again between the other phases and after them, for messages put
    /// meanwhile. Counted in messages.
    Embedding,
    /// The loaded namespaces, and all that are large enough for a graph, are loaded in the new generation, and their
    /// graphs are built. Counted in vectors.
    Loading,
    /// The generations are compared. Counted in queries.
    Trying,
    /// The new generation serves. Counted in messages.
    Switched,
}

/// The progress of a reindex.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReindexProgress {
    /// The current phase; it determines what is counted.
    pub phase: ReindexPhase,
    /// Number done in this phase, including earlier runs.
    pub done: u64,
    /// Number in total. It grows when messages are put meanwhile.
    pub total: u64,
    /// Number done per second in this run.
    pub rate: f64,
    /// The estimated time left in this phase, at that rate.
    pub left: Option<Duration>,
}

/// The result of a reindex or a rollback.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ReindexReport {
    /// The model that served before.
    pub from: Option<String>,
    /// The new model.
    pub to: String,
    /// The precision in which the new vectors are stored.
    pub precision: Precision,
    /// Number of messages embedded by this call.
    pub embedded: u64,
    /// Number of messages whose vectors were copied from the serving generation, because it is of the same model and
    /// has as many bits or more.
    pub copied: u64,
    /// Number of messages that had vectors before this call: from an earlier call that was stopped, or from when the
    /// generation served.
    pub resumed: u64,
    /// Whether the call switched to the new generation. False if it was stopped, failed the comparison, or served
    /// already.
    pub switched: bool,
    /// The comparison with the serving generation; `None` if none was made.
    pub gate: Option<GateReport>,
    /// Duration in seconds.
    pub seconds: f64,
}

/// The comparison of a new generation with the serving one: both are searched by vectors alone for the ten nearest
/// messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct GateReport {
    /// Number of queries, all to namespaces with more than ten vectors: in others every message is found.
    pub sampled: u64,
    /// Number of queries that were given or were recent queries of the engine. The others are texts of messages, which
    /// are not counted as their own hits.
    pub live: u64,
    /// Recall@10 of the new generation: the share of the truly nearest messages, by a scan of every vector, that its
    /// index finds. `None` without queries.
    pub recall: Option<f64>,
    /// Overlap@10: the share of the serving generation's hits that the new one finds too. `None` if the serving model
    /// was not available.
    pub overlap: Option<f64>,
    /// Median time of a recall from the serving generation in microseconds, including the embedding of the query.
    pub serving_p50_us: Option<f64>,
    /// Median time of a recall from the new generation in microseconds.
    pub new_p50_us: Option<f64>,
    /// Median time of a recall from the new generation by a scan of every vector, in microseconds.
    pub exact_p50_us: Option<f64>,
    /// The reason why the new generation does not serve, and the remedy; `None` if it passed.
    pub failed: Option<String>,
}

/// A progress callback; returning `Break` stops the reindex.
pub(in crate::engine) type OnProgress<'a> = &'a mut dyn FnMut(ReindexProgress) -> ControlFlow<()>;

/// Computes the rate and the time left of each phase, and calls the progress callback.
pub(super) struct ProgressMeter<'a> {
    on_progress: OnProgress<'a>,
    phase: Option<ReindexPhase>,
    started: Instant,
    /// The number done when the phase began.
    first: u64,
    is_stopped: bool,
}

impl<'a> ProgressMeter<'a> {
    pub(super) fn new(on_progress: OnProgress<'a>) -> Self {
        ProgressMeter { on_progress, phase: None, started: Instant::now(), first: 0, is_stopped: false }
    }

    /// Reports progress. Returns false if the callback has stopped the reindex, now or before.
    pub(super) fn report(&mut self, phase: ReindexPhase, done: u64, total: u64) -> bool {
        if self.phase != Some(phase) {
            (self.phase, self.started, self.first) = (Some(phase), Instant::now(), done);
        }
        // Messages may have been added since `total` was counted.
        let total = total.max(done);
        let rate = done.saturating_sub(self.first) as f64 / self.started.elapsed().as_secs_f64().max(1e-9);
        let left = Duration::try_from_secs_f64((total - done) as f64 / rate).ok();
        let left = left.filter(|_| rate > 0.0);
        self.is_stopped |= (self.on_progress)(ReindexProgress { phase, done, total, rate, left }).is_break();
        !self.is_stopped
    }
}

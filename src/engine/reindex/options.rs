//! What is asked of a reindex, what it tells on the way, and what it did.

use std::time::Duration;

use serde::Serialize;

use crate::{
    config::{Precision, in_range},
    error::{Error, Result},
    ids::Namespace,
};

/// How to move a database to another model or precision. `ReindexOptions::default()` is a good start.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReindexOptions {
    /// How the new vectors are stored. Default: as the serving ones.
    pub precision: Option<Precision>,
    /// The least share of the truly nearest that the new generation must find for it to serve, 0 to 1; 0 asks for nothing.
    /// Default: 0.8, which a sound graph is well above, also where many messages say the same.
    pub min_recall: f64,
    /// The least share of the ten nearest that must be the same in both generations, 0 to 1. It says how far the models agree, not which
    /// is better: another model finds others. Default: none.
    pub min_overlap: Option<f64>,
    /// Questions to try the generations with, before all others.
    pub queries: Vec<(Namespace, String)>,
    /// Questions that they are tried with, up to 10,000: those given, then the last that were asked of the engine, then texts of messages.
    /// Each costs two recalls and a scan of its namespace. 0: the new generation serves untried. Default: 128.
    pub samples: usize,
    /// Whether the generation that served is kept for a rollback: until the next reindex begins, or it is dropped. It keeps its room in
    /// the file, and puts and deletes are written to it too. Default: true.
    pub keep_previous: bool,
    /// The share of the time that embedding takes, 0.01 to 1: between batches it rests, and leaves the machine to recalls and puts.
    /// Default: 1.
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

/// What a reindex is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReindexPhase {
    /// Messages are embedded into the new generation; between and after the other phases again, what came meanwhile.
    Embedding,
    /// The namespaces that are in memory are loaded in the new generation too, and their graphs built: counted in vectors.
    Loading,
    /// The generations are tried: counted in questions.
    Trying,
    /// The new generation serves: counted in messages.
    Switched,
}

/// How far a reindex is.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReindexProgress {
    /// What it is doing: what is counted differs.
    pub phase: ReindexPhase,
    /// Done of this phase, an earlier run's too.
    pub done: u64,
    /// In all; more when messages are put meanwhile.
    pub total: u64,
    /// How many a second, in this run.
    pub rate: f64,
    /// The time left of this phase, at that rate.
    pub left: Option<Duration>,
}

/// What a reindex or a rollback did.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ReindexReport {
    /// The model that served before.
    pub from: Option<String>,
    /// The model that was moved to.
    pub to: String,
    /// How its vectors are stored.
    pub precision: Precision,
    /// Messages embedded by this call.
    pub embedded: u64,
    /// Messages whose vectors were copied, as the serving generation has those of the same model in 32 bits.
    pub copied: u64,
    /// Messages that had vectors before: of an earlier call that was stopped on the way, or from when the generation served.
    pub resumed: u64,
    /// Whether the generation serves now, and did not before. False if it was stopped, did not pass the gate, or served already.
    pub switched: bool,
    /// How it did beside the serving one; `None` if it was not tried.
    pub gate: Option<GateReport>,
    /// Seconds it took.
    pub seconds: f64,
}

/// How a new generation does beside the serving one, asked by vectors alone for the ten nearest messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GateReport {
    /// Questions asked: of namespaces with more than ten vectors, as others have nothing to choose from.
    pub sampled: u64,
    /// Of them, those that were asked of the engine, or given. The others are texts of messages, which do not find themselves.
    pub live: u64,
    /// Recall@10 of the new generation: the share of what scoring every vector finds that its index finds. `None` if none was sampled.
    pub recall: Option<f64>,
    /// Overlap@10: the share of what the serving generation finds that the new one finds too. `None` if the serving model was not at
    /// hand.
    pub overlap: Option<f64>,
    /// Median of a recall from the serving generation, microseconds, the question's embedding included.
    pub serving_p50_us: Option<f64>,
    /// Of one from the new generation.
    pub new_p50_us: Option<f64>,
    /// Of one from the new generation that scores every vector.
    pub exact_p50_us: Option<f64>,
    /// Why the new generation does not serve, and what to do; `None`: it passed.
    pub failed: Option<String>,
}

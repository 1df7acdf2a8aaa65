//! Models whose graph ONNX Runtime runs: a session for queries, and sessions for documents that are opened when they
//! are needed.

use std::{path::PathBuf, sync::Arc, time::Instant};

use ort::environment::Environment;
use parking_lot::Mutex;

use super::{
    graph::files::GraphFiles, length_limits::TextEncoder, options::OnnxOptions, runner::Runner, runtime, session,
    weights::Weights,
};
use crate::{
    embed::{
        batch_invariance,
        schedule::{Execute, Limits, QueryPriority, Scheduler, Tokenize},
    },
    error::{Error, Result},
    models::{Model, Quantization, folder::invalid, manifest::Manifest},
};

/// Tokens of one batch. Measured with MiniLM f32 on two cores: as fast as batches of 1,024 or 4,096, a fifth faster
/// than 64, and 25 MB less peak memory than 1,024. A smaller batch also delays queries less.
const RUN_TOKENS: usize = 256;

/// Tokens of one batch, padding included, for models whose batches may mix lengths. Measured with a token table: a
/// third faster than 8,192, because the batch stays in the processor's cache.
const PADDED_RUN_TOKENS: usize = 1024;

/// Tokens of one batch on a GPU, which needs large batches to be busy. Not measured.
const GPU_RUN_TOKENS: usize = 8192;

/// Maximum sessions for documents. Measured with MiniLM f32 on two cores: two sessions of one thread use a tenth less
/// processor time for each text than one session of two threads, which wait for each other. Each session costs about 25
/// MB for intermediate results.
const MAX_SESSIONS: usize = 8;

/// A graph with its weights, and the session for queries.
pub(super) struct GraphModel {
    environment: Environment,
    weights: Weights,
    queries: Mutex<Runner>,
    priority: Arc<QueryPriority>,
    manifest: Manifest,
    path: PathBuf,
    options: OnnxOptions,
    pad_id: u32,
}

impl GraphModel {
    /// Loads ONNX Runtime if this process has not loaded it yet, and opens the session for queries.
    pub(super) fn open(model: &Model, graph: GraphFiles, options: &OnnxOptions, pad_id: u32) -> Result<Self> {
        let path = model.path();
        let unfit = |reason: String| invalid(&path, reason, None);
        let environment = runtime::load(options.runtime.as_deref())?;
        let is_cpu = options.device.is_cpu();
        let weights = if is_cpu { Weights::shared(graph) } else { Weights::whole(graph) }.map_err(unfit)?;
        let session = session::open(&weights, &environment, &options.device, options.threads, &path)?;
        let queries = Mutex::new(Runner::new(session, &model.manifest, pad_id).map_err(unfit)?);
        let (priority, manifest, options) = (Arc::default(), model.manifest.clone(), options.clone());
        Ok(GraphModel { environment, weights, queries, priority, manifest, path, options, pad_id })
    }

    /// Runs the tokens of one text, before the documents that wait.
    ///
    /// # Errors
    /// [`Error::DeadlineExceeded`]: another query had the session until then.
    pub(super) fn query(&self, tokens: &[u32], deadline: Option<Instant>) -> Result<Vec<f32>> {
        let _running = self.priority.begin_query();
        let mut queries = match deadline {
            None => self.queries.lock(),
            Some(deadline) => self.queries.try_lock_until(deadline).ok_or(Error::DeadlineExceeded)?,
        };
        Ok(queries.run(&[tokens])?.remove(0))
    }

    /// Opens the sessions for documents and starts their scheduler.
    pub(super) fn start(&self, text_encoder: &Arc<TextEncoder>) -> Result<Scheduler> {
        let manifest = &self.manifest;
        let is_cpu = self.options.device.is_cpu();
        let sessions = if is_cpu { self.options.threads.min(MAX_SESSIONS) } else { 1 };
        let runners = (0..sessions).map(|number| {
            let threads = share(self.options.threads, sessions, number);
            let session = session::open(&self.weights, &self.environment, &self.options.device, threads, &self.path)?;
            Runner::new(session, manifest, self.pad_id).map_err(|reason| invalid(&self.path, reason, None))
        });
        let is_dynamic = manifest.quantization == Quantization::Dynamic;
        let padded = manifest.padding_exact && !is_dynamic;
        let tokens = match (is_cpu, padded) {
            (false, _) => GPU_RUN_TOKENS,
            (true, true) => PADDED_RUN_TOKENS,
            (true, false) => RUN_TOKENS,
        };
        let mut limits = Limits { tokens, rows: if is_dynamic { 1 } else { usize::MAX }, padded };
        let mut runners = runners.collect::<Result<Vec<_>>>()?;
        if is_cpu {
            limits = batch_invariance::tested_limits(&mut runners[0], text_encoder.tokenizer().largest_id(), limits);
        }
        let tokenizer: Arc<dyn Tokenize> = Arc::clone(text_encoder) as _;
        Scheduler::start(runners, tokenizer, limits, Arc::clone(&self.priority))
    }
}

impl Execute for Runner {
    fn execute(&mut self, rows: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        self.run(rows)
    }
}

/// Returns the threads of one of several sessions: an equal share, or one more.
fn share(threads: usize, sessions: usize, number: usize) -> usize {
    threads / sessions + usize::from(number < threads % sessions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_share_all_threads() {
        for threads in 1..100 {
            let sessions = threads.min(MAX_SESSIONS);
            let shares: Vec<usize> = (0..sessions).map(|number| share(threads, sessions, number)).collect();
            assert_eq!(shares.iter().sum::<usize>(), threads);
            assert!(shares[0] - shares[sessions - 1] <= 1 && shares[sessions - 1] > 0, "{shares:?}");
        }
    }
}

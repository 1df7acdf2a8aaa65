//! Models whose graph ONNX Runtime runs: a session for queries, and sessions for documents that are opened when they
//! are needed. Owns how large a batch is, and how vectors are pooled from the graph's output.

use std::{borrow::Cow, path::PathBuf, sync::Arc, time::Instant};

use half::f16;
use ort::{
    environment::Environment,
    session::{HasSelectedOutputs, OutputSelector, RunOptions, Session},
    value::{DynValue, Outlet, TensorElementType},
};
use parking_lot::Mutex;

use super::{
    graph::files::GraphFiles,
    normalized, runtime,
    session::{self, Inputs, OnnxOptions},
    text_encoder::TextEncoder,
    weights::Weights,
};
use crate::{
    embed::{
        batch_invariance,
        schedule::{Execute, Limits, QueryPriority, Scheduler, Tokenize},
    },
    error::{Error, Result},
    model_folders::{
        Model, Pooling, Quantization,
        folder::{Manifest, invalid},
    },
};

/// Tokens of one batch. Measured with MiniLM f32 on two cores: as fast as batches of 1,024 or 4,096, a fifth faster
/// than 64, and 25 MB less peak memory than 1,024. A smaller batch also delays queries less.
const RUN_TOKENS: usize = 256;

/// Tokens of one batch, padding included, for models whose batches may mix lengths. Measured with a token table: a
/// third faster than 8,192, because the batch stays in the processor's cache.
const PADDED_RUN_TOKENS: usize = 1024;

/// Tokens of one batch on a GPU, padding included, and sessions. Measured with MiniLM f32 on an H200 and 16 cores, on chat messages:
/// 76,000 texts/s, beside 67,000 with 4,096 tokens, 63,000 with 1,024, 68,000 with 3 sessions, 74,000 with 8, and 9,600 with one
/// session and batches of one length.
const GPU_RUN_TOKENS: usize = 2048;
const GPU_SESSIONS: usize = 4;

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
        Ok(queries.execute(&[tokens])?.remove(0))
    }

    /// Opens the sessions for documents and starts their scheduler.
    pub(super) fn start(&self, text_encoder: &Arc<TextEncoder>) -> Result<Scheduler> {
        let manifest = &self.manifest;
        let is_cpu = self.options.device.is_cpu();
        let sessions = self.options.threads.min(if is_cpu { MAX_SESSIONS } else { GPU_SESSIONS });
        let runners = (0..sessions).map(|number| {
            let threads = share(self.options.threads, sessions, number);
            let session = session::open(&self.weights, &self.environment, &self.options.device, threads, &self.path)?;
            Runner::new(session, manifest, self.pad_id).map_err(|reason| invalid(&self.path, reason, None))
        });
        let mut runners = runners.collect::<Result<Vec<_>>>()?;
        let is_dynamic = manifest.quantization == Quantization::Dynamic;
        // On a GPU vectors depend on their batch in the last digits anyway, so padding costs no exactness. It needs a mask.
        let may_pad = manifest.padding_exact || !is_cpu && runners[0].inputs.has_mask();
        let padded = may_pad && !is_dynamic;
        let tokens = match (is_cpu, padded) {
            (false, _) => GPU_RUN_TOKENS,
            (true, true) => PADDED_RUN_TOKENS,
            (true, false) => RUN_TOKENS,
        };
        let mut limits = Limits { tokens, rows: if is_dynamic { 1 } else { usize::MAX }, padded };
        if is_cpu {
            limits = batch_invariance::tested_limits(&mut runners[0], text_encoder.tokenizer().largest_id(), limits);
        }
        let tokenizer: Arc<dyn Tokenize> = Arc::clone(text_encoder) as _;
        Scheduler::start(runners, tokenizer, limits, Arc::clone(&self.priority))
    }
}

/// Returns the threads of one of several sessions: an equal share, or one more.
fn share(threads: usize, sessions: usize, number: usize) -> usize {
    threads / sessions + usize::from(number < threads % sessions)
}

/// A session of an embedding model.
struct Runner {
    session: Session,
    inputs: Inputs,
    output: Output,
    options: RunOptions<HasSelectedOutputs>,
    pad_id: i64,
}

/// The graph's output, and how vectors are made of it.
struct Output {
    name: String,
    pooling: Pooling,
    dimension: usize,
    /// Components of the graph's output.
    model_dimension: usize,
}

impl Runner {
    /// Fails with the reason if the graph's inputs or outputs are not those of a text encoder.
    fn new(session: Session, manifest: &Manifest, pad_id: u32) -> Result<Self, String> {
        let inputs = Inputs::of(&session)?;
        let output = chosen_output(&session, manifest)?;
        match output.dtype().tensor_type() {
            Some(TensorElementType::Float32 | TensorElementType::Float16) => {}
            _ => {
                let (name, given) = (output.name(), output.dtype());
                return Err(format!(
                    "model.onnx: {name:?} is {given}, not a tensor of f32 or f16; name another output in manifest.toml, or export the model \
                     again"
                ));
            }
        }
        // ONNX Runtime then skips the computation of other outputs.
        let selected = OutputSelector::no_default().with(output.name());
        let options = RunOptions::new().map_err(|error| error.to_string())?.with_outputs(selected);
        let (name, pooling, dimension) = (output.name().to_owned(), manifest.pooling, manifest.dimension);
        let model_dimension = manifest.model_dimension.unwrap_or(dimension);
        let output = Output { name, pooling, dimension, model_dimension };
        Ok(Runner { session, inputs, output, options, pad_id: pad_id.into() })
    }
}

impl Execute for Runner {
    /// Embeds a batch. Returns a unit vector for each row of tokens, or zeros if the model's output is all zero. Rows
    /// of different lengths are padded.
    ///
    /// # Errors
    /// [`Error::Embedding`]: the graph fails, or its output contradicts the manifest or is not finite.
    fn execute(&mut self, rows: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        let longest = rows.iter().map(|row| row.len()).max().unwrap_or(0);
        if longest == 0 {
            return Ok(vec![vec![0.0; self.output.dimension]; rows.len()]);
        }
        let shape = [rows.len(), longest];
        let failed = |error: ort::Error| Error::Embedding {
            reason: format!("ONNX Runtime failed on {} texts of up to {longest} tokens", rows.len()),
            source: Some(error.into()),
        };
        let mut ids = Vec::with_capacity(shape[0] * shape[1]);
        let mut mask = Vec::with_capacity(ids.capacity());
        for (end, row) in (longest..).step_by(longest).zip(rows) {
            ids.extend(row.iter().map(|&id| i64::from(id)));
            ids.resize(end, self.pad_id);
            mask.resize(end - longest + row.len(), 1);
            mask.resize(end, 0);
        }
        let types = vec![0; ids.len()];
        let inputs = self.inputs.tensors(shape, [ids, mask, types]).map_err(failed)?;
        let outputs = self.session.run_with_options(inputs, &self.options).map_err(failed)?;
        self.output.vectors(rows, longest, &outputs[self.output.name.as_str()])
    }
}

impl Output {
    fn vectors(&self, rows: &[&[u32]], longest: usize, value: &DynValue) -> Result<Vec<Vec<f32>>> {
        let (shape, values) = extract(value)
            .map_err(|error| Error::Embedding { reason: "ONNX Runtime failed".into(), source: Some(error.into()) })?;
        let expected: &[usize] = match self.pooling {
            Pooling::None => &[rows.len(), self.model_dimension],
            _ => &[rows.len(), longest, self.model_dimension],
        };
        if shape != expected {
            let name = &self.name;
            let reason = format!(
                "the model gave {name:?} of shape {shape:?} instead of {expected:?}, which follows from manifest.toml; correct its \
                     pooling, model_dimension or output, or import the model again"
            );
            return Err(Error::Embedding { reason, source: None });
        }
        let pooled = rows.iter().zip(values.chunks(values.len() / rows.len()));
        pooled.map(|(row, values)| normalized(self.pool(row.len(), values))).collect()
    }

    /// Pools the outputs of a row with this number of tokens.
    fn pool(&self, tokens: usize, values: &[f32]) -> Vec<f32> {
        let token = |at: usize| &values[at * self.model_dimension..][..self.dimension];
        match self.pooling {
            _ if tokens == 0 => vec![0.0; self.dimension],
            Pooling::None | Pooling::Cls => token(0).to_vec(),
            Pooling::LastToken => token(tokens - 1).to_vec(),
            // The sum is enough, because the vector is normalized.
            Pooling::Mean => (1..tokens).fold(token(0).to_vec(), |mut sum, at| {
                sum.iter_mut().zip(token(at)).for_each(|(sum, x)| *sum += x);
                sum
            }),
        }
    }
}

/// Chooses the output that the manifest names, else the usual one for its pooling, or the only one.
fn chosen_output<'s>(session: &'s Session, manifest: &Manifest) -> Result<&'s Outlet, String> {
    let usual = match manifest.pooling {
        Pooling::None => "sentence_embedding",
        _ => "last_hidden_state",
    };
    let chosen = match (&manifest.output, session.outputs()) {
        (Some(name), _) => session::output(session, name),
        (None, [only]) => Ok(only),
        (None, _) => session::output(session, usual),
    };
    chosen.map_err(|fault| format!("{fault}; set output in manifest.toml to the output that has the vectors"))
}

fn extract(value: &DynValue) -> ort::Result<(Vec<usize>, Cow<'_, [f32]>)> {
    let sizes = |shape: &[i64]| shape.iter().map(|&size| size as usize).collect();
    if value.dtype().tensor_type() == Some(TensorElementType::Float16) {
        let (shape, values) = value.try_extract_tensor::<f16>()?;
        return Ok((sizes(shape), values.iter().map(|value| value.to_f32()).collect()));
    }
    let (shape, values) = value.try_extract_tensor::<f32>()?;
    Ok((sizes(shape), Cow::Borrowed(values)))
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

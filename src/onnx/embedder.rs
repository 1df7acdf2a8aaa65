//! The embedder that runs model folders with ONNX Runtime.
//!
//! fastembed's `TextEmbedding` is not used: its pooling outside of the graph is slow, it does not expose a text's tokens, and its caller
//! chooses neither the padding nor the number of threads. This crate uses fastembed's catalogue only.

use std::{
    num::NonZero,
    ops::Range,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Instant,
};

use ort::environment::Environment;
use parking_lot::Mutex;

use super::{
    graph::files::GraphFiles, length_limits::TextEncoder, runner::Runner, runtime, session, tokenizer::TextTokenizer,
    weights::Weights,
};
use crate::{
    config::Device,
    embed::{
        Embedder, Passage, batch_invariance,
        schedule::{Execute, Kind, Limits, QueryPriority, Scheduler, Submitted, Tokenize},
        token_windows::Window,
    },
    error::{Error, Result, impl_debug},
    ids::ModelIdentity,
    models::{Model, Quantization, folder},
};

/// Tokens of one batch. Measured with MiniLM f32 on two cores: as fast as batches of 1,024 or 4,096, a fifth faster than 64, and 25 MB
/// less peak memory than 1,024. A smaller batch also delays queries less.
const RUN_TOKENS: usize = 256;

/// Tokens of one batch, padding included, for models whose batches may mix lengths. Measured with the default model: a third faster than
/// 8,192, because the batch stays in the processor's cache.
const PADDED_RUN_TOKENS: usize = 1024;

/// Tokens of one batch on a GPU, which needs large batches to be busy. Not measured.
const GPU_RUN_TOKENS: usize = 8192;

/// Maximum sessions for documents. Measured with MiniLM f32 on two cores: two sessions of one thread use a tenth less processor time for
/// each text than one session of two threads, which wait for each other. Each session costs about 25 MB for intermediate results.
const MAX_SESSIONS: usize = 8;

/// An [`Embedder`] that runs a [`Model`] on the processor or a GPU.
///
/// Any number of threads may call it: their texts share batches. Documents are batched so that no vector changes by a bit: texts of the
/// same number of tokens together; texts of any length if the manifest states that padding is exact; one text at a time if activations
/// are quantized dynamically. Queries have a session of their own, on the calling thread, and take precedence. All sessions share one
/// copy of the weights.
///
/// [`embed_documents`](Embedder::embed_documents) and [`embed_query`](Embedder::embed_query) fail for a text with more tokens than the
/// model takes; [`embed_passages`](Embedder::embed_passages) splits it into windows.
pub struct OnnxEmbedder {
    model: Model,
    options: OnnxOptions,
    environment: Environment,
    weights: Weights,
    text_encoder: Arc<TextEncoder>,
    priority: Arc<QueryPriority>,
    queries: Mutex<Runner>,
    /// The scheduler of documents. It is started for the first documents, so that a program that only queries opens one session.
    documents: OnceLock<Scheduler>,
    starting: Mutex<()>,
}

impl_debug!(
    OnnxEmbedder,
    self { model: self.identity().name, options: self.options, max_tokens: self.text_encoder.max_tokens() }
);

/// Settings of an [`OnnxEmbedder`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OnnxOptions {
    /// Threads that embed documents in parallel, at least 1; also the threads of one query. Default: the number of cores.
    pub threads: usize,
    /// The library file of ONNX Runtime, or a folder with it; no other path is tried. ONNX Runtime is loaded once in a process, so the
    /// first model decides. Default: `$ORT_DYLIB_PATH`; if that is not set, the folder `.runtime` of a checkout of mnemon, the folder of
    /// the executable, and the system loader's path.
    pub runtime: Option<PathBuf>,
    /// The device that runs the model. Default: the processor.
    pub device: Device,
}

impl Default for OnnxOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        OnnxOptions { threads, runtime: None, device: Device::Cpu }
    }
}

impl OnnxEmbedder {
    /// Loads ONNX Runtime if this process has not loaded it yet, reads and checks the model's files, and runs the model once.
    ///
    /// Cost: for the bundled model about 50 ms and 30 MB.
    ///
    /// # Errors
    /// [`Error::RuntimeNotFound`], [`Error::InvalidModel`], [`Error::ModelHashMismatch`].
    pub fn new(model: Model) -> Result<Self> {
        OnnxEmbedder::open(model, OnnxOptions::default())
    }

    /// Same as [`OnnxEmbedder::new`], with this number of threads (at least 1), and ONNX Runtime from this library file or folder only. ONNX
    /// Runtime is loaded once in a process: the first model decides.
    ///
    /// # Errors
    /// Same as [`OnnxEmbedder::new`].
    pub fn with_options(model: Model, threads: usize, runtime: Option<PathBuf>) -> Result<Self> {
        OnnxEmbedder::open(model, OnnxOptions { threads, runtime, device: Device::Cpu })
    }

    /// Same as [`OnnxEmbedder::new`], with these options.
    ///
    /// # Errors
    /// Same as [`OnnxEmbedder::new`]; [`Error::DeviceUnavailable`].
    pub fn open(model: Model, mut options: OnnxOptions) -> Result<Self> {
        options.threads = options.threads.max(1);
        let unfit = |reason: String| folder::invalid(&model.path(), reason, None);
        let environment = runtime::load(options.runtime.as_deref())?;
        let tokenizer = TextTokenizer::open(&model.path(), &model.read("tokenizer.json")?)?;
        let text_encoder = Arc::new(TextEncoder::new(tokenizer, &model.manifest).map_err(unfit)?);
        let graph = GraphFiles::read(&model)?;
        let weights =
            if options.device.is_cpu() { Weights::shared(graph) } else { Weights::whole(graph) }.map_err(unfit)?;
        let session = session::open(&weights, &environment, &options.device, options.threads, &model.path())?;
        let queries = Runner::new(session, &model.manifest, text_encoder.tokenizer().pad_id()).map_err(unfit)?;
        let embedder = OnnxEmbedder {
            model,
            options,
            environment,
            weights,
            text_encoder,
            priority: Arc::default(),
            queries: Mutex::new(queries),
            documents: OnceLock::new(),
            starting: Mutex::new(()),
        };
        embedder.probe()?;
        Ok(embedder)
    }

    /// Runs the model twice, so that files that do not fit together are found now, not at the first flush.
    fn probe(&self) -> Result<()> {
        let invalid = |reason: String, error: Error| Error::InvalidModel {
            path: self.model.path(),
            reason,
            source: Some(error.into()),
        };
        self.embed_query("mnemon").map_err(|error| invalid("the model does not run".into(), error))?;
        let largest = self.text_encoder.tokenizer().largest_id();
        let unfit = |error| {
            invalid(
                format!(
                    "tokenizer.json does not fit model.onnx: the model fails on token {largest}, the largest of the tokenizer; take both files \
                     from one model, and import it again"
                ),
                error,
            )
        };
        self.queries.lock().run(&[&[largest]]).map(drop).map_err(unfit)
    }

    /// Starts to embed documents in the background, and returns a job to wait for. Dropping the job cancels it; dropping the embedder makes
    /// unfinished jobs fail.
    ///
    /// This call does not wait for other calls. The texts are copied, and the number of pending jobs is bounded by memory only.
    ///
    /// # Errors
    /// [`Error::Embedding`], [`Error::InvalidModel`]: a session cannot be opened.
    pub fn submit(&self, texts: &[&str]) -> Result<EmbeddingJob> {
        Ok(EmbeddingJob(self.documents()?.submit(texts, Kind::Documents)))
    }

    fn documents(&self) -> Result<&Scheduler> {
        if self.documents.get().is_none() {
            let _starting = self.starting.lock();
            if self.documents.get().is_none() {
                let scheduler = self.start()?;
                let _ = self.documents.set(scheduler);
            }
        }
        Ok(self.documents.get().expect("the scheduler was just started"))
    }

    fn start(&self) -> Result<Scheduler> {
        let manifest = &self.model.manifest;
        let is_cpu = self.options.device.is_cpu();
        let sessions = if is_cpu { self.options.threads.min(MAX_SESSIONS) } else { 1 };
        let runners = (0..sessions).map(|number| {
            let (device, path) = (&self.options.device, self.model.path());
            let threads = share(self.options.threads, sessions, number);
            let session = session::open(&self.weights, &self.environment, device, threads, &path)?;
            Runner::new(session, manifest, self.text_encoder.tokenizer().pad_id())
                .map_err(|reason| folder::invalid(&path, reason, None))
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
            limits =
                batch_invariance::tested_limits(&mut runners[0], self.text_encoder.tokenizer().largest_id(), limits);
        }
        let tokenizer: Arc<dyn Tokenize> = Arc::clone(&self.text_encoder) as _;
        Scheduler::start(runners, tokenizer, limits, Arc::clone(&self.priority))
    }
}

/// Returns the threads of one of several sessions: an equal share, or one more.
fn share(threads: usize, sessions: usize, number: usize) -> usize {
    threads / sessions + usize::from(number < threads % sessions)
}

/// Documents that are being embedded ([`OnnxEmbedder::submit`]).
#[derive(Debug)]
pub struct EmbeddingJob(Submitted);

impl EmbeddingJob {
    /// Waits for the job and returns one vector for each text, in order, as [`Embedder::embed_documents`] does.
    ///
    /// # Errors
    /// [`Error::Embedding`], also if the embedder was dropped.
    pub fn wait(self) -> Result<Vec<Vec<f32>>> {
        let texts = self.0.wait()?;
        Ok(texts.into_iter().flat_map(|passages| passages.into_iter().map(|passage| passage.vector)).collect())
    }
}

impl Embedder for OnnxEmbedder {
    fn identity(&self) -> &ModelIdentity {
        self.model.identity()
    }

    fn windows(&self, text: &str) -> Vec<Range<usize>> {
        self.text_encoder.windows(text).unwrap_or_else(|error| {
            // Embedding tokenizes the text again, and reports the error.
            tracing::warn!(%error, "a text was not split into windows");
            std::iter::once(0..text.len()).collect()
        })
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        self.submit(texts)?.wait()
    }

    fn embed_passages(&self, texts: &[&str]) -> Result<Vec<Vec<Passage>>> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        self.documents()?.submit(texts, Kind::Passages).wait()
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        self.embed_query_before(text, None)
    }

    fn embed_query_before(&self, text: &str, deadline: Option<Instant>) -> Result<Vec<f32>> {
        let tokens = self.text_encoder.query(text)?;
        let _running = self.priority.begin_query();
        let mut queries = match deadline {
            None => self.queries.lock(),
            Some(deadline) => self.queries.try_lock_until(deadline).ok_or(Error::DeadlineExceeded)?,
        };
        let mut rows = queries.run(&[&tokens])?;
        Ok(rows.remove(0))
    }
}

impl Tokenize for TextEncoder {
    fn tokenize(&self, text: &str, kind: Kind) -> Result<Vec<Window>> {
        match kind {
            Kind::Documents => Ok(vec![Window { range: 0..text.len(), tokens: self.document(text)? }]),
            Kind::Passages => self.passages(text),
        }
    }
}

impl Execute for Runner {
    fn execute(&mut self, rows: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        self.run(rows)
    }
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

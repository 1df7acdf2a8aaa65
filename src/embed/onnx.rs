//! The embedder that comes with the crate: a model folder on ONNX Runtime.
//!
//! fastembed's `TextEmbedding` is not used. It pools outside of the graph, slowly, keeps a text's tokens to itself, and makes
//! neither padding nor the number of threads a caller's choice; its catalogue is what this crate takes from it.

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
    Embedder, Model, Passage,
    device::Device,
    folder,
    manifest::Quantization,
    runner::Runner,
    runtime,
    schedule::{Execute, Kind, Limits, Read, Scheduler, Submitted, Turns},
    session,
    texts::Texts,
    together,
    tokenizer::TextTokenizer,
    weights::Weights,
    windows::Window,
};
use crate::{
    error::{Error, Result, impl_debug},
    ids::ModelIdentity,
};

/// Tokens of one run. Measured with MiniLM f32 on two cores: as fast as runs of 1,024 or 4,096, a fifth faster than of 64, and
/// 25 MB less at the peak than 1,024; and a question waits for less.
const RUN_TOKENS: usize = 256;

/// The same, padding included, where texts of any length share runs. Measured with the default model: a third faster than runs of
/// 8,192, as a run stays in the cache.
const PADDED_RUN_TOKENS: usize = 1024;

/// The same on a GPU, which does nothing much with little. Not measured.
const GPU_RUN_TOKENS: usize = 8192;

/// Document sessions at most. Measured with MiniLM f32 on two cores: two sessions of one thread take a tenth less of the
/// processor's time for a text than one session of two, which wait for each other; each costs some 25 MB for what it computes.
const MAX_SESSIONS: usize = 8;

/// Embeds with a [`Model`], on the processor or a GPU.
///
/// Calls may come from any number of threads: their texts share runs. Documents are run in batches that cannot change their
/// bits: texts of one token count together, texts of any length where the manifest says that padding is exact, one text a run
/// where activations are quantised dynamically. Questions have a session of their own, on the thread that asks, and go first.
/// All sessions share one copy of the weights.
///
/// A text of more tokens than the model takes is an error of [`embed_documents`](Embedder::embed_documents) and
/// [`embed_query`](Embedder::embed_query); [`embed_passages`](Embedder::embed_passages) embeds all of it, in windows.
pub struct OnnxEmbedder {
    model: Model,
    options: OnnxOptions,
    environment: Environment,
    weights: Weights,
    texts: Arc<Texts>,
    turns: Arc<Turns>,
    questions: Mutex<Runner>,
    /// Started when the first documents come: a program that only asks pays for one session.
    documents: OnceLock<Scheduler>,
    starting: Mutex<()>,
}

impl_debug!(
    OnnxEmbedder,
    self { model: self.identity().name, options: self.options, max_tokens: self.texts.max_tokens() }
);

/// How a model is run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OnnxOptions {
    /// Threads that embed documents at once (at least 1), and those of a question. Default: as many as the processor has.
    pub threads: usize,
    /// The library file of ONNX Runtime, or a folder with it, and no other; the process's first embedder decides. Default: looked
    /// for in `$ORT_DYLIB_PATH`, else where `make runtime` puts it, beside the executable and in the system loader's path.
    pub runtime: Option<PathBuf>,
    /// What runs the model. Default: the processor.
    pub device: Device,
}

impl Default for OnnxOptions {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        OnnxOptions { threads, runtime: None, device: Device::Cpu }
    }
}

impl OnnxEmbedder {
    /// Loads ONNX Runtime if it is not loaded yet, reads and checks the model's files and runs it once.
    ///
    /// Cost: for the bundled model about 50 ms and 30 MB.
    ///
    /// # Errors
    /// [`Error::RuntimeNotFound`], [`Error::InvalidModel`], [`Error::ModelHashMismatch`].
    pub fn new(model: Model) -> Result<Self> {
        OnnxEmbedder::open(model, OnnxOptions::default())
    }

    /// As [`OnnxEmbedder::new`], with this many threads (at least 1), and ONNX Runtime from this library file or folder and no
    /// other (the process's first embedder decides).
    ///
    /// # Errors
    /// As [`OnnxEmbedder::new`].
    pub fn with_options(model: Model, threads: usize, runtime: Option<PathBuf>) -> Result<Self> {
        OnnxEmbedder::open(model, OnnxOptions { threads, runtime, device: Device::Cpu })
    }

    /// As [`OnnxEmbedder::new`], with these options.
    ///
    /// # Errors
    /// As [`OnnxEmbedder::new`]; [`Error::DeviceUnavailable`].
    pub fn open(model: Model, mut options: OnnxOptions) -> Result<Self> {
        options.threads = options.threads.max(1);
        let unfit = |reason: String| folder::invalid(&model.path(), reason, None);
        let environment = runtime::load(options.runtime.as_deref())?;
        let tokenizer = TextTokenizer::open(&model.path(), &model.read("tokenizer.json")?)?;
        let texts = Arc::new(Texts::new(tokenizer, &model.manifest).map_err(unfit)?);
        let graph = model.graph()?;
        let weights =
            if options.device.is_cpu() { Weights::shared(graph) } else { Weights::whole(graph) }.map_err(unfit)?;
        let session = session::open(&weights, &environment, &options.device, options.threads, &model.path())?;
        let questions = Runner::new(session, &model.manifest, texts.tokenizer().pad_id()).map_err(unfit)?;
        let embedder = OnnxEmbedder {
            model,
            options,
            environment,
            weights,
            texts,
            turns: Arc::default(),
            questions: Mutex::new(questions),
            documents: OnceLock::new(),
            starting: Mutex::new(()),
        };
        embedder.probe()?;
        Ok(embedder)
    }

    /// Runs the model twice: files that do not fit each other are found now, not at the first flush.
    fn probe(&self) -> Result<()> {
        let invalid = |reason: String, error: Error| Error::InvalidModel {
            path: self.model.path(),
            reason,
            source: Some(error.into()),
        };
        self.embed_query("mnemon").map_err(|error| invalid("the model does not run".into(), error))?;
        let largest = self.texts.tokenizer().largest_id();
        let unfit = |error| {
            invalid(
                format!(
                    "tokenizer.json does not fit model.onnx: it has tokens up to {largest}, which fails; take both files of one model, \
                     and import it again"
                ),
                error,
            )
        };
        self.questions.lock().run(&[&[largest]]).map(drop).map_err(unfit)
    }

    /// Begins to embed documents, as [`embed_documents`](Embedder::embed_documents) does: it goes on while the caller does
    /// something else. What is dropped instead of waited for is given up; what has not had its turn when the embedder is dropped is an
    /// error. Does not wait for others: texts are copied, and as many may be on their way as there is memory for.
    ///
    /// # Errors
    /// [`Error::Embedding`], when no session can be made.
    pub fn submit(&self, texts: &[&str]) -> Result<Embedding> {
        Ok(Embedding(self.documents()?.submit(texts, Kind::Documents)))
    }

    fn documents(&self) -> Result<&Scheduler> {
        if self.documents.get().is_none() {
            let _starting = self.starting.lock();
            if self.documents.get().is_none() {
                let scheduler = self.start()?;
                let _ = self.documents.set(scheduler);
            }
        }
        Ok(self.documents.get().expect("it is started"))
    }

    fn start(&self) -> Result<Scheduler> {
        let manifest = &self.model.manifest;
        let is_cpu = self.options.device.is_cpu();
        let sessions = if is_cpu { self.options.threads.min(MAX_SESSIONS) } else { 1 };
        let runners = (0..sessions).map(|number| {
            let (device, path) = (&self.options.device, self.model.path());
            let threads = share(self.options.threads, sessions, number);
            let session = session::open(&self.weights, &self.environment, device, threads, &path)?;
            Runner::new(session, manifest, self.texts.tokenizer().pad_id())
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
            limits = together::tried(&mut runners[0], self.texts.tokenizer().largest_id(), limits);
        }
        let reader: Arc<dyn Read> = Arc::clone(&self.texts) as _;
        Scheduler::start(runners, reader, limits, Arc::clone(&self.turns))
    }
}

/// The threads of one of several sessions: all have the same, or one more.
fn share(threads: usize, sessions: usize, number: usize) -> usize {
    threads / sessions + usize::from(number < threads % sessions)
}

/// Documents on their way ([`OnnxEmbedder::submit`]).
#[derive(Debug)]
pub struct Embedding(Submitted);

impl Embedding {
    /// One row a text, in order, as of [`Embedder::embed_documents`]. Blocks until they are there.
    ///
    /// # Errors
    /// [`Error::Embedding`], also if the embedder was dropped before.
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
        self.texts.windows(text).unwrap_or_else(|error| {
            // Embedding tokenises again, and reports it.
            tracing::warn!(%error, "text not split");
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
        let tokens = self.texts.query(text)?;
        let _asking = self.turns.ask();
        let mut questions = match deadline {
            None => self.questions.lock(),
            Some(deadline) => self.questions.try_lock_until(deadline).ok_or(Error::DeadlineExceeded)?,
        };
        let mut rows = questions.run(&[&tokens])?;
        Ok(rows.remove(0))
    }
}

impl Read for Texts {
    fn read(&self, text: &str, kind: Kind) -> Result<Vec<Window>> {
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
    fn sessions_have_all_threads() {
        for threads in 1..100 {
            let sessions = threads.min(MAX_SESSIONS);
            let shares: Vec<usize> = (0..sessions).map(|number| share(threads, sessions, number)).collect();
            assert_eq!(shares.iter().sum::<usize>(), threads);
            assert!(shares[0] - shares[sessions - 1] <= 1 && shares[sessions - 1] > 0, "{shares:?}");
        }
    }
}

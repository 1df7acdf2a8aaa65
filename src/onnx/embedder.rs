//! The embedder that runs model folders: with ONNX Runtime, or without it if the model is a table of tokens.
//!
//! fastembed's `TextEmbedding` is not used: its pooling outside of the graph is slow, it does not expose a text's
//! tokens, and its caller chooses neither the padding nor the number of threads. This crate uses fastembed's catalogue
//! only.

use std::{
    io, iter,
    ops::Range,
    panic::resume_unwind,
    path::PathBuf,
    sync::{Arc, OnceLock},
    thread::{self, ScopedJoinHandle},
    time::Instant,
};

use parking_lot::Mutex;

use super::{
    graph::files::{self, GraphFiles},
    graph_model::GraphModel,
    session::OnnxOptions,
    text_encoder::TextEncoder,
    token_table::TokenTable,
    tokenizer::TextTokenizer,
};
use crate::{
    config::Device,
    embed::{
        Embedder, Passage,
        schedule::{CallKind, Chunk, Limits, Scheduler, Submitted, Tokenize},
    },
    error::{Error, Result, impl_debug},
    ids::ModelIdentity,
    model_folders::{Model, folder},
};

/// Tokens that a worker takes at a time for a table of tokens.
const TABLE_RUN_TOKENS: usize = 1024;

/// Minimum texts for each thread with a table of tokens: they take some ten times as long as starting the thread.
const TABLE_THREAD_TEXTS: usize = 64;

/// An [`Embedder`] that runs a [`Model`] on the processor or a GPU.
///
/// A model that is a table of tokens, such as the bundled one, runs without ONNX Runtime: a text's vector is the sum of
/// its tokens' rows, scaled to unit length. Other models are run by ONNX Runtime, which is searched for when the first
/// of them is opened; see [`Runtime`](crate::Runtime).
///
/// Any number of threads may call it: their texts share batches. Documents are batched so that no vector changes by a
/// bit: texts of the same number of tokens together; texts of any length if the manifest states that padding is exact;
/// one text at a time if activations are quantized dynamically. Queries have a session of their own, on the calling
/// thread, and take precedence. All sessions share one copy of the weights.
///
/// [`embed_documents`](Embedder::embed_documents) and [`embed_query`](Embedder::embed_query) fail for a text with more
/// tokens than the model takes; [`embed_passages`](Embedder::embed_passages) splits it into chunks.
pub struct OnnxEmbedder {
    model: Model,
    options: OnnxOptions,
    computation: Computation,
    text_encoder: Arc<TextEncoder>,
    /// The scheduler of documents. It is started for the first documents, so that a program that only queries opens one
    /// session.
    documents: OnceLock<Scheduler>,
    starting: Mutex<()>,
}

/// The part of an embedder that turns tokens into vectors.
enum Computation {
    Table(Arc<TokenTable>),
    Graph(Box<GraphModel>),
}

impl_debug!(
    OnnxEmbedder,
    self { model: self.identity().name, options: self.options, max_tokens: self.text_encoder.max_tokens() }
);

impl OnnxEmbedder {
    /// Reads and checks the model's files, loads ONNX Runtime if the model needs it and this process has not loaded it
    /// yet, and runs the model once.
    ///
    /// Cost: for the bundled model about 30 ms, most of it for the tokenizer.
    ///
    /// # Errors
    /// [`Error::RuntimeNotFound`], [`Error::InvalidModel`], [`Error::ModelHashMismatch`].
    pub fn new(model: Model) -> Result<Self> {
        OnnxEmbedder::open(model, OnnxOptions::default())
    }

    /// Same as [`OnnxEmbedder::new`], with this number of threads (at least 1), and ONNX Runtime from this library file
    /// or folder only. ONNX Runtime is loaded once in a process: the first model that needs it decides.
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
        let tokenizer = TextTokenizer::open(&model.path(), &model.read("tokenizer.json")?)?;
        let text_encoder = Arc::new(TextEncoder::new(tokenizer, &model.manifest).map_err(unfit)?);
        let graph = GraphFiles::read(&model)?;
        let weights = graph.external.iter().map(|(file, _)| file.as_str());
        model.check_others(&weights.chain(["model.onnx", "tokenizer.json"]).collect::<Vec<_>>())?;
        let table = options.device.is_cpu().then(|| table(&model, &graph)).flatten();
        let computation = match table {
            Some(table) => Computation::Table(Arc::new(table)),
            None => {
                let pad_id = text_encoder.tokenizer().pad_id();
                Computation::Graph(Box::new(GraphModel::open(&model, graph, &options, pad_id)?))
            }
        };
        let (documents, starting) = (OnceLock::new(), Mutex::new(()));
        let embedder = OnnxEmbedder { model, options, computation, text_encoder, documents, starting };
        embedder.probe()?;
        Ok(embedder)
    }

    /// Runs the model twice, so that files that do not fit together are found now, not when the first messages are
    /// embedded.
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
        self.compute(&[largest], None).map(drop).map_err(unfit)
    }

    /// Starts to embed documents in the background, and returns a job to wait for. Dropping the job cancels it;
    /// dropping the embedder makes unfinished jobs fail.
    ///
    /// This call does not wait for other calls. The texts are copied, and the number of pending jobs is bounded by
    /// memory only.
    ///
    /// # Errors
    /// [`Error::Embedding`], [`Error::InvalidModel`]: a session cannot be opened.
    pub fn submit(&self, texts: &[&str]) -> Result<EmbeddingJob> {
        Ok(EmbeddingJob(self.documents()?.submit(texts, CallKind::Documents)))
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
        match &self.computation {
            Computation::Graph(model) => model.start(&self.text_encoder),
            Computation::Table(table) => {
                // Each row is computed by itself, so texts of any lengths may share a batch.
                let limits = Limits { tokens: TABLE_RUN_TOKENS, rows: usize::MAX, padded: true };
                let workers = vec![Arc::clone(table); self.options.threads];
                let tokenizer: Arc<dyn Tokenize> = Arc::clone(&self.text_encoder) as _;
                Scheduler::start(workers, tokenizer, limits, Arc::default())
            }
        }
    }

    /// Embeds texts with the table: on this thread, and on others if the texts are many. Batches would cost more than
    /// they save.
    fn look_up(&self, table: &TokenTable, texts: &[&str], kind: CallKind) -> Result<Vec<Vec<Passage>>> {
        let passage = |chunk: Chunk| Ok(Passage { vector: table.vector(&chunk.tokens)?, range: chunk.range });
        let text = |text: &&str| self.text_encoder.tokenize(text, kind)?.into_iter().map(passage).collect();
        let embed = &|texts: &[&str]| texts.iter().map(text).collect::<Result<Vec<Vec<Passage>>>>();
        let mut shares = texts.chunks(texts.len().div_ceil(self.options.threads).max(TABLE_THREAD_TEXTS));
        let first = shares.next().unwrap_or_default();
        let rows: Vec<Result<_>> = thread::scope(|scope| {
            let start = |share| (share, thread::Builder::new().spawn_scoped(scope, move || embed(share)));
            let others: Vec<_> = shares.map(start).collect();
            let join = |(share, thread): (_, io::Result<ScopedJoinHandle<'_, _>>)| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                // The system cannot start a thread.
                Err(_) => embed(share),
            };
            iter::once(embed(first)).chain(others.into_iter().map(join)).collect()
        });
        Ok(rows.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn compute(&self, tokens: &[u32], deadline: Option<Instant>) -> Result<Vec<f32>> {
        match &self.computation {
            Computation::Graph(model) => model.query(tokens, deadline),
            Computation::Table(table) => table.vector(tokens),
        }
    }
}

/// Returns the token table of a model; `None` if the model is not a token table, or if its graph is invalid: ONNX
/// Runtime then reports the fault.
fn table(model: &Model, graph: &GraphFiles) -> Option<TokenTable> {
    let parsed = graph.external.is_empty().then(|| files::parse(&model.path(), "model.onnx", &graph.bytes));
    TokenTable::of(&parsed?.ok()?, &model.manifest)
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

    fn is_same_model(&self, stored: &ModelIdentity) -> bool {
        self.model.is_same(stored)
    }

    fn windows(&self, text: &str) -> Vec<Range<usize>> {
        self.text_encoder.chunks(text).unwrap_or_else(|error| {
            // Embedding tokenizes the text again, and reports the error.
            tracing::warn!(%error, "a text was not split into chunks");
            std::iter::once(0..text.len()).collect()
        })
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        match &self.computation {
            Computation::Graph(_) => self.submit(texts)?.wait(),
            Computation::Table(table) => {
                let texts = self.look_up(table, texts, CallKind::Documents)?;
                Ok(texts.into_iter().flatten().map(|passage| passage.vector).collect())
            }
        }
    }

    fn embed_passages(&self, texts: &[&str]) -> Result<Vec<Vec<Passage>>> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        match &self.computation {
            Computation::Graph(_) => self.documents()?.submit(texts, CallKind::Passages).wait(),
            Computation::Table(table) => self.look_up(table, texts, CallKind::Passages),
        }
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        self.embed_query_before(text, None)
    }

    fn known_words(&self, text: &str) -> f32 {
        self.text_encoder.tokenizer().known_words(text)
    }

    fn embed_query_before(&self, text: &str, deadline: Option<Instant>) -> Result<Vec<f32>> {
        self.compute(&self.text_encoder.query(text)?, deadline)
    }
}

impl Tokenize for TextEncoder {
    fn tokenize(&self, text: &str, kind: CallKind) -> Result<Vec<Chunk>> {
        match kind {
            CallKind::Documents => Ok(vec![Chunk { range: 0..text.len(), tokens: self.document(text)? }]),
            CallKind::Passages => self.passages(text),
        }
    }
}

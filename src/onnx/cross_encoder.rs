//! The reranker that runs model folders with a cross-encoder.
//!
//! fastembed's `TextRerank` is not used. It reads the first column of the output whatever the shape: that is the wrong
//! class of a graph with two classes, and a panic for a graph without columns. Its session, which knows the shapes, is
//! private.

use std::{
    num::NonZero,
    path::{Path, PathBuf},
};

use ort::{session::Session, value::TensorElementType};
use parking_lot::Mutex;

use super::{
    graph::files::{self, GraphFiles},
    runtime,
    session::{self, Inputs},
    text_encoder::{self, Bounds},
    tokenizer::TextTokenizer,
    weights::Weights,
};
use crate::{
    config::Device,
    embed::{
        self, Reranker, batch_invariance,
        schedule::{Execute, Limits},
    },
    error::{BoxError, Error, Result, impl_debug},
    model_folders::{
        Quantization,
        folder::{self, ModelKind, RerankerManifest},
    },
};

/// The files of a reranker's folder, beside `manifest.toml`.
const FILES: [&str; 2] = ["model.onnx", "tokenizer.json"];

const OUTPUT: &str = "logits";

/// Tokens of one batch, which bounds its memory. Measured with MiniLM's encoder on two cores: batched pairs are a tenth
/// faster than single ones, with 512 tokens as with 4,096. Padding to batch more pairs would gain little.
const RUN_TOKENS: usize = 1024;

/// Minimum tokens that a model must accept for a pair, special tokens excluded: half of them are for the query.
const MIN_TOKENS: usize = 64;

/// A [`Reranker`] that scores pairs of a query and a passage with a cross-encoder, on the CPU (R. Nogueira, K. Cho,
/// "Passage Re-ranking with BERT", arXiv 1901.04085).
///
/// A folder holds the graph, in one file, as `model.onnx`, its `tokenizer.json`, and a `manifest.toml`:
///
/// ```toml
/// kind = "reranker"
/// name = "ms-marco-MiniLM-L6-v2"
/// description = "cross-encoder for English passages"
/// source = "cross-encoder/ms-marco-MiniLM-L6-v2"
/// license = "Apache-2.0"
/// max_tokens = 512         # of a pair, special tokens included
/// quantization = "none"    # or "static", or "dynamic": activations are quantized at run time
///
/// [files]                  # sha256
/// "model.onnx" = "..."
/// "tokenizer.json" = "..."
/// ```
///
/// The graph's inputs are `input_ids`, `attention_mask` and optionally `token_type_ids`, all `[n, tokens]` of i64. Its
/// output is `logits` of f32: `[n]` or `[n, 1]`, the scores; or `[n, 2]`, an irrelevant and a relevant class, whose
/// difference is the score.
///
/// A passage that does not fit beside the query is split into overlapping chunks, and the highest score of a chunk
/// counts. The score of a pair does not depend on other pairs: only pairs of the same number of tokens share a batch,
/// and none do if activations are quantized dynamically, or if batching is found to change a score. There is one
/// session: concurrent calls wait for each other.
///
/// Cost: one run of the model over each pair; for a six-layer MiniLM on two cores, about 5 ms for a short message.
pub struct CrossEncoder {
    manifest: RerankerManifest,
    tokenizer: TextTokenizer,
    inputs: Inputs,
    session: Mutex<Session>,
    limits: Limits,
}

impl_debug!(CrossEncoder, self { name: self.manifest.name, max_tokens: self.manifest.max_tokens });

impl CrossEncoder {
    /// Loads ONNX Runtime if this process has not loaded it yet (as [`OnnxEmbedder::new`](crate::OnnxEmbedder::new)
    /// does), reads and checks the folder's files, and runs the model, also to find out whether its pairs may be
    /// batched.
    ///
    /// # Errors
    /// [`Error::RuntimeNotFound`], [`Error::InvalidModel`], [`Error::ModelHashMismatch`].
    pub fn open(folder: impl AsRef<Path>) -> Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        CrossEncoder::with_options(folder, threads, None)
    }

    /// Same as [`CrossEncoder::open`], with this number of threads (at least 1), and ONNX Runtime from this library
    /// file or folder only. ONNX Runtime is loaded once in a process: the first model decides.
    ///
    /// # Errors
    /// Same as [`CrossEncoder::open`].
    pub fn with_options(folder: impl AsRef<Path>, threads: usize, runtime: Option<PathBuf>) -> Result<Self> {
        let path = folder.as_ref();
        let invalid = |reason: &str, source: Option<BoxError>| folder::invalid(path, reason, source);
        let manifest: RerankerManifest = folder::read_manifest(path, ModelKind::Reranker)?;
        let unfit = |reason: String| invalid(&reason, None);
        if let Some(fault) = manifest.fault() {
            return Err(unfit(fault));
        }
        folder::check(path, &FILES, &manifest.files)?;
        let [graph, tokenizer] = FILES.map(|file| folder::read(path, file, &manifest.files));
        let graph = graph?;
        folder::check_others(path, &FILES, &manifest.files)?;
        if !files::read_weight_files(path, &graph, &manifest.files)?.is_empty() {
            return Err(invalid("model.onnx has weights in other files; save the graph as one file", None));
        }

        let tokenizer = TextTokenizer::open(path, &tokenizer?)?;
        tokenizer.try_pair(path)?;
        let pair_special = tokenizer.special(true);
        if pair_special == 0 {
            let remedy = "use the tokenizer of a model that was trained on pairs";
            return Err(unfit(format!("tokenizer.json puts no special token between a query and a passage; {remedy}")));
        }
        let least = MIN_TOKENS + pair_special;
        if manifest.max_tokens < least {
            let reason = format!("manifest.toml: max_tokens is {}; {least} or more are needed", manifest.max_tokens);
            return Err(unfit(reason));
        }

        let environment = runtime::load(runtime.as_deref())?;
        let weights = Weights::shared(GraphFiles { bytes: graph.into(), external: Vec::new() }).map_err(unfit)?;
        let session = session::open(&weights, &environment, &Device::Cpu, threads.max(1), path)?;
        let inputs = check_graph(&session).map_err(unfit)?;
        let rows = if manifest.quantization == Quantization::Dynamic { 1 } else { usize::MAX };
        let mut limits = Limits { tokens: RUN_TOKENS, rows, padded: false };
        let mut encoder = CrossEncoder { manifest, tokenizer, inputs, session: Mutex::new(session), limits };
        // Three pairs, because three rows cannot be mistaken for columns.
        embed::rerank(&encoder, "mnemon", &["mnemon"; 3])
            .map_err(|error| invalid("the model does not run", Some(error.into())))?;
        limits = batch_invariance::tested_limits(&mut RowsAsPairs(&encoder), encoder.tokenizer.largest_id(), limits);
        encoder.limits = limits;
        Ok(encoder)
    }

    /// Returns one line with the model's description, source and licence.
    pub fn description(&self) -> String {
        format!("{} ({}; {})", self.manifest.description, self.manifest.source, self.manifest.license)
    }

    /// Returns the most tokens that a chunk of a passage may have beside this query, counted with the special tokens
    /// around a single text.
    ///
    /// # Errors
    /// [`Error::InvalidQuery`]: the query takes more than half of the model's tokens. It would leave little of each
    /// passage, and cutting it off would change its meaning.
    fn max_chunk_tokens(&self, query: &str) -> Result<usize> {
        let text_special = self.tokenizer.special(false);
        let room = self.manifest.max_tokens - self.tokenizer.special(true);
        let too_long = |length: String| {
            Error::query(format!(
                "reranker {:?} takes a query of at most {} tokens, this one has {length}; shorten the query, or leave out the reranker",
                self.name(),
                room / 2
            ))
        };
        if query.len() > text_encoder::MAX_BYTES {
            return Err(too_long(format!("{} bytes", query.len())));
        }
        let tokens =
            self.tokenizer.encode(query).map_err(|error| self.not_tokenized(error))?.len().saturating_sub(text_special);
        if tokens > room / 2 {
            return Err(too_long(tokens.to_string()));
        }
        Ok(room - tokens + text_special)
    }

    /// Encodes the query with a chunk of a passage.
    fn pair(&self, passage: usize, query: &str, chunk: &str) -> Result<Pair> {
        let encoding = self.tokenizer.encode_pair(query, chunk).map_err(|error| self.not_tokenized(error))?;
        if encoding.len() > self.manifest.max_tokens {
            let reason = format!("a pair has {} tokens; the model takes {}", encoding.len(), self.manifest.max_tokens);
            return Err(self.failed(reason, None));
        }
        let widened = |values: &[u32]| values.iter().map(|&value| value.into()).collect();
        Ok(Pair { passage, ids: widened(encoding.get_ids()), types: widened(encoding.get_type_ids()) })
    }

    /// Scores pairs of the same length.
    fn run(&self, pairs: &[Pair]) -> Result<Vec<f32>> {
        let logits =
            self.logits(pairs).map_err(|error| self.failed("ONNX Runtime failed".into(), Some(error.into())))?;
        let n = pairs.len();
        let scores: Vec<f32> = match *logits.shape {
            [rows] | [rows, 1] if rows == n => logits.values,
            [rows, 2] if rows == n => logits.values.chunks_exact(2).map(|classes| classes[1] - classes[0]).collect(),
            ref shape => {
                let reason = format!(
                    "{OUTPUT} has shape {shape:?} for {n} pairs, not [n], [n, 1] or [n, 2]; export a model that scores pairs"
                );
                return Err(self.failed(reason, None));
            }
        };
        // Checked here: taking the maximum over a passage's chunks could hide it.
        match scores.iter().find(|score| !score.is_finite()) {
            Some(score) => Err(self.failed(format!("a score is {score}"), None)),
            None => Ok(scores),
        }
    }

    fn logits(&self, pairs: &[Pair]) -> ort::Result<Logits> {
        let shape = [pairs.len(), pairs[0].ids.len()];
        let ids = pairs.iter().flat_map(|pair| &pair.ids).copied().collect();
        let types = pairs.iter().flat_map(|pair| &pair.types).copied().collect();
        let mask = vec![1; shape[0] * shape[1]];
        let inputs = self.inputs.tensors(shape, [ids, mask, types])?;
        let mut session = self.session.lock();
        let outputs = session.run(inputs)?;
        let (shape, values) = outputs[OUTPUT].try_extract_tensor::<f32>()?;
        Ok(Logits { shape: shape.iter().map(|&size| size as usize).collect(), values: values.to_vec() })
    }

    fn not_tokenized(&self, error: Error) -> Error {
        self.failed("a text was not tokenized".into(), Some(error.into()))
    }

    fn failed(&self, reason: String, source: Option<BoxError>) -> Error {
        Error::Reranking { reranker: self.manifest.name.clone(), reason, source }
    }
}

impl Reranker for CrossEncoder {
    fn name(&self) -> &str {
        &self.manifest.name
    }

    fn rerank(&self, query: &str, passages: &[&str]) -> Result<Vec<f32>> {
        let room = self.max_chunk_tokens(query)?;
        let mut pairs = Vec::new();
        for (passage, text) in passages.iter().enumerate() {
            let bounds = Bounds { prefix: "", max_tokens: room, other: None };
            for chunk in
                text_encoder::split(&self.tokenizer, text, bounds).map_err(|error| self.not_tokenized(error))?
            {
                pairs.push(self.pair(passage, query, &text[chunk.range])?);
            }
        }
        pairs.sort_by_key(|pair| pair.ids.len());
        let mut best = vec![f32::NEG_INFINITY; passages.len()];
        for alike in pairs.chunk_by(|a, b| a.ids.len() == b.ids.len()) {
            let batch = self.limits.rows.min((self.limits.tokens / alike[0].ids.len().max(1)).max(1));
            for run in alike.chunks(batch) {
                for (pair, score) in run.iter().zip(self.run(run)?) {
                    best[pair.passage] = best[pair.passage].max(score);
                }
            }
        }
        Ok(best)
    }
}

/// The tokens of a query with a chunk of a passage.
struct Pair {
    /// The passage's index in the call.
    passage: usize,
    ids: Vec<i64>,
    types: Vec<i64>,
}

/// Runs rows of tokens as pairs, to test batch invariance: the first half of a row is the query. Every other token of
/// the passage is one of the query's, because without common tokens all pairs may have the same score.
struct RowsAsPairs<'e>(&'e CrossEncoder);

impl Execute for RowsAsPairs<'_> {
    fn execute(&mut self, rows: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        let pair = |row: &&[u32]| {
            let half = row.len() / 2;
            let token = |at: usize| if at > half && row[at].is_multiple_of(2) { row[at - half] } else { row[at] };
            let ids = (0..row.len()).map(|at| token(at).into()).collect();
            Pair { passage: 0, ids, types: (0..row.len()).map(|at| (at > half).into()).collect() }
        };
        let scores = self.0.run(&rows.iter().map(pair).collect::<Vec<_>>())?;
        Ok(scores.into_iter().map(|score| vec![score]).collect())
    }
}

struct Logits {
    shape: Vec<usize>,
    values: Vec<f32>,
}

/// Checks the graph's inputs and output. Fails with the reason.
fn check_graph(session: &Session) -> Result<Inputs, String> {
    let inputs = Inputs::of(session)?;
    let remedy = "export the model again, as one that classifies sequences";
    let logits = session::output(session, OUTPUT).map_err(|fault| format!("{fault}; {remedy}"))?.dtype();
    match logits.tensor_type() {
        Some(TensorElementType::Float32) => Ok(inputs),
        _ => {
            let expected = TensorElementType::Float32;
            Err(format!("model.onnx: {OUTPUT:?} is {logits}, not a tensor of {expected}; {remedy}"))
        }
    }
}

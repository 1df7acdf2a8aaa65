//! The embedder that comes with the crate: a model folder on ONNX Runtime, through fastembed.

use std::{
    num::NonZero,
    ops::Range,
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use fastembed::{
    InitOptionsUserDefined, Pooling as FastembedPooling, QuantizationMode, TextEmbedding, TokenizerFiles,
    UserDefinedEmbeddingModel,
};
use parking_lot::Mutex;
use tokenizers::{ModelWrapper, Tokenizer, utils::parallelism::set_parallelism};

use super::{
    Embedder, Model,
    manifest::{Pooling, Quantization},
    runtime, windows,
};
use crate::{
    error::{Error, Result, impl_debug},
    ids::ModelIdentity,
};

/// Tokens of one run, padding included. Measured with the default model: a third faster than runs of 8,192, as a run
/// stays in the cache, and 110 MB less at the peak.
const RUN_TOKENS: usize = 1024;

/// Each holds a copy of the model.
const MAX_SESSIONS: usize = 8;

/// A model that takes less of a text at once is of no use, and long messages would have more windows than can be numbered.
const MIN_TOKENS: usize = 64;

/// Embeds with a [`Model`] on the CPU.
///
/// Texts are tokenised on the thread that runs them: the `tokenizers` crate's own parallelism is turned off in the whole
/// process. Questions have a session of their own, so that they do not wait for documents. Documents are run in batches that
/// cannot change their bits: texts of one token count together, texts of any length where the manifest says that
/// padding is exact, one text a run where activations are quantised dynamically.
pub struct OnnxEmbedder {
    model: Model,
    threads: usize,
    runtime: Option<PathBuf>,
    /// Does not truncate, does not pad.
    tokenizer: Tokenizer,
    /// Tokens that a text may have, its prefix's taken off.
    max_tokens: usize,
    /// Text of so few bytes has no more tokens than fit: it need not be counted.
    short_bytes: usize,
    queries: Mutex<TextEmbedding>,
    /// Made when the first document comes: a program that only asks pays for one session.
    documents: OnceLock<Vec<Mutex<TextEmbedding>>>,
}

impl_debug!(OnnxEmbedder, self { model: self.identity().name, threads: self.threads, max_tokens: self.max_tokens });

impl OnnxEmbedder {
    /// Loads ONNX Runtime if it is not loaded yet, reads and checks the model's files and runs it once.
    ///
    /// ONNX Runtime is looked for in `$ORT_DYLIB_PATH`, else where `make runtime` puts it, beside the executable and in
    /// the system loader's path. Cost: for the bundled model about 50 ms and 30 MB.
    ///
    /// # Errors
    /// [`Error::RuntimeNotFound`], [`Error::InvalidModel`], [`Error::ModelHashMismatch`].
    pub fn new(model: Model) -> Result<Self> {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        OnnxEmbedder::with_options(model, threads, None)
    }

    /// As [`OnnxEmbedder::new`], with this many threads for a run (at least 1), and ONNX Runtime from this library file
    /// or folder and no other (the process's first embedder decides).
    ///
    /// # Errors
    /// As [`OnnxEmbedder::new`].
    pub fn with_options(model: Model, threads: usize, runtime: Option<PathBuf>) -> Result<Self> {
        let threads = threads.max(1);
        // Otherwise every run goes through rayon's global pool: a program that embeds from its own rayon tasks could
        // wait for itself for ever, and `threads` would mean nothing.
        set_parallelism(false);
        let queries = session(&model, threads, runtime.as_deref())?;
        let mut tokenizer: Tokenizer = queries.tokenizer.clone();
        tokenizer.with_padding(None);
        tokenizer.with_truncation(None).map_err(|source| Error::InvalidModel {
            path: model.path(),
            reason: "tokenizer.json: truncation cannot be turned off".into(),
            source: Some(source),
        })?;
        let bare = windows::encode(&tokenizer, "")?.len();
        let manifest = &model.manifest;
        let longest_prefix = [&manifest.query_prefix, &manifest.document_prefix]
            .into_iter()
            .map(|prefix| windows::encode(&tokenizer, prefix).map(|encoding| encoding.len() - bare))
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .max()
            .unwrap_or(0);
        let invalid = |reason| Error::InvalidModel { path: model.path(), reason, source: None };
        // fastembed cuts at the smaller of the two limits, and says nothing.
        let limit = queries.tokenizer.get_truncation().map_or(usize::MAX, |truncation| truncation.max_length);
        if limit < manifest.max_tokens {
            return Err(invalid(format!(
                "tokenizer_config.json allows {limit} tokens, manifest.toml {}; lower max_tokens",
                manifest.max_tokens
            )));
        }
        let max_tokens = manifest.max_tokens.saturating_sub(longest_prefix);
        if max_tokens < MIN_TOKENS {
            return Err(invalid(format!("max_tokens and the prefixes leave {max_tokens} tokens for a text")));
        }
        let bytes_per_token = match tokenizer.get_model() {
            // Decomposition (NFD) makes up to two characters of a byte.
            ModelWrapper::WordPiece(_) => 2,
            // Compatibility decomposition (NFKC) makes up to six.
            _ => 6,
        };
        let embedder = OnnxEmbedder {
            tokenizer,
            threads,
            runtime,
            max_tokens,
            short_bytes: max_tokens.saturating_sub(bare) / bytes_per_token,
            queries: Mutex::new(queries),
            documents: OnceLock::new(),
            model,
        };
        embedder.probe()?;
        Ok(embedder)
    }

    /// Runs the model once: a graph that does not fit its manifest is found now, not at the first flush.
    fn probe(&self) -> Result<()> {
        let invalid = |reason: String, source| Error::InvalidModel { path: self.model.path(), reason, source };
        let row =
            self.embed_query("mnemon").map_err(|error| invalid("the model does not run".into(), Some(error.into())))?;
        super::check(self.identity(), &row)
            .map_err(|error| invalid("the model does not give what manifest.toml says".into(), Some(error.into())))
    }

    fn documents(&self) -> Result<&[Mutex<TextEmbedding>]> {
        if let Some(sessions) = self.documents.get() {
            return Ok(sessions);
        }
        let manifest = &self.model.manifest;
        // One text a run leaves no work to share inside it; a token table has none. Others share their matrices.
        let one_thread_a_run = manifest.quantization == Quantization::Dynamic || manifest.padding_exact;
        let count = if one_thread_a_run { self.threads.min(MAX_SESSIONS) } else { 1 };
        let sessions = (0..count)
            .map(|_| session(&self.model, self.threads / count, self.runtime.as_deref()).map(Mutex::new))
            .collect::<Result<_>>()?;
        Ok(self.documents.get_or_init(|| sessions))
    }

    /// Runs of text numbers whose companions do not change a text's bits.
    fn plan(&self, texts: &[String]) -> Result<Vec<Vec<usize>>> {
        let manifest = &self.model.manifest;
        let length = |text: &String| -> Result<usize> {
            if manifest.padding_exact {
                // Bytes do for sorting: they keep padding low, and cost no tokenisation.
                return Ok(text.len() / 4 + 2);
            }
            let tokens = windows::encode(&self.tokenizer, text)?.len();
            if tokens > manifest.max_tokens {
                let reason =
                    format!("a text of {tokens} tokens was not split; the model takes {}", manifest.max_tokens);
                return Err(Error::Embedding { reason, source: None });
            }
            Ok(tokens)
        };
        let mut order = texts.iter().enumerate().map(|(i, text)| Ok((length(text)?, i))).collect::<Result<Vec<_>>>()?;
        order.sort_unstable();
        let mut runs: Vec<Vec<usize>> = Vec::new();
        let mut shortest = 0;
        for (length, i) in order {
            let fits = |run: &Vec<usize>| {
                manifest.quantization != Quantization::Dynamic
                    && (run.len() + 1) * length <= RUN_TOKENS
                    && (manifest.padding_exact || length == shortest)
            };
            match runs.last_mut() {
                Some(run) if fits(run) => run.push(i),
                _ => {
                    shortest = length;
                    runs.push(vec![i]);
                }
            }
        }
        Ok(runs)
    }
}

impl Embedder for OnnxEmbedder {
    fn identity(&self) -> &ModelIdentity {
        self.model.identity()
    }

    fn windows(&self, text: &str) -> Vec<Range<usize>> {
        let whole = || std::iter::once(0..text.len()).collect();
        if text.len() <= self.short_bytes {
            return whole();
        }
        windows::split(&self.tokenizer, text, self.max_tokens).unwrap_or_else(|error| {
            // Embedding tokenises again, and reports it.
            tracing::warn!(%error, "text not split");
            whole()
        })
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let prefix = &self.model.manifest.document_prefix;
        let texts: Vec<String> = texts.iter().map(|text| format!("{prefix}{text}")).collect();
        let runs = self.plan(&texts)?;
        let sessions = self.documents()?;
        let rows: Vec<OnceLock<Vec<f32>>> = texts.iter().map(|_| OnceLock::new()).collect();
        let next = AtomicUsize::new(0);
        let work = |session: &Mutex<TextEmbedding>| -> Result<()> {
            let mut session = session.lock();
            while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let batch: Vec<&str> = run.iter().map(|&i| texts[i].as_str()).collect();
                for (&i, row) in run.iter().zip(embed(&mut session, &batch)?) {
                    rows[i].set(row).expect("each text is in one run");
                }
            }
            Ok(())
        };
        match sessions {
            [session] => work(session)?,
            sessions => std::thread::scope(|scope| {
                let workers: Vec<_> = sessions.iter().map(|session| scope.spawn(|| work(session))).collect();
                workers.into_iter().try_for_each(|worker| worker.join().expect("work does not panic"))
            })?,
        }
        Ok(rows.into_iter().map(|row| row.into_inner().expect("each text is in a run")).collect())
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        let text = format!("{}{text}", self.model.manifest.query_prefix);
        let mut rows = embed(&mut self.queries.lock(), &[text.as_str()])?;
        rows.pop().ok_or_else(|| Error::Embedding { reason: "the model gave no vector".into(), source: None })
    }
}

/// One run.
fn embed(session: &mut TextEmbedding, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
    session
        .embed(texts, Some(texts.len()))
        .map_err(|error| Error::Embedding { reason: "ONNX Runtime failed".into(), source: Some(error.into()) })
}

fn session(model: &Model, threads: usize, runtime: Option<&std::path::Path>) -> Result<TextEmbedding> {
    let environment = runtime::load(runtime)?;
    let read = |file| model.read(file).map(std::borrow::Cow::into_owned);
    let tokenizer = TokenizerFiles {
        tokenizer_file: read("tokenizer.json")?,
        config_file: read("config.json")?,
        special_tokens_map_file: read("special_tokens_map.json")?,
        tokenizer_config_file: read("tokenizer_config.json")?,
    };
    let manifest = &model.manifest;
    let user_defined = UserDefinedEmbeddingModel::new(read("model.onnx")?, tokenizer)
        .with_pooling(match manifest.pooling {
            Pooling::Mean => FastembedPooling::Mean,
            Pooling::Cls => FastembedPooling::Cls,
            Pooling::LastToken | Pooling::None => {
                let reason = format!("pooling {:?} is not supported", manifest.pooling);
                return Err(Error::InvalidModel { path: model.path(), reason, source: None });
            }
        })
        .with_quantization(match manifest.quantization {
            Quantization::None => QuantizationMode::None,
            Quantization::Static => QuantizationMode::Static,
            Quantization::Dynamic => QuantizationMode::Dynamic,
        });
    let options = InitOptionsUserDefined::new()
        .with_environment(environment)
        .with_max_length(manifest.max_tokens)
        .with_intra_threads(threads.max(1))
        // Idle threads that spin take a core from the program that links us.
        .with_session_config("session.intra_op.allow_spinning", "0");
    TextEmbedding::try_new_from_user_defined(user_defined, options).map_err(|error| Error::InvalidModel {
        path: model.path(),
        reason: "ONNX Runtime or the tokenizer refuses it".into(),
        source: Some(error.into()),
    })
}

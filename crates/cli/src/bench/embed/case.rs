//! The measurement of one case: a program that runs a model on some texts. It is made in a process of its own.

use std::{
    cell::RefCell,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use clap::ValueEnum;
use fastembed::{InitOptionsUserDefined, Pooling, TextEmbedding, TokenizerFiles, UserDefinedEmbeddingModel};
use mnemon::{Device, Embedder, OnnxEmbedder};
use serde::{Deserialize, Serialize};

use crate::{
    bench::setup::{SAMPLE, messages_or_sample, peak_bytes, queries_or_sample},
    database,
    metrics::Times,
};

/// The texts to embed.
pub(super) struct Texts {
    pub(super) documents: Vec<String>,
    pub(super) queries: Vec<String>,
}

impl Texts {
    pub(super) fn read(messages: Option<&Path>, queries: Option<&Path>, limit: usize) -> anyhow::Result<Self> {
        let lines = messages_or_sample(messages)?.into_iter();
        let mut documents: Vec<String> =
            lines.map(|(_, message)| message.searchable()).filter(|text| !text.trim().is_empty()).collect();
        documents.truncate(limit);
        let query_texts: Vec<String> = queries_or_sample(queries)?.into_iter().map(|line| line.query).collect();
        let name = |file: Option<&Path>| file.unwrap_or(Path::new(SAMPLE)).display().to_string();
        ensure!(!documents.is_empty(), "{}: no message has text", name(messages));
        ensure!(!query_texts.is_empty(), "{}: the file has no query", name(queries));
        Ok(Texts { documents, queries: query_texts })
    }
}

/// A way to run a model.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Case {
    Mnemon,
    /// Peak memory of mnemon; nothing else is measured.
    Memory,
    FastembedDefaults,
    #[value(name = "fastembed-32")]
    Fastembed32,
}

#[derive(Default, Deserialize, Serialize)]
pub(super) struct Measured {
    pub(super) model: String,
    pub(super) texts_per_second: f64,
    pub(super) query_p50_us: f64,
    pub(super) query_p99_us: f64,
    pub(super) peak_memory_mb: Option<f64>,
}

/// Number of texts in a call: as many as the engine embeds at once.
const CALL: usize = 1024;
/// Number of turns, and of single words, in the mix of texts whose memory is measured.
const MIXED: usize = 256;
/// Bytes of the longest text of the mix.
const LONGEST: usize = 1 << 16;
/// Pause between two queries beside the mix.
const PAUSE: Duration = Duration::from_millis(5);
/// Number of queries in a round.
const QUERIES: usize = 300;
/// For how long passes over the texts are repeated at least, so that a fast model is measured long enough.
const LEAST_SECONDS: f64 = 1.0;

impl Case {
    pub(super) fn name(self) -> String {
        self.to_possible_value().expect("no case is skipped").get_name().to_owned()
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Case::Mnemon | Case::Memory => "mnemon",
            Case::FastembedDefaults => "fastembed, defaults",
            Case::Fastembed32 => "fastembed, 32 per run",
        }
    }

    pub(super) fn measure(
        self,
        model: &str,
        texts: &Texts,
        device: &Device,
        threads: usize,
    ) -> anyhow::Result<Measured> {
        match self {
            Case::Mnemon => {
                let embedder: OnnxEmbedder = database::embedder(model, device, Some(threads))?;
                let documents = |texts: &[&str]| Ok(embedder.embed_passages(texts).map(drop)?);
                let query = |text: &str| Ok(embedder.embed_query(text).map(drop)?);
                rates(embedder.identity().name.clone(), texts, documents, query)
            }
            Case::Memory => memory(&database::embedder(model, device, Some(threads))?, texts),
            Case::FastembedDefaults | Case::Fastembed32 => {
                let batch = (self == Case::Fastembed32).then_some(32);
                let peer = RefCell::new(Fastembed::open(model, threads)?);
                let name = Path::new(model).file_name().unwrap_or_default().to_string_lossy().into_owned();
                let documents = |texts: &[&str]| peer.borrow_mut().embed(texts, batch);
                let query = |text: &str| peer.borrow_mut().embed(&[text], batch);
                rates(name, texts, documents, query)
            }
        }
    }
}

fn rates(
    model: String,
    texts: &Texts,
    documents: impl Fn(&[&str]) -> anyhow::Result<()>,
    query: impl Fn(&str) -> anyhow::Result<()>,
) -> anyhow::Result<Measured> {
    let all: Vec<&str> = texts.documents.iter().map(String::as_str).collect();
    // The first calls create sessions and grow buffers, which is not measured.
    documents(&all[..all.len().min(64)])?;
    let (started, mut passes) = (Instant::now(), Times::default());
    while passes.is_empty() || started.elapsed().as_secs_f64() < LEAST_SECONDS {
        passes.time(|| all.chunks(CALL).try_for_each(&documents))?;
    }
    let queries = || texts.queries.iter().cycle().take(QUERIES);
    queries().take(20).try_for_each(|text| query(text))?;
    let mut times = Times::default();
    for text in queries() {
        times.time(|| query(text))?;
    }
    Ok(Measured {
        model,
        texts_per_second: all.len() as f64 * 1e6 / passes.percentile(0.5),
        query_p50_us: times.percentile(0.5),
        query_p99_us: times.percentile(0.99),
        peak_memory_mb: None,
    })
}

/// Measures the peak memory of embedding texts of all lengths from two threads, with queries beside them: words, turns,
/// and texts of up to some hundred chunks.
fn memory(embedder: &OnnxEmbedder, texts: &Texts) -> anyhow::Result<Measured> {
    let usual: Vec<&str> = texts.documents.iter().map(String::as_str).take(MIXED).collect();
    let words: Vec<&str> = usual.iter().flat_map(|text| text.split_whitespace()).take(MIXED).collect();
    let one = usual.join(" ");
    let one = one.repeat(LONGEST.div_ceil(one.len()));
    let long = [LONGEST, LONGEST / 8, LONGEST / 64].map(|bytes| prefix(&one, bytes));
    let unbroken = "x".repeat(LONGEST);
    let mixed: Vec<&str> = long.into_iter().chain([unbroken.as_str()]).chain(words).chain(usual).collect();
    let done = AtomicBool::new(false);
    let embed = || {
        let mut order = mixed.clone();
        // Each thread has the texts in another order.
        order.rotate_left(mixed.len() / 2);
        embedder.embed_passages(&order).map(drop)
    };
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let querying = scope.spawn(|| -> mnemon::Result<()> {
            let mut queries = texts.queries.iter().cycle();
            while !done.load(Ordering::Relaxed) {
                embedder.embed_query(queries.next().expect("`Texts::read` rejects a file without queries"))?;
                std::thread::sleep(PAUSE);
            }
            Ok(())
        });
        let other = scope.spawn(embed);
        let results = (
            embedder.embed_passages(&mixed).map(drop),
            other.join().expect("embedding returns errors and does not panic"),
        );
        done.store(true, Ordering::Relaxed);
        querying.join().expect("embedding returns errors and does not panic")?;
        Ok(results.0.and(results.1)?)
    })?;
    let peak_memory_mb = peak_bytes().map(|bytes| bytes as f64 / (1 << 20) as f64);
    Ok(Measured { model: embedder.identity().name.clone(), peak_memory_mb, ..Measured::default() })
}

fn prefix(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// A model folder that fastembed runs, for comparison.
struct Fastembed {
    model: TextEmbedding,
}

impl Fastembed {
    /// Opens a model with mean pooling, as the small models of sentence-transformers have.
    fn open(folder: &str, threads: usize) -> anyhow::Result<Self> {
        let read = |name: &str| {
            let path = Path::new(folder).join(name);
            std::fs::read(&path).with_context(|| path.display().to_string())
        };
        let tokenizer = TokenizerFiles {
            tokenizer_file: read("tokenizer.json")?,
            config_file: read("config.json")?,
            special_tokens_map_file: read("special_tokens_map.json")?,
            tokenizer_config_file: read("tokenizer_config.json")?,
        };
        let model = UserDefinedEmbeddingModel::new(read("model.onnx")?, tokenizer).with_pooling(Pooling::Mean);
        // fastembed's defaults, except for the number of threads, which is the same in all cases.
        let options = InitOptionsUserDefined::new().with_intra_threads(threads);
        Ok(Fastembed { model: TextEmbedding::try_new_from_user_defined(model, options)? })
    }

    fn embed(&mut self, texts: &[&str], batch: Option<usize>) -> anyhow::Result<()> {
        let rows = self.model.embed(texts, batch)?;
        ensure!(rows.len() == texts.len(), "fastembed gave {} rows for {} texts", rows.len(), texts.len());
        Ok(())
    }
}

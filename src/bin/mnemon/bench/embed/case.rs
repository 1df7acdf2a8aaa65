//! What one process measures.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use clap::ValueEnum;
use mnemon::{Embedder, Model, OnnxEmbedder};
use serde::{Deserialize, Serialize};

use super::{Texts, peer};
use crate::{bench::peak_memory, metrics::percentile};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Case {
    Mnemon,
    /// The peak of memory alone.
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

/// Texts of one call: as many as the engine embeds at once.
const CALL: usize = 1024;
/// Turns, and words, of the mix whose memory is measured; the bytes of its longest text; and the rest between two questions.
const MIXED: usize = 256;
const LONGEST: usize = 1 << 16;
const PAUSE: Duration = Duration::from_millis(5);
/// Questions of a round.
const QUESTIONS: usize = 300;
/// A pass over the texts is repeated until so many seconds are over, so that a fast model is measured long enough.
const LEAST_SECONDS: f64 = 1.0;

impl Case {
    pub(super) fn name(self) -> String {
        self.to_possible_value().expect("no case is skipped").get_name().to_owned()
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Case::Mnemon | Case::Memory => "mnemon",
            Case::FastembedDefaults => "fastembed, defaults",
            Case::Fastembed32 => "fastembed, 32 a run",
        }
    }

    pub(super) fn measure(self, model: &str, texts: &Texts, threads: usize) -> anyhow::Result<Measured> {
        match self {
            Case::Mnemon => {
                let embedder = open(model, threads)?;
                let documents = |texts: &[&str]| Ok(embedder.embed_passages(texts).map(drop)?);
                let question = |text: &str| Ok(embedder.embed_query(text).map(drop)?);
                rates(embedder.identity().name.clone(), texts, documents, question)
            }
            Case::Memory => memory(&open(model, threads)?, texts),
            Case::FastembedDefaults | Case::Fastembed32 => {
                let batch = (self == Case::Fastembed32).then_some(32);
                let peer = std::cell::RefCell::new(peer::Fastembed::open(model, threads)?);
                let name = std::path::Path::new(model).file_name().unwrap_or_default().to_string_lossy().into_owned();
                let documents = |texts: &[&str]| peer.borrow_mut().embed(texts, batch);
                let question = |text: &str| peer.borrow_mut().embed(&[text], batch);
                rates(name, texts, documents, question)
            }
        }
    }
}

fn open(model: &str, threads: usize) -> anyhow::Result<OnnxEmbedder> {
    Ok(OnnxEmbedder::with_options(Model::find(model)?, threads, None)?)
}

fn rates(
    model: String,
    texts: &Texts,
    documents: impl Fn(&[&str]) -> anyhow::Result<()>,
    question: impl Fn(&str) -> anyhow::Result<()>,
) -> anyhow::Result<Measured> {
    let all: Vec<&str> = texts.documents.iter().map(String::as_str).collect();
    // Sessions are made, and buffers grow, with the first.
    documents(&all[..all.len().min(64)])?;
    let (started, mut passes) = (Instant::now(), Vec::new());
    while passes.is_empty() || started.elapsed().as_secs_f64() < LEAST_SECONDS {
        let pass = Instant::now();
        all.chunks(CALL).try_for_each(&documents)?;
        passes.push(pass.elapsed().as_secs_f64());
    }
    passes.sort_by(f64::total_cmp);
    let questions = || texts.questions.iter().cycle().take(QUESTIONS);
    questions().take(20).try_for_each(|text| question(text))?;
    let mut times = Vec::with_capacity(QUESTIONS);
    for text in questions() {
        let one = Instant::now();
        question(text)?;
        times.push(one.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(Measured {
        model,
        texts_per_second: all.len() as f64 / percentile(&passes, 0.5),
        query_p50_us: percentile(&times, 0.5),
        query_p99_us: percentile(&times, 0.99),
        peak_memory_mb: None,
    })
}

/// Texts of all lengths at once, from two threads, and questions meanwhile: words, turns, and texts that make up to some hundred
/// windows.
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
        // The same texts in another order from each thread.
        order.rotate_left(mixed.len() / 2);
        embedder.embed_passages(&order).map(drop)
    };
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let asking = scope.spawn(|| -> mnemon::Result<()> {
            let mut questions = texts.questions.iter().cycle();
            while !done.load(Ordering::Relaxed) {
                embedder.embed_query(questions.next().expect("there are questions"))?;
                std::thread::sleep(PAUSE);
            }
            Ok(())
        });
        let other = scope.spawn(embed);
        let results = (embedder.embed_passages(&mixed).map(drop), other.join().expect("no panic leaves an embedder"));
        done.store(true, Ordering::Relaxed);
        asking.join().expect("no panic leaves an embedder")?;
        Ok(results.0.and(results.1)?)
    })?;
    let peak_memory_mb = peak_memory().map(|bytes| bytes as f64 / (1 << 20) as f64);
    Ok(Measured { model: embedder.identity().name.clone(), peak_memory_mb, ..Measured::default() })
}

fn prefix(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

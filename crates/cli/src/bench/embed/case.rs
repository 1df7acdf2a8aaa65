//! The measurement of one case, in a process of its own.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use clap::ValueEnum;
use mnemon::{Device, Embedder, OnnxEmbedder};
use serde::{Deserialize, Serialize};

use super::{peer, texts::Texts};
use crate::{bench::process_memory::peak_bytes, input, metrics::percentile};

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

/// Texts per call: as many as the engine embeds at once.
const CALL: usize = 1024;
/// Number of turns, and of single words, in the mix of texts whose memory is measured.
const MIXED: usize = 256;
/// Bytes of the longest text of the mix.
const LONGEST: usize = 1 << 16;
/// Pause between two queries beside the mix.
const PAUSE: Duration = Duration::from_millis(5);
/// Queries per round.
const QUERIES: usize = 300;
/// Passes over the texts are repeated for at least this many seconds, so that a fast model is measured long enough.
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
                let embedder: OnnxEmbedder = input::embedder(model, device, Some(threads))?;
                let documents = |texts: &[&str]| Ok(embedder.embed_passages(texts).map(drop)?);
                let query = |text: &str| Ok(embedder.embed_query(text).map(drop)?);
                rates(embedder.identity().name.clone(), texts, documents, query)
            }
            Case::Memory => memory(&input::embedder(model, device, Some(threads))?, texts),
            Case::FastembedDefaults | Case::Fastembed32 => {
                let batch = (self == Case::Fastembed32).then_some(32);
                let peer = std::cell::RefCell::new(peer::Fastembed::open(model, threads)?);
                let name = std::path::Path::new(model).file_name().unwrap_or_default().to_string_lossy().into_owned();
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
    let (started, mut passes) = (Instant::now(), Vec::new());
    while passes.is_empty() || started.elapsed().as_secs_f64() < LEAST_SECONDS {
        let pass = Instant::now();
        all.chunks(CALL).try_for_each(&documents)?;
        passes.push(pass.elapsed().as_secs_f64());
    }
    passes.sort_by(f64::total_cmp);
    let queries = || texts.queries.iter().cycle().take(QUERIES);
    queries().take(20).try_for_each(|text| query(text))?;
    let mut times = Vec::with_capacity(QUERIES);
    for text in queries() {
        let one = Instant::now();
        query(text)?;
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

/// Embeds texts of all lengths from two threads, with queries beside them: words, turns, and texts of up to some
/// hundred windows.
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

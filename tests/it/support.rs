//! What the tests share: temporary databases, seeded messages, and an embedder that needs no model.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use mnemon::{
    Config, Embedder, Engine, Error, Message, ModelIdentity, Namespace, Precision, ReindexOptions, ReindexProgress,
    ReindexReport, Result,
};

/// A temporary folder with the path of a database in it.
pub(crate) struct Db {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) path: PathBuf,
}

impl Db {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("memory.redb");
        Db { folder, path }
    }

    /// With a hashing embedder and no flush but when asked.
    pub(crate) fn open(&self) -> Engine {
        self.open_with(Arc::new(Hashing::new(32)))
    }

    pub(crate) fn open_with(&self, embedder: Arc<dyn Embedder>) -> Engine {
        self.try_open_with(embedder).unwrap()
    }

    pub(crate) fn try_open_with(&self, embedder: Arc<dyn Embedder>) -> Result<Engine> {
        let mut config = Config::default();
        config.flush_size = 100_000;
        Engine::builder(&self.path).config(config).embedder(embedder).open()
    }

    pub(crate) fn assert_sound(&self) -> mnemon::VerifyReport {
        let report = mnemon::verify(&self.path).unwrap();
        assert_eq!(report.problems, [""; 0]);
        report
    }
}

/// Moves a database that is not open, and keeps nothing of before.
pub(crate) fn reindex(
    db: &Db,
    embedder: impl Into<Arc<Hashing>>,
    precision: Option<Precision>,
    progress: impl FnMut(ReindexProgress) -> ControlFlow<()>,
) -> Result<ReindexReport> {
    let mut options = ReindexOptions::default();
    (options.precision, options.keep_previous) = (precision, false);
    mnemon::reindex(&db.path, embedder.into(), options, progress)
}

pub(crate) fn go_on(_: ReindexProgress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Stops once so many messages are embedded.
pub(crate) fn stop_after(done: u64) -> impl FnMut(ReindexProgress) -> ControlFlow<()> {
    move |progress| if progress.done >= done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

pub(crate) fn namespace(name: &str) -> Namespace {
    name.parse().unwrap()
}

pub(crate) fn message(id: &str, text: &str) -> Message {
    Message::user(text).with_id(id)
}

/// Said even though the test passes: the runner captures only what is printed by macros.
pub(crate) fn skipped(what: &str) {
    use std::io::Write;
    let mut stderr = std::io::stderr();
    writeln!(stderr, "SKIPPED {what}").unwrap();
}

/// An error and all that is behind it.
pub(crate) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

/// The committed sample.
pub(crate) fn sample(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/sample").join(file)
}

/// Words hashed to seeded vectors and added up: texts that share words are near, and it costs nothing. A real
/// implementation of [`Embedder`], for tests of everything but the models.
pub(crate) struct Hashing {
    identity: ModelIdentity,
    /// Texts of more bytes are split into windows of this many, half overlapping.
    pub(crate) window_bytes: usize,
    /// Fails while set.
    pub(crate) broken: AtomicBool,
    /// A text or a question with this word never embeds.
    pub(crate) poison: Option<&'static str>,
    /// Texts embedded so far.
    pub(crate) embedded: AtomicUsize,
}

impl Hashing {
    pub(crate) fn new(dimension: usize) -> Self {
        let identity = ModelIdentity { name: "hashing".into(), dimension, hash: format!("hashing-{dimension}") };
        Hashing {
            identity,
            window_bytes: usize::MAX,
            broken: AtomicBool::new(false),
            poison: None,
            embedded: AtomicUsize::new(0),
        }
    }

    fn embed(&self, text: &str) -> Vec<f32> {
        let mut sum = vec![0.0; self.identity.dimension];
        for word in text.split_whitespace() {
            let mut state = word
                .bytes()
                .fold(0x9e37_79b9_7f4a_7c15, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
            for x in &mut sum {
                *x += random(&mut state);
            }
        }
        normalized(sum)
    }
}

impl Embedder for Hashing {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn windows(&self, text: &str) -> Vec<std::ops::Range<usize>> {
        let mut windows = Vec::new();
        let mut begin: usize = 0;
        loop {
            let end = text.floor_char_boundary(begin.saturating_add(self.window_bytes).min(text.len()));
            windows.push(begin..end);
            if end == text.len() {
                return windows;
            }
            begin = text.floor_char_boundary(begin + self.window_bytes / 2);
        }
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let poisoned = self.poison.is_some_and(|poison| texts.iter().any(|text| text.contains(poison)));
        if self.broken.load(Ordering::Relaxed) || poisoned {
            return Err(Error::Embedding { reason: "broken on purpose".into(), source: None });
        }
        self.embedded.fetch_add(texts.len(), Ordering::Relaxed);
        Ok(texts.iter().map(|text| self.embed(text)).collect())
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        match self.poison.is_some_and(|poison| text.contains(poison)) {
            true => Err(Error::Embedding { reason: "broken on purpose".into(), source: None }),
            false => Ok(self.embed(text)),
        }
    }
}

/// The next of a seeded sequence, in -1 to 1 (SplitMix64, Steele et al. 2014).
pub(crate) fn random(state: &mut u64) -> f32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

pub(crate) fn normalized(mut vector: Vec<f32>) -> Vec<f32> {
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if norm > 0.0 {
        vector.iter_mut().for_each(|x| *x /= norm);
    }
    vector
}

/// `count` seeded unit vectors in clusters, one after the other.
pub(crate) fn vectors(count: usize, dimension: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let centres: Vec<Vec<f32>> = (0..20).map(|_| (0..dimension).map(|_| random(&mut state)).collect()).collect();
    (0..count)
        .flat_map(|i| {
            let noisy = centres[i % centres.len()].iter().map(|x| x + 0.7 * random(&mut state)).collect();
            normalized(noisy)
        })
        .collect()
}

//! Embedders that need no model: one that hashes words, one that runs a function before each call, one whose vectors
//! are given.

use std::{
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Instant,
};

use mnemon::{Embedder, Error, ModelIdentity, Result};

use super::{normalized, random};

/// Adds up seeded vectors of the words' hashes, so that texts with common words are similar. It is fast, and
/// deterministic.
pub(crate) struct Hashing {
    identity: ModelIdentity,
    /// Texts of more bytes are split into windows of this many, half overlapping.
    pub(crate) window_bytes: usize,
    /// Documents fail while this is set.
    pub(crate) broken: AtomicBool,
    /// Documents and queries with this word fail.
    pub(crate) poison: Option<&'static str>,
    /// Number of documents embedded so far.
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

    fn windows(&self, text: &str) -> Vec<Range<usize>> {
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

/// The call that a [`Hooked`] embedder is about to make.
pub(crate) enum Call<'a> {
    Documents(&'a [&'a str]),
    Query { text: &'a str, deadline: Option<Instant> },
}

impl Call<'_> {
    /// Returns true if one of the texts contains the word.
    pub(crate) fn contains(&self, word: &str) -> bool {
        match self {
            Call::Documents(texts) => texts.iter().any(|text| text.contains(word)),
            Call::Query { text, .. } => text.contains(word),
        }
    }
}

type Hook = dyn Fn(&Call<'_>) -> Result<()> + Send + Sync;

/// Runs a function before each call of a [`Hashing`] embedder: to wait, to count, or to fail.
pub(crate) struct Hooked {
    pub(crate) inner: Hashing,
    hook: Box<Hook>,
}

impl Hooked {
    pub(crate) fn new(inner: Hashing, hook: impl Fn(&Call<'_>) -> Result<()> + Send + Sync + 'static) -> Self {
        Hooked { inner, hook: Box::new(hook) }
    }
}

impl Embedder for Hooked {
    fn identity(&self) -> &ModelIdentity {
        self.inner.identity()
    }

    fn windows(&self, text: &str) -> Vec<Range<usize>> {
        self.inner.windows(text)
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        (self.hook)(&Call::Documents(texts))?;
        self.inner.embed_documents(texts)
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        self.embed_query_before(text, None)
    }

    fn embed_query_before(&self, text: &str, deadline: Option<Instant>) -> Result<Vec<f32>> {
        (self.hook)(&Call::Query { text, deadline })?;
        self.inner.embed_query(text)
    }
}

/// Holds up an embedder at texts that contain "GATE", for as long as a test holds the lock.
#[derive(Default)]
pub(crate) struct Gate {
    pub(crate) gate: Mutex<()>,
    /// Number of calls that came to the gate.
    pub(crate) entered: AtomicUsize,
}

impl Gate {
    /// Returns a gate and an embedder that it holds up.
    pub(crate) fn embedder(dimension: usize) -> (Arc<Gate>, Arc<Hooked>) {
        let gate = Arc::new(Gate::default());
        let hook = {
            let gate = Arc::clone(&gate);
            move |call: &Call<'_>| {
                if call.contains("GATE") {
                    gate.entered.fetch_add(1, Ordering::SeqCst);
                    drop(gate.gate.lock().unwrap());
                }
                Ok(())
            }
        };
        (gate, Arc::new(Hooked::new(Hashing::new(dimension), hook)))
    }
}

type Vectors = dyn Fn(&[&str]) -> Result<Vec<Vec<f32>>> + Send + Sync;

/// Returns what a function returns for the texts, right or wrong. A query gets the first of its vectors.
pub(crate) struct Scripted {
    identity: ModelIdentity,
    vectors: Box<Vectors>,
    /// The windows of every text; `None` for the whole text.
    windows: Option<Vec<Range<usize>>>,
}

impl Scripted {
    pub(crate) fn new(
        dimension: usize,
        vectors: impl Fn(&[&str]) -> Result<Vec<Vec<f32>>> + Send + Sync + 'static,
    ) -> Self {
        // A database that it was used with can be opened with a `Hashing` embedder.
        let identity = Hashing::new(dimension).identity;
        Scripted { identity, vectors: Box::new(vectors), windows: None }
    }

    /// Splits every text into these windows.
    pub(crate) fn with_windows(self, windows: Vec<Range<usize>>) -> Self {
        Scripted { windows: Some(windows), ..self }
    }
}

impl Embedder for Scripted {
    fn identity(&self) -> &ModelIdentity {
        &self.identity
    }

    fn windows(&self, text: &str) -> Vec<Range<usize>> {
        self.windows.clone().unwrap_or_else(|| std::iter::once(0..text.len()).collect())
    }

    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        (self.vectors)(texts)
    }

    fn embed_query(&self, text: &str) -> Result<Vec<f32>> {
        Ok(self.embed_documents(&[text])?.swap_remove(0))
    }
}

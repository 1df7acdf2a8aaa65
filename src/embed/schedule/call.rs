//! A call of the embedder: its texts, and the vectors computed so far.

use std::{ops::Range, sync::atomic::AtomicU64};

use parking_lot::{Condvar, Mutex};

use super::super::{embedder::Passage, token_windows::Window};
use crate::error::{Error, Result};

/// The method that embeds the texts of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One vector for each text.
    Documents,
    /// Texts of any length, with one vector for each window.
    Passages,
}

/// The texts of a call, and its result so far.
pub(super) struct Call {
    texts: Vec<String>,
    pub(super) kind: Kind,
    /// The call's position in the pool. Only the pool reads and writes it.
    pub(super) position: AtomicU64,
    outcome: Mutex<Outcome>,
    /// Signalled when all vectors or an error have arrived.
    over: Condvar,
}

/// The result so far.
struct Outcome {
    /// Vectors are empty until they are computed.
    passages: Vec<Vec<Passage>>,
    /// Number of texts that are not tokenized, plus parts of the others without a vector.
    missing: usize,
    error: Option<Error>,
}

/// The tokens of one window of a text.
pub(super) struct Part {
    text: usize,
    number: usize,
    pub(super) tokens: Vec<u32>,
}

impl Call {
    pub(super) fn new(texts: &[&str], kind: Kind) -> Self {
        let passages = texts.iter().map(|_| Vec::new()).collect();
        let outcome = Outcome { passages, missing: texts.len(), error: None };
        let texts = texts.iter().map(|&text| text.to_owned()).collect();
        Call { texts, kind, position: AtomicU64::new(0), outcome: Mutex::new(outcome), over: Condvar::new() }
    }

    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Records the windows of a text, and returns them as parts.
    pub(super) fn split(&self, text: usize, windows: Vec<Window>) -> impl Iterator<Item = Part> {
        let vector = Vec::new;
        let passages = windows.iter().map(|window| Passage { range: window.range.clone(), vector: vector() }).collect();
        let mut outcome = self.outcome.lock();
        outcome.missing += windows.len();
        outcome.missing -= 1;
        outcome.passages[text] = passages;
        windows.into_iter().enumerate().map(move |(number, window)| Part { text, number, tokens: window.tokens })
    }

    /// Records the vector of a part.
    pub(super) fn deliver(&self, part: &Part, vector: Vec<f32>) {
        let mut outcome = self.outcome.lock();
        outcome.passages[part.text][part.number].vector = vector;
        outcome.missing -= 1;
        if outcome.missing == 0 {
            self.over.notify_all();
        }
    }

    /// Fails the call. The first error counts.
    pub(super) fn fail(&self, error: Error) {
        self.outcome.lock().error.get_or_insert(error);
        self.over.notify_all();
    }

    /// Blocks until the call is done and takes its result. May be called once.
    pub(super) fn wait(&self) -> Result<Vec<Vec<Passage>>> {
        let mut outcome = self.outcome.lock();
        while outcome.missing > 0 && outcome.error.is_none() {
            self.over.wait(&mut outcome);
        }
        match outcome.error.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut outcome.passages)),
        }
    }
}

/// Returns the next texts that are tokenized together: few enough that other calls make progress meanwhile.
pub(super) fn chunk(texts: &[String], untokenized: &Range<usize>) -> Range<usize> {
    const TEXTS: usize = 32;
    const BYTES: usize = 8192;
    let mut bytes = 0;
    let many = texts[untokenized.clone()].iter().take(TEXTS).take_while(|text| {
        let fits = bytes < BYTES;
        bytes += text.len();
        fits
    });
    untokenized.start..untokenized.start + many.count()
}

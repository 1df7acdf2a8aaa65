//! One call: its texts, and what has come of them.

use std::{ops::Range, sync::atomic::AtomicU64};

use parking_lot::{Condvar, Mutex};

use super::super::{Passage, windows::Window};
use crate::error::{Error, Result};

/// What the texts of a call are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kind {
    /// One vector each.
    Documents,
    /// Of any length: a vector for each window.
    Passages,
}

pub(super) struct Call {
    texts: Vec<String>,
    pub(super) kind: Kind,
    /// Its place in the pool, which alone reads and changes it.
    pub(super) turn: AtomicU64,
    outcome: Mutex<Outcome>,
    /// All vectors are there, or an error is.
    over: Condvar,
}

struct Outcome {
    /// Vectors are empty until they come.
    passages: Vec<Vec<Passage>>,
    /// Texts that are not tokenised, and parts of the others that have no vector.
    missing: usize,
    error: Option<Error>,
}

/// A part of a text, and its tokens.
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
        Call { texts, kind, turn: AtomicU64::new(0), outcome: Mutex::new(outcome), over: Condvar::new() }
    }

    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }

    /// Takes note of a text's parts.
    pub(super) fn split(&self, text: usize, windows: Vec<Window>) -> impl Iterator<Item = Part> {
        let vector = Vec::new;
        let passages = windows.iter().map(|window| Passage { range: window.range.clone(), vector: vector() }).collect();
        let mut outcome = self.outcome.lock();
        outcome.missing += windows.len();
        outcome.missing -= 1;
        outcome.passages[text] = passages;
        windows.into_iter().enumerate().map(move |(number, window)| Part { text, number, tokens: window.tokens })
    }

    pub(super) fn deliver(&self, part: &Part, vector: Vec<f32>) {
        let mut outcome = self.outcome.lock();
        outcome.passages[part.text][part.number].vector = vector;
        outcome.missing -= 1;
        if outcome.missing == 0 {
            self.over.notify_all();
        }
    }

    /// The first error is the call's.
    pub(super) fn fail(&self, error: Error) {
        self.outcome.lock().error.get_or_insert(error);
        self.over.notify_all();
    }

    /// Blocks until the call is over. Once.
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

/// The next texts that are tokenised together: few enough that others get at theirs meanwhile.
pub(super) fn chunk(texts: &[String], unread: &Range<usize>) -> Range<usize> {
    const TEXTS: usize = 32;
    const BYTES: usize = 8192;
    let mut bytes = 0;
    let many = texts[unread.clone()].iter().take(TEXTS).take_while(|text| {
        let fits = bytes < BYTES;
        bytes += text.len();
        fits
    });
    unread.start..unread.start + many.count()
}

//! Choosing examples for a few-shot prompt, as LangChain's example selectors do.
//!
//! Owns the choice alone: how a prompt is written is the caller's. Examples live in memory, and are not the messages of the
//! store. Invariant: an example is chosen at most once.

mod embedded;
mod length;
mod ngram;
mod relevance;
mod similarity;

use std::fmt;

pub use length::{ByLength, ExampleFormat};
pub use ngram::ByNgramOverlap;
pub use relevance::ByMarginalRelevance;
pub use similarity::BySimilarity;

use crate::error::Result;

/// What the model is shown: an input, and the output that was right for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Example {
    /// What was asked.
    pub input: String,
    /// What was answered.
    pub output: String,
}

impl Example {
    /// An example.
    pub fn new(input: impl Into<String>, output: impl Into<String>) -> Self {
        Example { input: input.into(), output: output.into() }
    }
}

impl fmt::Display for Example {
    /// `Input: ...` and `Output: ...`, a line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Input: {}\nOutput: {}", self.input, self.output)
    }
}

/// Chooses examples for an input.
pub trait ExampleSelector: Send + Sync {
    /// The chosen examples, in the order in which they belong into the prompt.
    ///
    /// # Errors
    /// A setting outside its range, or an embedder that fails.
    fn select(&self, input: &str) -> Result<Vec<Example>>;
}

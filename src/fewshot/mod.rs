//! Selection of examples for a few-shot prompt, with the semantics of LangChain's example selectors.
//!
//! This module owns the selection only: the caller writes the prompt. Examples are kept in memory and are independent
//! of the messages in a store; the engine has a selector of examples in its store. Invariant: an example is selected at
//! most once.

mod by_meaning;
mod by_text;

use std::fmt;

use crate::error::Result;
pub use by_meaning::{MaxMarginalRelevanceExampleSelector, SemanticSimilarityExampleSelector};
pub use by_text::{Bm25ExampleSelector, ExampleFormatter, LengthBasedExampleSelector, NgramOverlapExampleSelector};

/// An example for a model: an input and the right output for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FewShotExample {
    /// The input.
    pub input: String,
    /// The output that is right for the input.
    pub output: String,
}

impl FewShotExample {
    /// Creates an example.
    pub fn new(input: impl Into<String>, output: impl Into<String>) -> Self {
        FewShotExample { input: input.into(), output: output.into() }
    }
}

impl fmt::Display for FewShotExample {
    /// Formats the example as two lines, `Input: ...` and `Output: ...`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Input: {}\nOutput: {}", self.input, self.output)
    }
}

/// Selects examples for an input.
pub trait ExampleSelector: Send + Sync {
    /// Returns the selected examples, in the order in which they belong into the prompt.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`](crate::Error::InvalidConfig) for an option outside its range; the errors of the
    /// embedder.
    fn select(&self, input: &str) -> Result<Vec<FewShotExample>>;
}

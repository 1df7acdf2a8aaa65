//! Examples, and the trait of example selectors.

use std::fmt;

use crate::error::Result;

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

//! Selection of examples by their total length.

use std::sync::Arc;

use super::example::{ExampleSelector, FewShotExample};
use crate::{
    error::{Result, impl_debug},
    tokens::TokenCounter,
};

/// A function that formats an example as it appears in the prompt.
pub type ExampleFormatter = Arc<dyn Fn(&FewShotExample) -> String + Send + Sync>;

/// Selects the first examples that fit into a length, in their order. A long input leaves room for fewer examples.
/// Selection stops at the first example that does not fit.
///
/// Corresponds to LangChain's `LengthBasedExampleSelector`.
///
/// ```
/// use mnemon::{ExampleSelector, FewShotExample, LengthBasedExampleSelector};
/// let examples = vec![
///     FewShotExample::new("happy", "sad"),
///     FewShotExample::new("tall", "short"),
///     FewShotExample::new("fast", "slow"),
/// ];
/// let selector = LengthBasedExampleSelector::new(examples, 10);
/// assert_eq!(selector.select("big")?.len(), 2);
/// assert_eq!(selector.select("a big thing, and then another one")?.len(), 0);
/// # Ok::<(), mnemon::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct LengthBasedExampleSelector {
    /// The examples to select from.
    pub examples: Vec<FewShotExample>,
    /// The maximum length of the input and the examples together.
    pub max_length: usize,
    /// Measures the length of a text. Default: the number of spaces and newlines plus one, which is the number of words
    /// if none are doubled.
    pub length: Arc<dyn TokenCounter>,
    /// Formats an example to measure its length. Default: the [`Display`](std::fmt::Display) form, `Input: ...` and
    /// `Output: ...`.
    pub format: ExampleFormatter,
}

impl_debug!(LengthBasedExampleSelector { examples, max_length });

impl LengthBasedExampleSelector {
    /// Creates a selector with a maximum length in words.
    pub fn new(examples: Vec<FewShotExample>, max_length: usize) -> Self {
        let words = |text: &str| text.split([' ', '\n']).count();
        let format = Arc::new(FewShotExample::to_string);
        LengthBasedExampleSelector { examples, max_length, length: Arc::new(words), format }
    }
}

impl ExampleSelector for LengthBasedExampleSelector {
    fn select(&self, input: &str) -> Result<Vec<FewShotExample>> {
        let mut left = self.max_length.saturating_sub(self.length.count(input));
        let mut selected = Vec::new();
        for example in &self.examples {
            let length = self.length.count(&(self.format)(example));
            // Without any room left, even an example of length 0 does not fit.
            if left == 0 || length > left {
                break;
            }
            left -= length;
            selected.push(example.clone());
        }
        Ok(selected)
    }
}

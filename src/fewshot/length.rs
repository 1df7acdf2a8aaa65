//! As many as fit.

use std::sync::Arc;

use super::{Example, ExampleSelector};
use crate::{
    error::{Result, impl_debug},
    tokens::TokenCounter,
};

/// Writes an example as the prompt has it.
pub type ExampleFormat = Arc<dyn Fn(&Example) -> String + Send + Sync>;

/// The first examples that fit, in their order, as LangChain's `LengthBasedExampleSelector`: a long input leaves room for
/// few. Stops at the first that does not fit.
///
/// ```
/// use mnemon::{ByLength, Example, ExampleSelector};
/// let examples = vec![Example::new("happy", "sad"), Example::new("tall", "short"), Example::new("fast", "slow")];
/// let selector = ByLength::new(examples, 10);
/// assert_eq!(selector.select("big")?.len(), 2);
/// assert_eq!(selector.select("a big thing, and then another one")?.len(), 0);
/// # Ok::<(), mnemon::Error>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ByLength {
    /// What is chosen from.
    pub examples: Vec<Example>,
    /// The length of the input and the examples together.
    pub max_length: usize,
    /// Measures a text. Default: its spaces and newlines, and one, which is the number of words where none are doubled.
    pub length: Arc<dyn TokenCounter>,
    /// How an example is written, to be measured. Default: by [`Display`](std::fmt::Display), `Input: ...` and `Output: ...`.
    pub format: ExampleFormat,
}

impl_debug!(ByLength { examples, max_length });

impl ByLength {
    /// Of these examples, in words.
    pub fn new(examples: Vec<Example>, max_length: usize) -> Self {
        let words = |text: &str| text.split([' ', '\n']).count();
        ByLength { examples, max_length, length: Arc::new(words), format: Arc::new(Example::to_string) }
    }
}

impl ExampleSelector for ByLength {
    fn select(&self, input: &str) -> Result<Vec<Example>> {
        let mut left = self.max_length.saturating_sub(self.length.count(input));
        let mut chosen = Vec::new();
        for example in &self.examples {
            let length = self.length.count(&(self.format)(example));
            // No room left: not even for one that measures nothing.
            if left == 0 || length > left {
                break;
            }
            left -= length;
            chosen.push(example.clone());
        }
        Ok(chosen)
    }
}

//! The nearest.

use std::sync::Arc;

use super::{Example, ExampleSelector, embedded::EmbeddedExamples};
use crate::{
    embed::Embedder,
    error::{Result, impl_debug},
};

/// The examples whose inputs are most similar to the input, as LangChain's `SemanticSimilarityExampleSelector`; the most
/// similar first. Outputs are not embedded.
#[non_exhaustive]
pub struct BySimilarity {
    examples: EmbeddedExamples,
    /// How many. Default: 4.
    pub k: usize,
}

impl_debug!(BySimilarity { k });

impl BySimilarity {
    /// Embeds the examples, once.
    ///
    /// # Errors
    /// [`Error::Embedding`](crate::Error::Embedding), [`Error::InvalidVector`](crate::Error::InvalidVector).
    pub fn new(examples: Vec<Example>, embedder: Arc<dyn Embedder>) -> Result<Self> {
        Ok(BySimilarity { examples: EmbeddedExamples::new(examples, embedder)?, k: 4 })
    }
}

impl ExampleSelector for BySimilarity {
    fn select(&self, input: &str) -> Result<Vec<Example>> {
        Ok(self.examples.nearest(input, self.k)?.into_iter().map(|near| near.example.clone()).collect())
    }
}

//! Selection of examples by embedding similarity.

use std::sync::Arc;

use super::{
    embedded_examples::EmbeddedExamples,
    example::{ExampleSelector, FewShotExample},
};
use crate::{
    embed::Embedder,
    error::{Result, impl_debug},
};

/// Selects the examples whose inputs are most similar to the input, the most similar first. Outputs are not embedded.
///
/// Corresponds to LangChain's `SemanticSimilarityExampleSelector`.
#[non_exhaustive]
pub struct SemanticSimilarityExampleSelector {
    examples: EmbeddedExamples,
    /// The number of examples to select. Default: 4.
    pub k: usize,
}

impl_debug!(SemanticSimilarityExampleSelector { k });

impl SemanticSimilarityExampleSelector {
    /// Creates a selector and embeds the examples.
    ///
    /// # Errors
    /// [`Error::Embedding`](crate::Error::Embedding), [`Error::InvalidVector`](crate::Error::InvalidVector).
    pub fn new(examples: Vec<FewShotExample>, embedder: Arc<dyn Embedder>) -> Result<Self> {
        Ok(SemanticSimilarityExampleSelector { examples: EmbeddedExamples::new(examples, embedder)?, k: 4 })
    }

    /// Embeds further examples and adds them after the others.
    ///
    /// # Errors
    /// [`Error::Embedding`](crate::Error::Embedding), [`Error::InvalidVector`](crate::Error::InvalidVector). Then none
    /// is added.
    pub fn add(&mut self, examples: Vec<FewShotExample>) -> Result<()> {
        self.examples.add(examples)
    }
}

impl ExampleSelector for SemanticSimilarityExampleSelector {
    fn select(&self, input: &str) -> Result<Vec<FewShotExample>> {
        Ok(self.examples.nearest(input, self.k)?.into_iter().map(|similar| similar.example.clone()).collect())
    }
}

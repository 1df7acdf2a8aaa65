//! Selection of examples by maximal marginal relevance.

use std::sync::Arc;

use mnemon_index::mmr;

use super::{
    embedded_examples::EmbeddedExamples,
    example::{ExampleSelector, FewShotExample},
};
use crate::{
    embed::Embedder,
    error::{Error, Result, impl_debug},
};

/// Selects examples that are similar to the input but different from each other, by maximal marginal relevance, in the
/// order of selection.
///
/// Corresponds to LangChain's `MaxMarginalRelevanceExampleSelector`. The candidates are the examples that
/// [`SemanticSimilarityExampleSelector`](crate::SemanticSimilarityExampleSelector) selects.
#[non_exhaustive]
pub struct MaxMarginalRelevanceExampleSelector {
    examples: EmbeddedExamples,
    /// The number of examples to select. Default: 4.
    pub k: usize,
    /// The number of similar examples to select from. Default: 20.
    pub fetch_k: usize,
    /// The weight of similarity to the input, 0 to 1; the rest is the weight of difference from the examples already
    /// selected. The first example is always the most similar one. Default: 0.5.
    pub lambda: f64,
}

impl_debug!(MaxMarginalRelevanceExampleSelector { k, fetch_k, lambda });

impl MaxMarginalRelevanceExampleSelector {
    /// Creates a selector and embeds the examples.
    ///
    /// # Errors
    /// [`Error::Embedding`], [`Error::InvalidVector`].
    pub fn new(examples: Vec<FewShotExample>, embedder: Arc<dyn Embedder>) -> Result<Self> {
        let examples = EmbeddedExamples::new(examples, embedder)?;
        Ok(MaxMarginalRelevanceExampleSelector { examples, k: 4, fetch_k: 20, lambda: 0.5 })
    }

    /// Embeds further examples and adds them after the others.
    ///
    /// # Errors
    /// [`Error::Embedding`], [`Error::InvalidVector`]. Then none is added.
    pub fn add(&mut self, examples: Vec<FewShotExample>) -> Result<()> {
        self.examples.add(examples)
    }
}

impl ExampleSelector for MaxMarginalRelevanceExampleSelector {
    /// # Errors
    /// [`Error::InvalidConfig`] if `lambda` is not between 0 and 1; the errors of the embedder.
    fn select(&self, input: &str) -> Result<Vec<FewShotExample>> {
        if !(0.0..=1.0).contains(&self.lambda) {
            return Err(Error::InvalidConfig { reason: format!("lambda is {}, not within 0 to 1", self.lambda) });
        }
        let nearest = self.examples.nearest(input, self.fetch_k)?;
        let relevance: Vec<f64> = nearest.iter().map(|similar| similar.similarity).collect();
        let vectors: Vec<&[f32]> = nearest.iter().map(|similar| similar.vector).collect();
        let selected = mmr(&relevance, &vectors, self.k, self.lambda);
        Ok(selected.into_iter().map(|index| nearest[index].example.clone()).collect())
    }
}

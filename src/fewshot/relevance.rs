//! The nearest, but no two alike.

use std::sync::Arc;

use super::{Example, ExampleSelector, embedded::EmbeddedExamples};
use crate::{
    embed::Embedder,
    error::{Error, Result, impl_debug},
    index::mmr,
};

/// Of the examples that [`BySimilarity`](super::BySimilarity) finds, those that are also unlike one another, by maximal
/// marginal relevance, as LangChain's `MaxMarginalRelevanceExampleSelector`; in the order of choice.
#[non_exhaustive]
pub struct ByMarginalRelevance {
    examples: EmbeddedExamples,
    /// How many. Default: 4.
    pub k: usize,
    /// How many similar ones they are chosen from. Default: 20.
    pub fetch_k: usize,
    /// 1: only similarity to the input counts; 0: only being unlike those chosen, but for the first. Default: 0.5.
    pub lambda: f64,
}

impl_debug!(ByMarginalRelevance { k, fetch_k, lambda });

impl ByMarginalRelevance {
    /// Embeds the examples, once.
    ///
    /// # Errors
    /// [`Error::Embedding`], [`Error::InvalidVector`].
    pub fn new(examples: Vec<Example>, embedder: Arc<dyn Embedder>) -> Result<Self> {
        Ok(ByMarginalRelevance { examples: EmbeddedExamples::new(examples, embedder)?, k: 4, fetch_k: 20, lambda: 0.5 })
    }
}

impl ExampleSelector for ByMarginalRelevance {
    /// # Errors
    /// [`Error::InvalidConfig`]: `lambda` is not within 0 to 1. What the embedder fails with.
    fn select(&self, input: &str) -> Result<Vec<Example>> {
        if !(0.0..=1.0).contains(&self.lambda) {
            return Err(Error::InvalidConfig { reason: format!("lambda is {}, not within 0 to 1", self.lambda) });
        }
        let near = self.examples.nearest(input, self.fetch_k)?;
        let relevance: Vec<f64> = near.iter().map(|near| near.similarity).collect();
        let vectors: Vec<&[f32]> = near.iter().map(|near| near.vector).collect();
        let chosen = mmr(&relevance, &vectors, self.k, self.lambda);
        Ok(chosen.into_iter().map(|number| near[number].example.clone()).collect())
    }
}

//! Selectors that embed the examples: by similarity to the input, and by maximal marginal relevance.

use std::sync::Arc;

use mnemon_index::{cosine, mmr};

use super::{ExampleSelector, FewShotExample};
use crate::{
    embed::{self, Embedder},
    error::{Error, Result, impl_debug},
    recall::check_query_text,
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

/// Examples with the vectors of their inputs, one vector per chunk.
struct EmbeddedExamples {
    examples: Vec<(FewShotExample, Vec<Vec<f32>>)>,
    embedder: Arc<dyn Embedder>,
}

/// An example and its similarity to a query.
struct SimilarExample<'e> {
    example: &'e FewShotExample,
    /// The vector of the example's most similar chunk.
    vector: &'e [f32],
    /// The cosine similarity of that chunk.
    similarity: f64,
}

impl EmbeddedExamples {
    fn new(examples: Vec<FewShotExample>, embedder: Arc<dyn Embedder>) -> Result<Self> {
        let mut embedded = EmbeddedExamples { examples: Vec::new(), embedder };
        embedded.add(examples)?;
        Ok(embedded)
    }

    /// Embeds the inputs of further examples, and adds them after the others. Adds none if there is an error.
    fn add(&mut self, examples: Vec<FewShotExample>) -> Result<()> {
        let embedder = &*self.embedder;
        let windows =
            examples.iter().map(|example| embed::windows(embedder, &example.input)).collect::<Result<Vec<_>>>()?;
        let counts: Vec<usize> = windows.iter().map(Vec::len).collect();
        let mut vectors = match windows.concat() {
            windows if windows.is_empty() => Vec::new(),
            windows => embed::documents(embedder, &windows)?,
        }
        .into_iter();
        let by_example: Vec<Vec<Vec<f32>>> =
            counts.into_iter().map(|count| vectors.by_ref().take(count).collect()).collect();
        self.examples.extend(examples.into_iter().zip(by_example));
        Ok(())
    }

    /// Returns the `k` most similar examples, the most similar first; examples with equal similarity keep their order.
    /// The similarity is that of the best pair of a chunk of the input and a chunk of the example.
    fn nearest(&self, input: &str, k: usize) -> Result<Vec<SimilarExample<'_>>> {
        check_query_text(input)?;
        let queries = embed::windows(&*self.embedder, input)?
            .into_iter()
            .map(|window| embed::query(&*self.embedder, window))
            .collect::<Result<Vec<_>>>()?;
        let mut nearest: Vec<SimilarExample<'_>> = Vec::new();
        for (example, vectors) in &self.examples {
            let pairs = vectors.iter().flat_map(|vector| queries.iter().map(move |query| (vector, query)));
            let similar =
                pairs.map(|(vector, query)| SimilarExample { example, vector, similarity: cosine(query, vector) });
            nearest.extend(similar.reduce(|best, next| if next.similarity > best.similarity { next } else { best }));
        }
        nearest.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
        nearest.truncate(k);
        Ok(nearest)
    }
}

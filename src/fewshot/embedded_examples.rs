//! Nearest-neighbor search over the embedded inputs of examples.

use std::sync::Arc;

use mnemon_index::cosine;

use super::example::FewShotExample;
use crate::{
    embed::{self, Embedder},
    error::Result,
    recall::check_query_text,
};

/// Examples with the vectors of their inputs, one vector per window.
pub(super) struct EmbeddedExamples {
    examples: Vec<(FewShotExample, Vec<Vec<f32>>)>,
    embedder: Arc<dyn Embedder>,
}

/// An example and its similarity to a query.
pub(super) struct SimilarExample<'e> {
    pub(super) example: &'e FewShotExample,
    /// The vector of the example's most similar window.
    pub(super) vector: &'e [f32],
    /// The cosine similarity of that window.
    pub(super) similarity: f64,
}

impl EmbeddedExamples {
    /// Embeds the inputs of the examples.
    pub(super) fn new(examples: Vec<FewShotExample>, embedder: Arc<dyn Embedder>) -> Result<Self> {
        let mut embedded = EmbeddedExamples { examples: Vec::new(), embedder };
        embedded.add(examples)?;
        Ok(embedded)
    }

    /// Embeds the inputs of further examples, and adds them after the others. Adds none if there is an error.
    pub(super) fn add(&mut self, examples: Vec<FewShotExample>) -> Result<()> {
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
    /// The similarity is that of the best pair of a window of the input and a window of the example.
    pub(super) fn nearest(&self, input: &str, k: usize) -> Result<Vec<SimilarExample<'_>>> {
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

//! Examples found by the vectors of their inputs.

use std::sync::Arc;

use super::Example;
use crate::{
    embed::{self, Embedder},
    error::Result,
    index::cosine,
};

/// Examples and the vectors of their inputs, one a window.
pub(super) struct EmbeddedExamples {
    examples: Vec<(Example, Vec<Vec<f32>>)>,
    embedder: Arc<dyn Embedder>,
}

/// An example, and how near it is to a question.
pub(super) struct Near<'e> {
    pub(super) example: &'e Example,
    /// Of its window that is nearest.
    pub(super) vector: &'e [f32],
    /// Its cosine.
    pub(super) similarity: f64,
}

impl EmbeddedExamples {
    pub(super) fn new(examples: Vec<Example>, embedder: Arc<dyn Embedder>) -> Result<Self> {
        let windows =
            examples.iter().map(|example| embed::windows(&*embedder, &example.input)).collect::<Result<Vec<_>>>()?;
        let counts: Vec<usize> = windows.iter().map(Vec::len).collect();
        let mut rows = match windows.concat() {
            windows if windows.is_empty() => Vec::new(),
            windows => embed::documents(&*embedder, &windows)?,
        }
        .into_iter();
        let vectors: Vec<Vec<Vec<f32>>> = counts.into_iter().map(|count| rows.by_ref().take(count).collect()).collect();
        Ok(EmbeddedExamples { examples: examples.into_iter().zip(vectors).collect(), embedder })
    }

    /// The `k` nearest, nearest first; among equals in their order. Of a long input, as of a long example, the window counts
    /// that is nearest.
    pub(super) fn nearest(&self, input: &str, k: usize) -> Result<Vec<Near<'_>>> {
        let questions = embed::windows(&*self.embedder, input)?
            .into_iter()
            .map(|window| embed::query(&*self.embedder, window))
            .collect::<Result<Vec<_>>>()?;
        let mut near: Vec<Near<'_>> = Vec::new();
        for (example, vectors) in &self.examples {
            let pairs = vectors.iter().flat_map(|vector| questions.iter().map(move |question| (vector, question)));
            let windows =
                pairs.map(|(vector, question)| Near { example, vector, similarity: cosine(question, vector) });
            near.extend(windows.reduce(|best, next| if next.similarity > best.similarity { next } else { best }));
        }
        near.sort_by(|a, b| b.similarity.total_cmp(&a.similarity));
        near.truncate(k);
        Ok(near)
    }
}

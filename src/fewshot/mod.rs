//! Selection of examples for a few-shot prompt, with the semantics of LangChain's example selectors.
//!
//! This module owns the selection only: the caller writes the prompt. Examples are kept in memory and are independent
//! of the messages in a store; the engine has a selector of examples in its store. Invariant: an example is selected at
//! most once.

mod bm25;
mod embedded_examples;
mod example;
mod length_based;
mod max_marginal_relevance;
mod ngram_overlap;
mod semantic_similarity;

pub use bm25::Bm25ExampleSelector;
pub use example::{ExampleSelector, FewShotExample};
pub use length_based::{ExampleFormatter, LengthBasedExampleSelector};
pub use max_marginal_relevance::MaxMarginalRelevanceExampleSelector;
pub use ngram_overlap::NgramOverlapExampleSelector;
pub use semantic_similarity::SemanticSimilarityExampleSelector;

//! The traits that turn text into vectors and scores, the checked calls of them, and what embedders share: splitting
//! long text into windows, and batching the texts of concurrent calls.
//!
//! This module runs no model and asks no server: `onnx` and `client` implement the traits. Invariant of everything that
//! is batched here: the same text gives the same bits, whatever else is in the batch.

#[cfg(feature = "onnx")]
pub(crate) mod batch_invariance;
#[cfg(feature = "openai")]
pub(crate) mod byte_windows;
mod checked;
mod embedder;
mod reranker;
#[cfg(feature = "onnx")]
pub(crate) mod schedule;
#[cfg(feature = "onnx")]
pub(crate) mod token_windows;
mod validate;

pub(crate) use checked::{documents, known_words, passages, query, query_before, window_ranges, windows};
pub use embedder::{Embedder, Passage};
pub use reranker::Reranker;
pub(crate) use reranker::rerank;
pub(crate) use validate::check_identity;

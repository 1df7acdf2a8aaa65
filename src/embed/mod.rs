//! The traits that turn text into vectors and scores, the checked calls of them, and what embedders share: splitting
//! long text into chunks, and batching the texts of concurrent calls.
//!
//! This module runs no model and asks no server: `onnx` and `client` implement the traits. Invariant of everything that
//! is batched here: the same text gives the same bits, whatever else is in the batch.

#[cfg(feature = "onnx")]
pub(crate) mod batch_invariance;
#[cfg(feature = "openai")]
pub(crate) mod byte_chunks;
mod embedder;
mod given;
#[cfg(feature = "onnx")]
pub(crate) mod schedule;

pub use embedder::{Embedder, Passage, Reranker};
pub(crate) use embedder::{
    check_identity, documents, known_words, passages, query, query_before, rerank, window_ranges, windows,
};
pub use given::GivenVectors;

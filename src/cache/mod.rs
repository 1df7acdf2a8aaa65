//! Embeddings that were already computed: an embedder that wraps another one, with a cache in memory and, optionally,
//! in a file.
//!
//! The cache is content-addressed: the key of an entry has the SHA-256 of the model's identity, of the kind of text
//! (query, document or passages), and of the text. The hash of the text that caused the entry stands beside it, so that
//! the entry can be forgotten. Collisions are not handled: among a billion texts their probability is 1 in 10^59.
//! [`Embedder::windows`](crate::Embedder::windows) is not cached, because it runs no model.
//!
//! Invariant: a cached vector has exactly the bits of the vector that was computed.

mod embedder;
mod entry;
mod file_tier;
mod tiers;

pub use embedder::{CachedEmbedder, CachedEmbedderBuilder, cache_file_stats};
pub use file_tier::CacheFileStats;
pub(crate) use tiers::Cache;
pub use tiers::CacheStats;

//! Vectors from a server that speaks OpenAI's protocol.

mod answer;
mod embedder;
mod rate_limiter;

pub use embedder::OpenAiEmbedder;

//! Running models with ONNX Runtime: embedders and rerankers from model folders, and reading and writing ONNX files.
//!
//! No type of `ort` or `tokenizers` leaves this module. Invariant: the same text gives the same vector bit by bit, whatever it is
//! batched with, and the same pair gives the same score.

mod cross_encoder;
mod device;
mod embedder;
pub(crate) mod graph;
mod length_limits;
mod runner;
mod runtime;
mod session;
mod tokenizer;
pub(crate) mod vocabulary_check;
mod weights;
mod wordpiece;

pub use cross_encoder::CrossEncoder;
pub use embedder::{EmbeddingJob, OnnxEmbedder, OnnxOptions};

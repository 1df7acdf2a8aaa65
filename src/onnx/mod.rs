//! Running models: embedders and rerankers from model folders with ONNX Runtime, token tables without it, and reading
//! and writing ONNX files.
//!
//! No type of `ort` or `tokenizers` leaves this module. Invariant: the same text gives the same vector bit by bit,
//! whatever it is batched with, and the same pair gives the same score.

mod cross_encoder;
mod device;
mod embedder;
#[cfg(fuzzing)]
mod fuzzing;
pub(crate) mod graph;
mod graph_model;
mod length_limits;
mod options;
mod runner;
pub(crate) mod runtime;
mod session;
mod token_table;
mod tokenizer;
mod unit_vector;
pub(crate) mod vocabulary_check;
mod weights;
mod wordpiece;

pub use cross_encoder::CrossEncoder;
pub use embedder::{EmbeddingJob, OnnxEmbedder};
#[cfg(fuzzing)]
pub(crate) use fuzzing::read_graph;
pub use options::OnnxOptions;
pub use runtime::Runtime;

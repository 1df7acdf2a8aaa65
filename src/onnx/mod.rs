//! Running models: embedders and rerankers from model folders with ONNX Runtime, token tables without it, and reading
//! and writing ONNX files.
//!
//! An [`OnnxEmbedder`] turns text into tokens (`text_encoder`, `tokenizer`, and the fast `wordpiece` for BERT-like
//! models). If the graph is only a lookup in a table, it reads the table itself (`token_table`); otherwise ONNX Runtime
//! runs the graph (`graph_model`, on sessions of `session`, whose weights `weights` shares between them). A
//! [`CrossEncoder`] scores pairs on one such session. `graph` reads and writes ONNX files, for these and for `import`.
//!
//! No type of `ort` or `tokenizers` leaves this module. Invariant: the same text gives the same vector bit by bit,
//! whatever it is batched with, and the same pair gives the same score.

mod cross_encoder;
mod embedder;
#[cfg(fuzzing)]
mod fuzzing;
pub(crate) mod graph;
mod graph_model;
pub(crate) mod runtime;
mod session;
mod text_encoder;
mod token_table;
pub(crate) mod tokenizer;
mod weights;
mod wordpiece;

pub use cross_encoder::CrossEncoder;
pub use embedder::{EmbeddingJob, OnnxEmbedder};
#[cfg(fuzzing)]
pub(crate) use fuzzing::read_graph;
pub use runtime::Runtime;
pub use session::OnnxOptions;

use crate::error::{Error, Result};

/// Scales a vector to unit length. A vector of zeros stays as it is.
///
/// # Errors
/// [`Error::Embedding`]: a component is not finite.
fn normalized(mut row: Vec<f32>) -> Result<Vec<f32>> {
    let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
    if !norm.is_finite() {
        let remedy = "leave out this text, or export the model again, in f32 if it is in f16";
        let reason = format!("the model gave a vector of length {norm}, so a component is not finite; {remedy}");
        return Err(Error::Embedding { reason, source: None });
    }
    if norm > 0.0 {
        row.iter_mut().for_each(|x| *x /= norm);
    }
    Ok(row)
}

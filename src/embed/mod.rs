//! Text to vectors, on this machine.
//!
//! Owns model folders, ONNX Runtime and the batching. No type of `ort`, `fastembed` or `tokenizers` leaves this
//! module. Invariant: the same text gives the same bytes, whatever it was embedded with.

mod manifest;
mod model;
mod onnx;
mod runtime;
mod windows;

use std::ops::Range;

pub use model::Model;
pub use onnx::OnnxEmbedder;

use crate::{
    error::{Error, Result},
    ids::ModelIdentity,
};

/// Makes vectors from text.
///
/// Implement it for a remote or hand-made model; [`OnnxEmbedder`] is the one that comes with the crate. Calls come
/// from threads of the engine's own and may block.
pub trait Embedder: Send + Sync {
    /// Which model this is, and the dimension of its vectors.
    fn identity(&self) -> &ModelIdentity;

    /// The byte ranges of `text` that are embedded as one vector each: the whole text if the model takes it in
    /// one piece, else overlapping windows that together cover it. Never empty, each on character boundaries.
    fn windows(&self, text: &str) -> Vec<Range<usize>> {
        std::iter::once(0..text.len()).collect()
    }

    /// Embeds texts that are to be found: one row of [`ModelIdentity::dimension`] f32 a text, in order, each of unit
    /// length (or all zero, if the model knows nothing in the text).
    ///
    /// # Errors
    /// [`Error::Embedding`]; then none of the texts counts as embedded.
    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>>;

    /// Embeds a question. Must not wait for a running `embed_documents`.
    ///
    /// # Errors
    /// [`Error::Embedding`].
    fn embed_query(&self, text: &str) -> Result<Vec<f32>>;
}

/// Checks what an embedder gave back: `count` rows of the right dimension, finite, of length 1 (or 0).
pub(crate) fn check_vectors(identity: &ModelIdentity, count: usize, rows: &[Vec<f32>]) -> Result<()> {
    let invalid = |reason: String| Err(Error::InvalidVector { reason: format!("{identity}: {reason}") });
    if rows.len() != count {
        return invalid(format!("{} vectors for {count} texts", rows.len()));
    }
    for row in rows {
        if row.len() != identity.dimension {
            return invalid(format!("a vector of {} components", row.len()));
        }
        if row.iter().any(|x| !x.is_finite()) {
            return invalid("a component is not finite".into());
        }
        let norm = row.iter().map(|x| x * x).sum::<f32>().sqrt();
        if norm != 0.0 && (norm - 1.0).abs() > 1e-3 {
            return invalid(format!("a vector of length {norm}, not 1"));
        }
    }
    Ok(())
}

//! Text to vectors, and pairs of texts to scores, on this machine; text to vectors also by a server.
//!
//! Owns model folders, ONNX Runtime and the batching. No type of `ort`, `fastembed` or `tokenizers` leaves this
//! module. Invariant, but for servers, which promise nothing: the same text gives the same bytes, whatever it was embedded with;
//! the same pair the same score.

mod cross_encoder;
mod device;
mod external;
mod fit;
mod folder;
mod import;
mod info;
mod manifest;
mod model;
mod onnx;
mod onnx_proto;
#[cfg(feature = "openai")]
mod openai;
mod protobuf;
#[cfg(feature = "pull")]
mod pull;
mod rerank;
mod reranker_info;
mod runner;
mod runtime;
mod schedule;
mod session;
mod tensors;
mod texts;
mod together;
mod tokenizer;
mod weights;
mod windows;
mod wordpiece;

use std::{ops::Range, time::Instant};

pub use cross_encoder::CrossEncoder;
pub use import::ImportOptions;
pub use info::{ModelFile, ModelInfo};
pub use manifest::{Pooling, Quantization};
pub use model::Model;
pub use onnx::{Embedding, OnnxEmbedder, OnnxOptions};
#[cfg(feature = "openai")]
pub use openai::OpenAiEmbedder;
#[cfg(feature = "pull")]
pub use pull::CatalogueEntry;
pub use rerank::Reranker;
pub(crate) use rerank::rerank;
pub use reranker_info::RerankerInfo;

use crate::{
    error::{Error, Result},
    ids::ModelIdentity,
};

/// A window of a text, and its vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Passage {
    /// The bytes of the text, on character boundaries.
    pub range: Range<usize>,
    /// [`ModelIdentity::dimension`] components.
    pub vector: Vec<f32>,
}

/// Makes vectors from text.
///
/// Implement it for a model of your own; [`OnnxEmbedder`] runs model folders, and
#[cfg_attr(feature = "openai", doc = "[`OpenAiEmbedder`]")]
#[cfg_attr(not(feature = "openai"), doc = "`OpenAiEmbedder` (feature `openai`)")]
/// asks a server. Calls come from threads of the engine's own and may block; an engine that is closed waits for them.
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
    /// [`Error::Embedding`], whereupon a flush asks for fewer texts, to find the one at fault; [`Error::EmbedderUnavailable`], if none
    /// is, whereupon it ends. Either way none of the texts counts as embedded.
    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>>;

    /// Embeds texts of any length: of each, its [`windows`](Embedder::windows) with a vector each. The same as asking for windows and
    /// embedding them; an embedder that need not read a text twice for it does better.
    ///
    /// # Errors
    /// As [`embed_documents`](Embedder::embed_documents).
    fn embed_passages(&self, texts: &[&str]) -> Result<Vec<Vec<Passage>>> {
        let windows: Vec<Vec<Range<usize>>> = texts.iter().map(|text| self.windows(text)).collect();
        let parts =
            texts.iter().zip(&windows).map(|(text, windows)| parts(text, windows)).collect::<Result<Vec<_>>>()?;
        let all = parts.concat();
        let rows = self.embed_documents(&all)?;
        if rows.len() != all.len() {
            return Err(miscounted(self.identity(), rows.len(), all.len()));
        }
        let mut rows = rows.into_iter();
        let mut passage = |range| Passage { range, vector: rows.next().expect("counted") };
        Ok(windows.into_iter().map(|windows| windows.into_iter().map(&mut passage).collect()).collect())
    }

    /// Embeds a question. Must not wait for a running `embed_documents`.
    ///
    /// # Errors
    /// [`Error::Embedding`], [`Error::EmbedderUnavailable`].
    fn embed_query(&self, text: &str) -> Result<Vec<f32>>;

    /// As [`embed_query`](Embedder::embed_query), for a caller that does not wait for ever for its turn: one that has not come
    /// by then is an error. An embedder that answers at once need not look at the clock.
    ///
    /// # Errors
    /// [`Error::DeadlineExceeded`], and those of [`embed_query`](Embedder::embed_query).
    fn embed_query_before(&self, text: &str, deadline: Option<Instant>) -> Result<Vec<f32>> {
        let _ = deadline;
        self.embed_query(text)
    }
}

/// The most windows of one text: rows number them in 16 bits.
const MAX_WINDOWS: usize = 1 << 16;

/// [`Embedder::windows`], checked: at least one, and each a part of the text.
pub(crate) fn windows<'t>(embedder: &dyn Embedder, text: &'t str) -> Result<Vec<&'t str>> {
    parts(text, &guarded(|| Ok(embedder.windows(text)))?)
}

fn parts<'t>(text: &'t str, windows: &[Range<usize>]) -> Result<Vec<&'t str>> {
    let parts: Option<Vec<&str>> = windows.iter().map(|window| text.get(window.clone())).collect();
    match parts {
        Some(parts) if (1..=MAX_WINDOWS).contains(&parts.len()) => Ok(parts),
        _ => Err(Error::Embedding {
            reason: format!(
                "a text of {} bytes was split into {} windows, or outside of itself",
                text.len(),
                windows.len()
            ),
            source: None,
        }),
    }
}

/// [`Embedder::embed_documents`], checked.
pub(crate) fn documents(embedder: &dyn Embedder, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
    let rows = guarded(|| embedder.embed_documents(texts))?;
    if rows.len() != texts.len() {
        return Err(miscounted(embedder.identity(), rows.len(), texts.len()));
    }
    rows.iter().try_for_each(|row| check(embedder.identity(), row))?;
    Ok(rows)
}

/// [`Embedder::embed_passages`], checked.
pub(crate) fn passages(embedder: &dyn Embedder, texts: &[&str]) -> Result<Vec<Vec<Passage>>> {
    let passages = guarded(|| embedder.embed_passages(texts))?;
    if passages.len() != texts.len() {
        return Err(miscounted(embedder.identity(), passages.len(), texts.len()));
    }
    for (text, passages) in texts.iter().zip(&passages) {
        parts(text, &passages.iter().map(|passage| passage.range.clone()).collect::<Vec<_>>())?;
        passages.iter().try_for_each(|passage| check(embedder.identity(), &passage.vector))?;
    }
    Ok(passages)
}

/// [`Embedder::embed_query`], checked.
pub(crate) fn query(embedder: &dyn Embedder, text: &str) -> Result<Vec<f32>> {
    query_before(embedder, text, None)
}

/// [`Embedder::embed_query_before`], checked.
pub(crate) fn query_before(embedder: &dyn Embedder, text: &str, deadline: Option<Instant>) -> Result<Vec<f32>> {
    let row = guarded(|| embedder.embed_query_before(text, deadline))?;
    check(embedder.identity(), &row)?;
    Ok(row)
}

/// Checks that vectors of this identity can be stored.
pub(crate) fn check_identity(identity: &ModelIdentity) -> Result<()> {
    match identity.dimension {
        1..=65_535 => Ok(()),
        _ => Err(Error::InvalidVector { reason: format!("{identity}: the dimension is not within 1 to 65535") }),
    }
}

/// A panic in an embedder costs the call, not the engine's thread.
fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(Error::Embedding { reason: "the embedder panicked".into(), source: None }))
}

fn miscounted(identity: &ModelIdentity, found: usize, texts: usize) -> Error {
    Error::InvalidVector { reason: format!("{identity}: {found} vectors for {texts} texts") }
}

/// A row of the right dimension, finite, of length 1 (or 0).
fn check(identity: &ModelIdentity, row: &[f32]) -> Result<()> {
    let invalid = |reason: String| Err(Error::InvalidVector { reason: format!("{identity}: {reason}") });
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
    Ok(())
}

//! The trait of everything that turns text into vectors.

use std::{ops::Range, time::Instant};

use super::validate::{check_count, parts};
use crate::{error::Result, ids::ModelIdentity};

/// A window of a text, and its vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Passage {
    /// The window's range of bytes in the text, on character boundaries.
    pub range: Range<usize>,
    /// The window's vector, of [`ModelIdentity::dimension`] components.
    pub vector: Vec<f32>,
}

/// Turns text into vectors.
///
/// Implement it for a model of your own. `OnnxEmbedder` (feature `onnx`) runs model folders on this machine, and
/// `OpenAiEmbedder` (feature `openai`) sends text to a server. The engine calls an embedder from threads of its own, so
/// a call may block; closing the engine waits for the calls that are running.
pub trait Embedder: Send + Sync {
    /// Identifies the model, and states the dimension of its vectors.
    fn identity(&self) -> &ModelIdentity;

    /// Returns true if the vectors that a database has with this identity are this embedder's. Implement it for an
    /// embedder that had other hashes before. Default: the hash and the dimension are those of
    /// [`identity`](Embedder::identity).
    fn is_same_model(&self, stored: &ModelIdentity) -> bool {
        let own = self.identity();
        stored.hash == own.hash && stored.dimension == own.dimension
    }

    /// Returns the byte ranges of `text` that are embedded as one vector each: the whole text if the model takes it in
    /// one piece, else overlapping windows that together cover it. There is at least one, and each is on character
    /// boundaries.
    fn windows(&self, text: &str) -> Vec<Range<usize>> {
        std::iter::once(0..text.len()).collect()
    }

    /// Embeds documents, which are the texts to be found. Returns one vector of [`ModelIdentity::dimension`] components
    /// for each text, in order, each of unit length, or all zero if the model knows nothing in the text.
    ///
    /// # Errors
    /// [`Error::Embedding`](crate::Error::Embedding) if a text may be at fault: a flush then embeds fewer texts at a
    /// time, to find that text. [`Error::EmbedderUnavailable`](crate::Error::EmbedderUnavailable) if no text is at
    /// fault: the flush then ends. In either case none of the texts counts as embedded.
    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>>;

    /// Embeds documents of any length. Returns the [`windows`](Embedder::windows) of each text with a vector each.
    ///
    /// The default calls `windows`, then [`embed_documents`](Embedder::embed_documents). Implement this method if the
    /// model can avoid reading each text twice.
    ///
    /// # Errors
    /// Same as [`embed_documents`](Embedder::embed_documents).
    fn embed_passages(&self, texts: &[&str]) -> Result<Vec<Vec<Passage>>> {
        let windows: Vec<Vec<Range<usize>>> = texts.iter().map(|text| self.windows(text)).collect();
        let parts =
            texts.iter().zip(&windows).map(|(text, windows)| parts(text, windows)).collect::<Result<Vec<_>>>()?;
        let all = parts.concat();
        let rows = self.embed_documents(&all)?;
        check_count(self.identity(), rows.len(), all.len())?;
        let mut rows = rows.into_iter();
        let mut passage = |range| Passage { range, vector: rows.next().expect("there is a row for each window") };
        Ok(windows.into_iter().map(|windows| windows.into_iter().map(&mut passage).collect()).collect())
    }

    /// Embeds a query. Must not wait for a running `embed_documents`.
    ///
    /// # Errors
    /// [`Error::Embedding`](crate::Error::Embedding),
    /// [`Error::EmbedderUnavailable`](crate::Error::EmbedderUnavailable).
    fn embed_query(&self, text: &str) -> Result<Vec<f32>>;

    /// Embeds a query for a caller that stops waiting at `deadline`. An embedder that has to wait for a connection, a
    /// session or a rate limit should fail when that takes longer. The default ignores the deadline.
    ///
    /// # Errors
    /// [`Error::DeadlineExceeded`](crate::Error::DeadlineExceeded), and those of
    /// [`embed_query`](Embedder::embed_query).
    fn embed_query_before(&self, text: &str, deadline: Option<Instant>) -> Result<Vec<f32>> {
        let _ = deadline;
        self.embed_query(text)
    }

    /// Returns the share of a query's letters that are in words which the model has in its vocabulary, 0 to 1. Where it is
    /// low, as in a language that the model was not trained on, recalls rely on words more than on vectors. Default: 1.
    fn known_words(&self, text: &str) -> f32 {
        let _ = text;
        1.0
    }

    /// Removes everything that the embedder keeps of these texts, such as cached vectors, and of all queries, because a
    /// query may repeat a text in other words. Returns how many entries were removed.
    /// [`Engine::forget`](crate::Engine::forget) calls it, without texts if only queries may be kept. An embedder that
    /// wraps another one passes the call on. Default: nothing is kept.
    ///
    /// # Errors
    /// Any: something is still kept.
    fn forget(&self, texts: &[&str]) -> Result<u64> {
        let _ = texts;
        Ok(0)
    }
}

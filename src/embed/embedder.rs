//! The traits of models, [`Embedder`] and [`Reranker`], and the checked calls of both.
//!
//! The rest of the crate calls models only through the functions here. They check what a model returns, and turn a
//! panic into an error, so that a faulty model fails the call and does not end the engine's thread.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use crate::{
    calls::{Timed, call_span},
    error::{Error, Result},
    ids::ModelIdentity,
};

/// A chunk of a text, and its vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Passage {
    /// The chunk's range of bytes in the text, on character boundaries.
    pub range: Range<usize>,
    /// The chunk's vector, of [`ModelIdentity::dimension`] components.
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

    /// Returns true if this embedder made the vectors that a database stores under this identity. Implement it for an
    /// embedder whose hash has changed although its vectors have not. Default: the hash and the dimension are equal to
    /// those of [`identity`](Embedder::identity).
    fn is_same_model(&self, stored: &ModelIdentity) -> bool {
        let own = self.identity();
        stored.hash == own.hash && stored.dimension == own.dimension
    }

    /// Returns the chunks of `text` as byte ranges, each of which is embedded as one vector: the whole text if the
    /// model takes it in one piece, else overlapping ranges that cover it. There is at least one, and each is on
    /// character boundaries.
    fn windows(&self, text: &str) -> Vec<Range<usize>> {
        std::iter::once(0..text.len()).collect()
    }

    /// Embeds documents, which are the texts to be found. Returns one vector of [`ModelIdentity::dimension`] components
    /// for each text, in order, each of unit length, or all zero if the model knows nothing in the text.
    ///
    /// # Errors
    /// [`Error::Embedding`](crate::Error::Embedding) if a text may be at fault: the engine then embeds fewer texts at a
    /// time, to find that text. [`Error::EmbedderUnavailable`](crate::Error::EmbedderUnavailable) if no text is at
    /// fault: the engine then tries again later. In either case none of the texts counts as embedded.
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
        let mut passage = |range| Passage { range, vector: rows.next().expect("there is a row for each chunk") };
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

    /// Returns the share of a query's letters that are in words which the model has in its vocabulary, 0 to 1. Where it
    /// is low, as in a language that the model was not trained on, recalls rely on words more than on vectors. Default:
    /// 1.
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

/// Scores the passages that a search found for a query, more precisely than the similarity of vectors.
///
/// Implement it for a remote model or a model of your own; `CrossEncoder` (feature `onnx`) runs a model folder. The
/// engine calls a reranker from threads of its own, so a call may block.
pub trait Reranker: Send + Sync {
    /// Returns the name that errors show.
    fn name(&self) -> &str;

    /// Returns one score for each passage, in order: finite, on any scale, higher is better.
    ///
    /// # Errors
    /// [`Error::Reranking`]; [`Error::InvalidQuery`] if the reranker cannot take this query.
    fn rerank(&self, query: &str, passages: &[&str]) -> Result<Vec<f32>>;
}

/// Calls [`Embedder::windows`] and checks that there is at least one chunk and that each is a part of the text.
pub(crate) fn windows<'t>(embedder: &dyn Embedder, text: &'t str) -> Result<Vec<&'t str>> {
    Ok(window_ranges(embedder, text)?.into_iter().map(|range| &text[range]).collect())
}

/// Same as [`windows`], and returns the byte ranges.
pub(crate) fn window_ranges(embedder: &dyn Embedder, text: &str) -> Result<Vec<Range<usize>>> {
    let ranges = guarded(|| Ok(embedder.windows(text)))?;
    parts(text, &ranges)?;
    Ok(ranges)
}

/// Calls [`Embedder::embed_documents`] and checks the vectors.
pub(crate) fn documents(embedder: &dyn Embedder, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
    let rows = guarded(|| embedder.embed_documents(texts))?;
    check_count(embedder.identity(), rows.len(), texts.len())?;
    rows.iter().try_for_each(|row| check_vector(embedder.identity(), row))?;
    Ok(rows)
}

/// Calls [`Embedder::embed_passages`] and checks the ranges and the vectors.
pub(crate) fn passages(embedder: &dyn Embedder, texts: &[&str]) -> Result<Vec<Vec<Passage>>> {
    let _span = Timed::enter(call_span!(DEBUG "embed", texts = texts.len()));
    let passages = guarded(|| embedder.embed_passages(texts))?;
    check_count(embedder.identity(), passages.len(), texts.len())?;
    for (text, passages) in texts.iter().zip(&passages) {
        parts(text, &passages.iter().map(|passage| passage.range.clone()).collect::<Vec<_>>())?;
        passages.iter().try_for_each(|passage| check_vector(embedder.identity(), &passage.vector))?;
    }
    Ok(passages)
}

/// Calls [`Embedder::embed_query`] and checks the vector.
pub(crate) fn query(embedder: &dyn Embedder, text: &str) -> Result<Vec<f32>> {
    query_before(embedder, text, None)
}

/// Calls [`Embedder::embed_query_before`] and checks the vector.
pub(crate) fn query_before(embedder: &dyn Embedder, text: &str, deadline: Option<Instant>) -> Result<Vec<f32>> {
    let _span = Timed::enter(call_span!(DEBUG "embed", texts = 1));
    let row = guarded(|| embedder.embed_query_before(text, deadline))?;
    check_vector(embedder.identity(), &row)?;
    Ok(row)
}

/// Calls [`Embedder::known_words`]: 1 if it fails, 0 to 1 in any case.
pub(crate) fn known_words(embedder: &dyn Embedder, text: &str) -> f32 {
    let share = guarded(|| Ok(embedder.known_words(text))).unwrap_or(1.0);
    if share.is_nan() { 1.0 } else { share.clamp(0.0, 1.0) }
}

fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call))
        .unwrap_or_else(|_| Err(Error::Embedding { reason: "the embedder panicked".into(), source: None }))
}

/// Calls [`Reranker::rerank`] and checks that there are as many scores as passages, all finite. A panic in a reranker
/// fails the call; it does not end the engine's thread.
pub(crate) fn rerank(reranker: &dyn Reranker, query: &str, passages: &[&str]) -> Result<Vec<f32>> {
    let failed = |reason: String| Error::Reranking { reranker: reranker.name().to_owned(), reason, source: None };
    let scores = catch_unwind(AssertUnwindSafe(|| reranker.rerank(query, passages)))
        .unwrap_or_else(|_| Err(failed("it panicked".into())))?;
    if scores.len() != passages.len() {
        return Err(failed(format!("{} scores for {} passages", scores.len(), passages.len())));
    }
    match scores.iter().find(|score| !score.is_finite()) {
        Some(score) => Err(failed(format!("a score is {score}"))),
        None => Ok(scores),
    }
}

/// Maximum chunks of one text: the store numbers them in 16 bits.
const MAX_WINDOWS: usize = 1 << 16;

/// Returns the chunks of a text.
///
/// # Errors
/// [`Error::Embedding`]: no chunk, more than [`MAX_WINDOWS`], or a range that is not on character boundaries of the
/// text.
pub(super) fn parts<'t>(text: &'t str, windows: &[Range<usize>]) -> Result<Vec<&'t str>> {
    let parts: Option<Vec<&str>> = windows.iter().map(|window| text.get(window.clone())).collect();
    match parts {
        Some(parts) if (1..=MAX_WINDOWS).contains(&parts.len()) => Ok(parts),
        _ => Err(Error::Embedding {
            reason: format!(
                "a text of {} bytes was split into {} windows, or a window is not a range of the text; the embedder's `windows` must \
                 return 1 to {MAX_WINDOWS} ranges of the text, on character boundaries",
                text.len(),
                windows.len()
            ),
            source: None,
        }),
    }
}

/// Checks that there is one row of vectors for each text.
///
/// # Errors
/// [`Error::InvalidVector`].
pub(super) fn check_count(identity: &ModelIdentity, found: usize, texts: usize) -> Result<()> {
    match found == texts {
        true => Ok(()),
        false => Err(Error::InvalidVector {
            reason: format!("{identity}: the embedder gave {found} vectors for {texts} texts"),
        }),
    }
}

/// Checks that a vector has the right dimension, finite components, and length 1 or 0.
///
/// # Errors
/// [`Error::InvalidVector`].
pub(super) fn check_vector(identity: &ModelIdentity, vector: &[f32]) -> Result<()> {
    let invalid = |reason: String| Err(Error::InvalidVector { reason: format!("{identity}: {reason}") });
    if vector.len() != identity.dimension {
        return invalid(format!("a vector of {} components", vector.len()));
    }
    if vector.iter().any(|x| !x.is_finite()) {
        return invalid("a component is not finite".into());
    }
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if norm != 0.0 && (norm - 1.0).abs() > 1e-3 {
        return invalid(format!("a vector of length {norm}, not 1"));
    }
    Ok(())
}

/// Checks that vectors of this identity can be stored.
///
/// # Errors
/// [`Error::InvalidVector`]: the dimension is 0 or more than 65,535.
pub(crate) fn check_identity(identity: &ModelIdentity) -> Result<()> {
    match identity.dimension {
        1..=65_535 => Ok(()),
        _ => Err(Error::InvalidVector { reason: format!("{identity}: the dimension is not within 1 to 65535") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns fixed scores.
    struct Fixed(Scores);

    type Scores = fn() -> Result<Vec<f32>>;

    impl Reranker for Fixed {
        fn name(&self) -> &str {
            "fixed"
        }

        fn rerank(&self, _: &str, _: &[&str]) -> Result<Vec<f32>> {
            (self.0)()
        }
    }

    #[test]
    fn scores_are_returned() {
        assert_eq!(rerank(&Fixed(|| Ok(vec![-3.0, 7.5])), "q", &["a", "b"]).unwrap(), [-3.0, 7.5]);
        assert_eq!(rerank(&Fixed(|| Ok(vec![])), "q", &[]).unwrap(), [0.0; 0]);
    }

    #[test]
    fn unusable_scores_are_an_error() {
        let rows: [(Scores, &str); 6] = [
            (|| Ok(vec![1.0]), "1 scores for 2 passages"),
            (|| Ok(vec![1.0; 3]), "3 scores for 2 passages"),
            (|| Ok(vec![1.0, f32::NAN]), "a score is NaN"),
            (|| Ok(vec![f32::NEG_INFINITY, 1.0]), "a score is -inf"),
            (|| panic!("on purpose"), "it panicked"),
            (|| Err(Error::Reranking { reranker: "fixed".into(), reason: "busy".into(), source: None }), "busy"),
        ];
        for (fixed, reason) in rows {
            let error = rerank(&Fixed(fixed), "q", &["a", "b"]).unwrap_err().to_string();
            assert_eq!(
                error,
                format!("reranker \"fixed\" failed: {reason}; query without the reranker, or use another one")
            );
        }
    }
}

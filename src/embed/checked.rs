//! Calls of an embedder with their results checked. A panic in an embedder fails the call; it does not end the engine's
//! thread.

use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

use super::{
    embedder::{Embedder, Passage},
    validate::{check_count, check_vector, parts},
};
use crate::{
    error::{Error, Result},
    span::{Timed, call_span},
};

/// Calls [`Embedder::windows`] and checks that there is at least one window and that each is a part of the text.
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

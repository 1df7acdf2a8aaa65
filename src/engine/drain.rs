//! Embedding what is pending, in batches.

use std::time::{Duration, Instant};

use crate::{
    embed::{self, Embedder},
    error::{Error, Result},
    ids::GenerationId,
    store::{Embedded, Pending, Store},
};

/// Messages of one transaction, at most: enough that its fsync costs little.
const MAX_BATCH: usize = 1024;
/// At least: a slow model's batch is smaller, so that messages are findable soon and closing does not take long.
const MIN_BATCH: usize = 64;
const SLOW: Duration = Duration::from_millis(1000);
const FAST: Duration = Duration::from_millis(250);

/// Embeds all messages that are pending in a generation, and hands each batch to `commit`, which stores it. Stops early,
/// without an error, once `cancelled`.
///
/// A message whose embedding fails stays pending, and does not keep others from being embedded. Returns how many were
/// handed over.
///
/// # Errors
/// The store's, and `commit`'s; after all batches, the first of the embedder's.
pub(crate) fn drain(
    store: &Store,
    generation: GenerationId,
    embedder: &dyn Embedder,
    cancelled: impl Fn() -> bool,
    mut commit: impl FnMut(Vec<Embedded>) -> Result<()>,
) -> Result<u64> {
    let mut after = None;
    let mut size = MAX_BATCH / 4;
    let mut embedded = 0;
    let mut failure = None;
    while !cancelled() {
        let batch = store.read()?.pending(generation, after, size)?;
        let Some(last) = batch.last() else { break };
        after = Some((last.namespace, last.meta.seq));
        let started = Instant::now();
        let vectors = embed_all(embedder, &batch, &mut failure)?;
        match started.elapsed() {
            slow if slow > SLOW => size = (size / 2).max(MIN_BATCH),
            fast if fast < FAST => size = (size * 2).min(MAX_BATCH),
            _ => {}
        }
        if !vectors.is_empty() {
            embedded += vectors.len() as u64;
            commit(vectors)?;
        }
    }
    failure.map_or(Ok(embedded), Err)
}

/// Embeds a batch; what fails is halved until the messages at fault stand alone. The first fault goes to `failure`.
///
/// # Errors
/// If it is not a text that is at fault: the model fails on any.
fn embed_all(embedder: &dyn Embedder, batch: &[Pending], failure: &mut Option<Error>) -> Result<Vec<Embedded>> {
    let error = match embed(embedder, batch) {
        Ok(vectors) => return Ok(vectors),
        Err(error) => error,
    };
    if let [pending] = batch {
        tracing::warn!(%error, id = pending.id, "a message stays pending");
        failure.get_or_insert_with(|| Error::Embedding {
            reason: format!("message {:?} stays pending", pending.id),
            source: Some(error.into()),
        });
        return Ok(Vec::new());
    }
    if embed::documents(embedder, &["any text"]).is_err() {
        return Err(error);
    }
    let (first, second) = batch.split_at(batch.len() / 2);
    let mut vectors = embed_all(embedder, first, failure)?;
    vectors.extend(embed_all(embedder, second, failure)?);
    Ok(vectors)
}

fn embed(embedder: &dyn Embedder, batch: &[Pending]) -> Result<Vec<Embedded>> {
    let windows = batch.iter().map(|pending| embed::windows(embedder, &pending.text)).collect::<Result<Vec<_>>>()?;
    let mut rows = embed::documents(embedder, &windows.concat())?.into_iter();
    Ok(batch
        .iter()
        .zip(&windows)
        .map(|(pending, windows)| Embedded {
            namespace: pending.namespace,
            revision: pending.revision,
            meta: pending.meta,
            vectors: rows.by_ref().take(windows.len()).collect(),
        })
        .collect())
}

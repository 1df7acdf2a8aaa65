//! Embedding what is pending, in batches.

use std::time::{Duration, Instant};

use super::lexical::Batch;
use crate::{
    embed::{self, Embedder},
    error::{Error, Result},
    ids::GenerationId,
    store::{Embedded, Pending, Snapshot, Store},
};

/// Messages of one transaction, at most: enough that its fsync costs little.
const MAX_BATCH: usize = 1024;
/// At least: a slow model's batch is smaller, so that messages are findable soon and closing does not take long.
const MIN_BATCH: usize = 64;
const SLOW: Duration = Duration::from_millis(1000);
const FAST: Duration = Duration::from_millis(250);

/// Embeds and analyses all messages that are pending in a generation, and hands each batch to `commit`, which stores it. Stops early,
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
    mut commit: impl FnMut(Batch) -> Result<()>,
) -> Result<u64> {
    let mut after = None;
    let mut size = MAX_BATCH / 4;
    let mut embedded = 0;
    let mut failure = None;
    while !cancelled() {
        let snapshot = store.read()?;
        let waiting = snapshot.pending(generation, after, size)?;
        let Some(last) = waiting.last() else { break };
        after = Some((last.namespace, last.meta.seq));
        let started = Instant::now();
        let batch = embed_all(embedder, &snapshot, &waiting, &mut failure)?;
        match started.elapsed() {
            slow if slow > SLOW => size = (size / 2).max(MIN_BATCH),
            fast if fast < FAST => size = (size * 2).min(MAX_BATCH),
            _ => {}
        }
        if !batch.embedded.is_empty() {
            embedded += batch.embedded.len() as u64;
            commit(batch)?;
        }
    }
    failure.map_or(Ok(embedded), Err)
}

/// Embeds a batch; what fails is halved until the messages at fault stand alone. The first fault goes to `failure`.
///
/// # Errors
/// If it is not a text that is at fault: the model fails on any.
fn embed_all(
    embedder: &dyn Embedder,
    snapshot: &Snapshot,
    waiting: &[Pending],
    failure: &mut Option<Error>,
) -> Result<Batch> {
    let error = match embed(embedder, snapshot, waiting) {
        Ok(batch) => return Ok(batch),
        // No text is at fault: none is asked for alone, nor any other.
        Err(error @ Error::EmbedderUnavailable { .. }) => return Err(error),
        Err(error) => error,
    };
    if let [pending] = waiting {
        tracing::warn!(%error, id = pending.id, "a message stays pending");
        failure.get_or_insert_with(|| Error::Embedding {
            reason: format!("message {:?} stays pending", pending.id),
            source: Some(error.into()),
        });
        return Ok(Batch::new());
    }
    if embed::documents(embedder, &["any text"]).is_err() {
        return Err(error);
    }
    let (first, second) = waiting.split_at(waiting.len() / 2);
    let mut batch = embed_all(embedder, snapshot, first, failure)?;
    batch.append(embed_all(embedder, snapshot, second, failure)?);
    Ok(batch)
}

fn embed(embedder: &dyn Embedder, snapshot: &Snapshot, waiting: &[Pending]) -> Result<Batch> {
    let texts: Vec<&str> = waiting.iter().map(|pending| pending.text.as_str()).collect();
    let mut batch = Batch::new();
    for (pending, passages) in waiting.iter().zip(embed::passages(embedder, &texts)?) {
        let windows: Vec<&str> = passages.iter().map(|passage| &pending.text[passage.range.clone()]).collect();
        let embedded = Embedded {
            namespace: pending.namespace,
            revision: pending.revision,
            meta: pending.meta,
            vectors: passages.into_iter().map(|passage| passage.vector).collect(),
        };
        batch.push(snapshot, embedded, &pending.text, &windows)?;
    }
    Ok(batch)
}

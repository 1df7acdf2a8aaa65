//! Embedding what is pending, in batches.

use std::time::{Duration, Instant};

use super::{
    lexical::{Batch, stored_windows},
    spaces::Spaces,
};
use crate::{
    embed::{self, Embedder},
    error::{Error, Result},
    ids::NamespaceId,
    index::is_finite,
    store::{Embedded, Generation, Pass, Pending, Snapshot, Store},
};

/// Messages of one transaction, at most: enough that its fsync costs little.
const MAX_BATCH: usize = 1024;
/// At least: a slow model's batch is smaller, so that messages are findable soon and closing does not take long.
const MIN_BATCH: usize = 64;
const SLOW: Duration = Duration::from_millis(1000);
const FAST: Duration = Duration::from_millis(250);

/// What a drain did.
#[derive(Debug, Default)]
pub(super) struct Drained {
    /// Messages that the embedder made vectors of.
    pub(super) embedded: u64,
    /// Messages whose vectors another generation had.
    pub(super) copied: u64,
    /// Messages that stay pending, as they cannot be embedded.
    pub(super) refused: Vec<Refused>,
}

/// A message that the embedder does not take.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) namespace: NamespaceId,
    pub(super) seq: u64,
    pub(super) error: Error,
}

/// Embeds and analyses all messages that are pending in a generation, and hands each batch to `commit`, which stores it. Goes on, batch
/// by batch, while it is told to; what is put meanwhile does not keep it from ending.
///
/// What `source` has, a generation of the same model in 32 bits, is copied. A message whose embedding fails stays pending, and does
/// not keep others from being embedded.
///
/// # Errors
/// The store's, and `commit`'s; the embedder's, if it fails on any text.
pub(super) fn drain(
    store: &Store,
    to: &Spaces,
    source: Option<&Generation>,
    mut go_on: impl FnMut() -> bool,
    mut commit: impl FnMut(Batch) -> Result<()>,
) -> Result<Drained> {
    let mut pass = Pass::default();
    let mut size = MAX_BATCH / 4;
    let mut drained = Drained::default();
    while go_on() {
        let _one_language = to.batching.lock();
        let snapshot = store.read()?;
        let mut waiting = snapshot.pending(to.generation.id, &mut pass, size)?;
        if waiting.is_empty() {
            break;
        }
        let started = Instant::now();
        let mut batch = match source {
            Some(source) => copy(&*to.embedder, &snapshot, source, &mut waiting)?,
            None => Batch::new(),
        };
        let copied = batch.embedded.len();
        if !waiting.is_empty() {
            batch.append(embed_all(&*to.embedder, &snapshot, &waiting, &mut drained.refused)?);
        }
        match started.elapsed() {
            slow if slow > SLOW => size = (size / 2).max(MIN_BATCH),
            fast if fast < FAST => size = (size * 2).min(MAX_BATCH),
            _ => {}
        }
        if !batch.embedded.is_empty() {
            drained.copied += copied as u64;
            drained.embedded += (batch.embedded.len() - copied) as u64;
            commit(batch)?;
        }
    }
    Ok(drained)
}

/// A batch of those that another generation of the same model has vectors of; the rest stays in `waiting`.
fn copy(
    embedder: &dyn Embedder,
    snapshot: &Snapshot,
    source: &Generation,
    waiting: &mut Vec<Pending>,
) -> Result<Batch> {
    let stored = snapshot.stored_vectors(source, waiting)?;
    let mut batch = Batch::new();
    let mut rest = Vec::new();
    for (pending, vectors) in std::mem::take(waiting).into_iter().zip(stored) {
        match vectors {
            // What is damaged is embedded again.
            Some(vectors) if vectors.iter().all(|vector| is_finite(vector)) => {
                let windows = stored_windows(embedder, &pending.text, vectors.len())?;
                let (namespace, revision, meta) = (pending.namespace, pending.revision, pending.meta);
                let embedded = Embedded { namespace, revision, meta, vectors };
                batch.push(snapshot, embedded, &pending.text, &windows)?;
            }
            _ => rest.push(pending),
        }
    }
    *waiting = rest;
    Ok(batch)
}

/// Embeds a batch; what fails is halved until the messages at fault stand alone.
///
/// # Errors
/// If it is not a text that is at fault: the model fails on any.
fn embed_all(
    embedder: &dyn Embedder,
    snapshot: &Snapshot,
    waiting: &[Pending],
    refused: &mut Vec<Refused>,
) -> Result<Batch> {
    let error = match embed(embedder, snapshot, waiting) {
        Ok(batch) => return Ok(batch),
        // No text is at fault: none is asked for alone, nor any other.
        Err(error @ Error::EmbedderUnavailable { .. }) => return Err(error),
        Err(error) => error,
    };
    if embed::documents(embedder, &[&unseen()]).is_err() {
        return Err(error);
    }
    if let [pending] = waiting {
        tracing::warn!(%error, id = pending.id, "a message stays pending");
        let space = snapshot.namespace_name(pending.namespace)?;
        let reason = format!(
            "message {:?} stays pending, in namespace {space:?}: replace or delete it, or move to a model that takes it",
            pending.id
        );
        let error = Error::Embedding { reason, source: Some(error.into()) };
        refused.push(Refused { namespace: pending.namespace, seq: pending.meta.seq, error });
        return Ok(Batch::new());
    }
    let (first, second) = waiting.split_at(waiting.len() / 2);
    let mut batch = embed_all(embedder, snapshot, first, refused)?;
    batch.append(embed_all(embedder, snapshot, second, refused)?);
    Ok(batch)
}

/// Whether an embedder embeds anything, a text and a question.
///
/// # Errors
/// Its own, if it does not.
pub(super) fn try_out(embedder: &dyn Embedder) -> Result<()> {
    embed::documents(embedder, &[&unseen()])?;
    embed::query(embedder, &unseen()).map(drop)
}

/// A text that no cache has: with one that it had, a model that fails on any would seem to do well.
fn unseen() -> String {
    uuid::Uuid::now_v7().to_string()
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

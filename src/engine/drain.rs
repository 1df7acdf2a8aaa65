//! Embeds pending messages in batches.

use std::time::{Duration, Instant};

use mnemon_index::is_finite;

use super::{
    loaded_generation::LoadedGeneration, replica::Replica, shared_vectors::Unmade, text_windows::stored_windows,
    vector_batch::VectorBatch,
};
use crate::{
    embed::{self, Embedder},
    error::{Error, Result},
    ids::NamespaceId,
    store::{Embedded, Generation, PendingCursor, PendingMessage, Snapshot, Store},
};

/// The most messages in one transaction: enough that its fsync costs little.
const MAX_BATCH: usize = 1024;
/// The fewest messages in one transaction. Batches shrink with a slow model, so that messages can be found soon and
/// closing does not take long.
const MIN_BATCH: usize = 64;
/// A batch that takes longer is followed by a smaller one.
const SLOW: Duration = Duration::from_millis(1000);
/// A batch that takes less is followed by a larger one.
const FAST: Duration = Duration::from_millis(250);

/// Result of a drain.
#[derive(Debug, Default)]
pub(super) struct Drained {
    /// Messages that were embedded.
    pub(super) embedded: u64,
    /// Messages whose vectors were copied from another generation.
    pub(super) copied: u64,
    /// Messages whose vectors another machine made.
    pub(super) fetched: u64,
    /// Messages that stay pending because another machine embeds them.
    pub(super) left: u64,
    /// Messages that cannot be embedded and stay pending.
    pub(super) refused: Vec<Refused>,
}

/// Where a drain gets vectors from, beside the embedder.
#[derive(Clone, Copy)]
pub(super) struct Sources<'s> {
    /// A generation of the same model with as many bits or more, whose vectors are copied.
    pub(super) generation: Option<&'s Generation>,
    /// The shared database, and what is done with messages that have no vectors there.
    pub(super) replica: Option<(&'s Replica, Unmade)>,
}

/// A message that the embedder refused.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) namespace: NamespaceId,
    pub(super) seq: u64,
    pub(super) error: Error,
}

/// Embeds and analyses all messages that are pending in a generation, and hands each batch to `commit`, which stores
/// it. Continues while `go_on` returns true. Messages put meanwhile do not keep it from ending.
///
/// Vectors that `sources` have are copied. A message that cannot be embedded stays pending and does not keep others from
/// being embedded.
///
/// # Errors
/// Those of the store and of `commit`; those of the embedder if it fails on every text.
pub(super) fn drain(
    store: &Store,
    to: &LoadedGeneration,
    sources: Sources<'_>,
    mut pass: PendingCursor,
    mut go_on: impl FnMut() -> bool,
    mut commit: impl FnMut(VectorBatch) -> Result<()>,
) -> Result<Drained> {
    let mut size = MAX_BATCH / 4;
    let mut drained = Drained::default();
    while go_on() {
        let _one_language = to.batching.lock();
        let snapshot = store.read()?;
        let mut waiting = snapshot.pending().next(to.generation.id, &mut pass, size)?;
        if waiting.is_empty() {
            break;
        }
        let started = Instant::now();
        let mut batch = match sources.generation {
            Some(source) => copy(&*to.embedder, &snapshot, source, &mut waiting)?,
            None => VectorBatch::new(),
        };
        let copied = batch.embedded.len();
        let mut leases = Vec::new();
        // Vectors that were given are in their messages.
        let replica = sources.replica.filter(|_| !to.embedder.identity().is_given());
        if let Some((replica, unmade)) = replica {
            batch.append(replica.fetch(&*to.embedder, &snapshot, &mut waiting)?);
            let all = waiting.len();
            leases = replica.leave(&snapshot, unmade, &mut waiting)?;
            drained.left += (all - waiting.len()) as u64;
        }
        let given = batch.embedded.len();
        if !waiting.is_empty() {
            let made = embed_all(&*to.embedder, &snapshot, &waiting, &mut drained.refused)?;
            if let Some((replica, _)) = replica {
                replica.offer(&*to.embedder, &snapshot, &waiting, &made.embedded, &leases);
            }
            batch.append(made);
        }
        match started.elapsed() {
            slow if slow > SLOW => size = (size / 2).max(MIN_BATCH),
            fast if fast < FAST => size = (size * 2).min(MAX_BATCH),
            _ => {}
        }
        if !batch.embedded.is_empty() {
            drained.copied += copied as u64;
            drained.fetched += (given - copied) as u64;
            drained.embedded += (batch.embedded.len() - given) as u64;
            commit(batch)?;
        }
    }
    Ok(drained)
}

/// Makes a batch of the messages whose vectors another generation of the same model has. The others stay in `waiting`.
fn copy(
    embedder: &dyn Embedder,
    snapshot: &Snapshot,
    source: &Generation,
    waiting: &mut Vec<PendingMessage>,
) -> Result<VectorBatch> {
    let stored = snapshot.vectors().of_messages(source, waiting)?;
    let mut batch = VectorBatch::new();
    let mut rest = Vec::new();
    for (pending, vectors) in std::mem::take(waiting).into_iter().zip(stored) {
        match vectors {
            // A message with damaged vectors is embedded again.
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

/// Embeds a batch. A batch that fails is halved until the messages at fault are found.
///
/// # Errors
/// Those of the embedder if no text is at fault, because it fails on every text.
fn embed_all(
    embedder: &dyn Embedder,
    snapshot: &Snapshot,
    waiting: &[PendingMessage],
    refused: &mut Vec<Refused>,
) -> Result<VectorBatch> {
    let error = match embed(embedder, snapshot, waiting) {
        Ok(batch) => return Ok(batch),
        // No text is at fault, so halving the batch is of no use.
        Err(error @ (Error::EmbedderUnavailable { .. } | Error::Storage(_))) => return Err(error),
        Err(error) => error,
    };
    if embed::documents(embedder, &[&unseen()]).is_err() {
        return Err(error);
    }
    if let [pending] = waiting {
        tracing::warn!(%error, id = pending.id, "a message cannot be embedded and stays pending");
        let space = snapshot.namespaces().name(pending.namespace)?;
        let reason = format!(
            "message {:?} stays pending, in namespace {space:?}; replace or delete it, or reindex to a model that accepts it",
            pending.id
        );
        let error = Error::Embedding { reason, source: Some(error.into()) };
        refused.push(Refused { namespace: pending.namespace, seq: pending.meta.seq, error });
        return Ok(VectorBatch::new());
    }
    let (first, second) = waiting.split_at(waiting.len() / 2);
    let mut batch = embed_all(embedder, snapshot, first, refused)?;
    batch.append(embed_all(embedder, snapshot, second, refused)?);
    Ok(batch)
}

/// Embeds a document and a query, to check that an embedder works.
///
/// # Errors
/// Those of the embedder.
pub(super) fn try_out(embedder: &dyn Embedder) -> Result<()> {
    embed::documents(embedder, &[&unseen()])?;
    embed::query(embedder, &unseen()).map(drop)
}

/// Makes a text that no cache has: with a cached text, a model that always fails would seem to work.
fn unseen() -> String {
    uuid::Uuid::now_v7().to_string()
}

fn embed(embedder: &dyn Embedder, snapshot: &Snapshot, waiting: &[PendingMessage]) -> Result<VectorBatch> {
    let texts: Vec<&str> = waiting.iter().map(|pending| &*pending.text).collect();
    let mut batch = VectorBatch::new();
    if embedder.identity().is_given() {
        for pending in waiting {
            let (namespace, revision, meta) = (pending.namespace, pending.revision, pending.meta);
            let vector = match &pending.given {
                Some(vector) => embedder.identity().unit(vector),
                None => Ok(vec![0.0; embedder.identity().dimension]),
            };
            let vectors = vec![vector.map_err(|reason| Error::Embedding { reason, source: None })?];
            let whole = std::iter::once(0..pending.text.len()).collect::<Vec<_>>();
            batch.push(snapshot, Embedded { namespace, revision, meta, vectors }, &pending.text, &whole)?;
        }
        return Ok(batch);
    }
    for (pending, passages) in waiting.iter().zip(embed::passages(embedder, &texts)?) {
        let windows: Vec<_> = passages.iter().map(|passage| passage.range.clone()).collect();
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

//! Embedding what is pending, in batches.

use crate::{
    embed::{Embedder, check_vectors},
    error::{Error, Result},
    ids::GenerationId,
    store::{Embedded, Pending, Store},
};

/// Messages of one transaction: enough that its fsync costs little, few enough that they are findable soon.
const BATCH: usize = 1024;

/// Failures in a row after which it is the model that fails, not the texts.
const GIVE_UP: usize = 3;

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
    let mut embedded = 0;
    let mut failure = None;
    while !cancelled() {
        let batch = store.read()?.pending(generation, after, BATCH)?;
        let Some(last) = batch.last() else { break };
        after = Some((last.namespace, last.meta.seq));
        let vectors = match embed(embedder, &batch) {
            Ok(vectors) => vectors,
            Err(error) => {
                tracing::warn!(%error, messages = batch.len(), "a batch failed, embedding its messages one by one");
                let vectors = embed_each(embedder, batch, &mut failure);
                if vectors.is_empty() {
                    break;
                }
                vectors
            }
        };
        embedded += vectors.len() as u64;
        commit(vectors)?;
    }
    failure.map_or(Ok(embedded), Err)
}

fn embed(embedder: &dyn Embedder, batch: &[Pending]) -> Result<Vec<Embedded>> {
    let windows: Vec<_> = batch.iter().map(|pending| embedder.windows(&pending.text)).collect();
    let mut texts = Vec::with_capacity(batch.len());
    for (pending, windows) in batch.iter().zip(&windows) {
        let invalid = || Error::Embedding {
            reason: format!("the embedder split a text of {} bytes into windows {windows:?}", pending.text.len()),
            source: None,
        };
        if windows.is_empty() {
            return Err(invalid());
        }
        for window in windows {
            texts.push(pending.text.get(window.clone()).ok_or_else(invalid)?);
        }
    }
    let rows = embedder.embed_documents(&texts)?;
    check_vectors(embedder.identity(), texts.len(), &rows)?;
    let mut rows = rows.into_iter();
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

fn embed_each(embedder: &dyn Embedder, batch: Vec<Pending>, failure: &mut Option<Error>) -> Vec<Embedded> {
    let mut embedded = Vec::new();
    let mut failed_in_a_row = 0;
    for pending in batch {
        match embed(embedder, std::slice::from_ref(&pending)) {
            Ok(one) => {
                embedded.extend(one);
                failed_in_a_row = 0;
            }
            Err(error) => {
                tracing::warn!(%error, seq = pending.meta.seq, "a message stays pending");
                failure.get_or_insert(error);
                failed_in_a_row += 1;
                if failed_in_a_row == GIVE_UP {
                    break;
                }
            }
        }
    }
    embedded
}

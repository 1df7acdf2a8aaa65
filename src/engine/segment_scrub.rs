//! Rewrites the segments of a namespace without the terms of rows that are gone.

use std::sync::Arc;

use crate::{
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
    recall::{SegmentChange, read_segment},
    store::Transaction,
};

/// Rewrites those segments of a namespace that have terms of rows that are dead, or that a newer segment has. Segments
/// that are damaged are deleted: loading the namespace makes all of them again. Cost: reading all segments, and writing
/// those that change.
pub(super) fn scrub_segments(
    transaction: &Transaction,
    generation: GenerationId,
    namespace: NamespaceId,
) -> Result<Vec<SegmentChange>> {
    let mut changes = Vec::new();
    let infos = transaction.segments().list(generation, namespace)?;
    if infos.is_empty() {
        return Ok(changes);
    }
    let mut live = transaction.rows().live(generation, namespace)?;
    for info in infos.into_iter().rev() {
        let bytes = transaction.segments().read(generation, namespace, info.number);
        let segment = match bytes.and_then(|bytes| read_segment(bytes, info)) {
            Ok(segment) => segment,
            Err(Error::Corrupted { .. }) => {
                transaction.segments().clear(generation, namespace)?;
                return Ok(Vec::new());
            }
            Err(error) => return Err(error),
        };
        // The rows that have their terms in this segment, ascending.
        let own: Vec<u32> = segment
            .rows()
            .iter()
            .copied()
            .filter(|&row| live.get_mut(row as usize).is_some_and(std::mem::take))
            .collect();
        if own.len() == segment.rows().len() {
            continue;
        }
        let new = segment.retain(|row| own.binary_search(&row).is_ok()).map(Arc::new);
        match &new {
            Some(new) => {
                let rows = new.rows().len() as u32;
                transaction.segments().put(generation, namespace, info.number, rows, new.bytes())?;
            }
            None => transaction.segments().remove(generation, namespace, info.number)?,
        }
        changes.push((info.number, new));
    }
    Ok(changes)
}

//! Rewrites a lexical segment without its removed rows.

use std::sync::Arc;

use super::{
    namespace_slot::{LoadedNamespace, NamespaceSlot},
    stored_graph::Workers,
};
use crate::{
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
    lexical::Segment,
    recall::{NamespaceChange, SegmentChange},
    store::Transaction,
};

/// Rewrites a segment of a loaded namespace without the rows that were removed or are in a newer one. Returns true:
/// there may be more to rewrite.
///
/// # Errors
/// [`Error::Corrupted`] if the stored segment is not the loaded one; the writer's.
pub(super) fn rewrite_segment(
    generation: GenerationId,
    namespace: NamespaceId,
    slot: &Arc<NamespaceSlot>,
    loaded: &LoadedNamespace,
    (number, old): (u32, Arc<Segment>),
    workers: &Workers,
) -> Result<bool> {
    let rows = loaded.messages.index.read().rows_searched_in(number, &old);
    let new = old.retain(|row| rows.binary_search(&row).is_ok()).map(Arc::new);
    let apply = {
        let old = Arc::clone(&old);
        move |transaction: &mut Transaction| replace(transaction, generation, namespace, number, &old, new.as_ref())
    };
    let publish = {
        let slot = Arc::clone(slot);
        move |change: Option<SegmentChange>| {
            let change = change.map(|change| NamespaceChange::Segments(namespace, None, vec![change]));
            change.map(|change| slot.publish(change));
        }
    };
    workers.writer.commit(apply, publish)?;
    match loaded.messages.index.read().sparse_segment() {
        // Another attempt would do no more.
        Some((_, left)) if Arc::ptr_eq(&left, &old) => {
            Err(Error::corrupted(format!("segment {number} of a lexical index is not stored as it was loaded")))
        }
        _ => Ok(true),
    }
}

/// Replaces a segment with `new`, or deletes it. `None` if the stored segment is another: nothing was done.
fn replace(
    transaction: &mut Transaction,
    generation: GenerationId,
    namespace: NamespaceId,
    number: u32,
    old: &Arc<Segment>,
    new: Option<&Arc<Segment>>,
) -> Result<Option<SegmentChange>> {
    if !transaction.segments().list(generation, namespace)?.iter().any(|info| info.number == number) {
        // The segment was merged with others.
        return Ok(Some((number, None)));
    }
    if transaction.segments().read(generation, namespace, number)? != old.bytes() {
        return Ok(None);
    }
    match new {
        Some(new) => {
            transaction.segments().put(generation, namespace, number, new.rows().len() as u32, new.bytes())?;
        }
        None => transaction.segments().remove(generation, namespace, number)?,
    }
    Ok(Some((number, new.cloned())))
}

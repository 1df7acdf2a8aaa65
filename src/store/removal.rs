//! Removing the name and the numbers of a namespace in which nothing is stored any more.

use std::{borrow::Borrow, ops::RangeBounds};

use redb::{Key, ReadableTable, Value};

use super::{
    codec,
    generations::records,
    journal::Journal,
    namespaces::{self, Namespaces},
    schema::*,
    tables::{Tables, has, storage},
    write_tables::{WriteTable, WriteTransaction},
};
use crate::{
    error::Result,
    ids::{GenerationId, Namespace, NamespaceId},
};

/// Removes a namespace in which nothing is stored: no session, no document, no state of a block, and no language that
/// was set. Returns true if it was removed.
pub(super) fn remove_if_unused(tables: &WriteTransaction, name: &Namespace) -> Result<bool> {
    let Some(id) = Namespaces(tables).id(name)? else { return Ok(false) };
    let is_unused = is_empty(tables, id)? && Namespaces(tables).language(id)?.is_none();
    if is_unused {
        remove(tables, name, id)?;
    }
    Ok(is_unused)
}

/// Removes a namespace with its language, if it has no session, no document and no state of a block. Returns true if it
/// was removed.
pub(super) fn remove_if_empty(tables: &WriteTransaction, name: &Namespace) -> Result<bool> {
    let Some(id) = Namespaces(tables).id(name)? else { return Ok(false) };
    let is_empty = is_empty(tables, id)?;
    if is_empty {
        remove(tables, name, id)?;
    }
    Ok(is_empty)
}

fn is_empty(tables: &WriteTransaction, NamespaceId(id): NamespaceId) -> Result<bool> {
    let session = has(&tables.table(SESSIONS)?, (id, "")..(id + 1, ""))?;
    let message = has(&tables.table(MESSAGES)?, (id, 0)..=(id, u64::MAX))?;
    let document = has(&tables.table(DOCUMENTS)?, (id, "")..(id + 1, ""))?;
    for entry in tables.table(BLOCKS)?.range((id, 0, "")..(id + 1, 0, "")).map_err(storage)? {
        let (_, block) = entry.map_err(storage)?;
        if codec::decode::<BlockRecord>(block.value())?.state != DROPPED_STATE {
            return Ok(false);
        }
    }
    Ok(!session && !message && !document)
}

/// Removes the records of a namespace and of its companion, and all that is stored under their numbers.
pub(super) fn remove(tables: &WriteTransaction, name: &Namespace, id: NamespaceId) -> Result<()> {
    let Some(record) = Namespaces(tables).record(name)? else { return Ok(()) };
    let mut meta = tables.table(META)?;
    let mut next = namespaces::next(&meta)?;
    next.next_seq = next.next_seq.max(record.next_seq);
    next.next_session = next.next_session.max(record.next_session);
    namespaces::set_next(&mut meta, &next)?;
    drop(meta);
    tables.table(NAMESPACES)?.remove(name.as_str()).map_err(storage)?;
    tables.table(DOCUMENT_NAMESPACES)?.remove(name.as_str()).map_err(storage)?;
    // No name is between the two.
    let after = format!("{name}\0");
    tables.table(IDLE)?.remove_range((name.as_str(), "")..(after.as_str(), "")).map_err(storage)?;
    Journal(tables).clear(id)?;
    id.parts().into_iter().try_for_each(|part| clear(tables, part))
}

/// Deletes all that is stored under the number of a namespace.
fn clear(tables: &WriteTransaction, namespace: NamespaceId) -> Result<()> {
    let generations = records(&tables.table(GENERATIONS)?)?;
    generations.iter().try_for_each(|(generation, _)| clear_derived(tables, *generation, namespace))?;
    let NamespaceId(id) = namespace;
    let (numbers, names) = ((id, 0)..=(id, u64::MAX), (id, "")..(id + 1, ""));
    let (named, numbered) = ((id, 0, "")..(id + 1, 0, ""), (id, 0, 0)..(id + 1, 0, 0));
    empty(&mut tables.table(MESSAGES)?, numbers.clone())?;
    empty(&mut tables.table(PUT_TIMES)?, numbers.clone())?;
    empty(&mut tables.table(DOCUMENT_ORDER)?, numbers)?;
    empty(&mut tables.table(IDS)?, names.clone())?;
    empty(&mut tables.table(DOCUMENTS)?, names.clone())?;
    empty(&mut tables.table(SESSIONS)?, names)?;
    empty(&mut tables.table(HISTORY)?, (id, 0, 0)..(id + 1, 0, 0))?;
    empty(&mut tables.table(WINDOWS)?, (id, 0)..(id + 1, 0))?;
    empty(&mut tables.table(BATCHES)?, numbered.clone())?;
    empty(&mut tables.table(CHECKPOINTS)?, numbered)?;
    empty(&mut tables.table(BLOCKS)?, named.clone())?;
    empty(&mut tables.table(CURSORS)?, named.clone())?;
    empty(&mut tables.table(DROPPED_BLOCKS)?, named)?;
    empty(&mut tables.table(OLD_MESSAGES)?, (id, 0, 0, 0)..(id + 1, 0, 0, 0))?;
    empty(&mut tables.table(OLD_BLOCKS)?, (id, 0, "", 0)..(id + 1, 0, "", 0))?;
    tables.table(LANGUAGES)?.remove(id).map_err(storage)?;
    Ok(())
}

/// Deletes what was derived from a namespace in a generation: pending entries, vectors, graph and terms.
pub(super) fn clear_derived(
    tables: &WriteTransaction,
    GenerationId(generation): GenerationId,
    NamespaceId(id): NamespaceId,
) -> Result<()> {
    let (rows, messages) =
        ((generation, id, 0)..=(generation, id, u32::MAX), (generation, id, 0)..=(generation, id, u64::MAX));
    for table in [VECTORS, GRAPH_PAGES, GRAPH_DELTAS] {
        empty(&mut tables.table(table)?, rows.clone())?;
    }
    empty(&mut tables.table(FREE_ROWS)?, rows.clone())?;
    empty(&mut tables.table(SEGMENTS)?, rows)?;
    empty(&mut tables.table(SEGMENT_PARTS)?, (generation, id, 0, 0)..=(generation, id, u32::MAX, u32::MAX))?;
    empty(&mut tables.table(PENDING)?, messages.clone())?;
    empty(&mut tables.table(VECTOR_ROWS)?, messages)?;
    tables.table(GRAPHS)?.remove((generation, id)).map_err(storage)?;
    tables.table(COUNTS)?.remove((generation, id)).map_err(storage)?;
    Ok(())
}

fn empty<'a, K: Key + 'static, V: Value + 'static, KR: Borrow<K::SelfType<'a>> + 'a>(
    table: &mut WriteTable<'_, K, V>,
    range: impl RangeBounds<KR> + 'a,
) -> Result<()> {
    table.remove_range(range).map_err(storage)
}

//! Removing what is stored of a namespace, and of a retired generation, as the registry of tables says.

use redb::{Key, Value};

use super::{
    codec,
    generations::{Generations, records},
    journal::Journal,
    namespaces::{self, Namespaces},
    schema::*,
    tables::{ReadableTable, Tables, WriteTransaction, has},
};
use crate::{
    error::Result,
    ids::{GenerationId, Namespace, NamespaceId},
};

/// Removes a namespace in which nothing is stored: no session, no document, no state of a block, and no language or time
/// to live that was set. Returns true if it was removed.
pub(super) fn remove_if_unused(tables: &WriteTransaction, name: &Namespace) -> Result<bool> {
    let Some(id) = Namespaces(tables).id(name)? else { return Ok(false) };
    let is_unused = is_empty(tables, id)?
        && Namespaces(tables).language_set_by_hand(id)?.is_none()
        && Namespaces(tables).time_to_live(id)?.is_none();
    if is_unused {
        remove(tables, name, id)?;
    }
    Ok(is_unused)
}

/// Removes a namespace with its language and time to live, if it has no session, no document and no state of a block. Returns true if it
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
    for entry in tables.table(BLOCKS)?.range((id, 0, "")..(id + 1, 0, ""))? {
        let (_, block) = entry?;
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
    Journal(tables).clear(id)?;
    // No name is between the two.
    let after = format!("{name}\0");
    let ids = id.parts();
    visit_tables(&mut Clear { tables, name: name.as_str(), after: &after, ids: ids.map(|NamespaceId(id)| id) })?;
    let generations = records(&tables.table(GENERATIONS)?)?;
    for (generation, _) in generations {
        ids.into_iter().try_for_each(|id| clear_derived(tables, generation, id))?;
    }
    Ok(())
}

/// Deletes what was derived from a namespace in a generation: pending entries, vectors, graph and terms.
pub(super) fn clear_derived(tables: &WriteTransaction, generation: GenerationId, namespace: NamespaceId) -> Result<()> {
    visit_tables(&mut ClearDerived { tables, generation, namespace })
}

/// Deletes the entries of a namespace and its companion.
struct Clear<'t> {
    tables: &'t WriteTransaction,
    name: &'t str,
    /// The least name after it.
    after: &'t str,
    ids: [u32; 2],
}

impl TableVisitor for Clear<'_> {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: &Table<K, V>) -> Result<()> {
        match table.keys {
            Keys::Namespace(least) => {
                let mut open = self.tables.table(table)?;
                self.ids.iter().try_for_each(|&id| open.remove_range(least(id)..least(id + 1)))
            }
            Keys::Name(least) => self.tables.table(table)?.remove_range(least(self.name)..least(self.after)),
            Keys::Derived(..) | Keys::Global => Ok(()),
        }
    }
}

struct ClearDerived<'t> {
    tables: &'t WriteTransaction,
    generation: GenerationId,
    namespace: NamespaceId,
}

impl TableVisitor for ClearDerived<'_> {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: &Table<K, V>) -> Result<()> {
        let (GenerationId(generation), NamespaceId(id)) = (self.generation, self.namespace);
        match table.keys {
            Keys::Derived(_, least) => {
                self.tables.table(table)?.remove_range(least(generation, id)..least(generation, id + 1))
            }
            _ => Ok(()),
        }
    }
}

/// Number of small entries whose deletion takes about as long as that of one block.
const SMALL_PER_BLOCK: usize = 256;

/// Deletes up to `blocks` blocks of a retired generation, which include parts of graphs and segments. If they are
/// fewer, deletes small entries too, as many as take the rest of the time. Returns true if there may be more to delete.
pub(super) fn sweep(tables: &WriteTransaction, blocks: usize) -> Result<bool> {
    let Some(GenerationId(id)) = Generations(tables).retired()? else { return Ok(false) };
    let mut step = Step { tables, generation: id, size: Size::Large, left: blocks };
    visit_tables(&mut step)?;
    step.left *= SMALL_PER_BLOCK;
    step.size = Size::Small;
    visit_tables(&mut step)?;
    if step.left > 0 {
        Generations(tables).remove(GenerationId(id))?;
    }
    Ok(true)
}

/// Deletes entries of one size of a generation.
struct Step<'t> {
    tables: &'t WriteTransaction,
    generation: u32,
    size: Size,
    /// How many more may be deleted.
    left: usize,
}

impl TableVisitor for Step<'_> {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: &Table<K, V>) -> Result<()> {
        if let Keys::Derived(size, least) = table.keys
            && size == self.size
        {
            let all = least(self.generation, 0)..least(self.generation + 1, 0);
            self.left -= self.tables.table(table)?.remove_up_to(all, self.left)?;
        }
        Ok(())
    }
}

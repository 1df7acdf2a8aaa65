//! Deleting retired generations, a bounded piece in each transaction.

use super::{
    generations::Generations,
    schema::*,
    segments::Segments,
    tables::{Tables, storage},
    transaction::Transaction,
};
use crate::{error::Result, ids::GenerationId};

/// Number of small entries whose deletion takes about as long as that of one block.
const SMALL_PER_BLOCK: usize = 256;

/// Deletes up to `blocks` blocks of a retired generation, which include parts of graphs and segments. If they are
/// fewer, deletes small entries too, as many as take the rest of the time. Returns true if there may be more to delete.
pub(crate) fn sweep(transaction: &Transaction, blocks: usize) -> Result<bool> {
    let tables = transaction.tables();
    let Some(GenerationId(id)) = Generations(tables).retired()? else { return Ok(false) };
    let rows = (id, 0, 0)..=(id, u32::MAX, u32::MAX);
    let mut left = blocks - Segments(tables).sweep(GenerationId(id), blocks)?;
    for table in [GRAPH_DELTAS, GRAPH_PAGES, VECTORS] {
        left -= tables.table(table)?.remove_up_to(rows.clone(), left).map_err(storage)?;
    }
    let mut small = left * SMALL_PER_BLOCK;
    small -= tables.table(FREE_ROWS)?.remove_up_to(rows, small).map_err(storage)?;
    let messages = (id, 0, 0)..=(id, u32::MAX, u64::MAX);
    small -= tables.table(PENDING)?.remove_up_to(messages.clone(), small).map_err(storage)?;
    small -= tables.table(VECTOR_ROWS)?.remove_up_to(messages, small).map_err(storage)?;
    let namespaces = (id, 0)..=(id, u32::MAX);
    small -= tables.table(GRAPHS)?.remove_up_to(namespaces.clone(), small).map_err(storage)?;
    small -= tables.table(COUNTS)?.remove_up_to(namespaces, small).map_err(storage)?;
    if small > 0 {
        Generations(tables).remove(GenerationId(id))?;
    }
    Ok(true)
}

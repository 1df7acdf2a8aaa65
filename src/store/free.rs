//! Rows that may be given again.
//!
//! A row whose message was deleted or replaced is dead. Where no graph is stored it is free at once; where one is, links
//! may lead to it, and it is free when a delta says that none does. The lowest free row is given first, so that what is
//! often changed stays in few blocks.

use redb::{ReadableTable, Table};

use super::{Snapshot, Transaction, schema::*, storage};
use crate::{
    error::Result,
    ids::{GenerationId, NamespaceId},
};

/// Takes up to `count` rows of a namespace out of those that are free.
pub(super) fn take(
    free: &mut Table<'_, (u32, u32, u32), ()>,
    GenerationId(generation): GenerationId,
    NamespaceId(namespace): NamespaceId,
    count: usize,
) -> Result<Vec<u32>> {
    let rows = free
        .range((generation, namespace, 0)..=(generation, namespace, u32::MAX))
        .map_err(storage)?
        .take(count)
        .map(|entry| Ok(entry.map_err(storage)?.0.value().2))
        .collect::<Result<Vec<u32>>>()?;
    for row in &rows {
        free.remove((generation, namespace, *row)).map_err(storage)?;
    }
    Ok(rows)
}

impl Transaction {
    /// Makes all dead rows of a namespace free. They are told by the places of the living: a pass over small records, not
    /// over the vectors.
    pub(super) fn free_dead_rows(
        &mut self,
        GenerationId(generation): GenerationId,
        NamespaceId(namespace): NamespaceId,
    ) -> Result<()> {
        let counts = self.table(COUNTS)?.get((generation, namespace)).map_err(storage)?.map(|value| value.value());
        let (next, alive) = counts.unwrap_or((0, 0));
        if next == alive {
            return Ok(());
        }
        let mut living: Vec<(u32, u32)> = self
            .table(PLACES)?
            .range((generation, namespace, 0)..=(generation, namespace, u64::MAX))
            .map_err(storage)?
            .map(|entry| Ok(entry.map_err(storage)?.1.value()))
            .collect::<Result<_>>()?;
        // Damaged places must not make a row free that is in use: what does not add up is left to `verify`.
        if living.iter().map(|(_, count)| u64::from(*count)).sum::<u64>() != u64::from(alive) {
            return Ok(());
        }
        living.sort_unstable();
        living.push((next, 0));
        let mut free = self.table(FREE_ROWS)?;
        let mut row = 0;
        for (begin, count) in living {
            for dead in row..begin.min(next) {
                free.insert((generation, namespace, dead), ()).map_err(storage)?;
            }
            row = begin.saturating_add(count);
        }
        Ok(())
    }
}

impl Snapshot {
    /// The rows of a namespace that may be given again, ascending.
    pub(crate) fn free_rows(
        &self,
        GenerationId(generation): GenerationId,
        NamespaceId(namespace): NamespaceId,
    ) -> Result<Vec<u32>> {
        self.table(FREE_ROWS)?
            .range((generation, namespace, 0)..=(generation, namespace, u32::MAX))
            .map_err(storage)?
            .map(|entry| Ok(entry.map_err(storage)?.0.value().2))
            .collect()
    }
}

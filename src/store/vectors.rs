//! Writing vectors: those of a batch that was embedded, and erasing those of messages that changed.

use std::collections::BTreeMap;

use redb::{ReadableTable, Table};

use super::{
    Transaction,
    rows::{Layout, RowMeta},
    schema::*,
    storage,
};
use crate::{
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
};

/// Rows that must leave the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removed {
    pub(crate) namespace: NamespaceId,
    pub(crate) rows: Vec<u32>,
}

/// A pending message with its vectors, one a window.
pub(crate) struct Embedded {
    pub(crate) namespace: NamespaceId,
    pub(crate) revision: u64,
    /// Of the first window.
    pub(crate) meta: RowMeta,
    pub(crate) vectors: Vec<Vec<f32>>,
}

/// Rows that a transaction added to one namespace, numbered from `first`.
pub(crate) struct NewRows {
    pub(crate) namespace: NamespaceId,
    pub(crate) first: u32,
    pub(crate) metas: Vec<RowMeta>,
    /// The rows' components, one after the other.
    pub(crate) vectors: Vec<f32>,
}

impl Transaction {
    /// Erases the vectors of messages.
    pub(super) fn erase(
        &self,
        generation: GenerationId,
        dimension: u32,
        messages: &[(NamespaceId, u64)],
    ) -> Result<Vec<Removed>> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let layout = Layout::new(dimension as usize);
        let per_block = layout.rows_per_block();
        let mut places = self.table(PLACES)?;
        let mut counts = self.table(COUNTS)?;
        let mut blocks = self.table(VECTORS)?;
        // By block, so that each is rewritten once.
        let mut rows: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for (namespace, seq) in messages {
            if let Some(place) = places.remove((generation.0, namespace.0, *seq)).map_err(storage)? {
                let (first, count) = place.value();
                for row in first..first.saturating_add(count) {
                    rows.entry((namespace.0, row / per_block)).or_default().push(row);
                }
            }
        }
        let mut removed: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for ((namespace, block), rows) in rows {
            let key = (generation.0, namespace, block);
            let mut bytes = read_block(&blocks, key)?;
            for row in &rows {
                layout.erase(&mut bytes, row % per_block)?;
            }
            blocks.insert(key, bytes.as_slice()).map_err(storage)?;
            let (next, alive) = read_counts(&counts, generation, NamespaceId(namespace))?;
            let alive = alive.saturating_sub(rows.len() as u32);
            counts.insert((generation.0, namespace), (next, alive)).map_err(storage)?;
            removed.entry(namespace).or_default().extend(rows);
        }
        Ok(removed.into_iter().map(|(namespace, rows)| Removed { namespace: NamespaceId(namespace), rows }).collect())
    }

    /// Stores the vectors of pending messages, which then are pending no more. A message that was replaced since its
    /// text was read stays pending.
    pub(crate) fn add_vectors(
        &mut self,
        generation: GenerationId,
        dimension: usize,
        batch: &[Embedded],
    ) -> Result<Vec<NewRows>> {
        let layout = Layout::new(dimension);
        let per_block = layout.rows_per_block();
        let mut pending = self.table(PENDING)?;
        let mut places = self.table(PLACES)?;
        let mut counts = self.table(COUNTS)?;
        let mut blocks = self.table(VECTORS)?;
        let mut by_namespace: BTreeMap<NamespaceId, Vec<&Embedded>> = BTreeMap::new();
        for embedded in batch {
            let key = (generation.0, embedded.namespace.0, embedded.meta.seq);
            let waiting = pending.get(key).map_err(storage)?.map(|revision| revision.value());
            if waiting == Some(embedded.revision) {
                pending.remove(key).map_err(storage)?;
                by_namespace.entry(embedded.namespace).or_default().push(embedded);
            }
        }
        let mut added = Vec::new();
        for (namespace, batch) in by_namespace {
            let (first, alive) = read_counts(&counts, generation, namespace)?;
            let mut next = first;
            let mut new = NewRows { namespace, first, metas: Vec::new(), vectors: Vec::new() };
            let mut block = match first % per_block {
                0 => layout.empty(),
                _ => read_block(&blocks, (generation.0, namespace.0, first / per_block))?,
            };
            for embedded in batch {
                let place = (next, embedded.vectors.len() as u32);
                places.insert((generation.0, namespace.0, embedded.meta.seq), place).map_err(storage)?;
                for (window, vector) in embedded.vectors.iter().enumerate() {
                    let window = u16::try_from(window).expect("a message of 1 MiB has fewer windows");
                    let meta = RowMeta { window, ..embedded.meta };
                    layout.push(&mut block, &meta, vector);
                    new.metas.push(meta);
                    new.vectors.extend(vector);
                    next += 1;
                    if next % per_block == 0 {
                        let key = (generation.0, namespace.0, next / per_block - 1);
                        blocks.insert(key, block.as_slice()).map_err(storage)?;
                        block = layout.empty();
                    }
                }
            }
            if next % per_block != 0 {
                blocks.insert((generation.0, namespace.0, next / per_block), block.as_slice()).map_err(storage)?;
            }
            counts.insert((generation.0, namespace.0), (next, alive + (next - first))).map_err(storage)?;
            added.push(new);
        }
        Ok(added)
    }
}

type Blocks<'t> = Table<'t, (u32, u32, u32), &'static [u8]>;
type Counts<'t> = Table<'t, (u32, u32), (u32, u32)>;

fn read_block(table: &Blocks<'_>, key: (u32, u32, u32)) -> Result<Vec<u8>> {
    let value = table.get(key).map_err(storage)?;
    let value = value.ok_or_else(|| Error::corrupted(format!("block {} of vectors is missing", key.2)))?;
    Ok(value.value().to_vec())
}

fn read_counts(table: &Counts<'_>, generation: GenerationId, namespace: NamespaceId) -> Result<(u32, u32)> {
    Ok(table.get((generation.0, namespace.0)).map_err(storage)?.map_or((0, 0), |value| value.value()))
}

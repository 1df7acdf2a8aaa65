//! Writing vectors: those of a batch that was embedded, and erasing those of messages that changed.

use std::collections::{BTreeMap, btree_map};

use redb::{ReadableTable, Table};

use super::{
    Transaction, codec, free,
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
    pub(crate) generation: GenerationId,
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

/// Rows that a transaction gave to messages of one namespace.
#[derive(Clone, Debug)]
pub(crate) struct NewRows {
    pub(crate) namespace: NamespaceId,
    /// Their numbers: those that were never given ascend, one after the other; among them are some that were free.
    pub(crate) rows: Vec<u32>,
    pub(crate) metas: Vec<RowMeta>,
    /// The rows' components as they will be read, one after the other.
    pub(crate) vectors: Vec<f32>,
}

impl Transaction {
    /// Of the rows of a namespace, how many are alive.
    pub(crate) fn alive_count(&self, generation: GenerationId, namespace: NamespaceId) -> Result<usize> {
        Ok(read_counts(&self.table(COUNTS)?, generation, namespace)?.1 as usize)
    }

    /// Erases the vectors of messages. Their rows may be given again at once, unless a graph leads to them.
    pub(super) fn erase(&self, generation: GenerationId, messages: &[(NamespaceId, u64)]) -> Result<Vec<Removed>> {
        if messages.is_empty() {
            return Ok(Vec::new());
        }
        let layout = self.layout(generation)?;
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
        let (mut free, graphs) = (self.table(FREE_ROWS)?, self.table(GRAPHS)?);
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
            if graphs.get((generation.0, namespace)).map_err(storage)?.is_none() {
                for &row in &rows {
                    free.insert((generation.0, namespace, row), ()).map_err(storage)?;
                }
            }
            removed.entry(namespace).or_default().extend(rows);
        }
        let removed = removed.into_iter();
        Ok(removed.map(|(space, rows)| Removed { generation, namespace: NamespaceId(space), rows }).collect())
    }

    /// Stores the vectors of pending messages, which then are pending no more. A message that was replaced since its
    /// text was read stays pending.
    pub(crate) fn add_vectors(&mut self, generation: GenerationId, batch: &[Embedded]) -> Result<Vec<NewRows>> {
        let layout = self.layout(generation)?;
        let per_block = layout.rows_per_block();
        let mut pending = self.table(PENDING)?;
        let mut places = self.table(PLACES)?;
        let mut counts = self.table(COUNTS)?;
        let mut blocks = self.table(VECTORS)?;
        let mut free = self.table(FREE_ROWS)?;
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
            // The windows of a message have rows one after the other: those of several are new.
            let single = batch.iter().filter(|embedded| embedded.vectors.len() == 1).count();
            let mut again = free::take(&mut free, generation, namespace, single)?.into_iter();
            let mut new = NewRows { namespace, rows: Vec::new(), metas: Vec::new(), vectors: Vec::new() };
            // Each is written once, whatever number of its rows are given.
            let mut touched: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
            for embedded in batch {
                let count = embedded.vectors.len() as u32;
                let begin = match count {
                    1 => again.next(),
                    _ => None,
                };
                let begin = begin.unwrap_or_else(|| {
                    next += count;
                    next - count
                });
                let key = (generation.0, namespace.0, embedded.meta.seq);
                places.insert(key, (begin, count)).map_err(storage)?;
                for ((window, vector), row) in embedded.vectors.iter().enumerate().zip(begin..) {
                    let window = u16::try_from(window).expect("a message of 1 MiB has fewer windows");
                    let meta = RowMeta { window, ..embedded.meta };
                    let block = match touched.entry(row / per_block) {
                        btree_map::Entry::Occupied(block) => block.into_mut(),
                        btree_map::Entry::Vacant(new) if row >= first && row % per_block == 0 => {
                            new.insert(layout.empty())
                        }
                        btree_map::Entry::Vacant(old) => {
                            old.insert(read_block(&blocks, (generation.0, namespace.0, row / per_block))?)
                        }
                    };
                    layout.put(block, row % per_block, &meta, vector)?.append_to(&mut new.vectors);
                    new.rows.push(row);
                    new.metas.push(meta);
                }
            }
            for (block, bytes) in touched {
                blocks.insert((generation.0, namespace.0, block), bytes.as_slice()).map_err(storage)?;
            }
            let counted = (next, alive + new.rows.len() as u32);
            counts.insert((generation.0, namespace.0), counted).map_err(storage)?;
            added.push(new);
        }
        Ok(added)
    }

    fn layout(&self, GenerationId(id): GenerationId) -> Result<Layout> {
        let generations = self.table(GENERATIONS)?;
        let value = generations.get(id).map_err(storage)?;
        let value = value.ok_or_else(|| Error::corrupted(format!("generation {id} is missing")))?;
        codec::decode::<GenerationRecord>(value.value())?.layout()
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

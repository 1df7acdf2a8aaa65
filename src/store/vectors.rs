//! Vectors: storing those of an embedded batch, erasing those of messages that changed, and reading them.

use std::{
    collections::{BTreeMap, btree_map},
    ops::Range,
};

use super::{
    effects::Removed,
    generations::{Generation, Generations},
    graphs::Graphs,
    pending::{Pending, PendingMessage},
    row_layout::{Row, RowMeta},
    rows::{Assigned, Rows},
    schema::*,
    tables::{ReadableTable, Tables, WriteTransaction},
};
use crate::{
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
};

/// A pending message and its vectors, one per window.
pub(crate) struct Embedded {
    pub(crate) namespace: NamespaceId,
    pub(crate) revision: u64,
    /// The row data of the first window.
    pub(crate) meta: RowMeta,
    pub(crate) vectors: Vec<Vec<f32>>,
}

/// The rows that a transaction assigned to messages of one namespace.
#[derive(Clone, Debug)]
pub(crate) struct NewRows {
    pub(crate) namespace: NamespaceId,
    /// The row numbers. New rows are consecutive and ascending; reused rows are in between.
    pub(crate) rows: Vec<u32>,
    pub(crate) metas: Vec<RowMeta>,
    /// The components of the vectors as they will be read, row after row.
    pub(crate) vectors: Vec<f32>,
}

/// The table of blocks of vectors.
pub(crate) struct Vectors<'t, T>(pub(super) &'t T);

impl<T: Tables> Vectors<'_, T> {
    /// Calls `visit` with each of these rows of a namespace in order, including dead rows. The end may be `u32::MAX`.
    pub(crate) fn scan(
        &self,
        generation: &Generation,
        namespace: NamespaceId,
        rows: Range<u32>,
        mut visit: impl FnMut(Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let layout = generation.layout;
        let Some(last) = rows.clone().next_back() else { return Ok(()) };
        let key = |block| (generation.id.0, namespace.0, block);
        let first = layout.place(rows.start).0;
        let blocks = key(first)..=key(layout.place(last).0);
        for (expected, entry) in (first..).zip(self.0.table(VECTORS)?.range(blocks)?) {
            let damaged = || format!("block {expected} of vectors");
            let (key, block) = entry.map_err(|error| error.within(damaged))?;
            if key.value().2 != expected {
                return Err(Error::corrupted(format!("block {expected} of vectors is missing")));
            }
            let of_block = layout.read(block.value()).map_err(|error| error.within(damaged))?;
            for (_, row) in (layout.first_row(expected)..).zip(of_block).filter(|(number, _)| rows.contains(number)) {
                visit(row.map_err(|error| error.within(damaged))?)?;
            }
        }
        Ok(())
    }

    /// Calls `visit` with each of these rows that is live, and its index in `rows`. The calls are in the order of the
    /// row numbers.
    pub(crate) fn get(
        &self,
        generation: &Generation,
        namespace: NamespaceId,
        rows: &[u32],
        mut visit: impl FnMut(usize, Row<'_>),
    ) -> Result<()> {
        let layout = generation.layout;
        let table = self.0.table(VECTORS)?;
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_unstable_by_key(|&at| rows[at]);
        for in_block in order.chunk_by(|&a, &b| layout.place(rows[a]).0 == layout.place(rows[b]).0) {
            let number = layout.place(rows[in_block[0]]).0;
            let damaged = || format!("block {number} of vectors");
            let block = table.get((generation.id.0, namespace.0, number));
            let Some(block) = block.map_err(|error| error.within(damaged))? else { continue };
            for &at in in_block {
                let row = layout.row(block.value(), layout.place(rows[at]).1);
                if let Some(row) = row.map_err(|error| error.within(damaged))?
                    && row.meta.is_some()
                {
                    visit(at, row);
                }
            }
        }
        Ok(())
    }

    /// The vectors of messages of a namespace, one per window, as 32-bit floats; none for those without rows.
    pub(crate) fn of_seqs(
        &self,
        generation: &Generation,
        namespace: NamespaceId,
        seqs: &[u64],
    ) -> Result<Vec<Vec<Vec<f32>>>> {
        let stored = Rows(self.0).of_messages(generation.id, seqs.iter().map(|&seq| (namespace, seq)))?;
        let end = Rows(self.0).count(generation.id, namespace)?;
        let (mut rows, mut owners) = (Vec::new(), Vec::new());
        for (at, stored) in stored.into_iter().enumerate() {
            // In a damaged database the count may be any number.
            if let Some((first, count)) = stored.filter(|&(first, count)| first as usize + count as usize <= end) {
                rows.extend(first..first + count);
                owners.extend(std::iter::repeat_n(at, count as usize));
            }
        }
        let mut found = vec![Vec::new(); seqs.len()];
        self.get(generation, namespace, &rows, |row_at, row| {
            let mut vector = Vec::new();
            row.append_to(&mut vector);
            found[owners[row_at]].push(vector);
        })?;
        Ok(found)
    }

    /// The vectors of each of these messages in a generation with 32-bit vectors, one per window, exactly as the model
    /// returned them. `None` if the message is pending in that generation too, or if a row is missing. Stored vectors
    /// are never older than the message.
    pub(crate) fn of_messages(
        &self,
        generation: &Generation,
        messages: &[PendingMessage],
    ) -> Result<Vec<Option<Vec<Vec<f32>>>>> {
        let rows_of = |message: &PendingMessage| (message.namespace, message.meta.seq);
        let stored = Rows(self.0).of_messages(generation.id, messages.iter().map(rows_of))?;
        let mut found = vec![None; messages.len()];
        let mut order: Vec<usize> = (0..messages.len()).collect();
        order.sort_by_key(|&at| messages[at].namespace);
        for of_namespace in order.chunk_by(|&a, &b| messages[a].namespace == messages[b].namespace) {
            let namespace = messages[of_namespace[0]].namespace;
            let (mut rows, mut owners) = (Vec::new(), Vec::new());
            let end = Rows(self.0).count(generation.id, namespace)?;
            for &at in of_namespace {
                // In a damaged database the count may be any number.
                let is_sound = |&(first, count): &(u32, u32)| (first as usize) + count as usize <= end;
                if let Some((first, count)) = stored[at].filter(is_sound) {
                    found[at] = Some(vec![Vec::new(); count as usize]);
                    rows.extend(first..first + count);
                    owners.extend((0..count as usize).map(|window| (at, window)));
                }
            }
            self.get(generation, namespace, &rows, |row_at, row| {
                let (at, window) = owners[row_at];
                row.append_to(&mut found[at].as_mut().expect("its rows were found")[window]);
            })?;
        }
        // A missing row is damage, which embedding the message again repairs.
        let is_whole = |vectors: &Vec<Vec<f32>>| vectors.iter().all(|vector| !vector.is_empty());
        Ok(found.into_iter().map(|vectors| vectors.filter(is_whole)).collect())
    }
}

impl Vectors<'_, WriteTransaction> {
    /// Stores the vectors of messages and removes their pending entries. A message that was replaced since its text was
    /// read stays pending, and its vectors are dropped. Returns the rows by namespace.
    pub(crate) fn add(&self, generation: GenerationId, batch: &[Embedded]) -> Result<Vec<NewRows>> {
        let keys = batch.iter().map(|embedded| (embedded.namespace, embedded.meta.seq, embedded.revision));
        let settled = Pending(self.0).settle(generation, keys)?;
        let mut by_namespace: BTreeMap<NamespaceId, Vec<&Embedded>> = BTreeMap::new();
        for (embedded, _) in batch.iter().zip(settled).filter(|(_, is_settled)| *is_settled) {
            by_namespace.entry(embedded.namespace).or_default().push(embedded);
        }
        let added = by_namespace.into_iter();
        added.map(|(namespace, batch)| self.add_to_namespace(generation, namespace, &batch)).collect()
    }

    fn add_to_namespace(
        &self,
        generation: GenerationId,
        namespace: NamespaceId,
        batch: &[&Embedded],
    ) -> Result<NewRows> {
        let layout = Generations(self.0).layout(generation)?;
        let counts: Vec<(u64, u32)> =
            batch.iter().map(|embedded| (embedded.meta.seq, embedded.vectors.len() as u32)).collect();
        let Assigned { count_before, first_rows } = Rows(self.0).assign(generation, namespace, &counts)?;
        let mut table = self.0.table(VECTORS)?;
        let mut new = NewRows { namespace, rows: Vec::new(), metas: Vec::new(), vectors: Vec::new() };
        // Collects the changes, so that each block is written once.
        let mut touched: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
        for (embedded, first_row) in batch.iter().zip(first_rows) {
            for ((window, vector), row) in embedded.vectors.iter().enumerate().zip(first_row..) {
                let window = u16::try_from(window).expect("a message of 1 MiB has fewer windows");
                let meta = RowMeta { window, ..embedded.meta };
                let (number, at) = layout.place(row);
                let block = match touched.entry(number) {
                    btree_map::Entry::Occupied(block) => block.into_mut(),
                    btree_map::Entry::Vacant(new) if row >= count_before && at == 0 => new.insert(layout.empty()),
                    btree_map::Entry::Vacant(old) => {
                        old.insert(read_block(&table, (generation.0, namespace.0, number))?)
                    }
                };
                layout.put(block, at, &meta, vector)?.append_to(&mut new.vectors);
                new.rows.push(row);
                new.metas.push(meta);
            }
        }
        for (block, bytes) in touched {
            table.insert((generation.0, namespace.0, block), bytes.as_slice())?;
        }
        Ok(new)
    }

    /// Erases the vectors of messages. The rows are free at once, unless the namespace has a graph, whose links may
    /// lead to them.
    pub(super) fn erase(&self, generation: GenerationId, messages: &[(NamespaceId, u64)]) -> Result<Vec<Removed>> {
        let layout = Generations(self.0).layout(generation)?;
        let mut table = self.0.table(VECTORS)?;
        let mut removed = Vec::new();
        for (namespace, mut rows) in Rows(self.0).release(generation, messages)? {
            // Sorted by block, so that each block is written once.
            let block = |row: &u32| layout.place(*row).0;
            rows.sort_by_key(block);
            for rows in rows.chunk_by(|a, b| block(a) == block(b)) {
                let key = (generation.0, namespace.0, block(&rows[0]));
                let mut bytes = read_block(&table, key)?;
                for row in rows {
                    layout.erase(&mut bytes, layout.place(*row).1)?;
                }
                table.insert(key, bytes.as_slice())?;
            }
            if !Graphs(self.0).exists(generation, namespace)? {
                Rows(self.0).add_free(generation, namespace, &rows)?;
            }
            removed.push(Removed { generation, namespace, rows });
        }
        Ok(removed)
    }
}

fn read_block(table: &impl ReadableTable<(u32, u32, u32), Bytes>, key: (u32, u32, u32)) -> Result<Vec<u8>> {
    let value = table.get(key)?;
    let value = value.ok_or_else(|| Error::corrupted(format!("block {} of vectors is missing", key.2)))?;
    Ok(value.value().to_vec())
}

//! The rows of a namespace's vectors: which belong to which message, and which may be reused.
//!
//! A row whose message was deleted or replaced is dead. In a namespace without a graph it is free at once. In one with
//! a graph, links may lead to it, and it becomes free with the delta that removes the last of them. The lowest free row
//! is reused first, so that frequent changes stay in few blocks.

use std::collections::BTreeMap;

use super::{
    message_record::MessageRecord,
    schema::*,
    sessions::Messages,
    tables::{self, ReadableTable, Tables, WriteTransaction},
};
use crate::{
    error::Result,
    ids::{GenerationId, NamespaceId},
    message::IndexedText,
};

/// The tables of row counts, of the rows of each message, and of free rows.
pub(crate) struct Rows<'t, T>(pub(super) &'t T);

/// The rows that [`Rows::assign`] gave to messages of one namespace.
pub(super) struct Assigned {
    /// The number of rows before.
    pub(super) count_before: u32,
    /// The first row of each message, in the order they were given.
    pub(super) first_rows: Vec<u32>,
}

impl<T: Tables> Rows<'_, T> {
    /// Number of rows of a namespace, including dead ones.
    pub(crate) fn count(&self, generation: GenerationId, namespace: NamespaceId) -> Result<usize> {
        Ok(self.counts(generation, namespace)?.0 as usize)
    }

    /// Number of rows of a namespace that are live.
    pub(crate) fn live_count(&self, generation: GenerationId, namespace: NamespaceId) -> Result<usize> {
        Ok(self.counts(generation, namespace)?.1 as usize)
    }

    /// Returns true if a namespace ever had a row.
    pub(super) fn exist(&self, generation: GenerationId, namespace: NamespaceId) -> Result<bool> {
        Ok(self.0.table(COUNTS)?.get((generation.0, namespace.0))?.is_some())
    }

    /// Number of messages that have vectors in a generation. Cost: a pass over their keys.
    pub(crate) fn message_count(&self, generation: GenerationId) -> Result<u64> {
        let all = (generation.0, 0, 0)..=(generation.0, u32::MAX, u64::MAX);
        tables::count(&self.0.table(VECTOR_ROWS)?, all)
    }

    /// The namespaces that ever had a row.
    pub(crate) fn namespaces(&self, generation: GenerationId) -> Result<Vec<NamespaceId>> {
        let table = self.0.table(COUNTS)?;
        let entries = table.range((generation.0, 0)..=(generation.0, u32::MAX))?;
        entries.map(|entry| Ok(NamespaceId(entry?.0.value().1))).collect()
    }

    /// Returns for each row of a namespace whether it is live. Cost: a pass over small records.
    pub(crate) fn live(
        &self,
        GenerationId(generation): GenerationId,
        NamespaceId(namespace): NamespaceId,
    ) -> Result<Vec<bool>> {
        let mut live = vec![false; self.count(GenerationId(generation), NamespaceId(namespace))?];
        let all = (generation, namespace, 0)..=(generation, namespace, u64::MAX);
        for entry in self.0.table(VECTOR_ROWS)?.range(all)? {
            let (first, count) = entry?.1.value();
            for row in first..first.saturating_add(count) {
                if let Some(live) = live.get_mut(row as usize) {
                    *live = true;
                }
            }
        }
        Ok(live)
    }

    /// The rows of a namespace that may be reused, ascending.
    pub(crate) fn free(
        &self,
        GenerationId(generation): GenerationId,
        NamespaceId(namespace): NamespaceId,
    ) -> Result<Vec<u32>> {
        self.0
            .table(FREE_ROWS)?
            .range((generation, namespace, 0)..=(generation, namespace, u32::MAX))?
            .map(|entry| Ok(entry?.0.value().2))
            .collect()
    }

    /// The first row and the number of rows of each of these messages that has vectors.
    pub(super) fn of_messages(
        &self,
        generation: GenerationId,
        messages: impl Iterator<Item = (NamespaceId, u64)>,
    ) -> Result<Vec<Option<(u32, u32)>>> {
        let table = self.0.table(VECTOR_ROWS)?;
        messages
            .map(|(namespace, seq)| {
                let rows = table.get((generation.0, namespace.0, seq))?;
                Ok(rows.map(|rows| rows.value()))
            })
            .collect()
    }

    /// Calls `visit` with the first row, the number of rows and the text of each message of a namespace that has
    /// vectors.
    pub(crate) fn texts(
        &self,
        GenerationId(generation): GenerationId,
        NamespaceId(namespace): NamespaceId,
        mut visit: impl FnMut(u32, u32, &IndexedText) -> Result<()>,
    ) -> Result<()> {
        let messages = self.0.table(MESSAGES)?;
        let all = (generation, namespace, 0)..=(generation, namespace, u64::MAX);
        for entry in self.0.table(VECTOR_ROWS)?.range(all)? {
            let (key, rows) = entry?;
            let (seq, (first, count)) = (key.value().2, rows.value());
            let record = MessageRecord::expect(&messages, namespace, seq)?;
            visit(first, count, &IndexedText::of(&record.message()?))?;
        }
        Ok(())
    }

    /// Up to `count` messages that have vectors in a generation, spread evenly over these namespaces: namespace,
    /// sequence number and text. Cost: a pass over the keys of the messages that have vectors there.
    pub(crate) fn sample(
        &self,
        generation: GenerationId,
        namespaces: &[NamespaceId],
        count: usize,
    ) -> Result<Vec<(NamespaceId, u64, String)>> {
        let rows = namespaces.iter().map(|&namespace| self.live_count(generation, namespace));
        let rows = rows.sum::<Result<usize>>()?;
        let table = self.0.table(VECTOR_ROWS)?;
        let (mut sample, mut at) = (Vec::new(), 0);
        for &namespace in namespaces {
            let all = (generation.0, namespace.0, 0)..=(generation.0, namespace.0, u64::MAX);
            for entry in table.range(all)? {
                let seq = entry?.0.value().2;
                at += 1;
                if at * count > sample.len() * rows
                    && let Some(message) = Messages(self.0).get(namespace, seq)?
                {
                    sample.push((namespace, seq, message.searchable()));
                }
            }
        }
        Ok(sample)
    }

    fn counts(&self, generation: GenerationId, namespace: NamespaceId) -> Result<(u32, u32)> {
        let table = self.0.table(COUNTS)?;
        Ok(table.get((generation.0, namespace.0))?.map_or((0, 0), |counts| counts.value()))
    }
}

impl Rows<'_, WriteTransaction> {
    /// Gives rows to messages of one namespace, each given by its sequence number and its number of rows.
    pub(super) fn assign(
        &self,
        generation: GenerationId,
        namespace: NamespaceId,
        messages: &[(u64, u32)],
    ) -> Result<Assigned> {
        let (count_before, live) = self.counts(generation, namespace)?;
        // The windows of a message have consecutive rows, so a message with several windows gets new ones.
        let single = messages.iter().filter(|(_, count)| *count == 1).count();
        let mut reused = self.take_free(generation, namespace, single)?.into_iter();
        let mut next = count_before;
        let mut table = self.0.table(VECTOR_ROWS)?;
        let mut first_rows = Vec::with_capacity(messages.len());
        for &(seq, count) in messages {
            let free = if count == 1 { reused.next() } else { None };
            let first = free.unwrap_or_else(|| {
                next += count;
                next - count
            });
            table.insert((generation.0, namespace.0, seq), (first, count))?;
            first_rows.push(first);
        }
        let live = live + messages.iter().map(|(_, count)| count).sum::<u32>();
        self.0.table(COUNTS)?.insert((generation.0, namespace.0), (next, live))?;
        Ok(Assigned { count_before, first_rows })
    }

    /// Takes the rows from these messages, which makes the rows dead, but not yet free. Returns the rows by namespace.
    pub(super) fn release(
        &self,
        generation: GenerationId,
        messages: &[(NamespaceId, u64)],
    ) -> Result<BTreeMap<NamespaceId, Vec<u32>>> {
        let mut released: BTreeMap<NamespaceId, Vec<u32>> = BTreeMap::new();
        let mut table = self.0.table(VECTOR_ROWS)?;
        for &(namespace, seq) in messages {
            if let Some(rows) = table.remove((generation.0, namespace.0, seq))? {
                let (first, count) = rows.value();
                released.entry(namespace).or_default().extend(first..first.saturating_add(count));
            }
        }
        for (&namespace, rows) in &released {
            let (count, live) = self.counts(generation, namespace)?;
            let counts = (count, live.saturating_sub(rows.len() as u32));
            self.0.table(COUNTS)?.insert((generation.0, namespace.0), counts)?;
        }
        Ok(released)
    }

    /// Makes dead rows free.
    pub(super) fn add_free(&self, generation: GenerationId, namespace: NamespaceId, rows: &[u32]) -> Result<()> {
        let mut free = self.0.table(FREE_ROWS)?;
        for &row in rows {
            free.insert((generation.0, namespace.0, row), ())?;
        }
        Ok(())
    }

    /// Makes all dead rows of a namespace free: the gaps between the live ones. Cost: a pass over small records, not
    /// over the vectors.
    pub(super) fn add_all_dead(
        &self,
        GenerationId(generation): GenerationId,
        NamespaceId(namespace): NamespaceId,
    ) -> Result<()> {
        let (next, live) = self.counts(GenerationId(generation), NamespaceId(namespace))?;
        if next == live {
            return Ok(());
        }
        let mut live_rows: Vec<(u32, u32)> = self
            .0
            .table(VECTOR_ROWS)?
            .range((generation, namespace, 0)..=(generation, namespace, u64::MAX))?
            .map(|entry| Ok(entry?.1.value()))
            .collect::<Result<_>>()?;
        // Damaged records must not free a row that is in use. If the counts disagree, `verify` reports it.
        if live_rows.iter().map(|(_, count)| u64::from(*count)).sum::<u64>() != u64::from(live) {
            return Ok(());
        }
        live_rows.sort_unstable();
        live_rows.push((next, 0));
        let mut free = self.0.table(FREE_ROWS)?;
        let mut row = 0;
        for (begin, count) in live_rows {
            for dead in row..begin.min(next) {
                free.insert((generation, namespace, dead), ())?;
            }
            row = begin.saturating_add(count);
        }
        Ok(())
    }

    /// Takes the lowest free rows of a namespace, up to `count`, which are then no longer free.
    fn take_free(
        &self,
        GenerationId(generation): GenerationId,
        NamespaceId(namespace): NamespaceId,
        count: usize,
    ) -> Result<Vec<u32>> {
        let mut free = self.0.table(FREE_ROWS)?;
        let rows = free
            .range((generation, namespace, 0)..=(generation, namespace, u32::MAX))?
            .take(count)
            .map(|entry| Ok(entry?.0.value().2))
            .collect::<Result<Vec<u32>>>()?;
        for row in &rows {
            free.remove((generation, namespace, *row))?;
        }
        Ok(rows)
    }
}

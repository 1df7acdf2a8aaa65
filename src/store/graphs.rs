//! The graph of a namespace: pages, and deltas that change them. The store does not know what their bytes mean.
//!
//! A namespace has a graph if it has a [`GraphRecord`]. The graph results from its pages in order, then its deltas in
//! order. A delta is deleted after the pages that contain its change were written. Each part is stored behind a
//! checksum, because a link with a flipped bit leads to a wrong row without any error.

use super::{
    codec::{self, Codec, HEADER_BYTES},
    namespaces::next,
    rows::Rows,
    schema::*,
    tables::{ReadableTable, Tables, WriteTable, WriteTransaction, has},
};
use crate::{
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
};

const CHECKSUM_BYTES: usize = 4;

/// Encodes a part: header, CRC-32 of the payload (little endian), payload.
pub(super) fn seal(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + CHECKSUM_BYTES + payload.len());
    bytes.extend(codec::header(Codec::Graph));
    bytes.extend(crc32fast::hash(payload).to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// Checks a part and returns its payload. `what` and `number` name the part in errors: "page 3".
///
/// # Errors
/// [`Error::Corrupted`].
pub(super) fn unseal<'a>(bytes: &'a [u8], what: &str, number: u32) -> Result<&'a [u8]> {
    let named = |reason: String| Error::corrupted(format!("{what} {number} of a graph: {reason}"));
    let sealed = codec::payload(Codec::Graph, bytes).map_err(|_| named("it has a wrong header".into()))?;
    let (checksum, payload) =
        sealed.split_first_chunk::<CHECKSUM_BYTES>().ok_or_else(|| named(format!("it has {} bytes", bytes.len())))?;
    match crc32fast::hash(payload) == u32::from_le_bytes(*checksum) {
        true => Ok(payload),
        false => Err(named("its checksum is wrong".into())),
    }
}

fn read_record(
    table: &impl ReadableTable<(u32, u32), Bytes>,
    GenerationId(generation): GenerationId,
    NamespaceId(namespace): NamespaceId,
) -> Result<Option<GraphRecord>> {
    let value = table.get((generation, namespace))?;
    value.map(|value| codec::decode(value.value())).transpose()
}

fn write_record(
    table: &mut WriteTable<'_, (u32, u32), Bytes>,
    GenerationId(generation): GenerationId,
    NamespaceId(namespace): NamespaceId,
    record: &GraphRecord,
) -> Result<()> {
    table.insert((generation, namespace), codec::encode(record).as_slice())?;
    Ok(())
}

/// The tables of graphs, of their pages and of their deltas.
pub(crate) struct Graphs<'t, T>(pub(super) &'t T);

impl<T: Tables> Graphs<'_, T> {
    /// The namespaces that have a graph.
    pub(crate) fn namespaces(&self, generation: GenerationId) -> Result<Vec<NamespaceId>> {
        let table = self.0.table(GRAPHS)?;
        let entries = table.range((generation.0, 0)..=(generation.0, u32::MAX))?;
        entries.map(|entry| Ok(NamespaceId(entry?.0.value().1))).collect()
    }

    /// Returns true if a namespace has a graph.
    pub(super) fn exists(&self, generation: GenerationId, namespace: NamespaceId) -> Result<bool> {
        Ok(self.0.table(GRAPHS)?.get((generation.0, namespace.0))?.is_some())
    }

    /// Reads the graph of a namespace: calls `page` with each page in order, then `delta` with each delta in order, and
    /// their numbers. Returns true if there is a graph.
    ///
    /// # Errors
    /// [`Error::Corrupted`] if a part is damaged or a delta is missing, and the errors of the callbacks.
    pub(crate) fn read(
        &self,
        generation: GenerationId,
        namespace: NamespaceId,
        mut page: impl FnMut(u32, &[u8]) -> Result<()>,
        mut delta: impl FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<bool> {
        let all = (generation.0, namespace.0, 0)..=(generation.0, namespace.0, u32::MAX);
        let Some(record) = read_record(&self.0.table(GRAPHS)?, generation, namespace)? else {
            // Parts of a deleted graph must not become parts of the next one.
            for parts in [GRAPH_PAGES, GRAPH_DELTAS] {
                if has(&self.0.table(parts)?, all.clone())? {
                    return Err(Error::corrupted("a graph has parts, but no record"));
                }
            }
            return Ok(false);
        };
        let damaged = |error: Error| error.within(|| "a graph".into());
        for entry in self.0.table(GRAPH_PAGES)?.range(all.clone())? {
            let (key, value) = entry.map_err(damaged)?;
            let number = key.value().2;
            page(number, unseal(value.value(), "page", number)?)?;
        }
        let mut expected = record.first_delta;
        for entry in self.0.table(GRAPH_DELTAS)?.range(all)? {
            let (key, value) = entry.map_err(damaged)?;
            let number = key.value().2;
            if number != expected {
                break;
            }
            delta(number, unseal(value.value(), "delta", number)?)?;
            expected = number.saturating_add(1);
        }
        match expected == record.next_delta {
            true => Ok(true),
            false => Err(Error::corrupted(format!("delta {expected} of a graph is missing"))),
        }
    }
}

impl Graphs<'_, WriteTransaction> {
    /// Stores a change of a graph under the next number. The graph is created if there is none, but not in a namespace
    /// that was removed meanwhile. `freed` are dead rows
    /// that no link of the graph leads to any more: they may be reused. Returns the number, which is not used again
    /// while the graph exists.
    pub(crate) fn add_delta(
        &self,
        generation: GenerationId,
        namespace: NamespaceId,
        payload: &[u8],
        freed: &[u32],
    ) -> Result<u32> {
        let mut graphs = self.0.table(GRAPHS)?;
        let stored = read_record(&graphs, generation, namespace)?;
        if stored.is_none() && self.is_removed(generation, namespace)? {
            return Ok(0);
        }
        let mut record = stored.unwrap_or_default();
        let number = record.next_delta;
        record.next_delta =
            number.checked_add(1).ok_or_else(|| Error::corrupted("a graph has no delta number left"))?;
        write_record(&mut graphs, generation, namespace, &record)?;
        let key = (generation.0, namespace.0, number);
        self.0.table(GRAPH_DELTAS)?.insert(key, seal(payload).as_slice())?;
        Rows(self.0).add_free(generation, namespace, freed)?;
        Ok(number)
    }

    /// Stores pages of a graph, replacing those with the same numbers. The graph is created if there is none, but not
    /// in a namespace that was removed meanwhile.
    pub(crate) fn put_pages(
        &self,
        generation: GenerationId,
        namespace: NamespaceId,
        pages: &[(u32, Vec<u8>)],
    ) -> Result<()> {
        let mut graphs = self.0.table(GRAPHS)?;
        if read_record(&graphs, generation, namespace)?.is_none() {
            if self.is_removed(generation, namespace)? {
                return Ok(());
            }
            write_record(&mut graphs, generation, namespace, &GraphRecord::default())?;
        }
        let mut table = self.0.table(GRAPH_PAGES)?;
        for (page, payload) in pages {
            let key = (generation.0, namespace.0, *page);
            table.insert(key, seal(payload).as_slice())?;
        }
        Ok(())
    }

    /// Returns true if a namespace was removed: it has a number, and no rows.
    fn is_removed(&self, generation: GenerationId, namespace: NamespaceId) -> Result<bool> {
        let NamespaceId(number) = namespace.whole();
        Ok(number < next(&self.0.table(META)?)?.id && !Rows(self.0).exist(generation, namespace)?)
    }

    /// Deletes the deltas up to and including this number, whose changes the pages contain.
    pub(crate) fn remove_deltas(&self, generation: GenerationId, namespace: NamespaceId, through: u32) -> Result<()> {
        let mut graphs = self.0.table(GRAPHS)?;
        let Some(mut record) = read_record(&graphs, generation, namespace)? else { return Ok(()) };
        let first = through.saturating_add(1).min(record.next_delta);
        if first > record.first_delta {
            let dropped = (generation.0, namespace.0, 0)..(generation.0, namespace.0, first);
            self.0.table(GRAPH_DELTAS)?.remove_range(dropped)?;
            record.first_delta = first;
            write_record(&mut graphs, generation, namespace, &record)?;
        }
        Ok(())
    }

    /// Deletes a graph, and makes all dead rows of the namespace free, since no link leads to them any more.
    pub(crate) fn remove(&self, generation: GenerationId, namespace: NamespaceId) -> Result<()> {
        self.0.table(GRAPHS)?.remove((generation.0, namespace.0))?;
        for parts in [GRAPH_PAGES, GRAPH_DELTAS] {
            let all = (generation.0, namespace.0, 0)..=(generation.0, namespace.0, u32::MAX);
            self.0.table(parts)?.remove_range(all)?;
        }
        Rows(self.0).add_all_dead(generation, namespace)
    }
}

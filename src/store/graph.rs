//! The graph of a namespace: pages, and deltas that change them. The store does not know what their bytes say.
//!
//! A graph is there if it has a record. What it is, is its pages in order, then its deltas in order; a delta is dropped
//! when pages have been written that say what it said. Each part is stored behind its checksum, as links that a flipped
//! bit has bent lead astray and fail nowhere.

use std::collections::{BTreeMap, BTreeSet};

use redb::{ReadableTable, Table};

use super::{
    Snapshot, Transaction,
    codec::{self, Codec, HEADER_BYTES},
    schema::*,
    storage,
    verify::VerifyReport,
};
use crate::{
    error::{Error, Result},
    ids::{GenerationId, NamespaceId},
};

const CHECKSUM_BYTES: usize = 4;

/// A part as it is stored: header, CRC-32 of the payload, little endian, payload.
fn seal(payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER_BYTES + CHECKSUM_BYTES + payload.len());
    bytes.extend(codec::header(Codec::Graph));
    bytes.extend(crc32fast::hash(payload).to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// The payload of a part. `what` names it: "page 3", say.
fn open<'a>(bytes: &'a [u8], what: &str, number: u32) -> Result<&'a [u8]> {
    let named = |reason: String| Error::corrupted(format!("{what} {number} of a graph: {reason}"));
    let sealed = codec::payload(Codec::Graph, bytes).map_err(|_| named("it does not begin as one".into()))?;
    let (checksum, payload) =
        sealed.split_first_chunk::<CHECKSUM_BYTES>().ok_or_else(|| named(format!("it has {} bytes", bytes.len())))?;
    match crc32fast::hash(payload) == u32::from_le_bytes(*checksum) {
        true => Ok(payload),
        false => Err(named("its checksum is wrong".into())),
    }
}

fn read_record(
    table: &impl ReadableTable<(u32, u32), &'static [u8]>,
    GenerationId(generation): GenerationId,
    NamespaceId(namespace): NamespaceId,
) -> Result<Option<GraphRecord>> {
    let value = table.get((generation, namespace)).map_err(storage)?;
    value.map(|value| codec::decode(value.value())).transpose()
}

fn write_record(
    table: &mut Table<'_, (u32, u32), &'static [u8]>,
    GenerationId(generation): GenerationId,
    NamespaceId(namespace): NamespaceId,
    record: &GraphRecord,
) -> Result<()> {
    table.insert((generation, namespace), codec::encode(record).as_slice()).map_err(storage)?;
    Ok(())
}

#[allow(dead_code, reason = "for the index that keeps its graph in the store")]
impl Transaction {
    /// Stores a change of a graph under the next number, and makes one if there is none. `freed` are dead rows that nothing
    /// in the graph leads to any more: they may be given again. Returns the number; none is given twice while the graph is
    /// there.
    pub(crate) fn add_graph_delta(
        &mut self,
        generation: GenerationId,
        namespace: NamespaceId,
        payload: &[u8],
        freed: &[u32],
    ) -> Result<u32> {
        let mut graphs = self.table(GRAPHS)?;
        let mut record = read_record(&graphs, generation, namespace)?.unwrap_or_default();
        let number = record.next_delta;
        record.next_delta = number.checked_add(1).ok_or_else(|| Error::corrupted("a graph is out of deltas"))?;
        write_record(&mut graphs, generation, namespace, &record)?;
        let key = (generation.0, namespace.0, number);
        self.table(GRAPH_DELTAS)?.insert(key, seal(payload).as_slice()).map_err(storage)?;
        let mut free = self.table(FREE_ROWS)?;
        for &row in freed {
            free.insert((generation.0, namespace.0, row), ()).map_err(storage)?;
        }
        Ok(number)
    }

    /// Stores pages of a graph in place of those of these numbers, and makes a graph if there is none.
    pub(crate) fn put_graph_pages(
        &mut self,
        generation: GenerationId,
        namespace: NamespaceId,
        pages: &[(u32, Vec<u8>)],
    ) -> Result<()> {
        let mut graphs = self.table(GRAPHS)?;
        if read_record(&graphs, generation, namespace)?.is_none() {
            write_record(&mut graphs, generation, namespace, &GraphRecord::default())?;
        }
        let mut table = self.table(GRAPH_PAGES)?;
        for (page, payload) in pages {
            let key = (generation.0, namespace.0, *page);
            table.insert(key, seal(payload).as_slice()).map_err(storage)?;
        }
        Ok(())
    }

    /// Deletes the deltas up to this number, it too: the pages have them.
    pub(crate) fn drop_graph_deltas(
        &mut self,
        generation: GenerationId,
        namespace: NamespaceId,
        through: u32,
    ) -> Result<()> {
        let mut graphs = self.table(GRAPHS)?;
        let Some(mut record) = read_record(&graphs, generation, namespace)? else { return Ok(()) };
        let first = through.saturating_add(1).min(record.next_delta);
        if first > record.first_delta {
            let dropped = (generation.0, namespace.0, 0)..(generation.0, namespace.0, first);
            self.table(GRAPH_DELTAS)?.retain_in(dropped, |_, _| false).map_err(storage)?;
            record.first_delta = first;
            write_record(&mut graphs, generation, namespace, &record)?;
        }
        Ok(())
    }

    /// Deletes a graph. All dead rows of the namespace are free then: nothing leads to them.
    pub(crate) fn drop_graph(&mut self, generation: GenerationId, namespace: NamespaceId) -> Result<()> {
        self.table(GRAPHS)?.remove((generation.0, namespace.0)).map_err(storage)?;
        for parts in [GRAPH_PAGES, GRAPH_DELTAS] {
            let all = (generation.0, namespace.0, 0)..=(generation.0, namespace.0, u32::MAX);
            self.table(parts)?.retain_in(all, |_, _| false).map_err(storage)?;
        }
        self.free_dead_rows(generation, namespace)
    }
}

impl Snapshot {
    /// Reads the graph of a namespace: its pages in order, then its deltas in order, with their numbers. Returns whether
    /// there is one.
    ///
    /// # Errors
    /// [`Error::Corrupted`] if a part is damaged or a delta is missing, and those of the callbacks.
    #[allow(dead_code, reason = "for the index that keeps its graph in the store")]
    pub(crate) fn graph(
        &self,
        generation: GenerationId,
        namespace: NamespaceId,
        mut page: impl FnMut(u32, &[u8]) -> Result<()>,
        mut delta: impl FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<bool> {
        let Some(record) = read_record(&self.table(GRAPHS)?, generation, namespace)? else { return Ok(false) };
        let all = (generation.0, namespace.0, 0)..=(generation.0, namespace.0, u32::MAX);
        for entry in self.table(GRAPH_PAGES)?.range(all.clone()).map_err(storage)? {
            let (key, value) = entry.map_err(storage)?;
            let number = key.value().2;
            page(number, open(value.value(), "page", number)?)?;
        }
        let mut expected = record.first_delta;
        for entry in self.table(GRAPH_DELTAS)?.range(all).map_err(storage)? {
            let (key, value) = entry.map_err(storage)?;
            let number = key.value().2;
            if number != expected {
                break;
            }
            delta(number, open(value.value(), "delta", number)?)?;
            expected = number.saturating_add(1);
        }
        match expected == record.next_delta {
            true => Ok(true),
            false => Err(Error::corrupted(format!("delta {expected} of a graph is missing"))),
        }
    }
}

/// Checks what is stored of the graphs of a generation. Returns the namespaces that have one.
pub(super) fn verify(
    snapshot: &Snapshot,
    report: &mut VerifyReport,
    GenerationId(id): GenerationId,
) -> Result<BTreeSet<u32>> {
    let mut records = BTreeMap::new();
    for entry in snapshot.table(GRAPHS)?.range((id, 0)..=(id, u32::MAX)).map_err(storage)? {
        let (key, value) = entry.map_err(storage)?;
        let space = key.value().1;
        let record = codec::decode::<GraphRecord>(value.value());
        if let Err(error) = &record {
            report.problem(format!("generation {id}, namespace {space}: the record of its graph: {error}"));
        }
        records.insert(space, record.ok());
    }
    let mut deltas: BTreeMap<u32, u32> = BTreeMap::new();
    for (table, what) in [(GRAPH_PAGES, "page"), (GRAPH_DELTAS, "delta")] {
        for entry in snapshot.table(table)?.range((id, 0, 0)..=(id, u32::MAX, u32::MAX)).map_err(storage)? {
            let (key, value) = entry.map_err(storage)?;
            let (_, space, number) = key.value();
            let mut problem = |error: String| report.problem(format!("generation {id}, namespace {space}: {error}"));
            if let Err(error) = open(value.value(), what, number) {
                problem(error.to_string());
            }
            match records.get(&space) {
                None => problem(format!("{what} {number} of a graph that has no record")),
                Some(Some(record)) if what == "delta" => {
                    if !(record.first_delta..record.next_delta).contains(&number) {
                        problem(format!("delta {number} of its graph was dropped, or never given"));
                    }
                    *deltas.entry(space).or_default() += 1;
                }
                Some(_) => {}
            }
        }
    }
    for (space, record) in &records {
        let found = deltas.get(space).copied().unwrap_or(0);
        if let Some(GraphRecord { first_delta, next_delta }) = record
            && next_delta.checked_sub(*first_delta) != Some(found)
        {
            report.problem(format!(
                "generation {id}, namespace {space}: {found} deltas of its graph, not {first_delta} to {next_delta}"
            ));
        }
    }
    Ok(records.into_keys().collect())
}

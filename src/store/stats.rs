//! Counts and sizes of the stored data.

use redb::ReadTransaction;
use serde::Serialize;

use super::{
    codec,
    namespaces::{Namespaces, documents_of},
    rows::Rows,
    schema::*,
    sessions::{Batches, History, Sessions},
    tables::{ReadableTable, Tables, count},
    transaction::Snapshot,
};
use crate::{
    error::Result,
    ids::{GenerationId, Namespace, NamespaceId},
    lexical::ChosenLanguage,
};

/// Bytes of the file by kind of data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StorageSizes {
    /// Bytes of messages, their ids and their order.
    pub messages: u64,
    /// Bytes of documents, without the texts that are indexed: they are stored as messages.
    pub documents: u64,
    /// Bytes of the vectors of all generations.
    pub vectors: u64,
    /// Bytes of the graphs.
    pub graphs: u64,
    /// Bytes of the segments of lexical indexes.
    pub lexical: u64,
}

/// The counts of one namespace.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceCounts {
    pub(crate) namespace: Namespace,
    pub(crate) messages: u64,
    pub(crate) sessions: u64,
    pub(crate) documents: u64,
    pub(crate) vectors: u64,
    pub(crate) pending: u64,
    pub(crate) buffered: u64,
    pub(crate) language: ChosenLanguage,
    /// The time to live in microseconds.
    pub(crate) ttl: Option<i64>,
}

impl Snapshot {
    /// Returns true if nothing was ever stored: there is no namespace and no entry of the audit, and the database is no
    /// copy of a shared one.
    pub(super) fn is_unused(&self) -> Result<bool> {
        let tables = self.tables();
        let is_empty = |table: &Table<&'static str, Bytes>| tables.table(table)?.is_empty();
        Ok(is_empty(NAMESPACES)? && is_empty(HOLDS)? && is_empty(VERSIONS)? && tables.table(AUDIT)?.is_empty()?)
    }
}

/// A session and its counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct SessionInfo {
    /// The id of the session.
    pub session: String,
    /// Number of messages, including those in the buffer.
    pub messages: u64,
    /// Number of messages in the short-term buffer.
    pub buffered: u64,
    /// Number of batches flushed so far.
    pub batches: u64,
    /// The number of its last message. The messages of a namespace are numbered in the order in which they were put, so the
    /// session with the greatest number is the one that was used last.
    pub last: u64,
}

/// Measures how many bytes each kind of data takes. Cost: a look at each page.
pub(crate) fn sizes(snapshot: &Snapshot) -> Result<StorageSizes> {
    let tables = snapshot.tables();
    Ok(StorageSizes {
        messages: bytes(tables, MESSAGES)?
            + bytes(tables, IDS)?
            + bytes(tables, HISTORY)?
            + bytes(tables, SESSIONS)?
            + bytes(tables, MESSAGE_EXPIRY)?
            + bytes(tables, MESSAGE_VERSIONS)?,
        documents: bytes(tables, DOCUMENTS)?
            + bytes(tables, DOCUMENT_ORDER)?
            + bytes(tables, DOCUMENT_EXPIRY)?
            + bytes(tables, DOCUMENT_NAMESPACES)?,
        vectors: bytes(tables, VECTORS)? + bytes(tables, VECTOR_ROWS)? + bytes(tables, FREE_ROWS)?,
        graphs: bytes(tables, GRAPH_PAGES)? + bytes(tables, GRAPH_DELTAS)?,
        lexical: bytes(tables, SEGMENTS)? + bytes(tables, SEGMENT_PARTS)?,
    })
}

/// The bytes of a table, including the unused space in its pages.
fn bytes<K: redb::Key + 'static, V: redb::Value + 'static>(
    tables: &ReadTransaction,
    table: &Table<K, V>,
) -> Result<u64> {
    let stats = tables.table(table)?.stats()?;
    Ok(stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes())
}

/// Counts the contents of each namespace, by name, with the vectors and pending messages of a generation.
pub(crate) fn namespace_counts(snapshot: &Snapshot, generation: Option<GenerationId>) -> Result<Vec<NamespaceCounts>> {
    let tables = snapshot.tables();
    let (sessions, pending, history) = (tables.table(SESSIONS)?, tables.table(PENDING)?, tables.table(HISTORY)?);
    let documents = tables.table(DOCUMENT_NAMESPACES)?;
    let mut counts = Vec::new();
    for entry in tables.table(NAMESPACES)?.iter()? {
        let (name, value) = entry?;
        let record: NamespaceRecord = codec::decode(value.value())?;
        let mut buffered = 0;
        for entry in history.range((record.id, 0, 0)..(record.id + 1, 0, 0))? {
            buffered += u64::from(entry?.1.value() == SessionPosition::Buffer.number());
        }
        let (mut vectors, mut waits) = (0, 0);
        if let Some(generation) = generation {
            vectors = Rows(tables).live_count(generation, NamespaceId(record.id))? as u64;
            waits = count(&pending, (generation.0, record.id, 0)..=(generation.0, record.id, u64::MAX))?;
        }
        let namespace = Namespace::new(name.value())?;
        counts.push(NamespaceCounts {
            documents: documents_of(&documents, &namespace)?,
            namespace,
            messages: record.messages,
            sessions: count(&sessions, (record.id, "")..(record.id + 1, ""))?,
            vectors,
            pending: waits,
            buffered,
            language: Namespaces(tables).language(NamespaceId(record.id))?,
            ttl: Namespaces(tables).time_to_live(NamespaceId(record.id))?,
        });
    }
    Ok(counts)
}

/// The sessions of a namespace that have messages, by name: those after this name, up to `limit`.
pub(crate) fn session_infos(
    snapshot: &Snapshot,
    namespace: NamespaceId,
    after: Option<&str>,
    limit: usize,
) -> Result<Vec<SessionInfo>> {
    let tables = snapshot.tables();
    let mut infos = Vec::new();
    // The next name in their order.
    let first = after.map(|after| format!("{after}\0")).unwrap_or_default();
    for (session, number) in Sessions(tables).from(namespace, &first)? {
        if infos.len() == limit {
            break;
        }
        let positions = History(tables).positions(namespace, number)?;
        let buffered = positions.iter().filter(|(_, position)| *position == SessionPosition::Buffer).count() as u64;
        let batches = u64::from(Batches(tables).next_number(namespace, number)?);
        if let Some((last, _)) = positions.last() {
            infos.push(SessionInfo { session, messages: positions.len() as u64, buffered, batches, last: *last });
        }
    }
    Ok(infos)
}

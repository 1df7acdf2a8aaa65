//! Reading: a snapshot, and what the engine asks of it.

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableError};
use serde::Serialize;

use super::{
    codec,
    rows::{Layout, Row, RowMeta},
    schema::*,
    storage,
};
use crate::{
    config::Precision,
    error::{Error, Result},
    ids::{GenerationId, ModelIdentity, Namespace, NamespaceId},
    message::Message,
};

/// What is committed, at one moment.
pub(crate) struct Snapshot {
    transaction: ReadTransaction,
}

/// A generation, its model, and how its vectors are stored.
#[derive(Clone, Debug)]
pub(crate) struct Generation {
    pub(crate) id: GenerationId,
    pub(crate) identity: ModelIdentity,
    pub(crate) precision: Precision,
    pub(crate) state: GenerationState,
}

impl Generation {
    fn layout(&self) -> Layout {
        Layout::new(self.identity.dimension, self.precision)
    }
}

/// Bytes in the file, by what they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Sizes {
    /// Messages, their ids and their order.
    pub messages: u64,
    /// Vectors, of all generations.
    pub vectors: u64,
    /// Links of graphs.
    pub graphs: u64,
    /// Segments of lexical indexes.
    pub lexical: u64,
}

/// A message that waits to be embedded, with all that its rows will hold.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) namespace: NamespaceId,
    /// The message's own id, to name it in errors.
    pub(crate) id: String,
    pub(crate) revision: u64,
    pub(crate) meta: RowMeta,
    pub(crate) text: String,
}

/// How far a pass over what waits in a generation has come. It ends with what waits when it comes to a namespace, so that it ends
/// however much is put meanwhile: what is new gets higher numbers, and what is replaced is passed once.
#[derive(Default)]
pub(crate) struct Pass {
    /// The namespace that is passed over, the sequence number to go on from, and the last.
    within: Option<(u32, u64, u64)>,
    /// The last namespace.
    last: Option<u32>,
}

/// Counts of one namespace.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceFacts {
    pub(crate) namespace: Namespace,
    pub(crate) messages: u64,
    pub(crate) sessions: u64,
    pub(crate) vectors: u64,
    pub(crate) pending: u64,
    pub(crate) buffered: u64,
}

/// Pending messages are read up to this many bytes of text at a time.
const PENDING_BYTES: usize = 4 << 20;

impl Snapshot {
    pub(super) fn begin(database: &Database) -> Result<Self> {
        Ok(Snapshot { transaction: database.begin_read().map_err(storage)? })
    }

    pub(super) fn table<K: redb::Key + 'static, V: redb::Value + 'static>(
        &self,
        definition: redb::TableDefinition<K, V>,
    ) -> Result<redb::ReadOnlyTable<K, V>> {
        self.transaction.open_table(definition).map_err(storage)
    }

    /// `None`: the file is no database of ours.
    pub(super) fn schema(&self) -> Result<Option<u32>> {
        let table = match self.transaction.open_table(META) {
            Ok(table) => table,
            Err(TableError::TableDoesNotExist(_) | TableError::TableTypeMismatch { .. }) => return Ok(None),
            Err(error) => return Err(storage(error)),
        };
        let Some(value) = table.get("schema").map_err(storage)? else { return Ok(None) };
        let bytes = value.value().try_into().map_err(|_| Error::corrupted("the schema version is not 4 bytes"))?;
        Ok(Some(u32::from_le_bytes(bytes)))
    }

    /// All generations, oldest first.
    pub(crate) fn generations(&self) -> Result<Vec<Generation>> {
        let all = all_generations(&self.table(GENERATIONS)?)?;
        let generation = |(id, record): (GenerationId, GenerationRecord)| {
            Ok(Generation { id, identity: record.identity(), precision: record.precision()?, state: record.state })
        };
        all.into_iter().map(generation).collect()
    }

    /// The generation that answers recalls; none in a database without messages.
    pub(crate) fn serving(&self) -> Result<Option<Generation>> {
        Ok(self.generations()?.into_iter().find(|generation| generation.state == GenerationState::Serving))
    }

    /// The id of a namespace, if anything was ever put into it.
    pub(crate) fn namespace(&self, namespace: &Namespace) -> Result<Option<NamespaceId>> {
        let table = self.table(NAMESPACES)?;
        let Some(value) = table.get(namespace.as_str()).map_err(storage)? else { return Ok(None) };
        Ok(Some(NamespaceId(codec::decode::<NamespaceRecord>(value.value())?.id)))
    }

    /// The name of a namespace. Cost: a pass over all.
    pub(crate) fn namespace_name(&self, namespace: NamespaceId) -> Result<String> {
        for entry in self.table(NAMESPACES)?.iter().map_err(storage)? {
            let (name, value) = entry.map_err(storage)?;
            if codec::decode::<NamespaceRecord>(value.value())?.id == namespace.0 {
                return Ok(name.value().to_owned());
            }
        }
        Err(Error::corrupted(format!("namespace {} has no name", namespace.0)))
    }

    /// The number of a session in its namespace.
    pub(crate) fn session(&self, namespace: NamespaceId, session: &str) -> Result<Option<u32>> {
        let table = self.table(SESSIONS)?;
        Ok(table.get((namespace.0, session)).map_err(storage)?.map(|value| value.value()))
    }

    pub(crate) fn message(&self, namespace: NamespaceId, seq: u64) -> Result<Option<Message>> {
        Ok(match self.record(namespace, seq)? {
            Some(record) => Some(record.message()?),
            None => None,
        })
    }

    /// The sequence number of a message.
    pub(crate) fn seq(&self, namespace: NamespaceId, id: &str) -> Result<Option<u64>> {
        Ok(self.table(IDS)?.get((namespace.0, id)).map_err(storage)?.map(|seq| seq.value()))
    }

    pub(crate) fn message_by_id(&self, namespace: NamespaceId, id: &str) -> Result<Option<Message>> {
        self.seq(namespace, id)?.map_or(Ok(None), |seq| self.message(namespace, seq))
    }

    pub(super) fn record(&self, namespace: NamespaceId, seq: u64) -> Result<Option<MessageRecord>> {
        let table = self.table(MESSAGES)?;
        let Some(value) = table.get((namespace.0, seq)).map_err(storage)? else { return Ok(None) };
        codec::decode(value.value()).map(Some)
    }

    /// The next of a pass over the messages that are pending in a generation, up to `limit`, in key order; none: it is over.
    pub(crate) fn pending(&self, generation: GenerationId, pass: &mut Pass, limit: usize) -> Result<Vec<Pending>> {
        let (pending, messages, sessions) = (self.table(PENDING)?, self.table(MESSAGES)?, self.table(SESSIONS)?);
        let last_of = |first: u32, last: u32| {
            let mut range =
                pending.range((generation.0, first, 0)..=(generation.0, last, u64::MAX)).map_err(storage)?;
            range.next_back().map(|entry| Ok::<_, Error>(entry.map_err(storage)?.0.value())).transpose()
        };
        if pass.last.is_none() {
            pass.last = last_of(0, u32::MAX)?.map(|(_, namespace, _)| namespace);
        }
        let Some(last) = pass.last else { return Ok(Vec::new()) };
        let within = pass.within.map(|(namespace, next, end)| {
            pending.range((generation.0, namespace, next)..(generation.0, namespace, end.saturating_add(1)))
        });
        let others = pass.within.map_or(0, |(namespace, ..)| namespace.saturating_add(1));
        let others = pending.range((generation.0, others, 0)..=(generation.0, last, u64::MAX)).map_err(storage)?;
        let mut found = Vec::new();
        let mut bytes = 0;
        for entry in within.transpose().map_err(storage)?.into_iter().flatten().chain(others) {
            let (key, revision) = entry.map_err(storage)?;
            let (_, namespace, seq) = key.value();
            let value = messages
                .get((namespace, seq))
                .map_err(storage)?
                .ok_or_else(|| Error::corrupted(format!("a pending message, {seq}, is missing")))?;
            let record: MessageRecord = codec::decode(value.value())?;
            let session = sessions
                .get((namespace, record.session.as_str()))
                .map_err(storage)?
                .ok_or_else(|| Error::corrupted(format!("session {:?} has no number", record.session)))?
                .value();
            let message = record.message()?;
            let text = message.searchable();
            bytes += text.len();
            let meta = RowMeta { seq, created_at: message.created_at, session, window: 0, role: message.role };
            let namespace = NamespaceId(namespace);
            found.push(Pending { namespace, id: message.id, revision: revision.value(), meta, text });
            if found.len() == limit || bytes >= PENDING_BYTES {
                break;
            }
        }
        if let Some(Pending { namespace: NamespaceId(at), meta: RowMeta { seq, .. }, .. }) = found.last() {
            let end = match pass.within {
                Some((namespace, _, end)) if namespace == *at => end,
                _ => last_of(*at, *at)?.map_or(*seq, |(.., last)| last),
            };
            pass.within = Some((*at, seq + 1, end));
        }
        Ok(found)
    }

    /// Of each of these messages its vectors in a generation that has them in 32 bits, one a window, as the model gave them; `None` if
    /// it waits there too. What has a place is never older than the message.
    pub(crate) fn stored_vectors(
        &self,
        generation: &Generation,
        messages: &[Pending],
    ) -> Result<Vec<Option<Vec<Vec<f32>>>>> {
        let places = self.table(PLACES)?;
        let mut found = vec![None; messages.len()];
        let mut order: Vec<usize> = (0..messages.len()).collect();
        order.sort_by_key(|&at| messages[at].namespace);
        for some in order.chunk_by(|&a, &b| messages[a].namespace == messages[b].namespace) {
            let namespace = messages[some[0]].namespace;
            let (mut rows, mut owners) = (Vec::new(), Vec::new());
            let end = self.row_count(generation.id, namespace)?;
            for &at in some {
                let place = places.get((generation.id.0, namespace.0, messages[at].meta.seq)).map_err(storage)?;
                // A damaged count may be anything.
                let place =
                    place.map(|place| place.value()).filter(|&(first, count)| (first as usize) + count as usize <= end);
                if let Some((first, count)) = place {
                    found[at] = Some(vec![Vec::new(); count as usize]);
                    rows.extend(first..first + count);
                    owners.extend((0..count as usize).map(|window| (at, window)));
                }
            }
            self.vectors(generation, namespace, &rows, |place, row| {
                let (at, window) = owners[place];
                row.append_to(&mut found[at].as_mut().expect("it has a place")[window]);
            })?;
        }
        // A row that is not there is damage, which embedding again mends.
        let is_whole = |vectors: &Vec<Vec<f32>>| vectors.iter().all(|vector| !vector.is_empty());
        Ok(found.into_iter().map(|vectors| vectors.filter(is_whole)).collect())
    }

    /// Up to `count` messages that have vectors in a generation, spread evenly over these namespaces: namespace, sequence number and text.
    /// Cost: a pass over the keys of what has vectors there.
    pub(crate) fn spread(
        &self,
        generation: GenerationId,
        namespaces: &[NamespaceId],
        count: usize,
    ) -> Result<Vec<(NamespaceId, u64, String)>> {
        let places = self.table(PLACES)?;
        let rows = namespaces.iter().map(|&namespace| self.alive_count(generation, namespace));
        let rows = rows.sum::<Result<usize>>()?;
        let (mut spread, mut at) = (Vec::new(), 0);
        for &namespace in namespaces {
            let all = (generation.0, namespace.0, 0)..=(generation.0, namespace.0, u64::MAX);
            for entry in places.range(all).map_err(storage)? {
                let seq = entry.map_err(storage)?.0.value().2;
                at += 1;
                if at * count > spread.len() * rows
                    && let Some(message) = self.message(namespace, seq)?
                {
                    spread.push((namespace, seq, message.searchable()));
                }
            }
        }
        Ok(spread)
    }

    pub(crate) fn pending_count(&self, generation: GenerationId) -> Result<u64> {
        count_range(&self.table(PENDING)?, (generation.0, 0, 0)..=(generation.0, u32::MAX, u64::MAX))
    }

    /// Whether a message waits in a generation.
    pub(crate) fn is_pending(&self, generation: GenerationId, namespace: NamespaceId, seq: u64) -> Result<bool> {
        Ok(self.table(PENDING)?.get((generation.0, namespace.0, seq)).map_err(storage)?.is_some())
    }

    /// Messages that have vectors in a generation or will have: those with text.
    pub(crate) fn texts(&self, generation: GenerationId) -> Result<u64> {
        let range = (generation.0, 0, 0)..=(generation.0, u32::MAX, u64::MAX);
        Ok(count_range(&self.table(PLACES)?, range)? + self.pending_count(generation)?)
    }

    /// Rows ever given to a namespace, the dead included: how much room an index of it needs.
    pub(crate) fn row_count(&self, generation: GenerationId, namespace: NamespaceId) -> Result<usize> {
        let table = self.table(COUNTS)?;
        Ok(table.get((generation.0, namespace.0)).map_err(storage)?.map_or(0, |value| value.value().0 as usize))
    }

    /// Of the rows of a namespace, how many are alive.
    pub(crate) fn alive_count(&self, generation: GenerationId, namespace: NamespaceId) -> Result<usize> {
        let table = self.table(COUNTS)?;
        Ok(table.get((generation.0, namespace.0)).map_err(storage)?.map_or(0, |value| value.value().1 as usize))
    }

    /// Calls `visit` with each row of a namespace in order, the dead ones too.
    pub(crate) fn rows(
        &self,
        generation: &Generation,
        namespace: NamespaceId,
        mut visit: impl FnMut(Row<'_>) -> Result<()>,
    ) -> Result<()> {
        let layout = generation.layout();
        let range = (generation.id.0, namespace.0, 0)..=(generation.id.0, namespace.0, u32::MAX);
        for (expected, entry) in self.table(VECTORS)?.range(range).map_err(storage)?.enumerate() {
            let (key, block) = entry.map_err(storage)?;
            if key.value().2 as usize != expected {
                return Err(Error::corrupted(format!("block {expected} of vectors is missing")));
            }
            for row in layout.read(block.value())? {
                visit(row?)?;
            }
        }
        Ok(())
    }

    /// Calls `visit` with the place in `rows` of each of these rows that is alive, and the row.
    pub(crate) fn vectors(
        &self,
        generation: &Generation,
        namespace: NamespaceId,
        rows: &[u32],
        mut visit: impl FnMut(usize, Row<'_>),
    ) -> Result<()> {
        let layout = generation.layout();
        let table = self.table(VECTORS)?;
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_unstable_by_key(|&at| rows[at]);
        for some in order.chunk_by(|&a, &b| rows[a] / layout.rows_per_block() == rows[b] / layout.rows_per_block()) {
            let number = rows[some[0]] / layout.rows_per_block();
            let block = table.get((generation.id.0, namespace.0, number)).map_err(storage)?;
            let Some(block) = block else { continue };
            for &at in some {
                if let Some(row) = layout.row(block.value(), rows[at] % layout.rows_per_block())?
                    && row.meta.is_some()
                {
                    visit(at, row);
                }
            }
        }
        Ok(())
    }

    /// The namespaces that have a graph.
    pub(crate) fn graphs(&self, generation: GenerationId) -> Result<Vec<NamespaceId>> {
        let range = (generation.0, 0)..=(generation.0, u32::MAX);
        let table = self.table(GRAPHS)?;
        let entries = table.range(range).map_err(storage)?;
        entries.map(|entry| Ok(NamespaceId(entry.map_err(storage)?.0.value().1))).collect()
    }

    /// What the parts of the database take. Cost: a look at each page.
    pub(crate) fn sizes(&self) -> Result<Sizes> {
        Ok(Sizes {
            messages: self.bytes(MESSAGES)? + self.bytes(IDS)? + self.bytes(HISTORY)? + self.bytes(SESSIONS)?,
            vectors: self.bytes(VECTORS)? + self.bytes(PLACES)? + self.bytes(FREE_ROWS)?,
            graphs: self.bytes(GRAPH_PAGES)? + self.bytes(GRAPH_DELTAS)?,
            lexical: self.bytes(SEGMENTS)? + self.bytes(SEGMENT_PARTS)?,
        })
    }

    /// Of a table, with the room that its pages leave.
    fn bytes<K: redb::Key + 'static, V: redb::Value + 'static>(
        &self,
        definition: redb::TableDefinition<K, V>,
    ) -> Result<u64> {
        let stats = self.table(definition)?.stats().map_err(storage)?;
        Ok(stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes())
    }

    /// All namespaces by name, with the counts of a generation.
    pub(crate) fn facts(&self, generation: GenerationId) -> Result<Vec<NamespaceFacts>> {
        let (sessions, counts, pending) = (self.table(SESSIONS)?, self.table(COUNTS)?, self.table(PENDING)?);
        let history = self.table(HISTORY)?;
        let mut facts = Vec::new();
        for entry in self.table(NAMESPACES)?.iter().map_err(storage)? {
            let (name, value) = entry.map_err(storage)?;
            let record: NamespaceRecord = codec::decode(value.value())?;
            let alive = counts.get((generation.0, record.id)).map_err(storage)?.map_or(0, |value| value.value().1);
            let waiting = (generation.0, record.id, 0)..=(generation.0, record.id, u64::MAX);
            facts.push(NamespaceFacts {
                namespace: Namespace::new(name.value())?,
                messages: record.messages,
                sessions: count_range(&sessions, (record.id, "")..(record.id + 1, ""))?,
                vectors: u64::from(alive),
                pending: count_range(&pending, waiting)?,
                buffered: {
                    let mut buffered = 0;
                    for entry in history.range((record.id, 0, 0)..(record.id + 1, 0, 0)).map_err(storage)? {
                        buffered += u64::from(entry.map_err(storage)?.1.value() == Place::Buffer.number());
                    }
                    buffered
                },
            });
        }
        Ok(facts)
    }
}

pub(super) fn all_generations(
    table: &impl ReadableTable<u32, &'static [u8]>,
) -> Result<Vec<(GenerationId, GenerationRecord)>> {
    table
        .iter()
        .map_err(storage)?
        .map(|entry| {
            let (id, value) = entry.map_err(storage)?;
            Ok((GenerationId(id.value()), codec::decode(value.value())?))
        })
        .collect()
}

fn count_range<'a, K: redb::Key + 'static, V: redb::Value + 'static>(
    table: &impl ReadableTable<K, V>,
    range: impl std::ops::RangeBounds<K::SelfType<'a>> + 'a,
) -> Result<u64>
where
    K::SelfType<'a>: std::borrow::Borrow<K::SelfType<'a>>,
{
    let mut count = 0;
    for entry in table.range::<K::SelfType<'a>>(range).map_err(storage)? {
        entry.map_err(storage)?;
        count += 1;
    }
    Ok(count)
}

//! Writing: one transaction, and the changes that may be made in it.

use std::collections::{BTreeMap, HashMap, hash_map::Entry};

use redb::{ReadableTable, Table, WriteTransaction};

use super::{
    Store, codec, read,
    rows::{Layout, RowMeta},
    schema::*,
    storage,
};
use crate::{
    error::{Error, Result},
    ids::{GenerationId, ModelIdentity, Namespace, NamespaceId},
    message::Message,
};

/// A write transaction: committed as a whole, or dropped and forgotten.
pub(crate) struct Transaction {
    transaction: WriteTransaction,
}

/// What putting a batch did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PutResult {
    pub(crate) new: u64,
    pub(crate) replaced: u64,
    pub(crate) unchanged: u64,
    /// Messages that now wait to be embedded.
    pub(crate) pending: u64,
    /// Rows of the serving generation that are dead now.
    pub(crate) removed: Vec<Removed>,
}

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
    pub(super) fn begin(store: &Store) -> Result<Self> {
        let mut transaction = store.database.begin_write().map_err(storage)?;
        transaction.set_two_phase_commit(store.two_phase_commit);
        Ok(Transaction { transaction })
    }

    pub(super) fn commit(self) -> Result<()> {
        self.transaction.commit().map_err(storage)
    }

    fn table<'t, K: redb::Key + 'static, V: redb::Value + 'static>(
        &'t self,
        definition: redb::TableDefinition<K, V>,
    ) -> Result<Table<'t, K, V>> {
        self.transaction.open_table(definition).map_err(storage)
    }

    pub(super) fn create_schema(&mut self) -> Result<()> {
        self.table(META)?.insert("schema", codec::SCHEMA.to_le_bytes().as_slice()).map_err(storage)?;
        // Opened once, so that readers find them.
        self.table(NAMESPACES)?;
        self.table(SESSIONS)?;
        self.table(MESSAGES)?;
        self.table(IDS)?;
        self.table(GENERATIONS)?;
        self.table(PENDING)?;
        self.table(PLACES)?;
        self.table(COUNTS)?;
        self.table(VECTORS)?;
        Ok(())
    }

    fn live_generations(&self) -> Result<Vec<(GenerationId, GenerationRecord)>> {
        let mut all = read::all_generations(&self.table(GENERATIONS)?)?;
        all.retain(|(_, record)| record.state != GenerationState::Retired);
        Ok(all)
    }

    /// Stores messages, in order. A known id is replaced in its place; if its vectors no longer fit, they die here
    /// and it is pending again. Messages are checked before.
    pub(crate) fn put(&mut self, messages: &[(Namespace, Message)]) -> Result<PutResult> {
        let generations = self.live_generations()?;
        let mut result = PutResult::default();
        let mut outdated: Vec<(NamespaceId, u64)> = Vec::new();
        {
            let mut namespaces = self.table(NAMESPACES)?;
            let mut sessions = self.table(SESSIONS)?;
            let mut table = self.table(MESSAGES)?;
            let mut ids = self.table(IDS)?;
            let mut pending = self.table(PENDING)?;
            let mut records: HashMap<&Namespace, NamespaceRecord> = HashMap::new();
            for (namespace, message) in messages {
                let space = match records.entry(namespace) {
                    Entry::Occupied(entry) => entry.into_mut(),
                    Entry::Vacant(entry) => entry.insert(namespace_record(&namespaces, namespace)?),
                };
                if space.messages == 0 {
                    // Known from its first message on; its counts are written at the end.
                    namespaces.insert(namespace.as_str(), codec::encode(space).as_slice()).map_err(storage)?;
                }
                let known = ids.get((space.id, message.id.as_str())).map_err(storage)?.map(|seq| seq.value());
                let seq = known.unwrap_or(space.next_seq);
                let old: Option<MessageRecord> = match known {
                    None => None,
                    Some(seq) => {
                        let value = table.get((space.id, seq)).map_err(storage)?;
                        let value = value.ok_or_else(|| Error::corrupted(format!("message {seq} is missing")))?;
                        Some(codec::decode(value.value())?)
                    }
                };
                let mut record = MessageRecord::new(message, old.as_ref().map_or(0, |old| old.revision));
                if old.as_ref() == Some(&record) {
                    result.unchanged += 1;
                    continue;
                }
                let keeps_vectors = old.as_ref().is_some_and(|old| old.same_vectors(&record));
                match &old {
                    Some(_) if keeps_vectors => result.replaced += 1,
                    Some(_) => {
                        result.replaced += 1;
                        record.revision += 1;
                        outdated.push((NamespaceId(space.id), seq));
                    }
                    None => {
                        result.new += 1;
                        space.messages += 1;
                        space.next_seq += 1;
                        ids.insert((space.id, message.id.as_str()), seq).map_err(storage)?;
                    }
                }
                let session = (space.id, message.session.as_str());
                if sessions.get(session).map_err(storage)?.is_none() {
                    sessions.insert(session, space.next_session).map_err(storage)?;
                    space.next_session += 1;
                }
                table.insert((space.id, seq), codec::encode(&record).as_slice()).map_err(storage)?;
                if !keeps_vectors {
                    let has_text = !message.searchable().trim().is_empty();
                    result.pending += u64::from(has_text);
                    for (generation, _) in &generations {
                        let key = (generation.0, space.id, seq);
                        if has_text {
                            pending.insert(key, record.revision).map_err(storage)?;
                        } else {
                            pending.remove(key).map_err(storage)?;
                        }
                    }
                }
            }
            for (namespace, record) in records {
                namespaces.insert(namespace.as_str(), codec::encode(&record).as_slice()).map_err(storage)?;
            }
        }
        for (id, record) in generations {
            let removed = self.erase(id, record.dimension, &outdated)?;
            if record.state == GenerationState::Serving {
                result.removed = removed;
            }
        }
        Ok(result)
    }

    /// Erases the vectors of messages.
    fn erase(&self, generation: GenerationId, dimension: u32, messages: &[(NamespaceId, u64)]) -> Result<Vec<Removed>> {
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

    /// Makes the first generation, which serves.
    pub(crate) fn create_serving(&mut self, identity: &ModelIdentity) -> Result<GenerationId> {
        self.create_generation(identity, GenerationState::Serving)
    }

    /// Makes a generation beside the serving one: every message with text is pending in it.
    pub(crate) fn create_building(&mut self, identity: &ModelIdentity) -> Result<GenerationId> {
        self.create_generation(identity, GenerationState::Building)
    }

    fn create_generation(&mut self, identity: &ModelIdentity, state: GenerationState) -> Result<GenerationId> {
        let mut generations = self.table(GENERATIONS)?;
        let id = generations.last().map_err(storage)?.map_or(1, |(id, _)| id.value() + 1);
        generations.insert(id, codec::encode(&GenerationRecord::new(identity, state)).as_slice()).map_err(storage)?;
        let mut pending = self.table(PENDING)?;
        for entry in self.table(MESSAGES)?.iter().map_err(storage)? {
            let (key, value) = entry.map_err(storage)?;
            let (namespace, seq) = key.value();
            let record: MessageRecord = codec::decode(value.value())?;
            let revision = record.revision;
            if !record.message()?.searchable().trim().is_empty() {
                pending.insert((id, namespace, seq), revision).map_err(storage)?;
            }
        }
        Ok(GenerationId(id))
    }

    /// Makes a finished generation the serving one, and retires the others.
    pub(crate) fn switch(&mut self, to: GenerationId) -> Result<()> {
        let mut generations = self.table(GENERATIONS)?;
        for (id, mut record) in read::all_generations(&generations)? {
            record.state = if id == to { GenerationState::Serving } else { GenerationState::Retired };
            generations.insert(id.0, codec::encode(&record).as_slice()).map_err(storage)?;
        }
        Ok(())
    }

    /// Retires a generation that is not finished and not wanted.
    pub(crate) fn retire(&mut self, id: GenerationId) -> Result<()> {
        let mut generations = self.table(GENERATIONS)?;
        let found = read::all_generations(&generations)?.into_iter().find(|(other, _)| *other == id);
        if let Some((_, mut record)) = found {
            record.state = GenerationState::Retired;
            generations.insert(id.0, codec::encode(&record).as_slice()).map_err(storage)?;
        }
        Ok(())
    }

    /// Deletes up to `blocks` blocks of retired generations. Returns whether there is more to delete.
    pub(crate) fn sweep(&mut self, blocks: usize) -> Result<bool> {
        let mut generations = self.table(GENERATIONS)?;
        let retired = read::all_generations(&generations)?
            .into_iter()
            .find(|(_, record)| record.state == GenerationState::Retired);
        let Some((GenerationId(id), _)) = retired else { return Ok(false) };
        let mut vectors = self.table(VECTORS)?;
        let some: Vec<(u32, u32, u32)> = vectors
            .range((id, 0, 0)..=(id, u32::MAX, u32::MAX))
            .map_err(storage)?
            .take(blocks)
            .map(|entry| Ok(entry.map_err(storage)?.0.value()))
            .collect::<Result<_>>()?;
        for key in &some {
            vectors.remove(key).map_err(storage)?;
        }
        if some.len() < blocks {
            let all = (id, 0, 0)..=(id, u32::MAX, u64::MAX);
            self.table(PENDING)?.retain_in(all.clone(), |_, _| false).map_err(storage)?;
            self.table(PLACES)?.retain_in(all, |_, _| false).map_err(storage)?;
            self.table(COUNTS)?.retain_in((id, 0)..=(id, u32::MAX), |_, _| false).map_err(storage)?;
            generations.remove(id).map_err(storage)?;
        }
        Ok(true)
    }
}

type Blocks<'t> = Table<'t, (u32, u32, u32), &'static [u8]>;
type Counts<'t> = Table<'t, (u32, u32), (u32, u32)>;

fn namespace_record(table: &Table<&'static str, &'static [u8]>, namespace: &Namespace) -> Result<NamespaceRecord> {
    if let Some(value) = table.get(namespace.as_str()).map_err(storage)? {
        return codec::decode(value.value());
    }
    // Ids are counted, never reused: a namespace is never deleted from this table.
    let id = redb::ReadableTableMetadata::len(table).map_err(storage)? as u32;
    Ok(NamespaceRecord { id, next_seq: 0, next_session: 0, messages: 0 })
}

fn read_block(table: &Blocks<'_>, key: (u32, u32, u32)) -> Result<Vec<u8>> {
    let value = table.get(key).map_err(storage)?;
    let value = value.ok_or_else(|| Error::corrupted(format!("block {} of vectors is missing", key.2)))?;
    Ok(value.value().to_vec())
}

fn read_counts(table: &Counts<'_>, generation: GenerationId, namespace: NamespaceId) -> Result<(u32, u32)> {
    Ok(table.get((generation.0, namespace.0)).map_err(storage)?.map_or((0, 0), |value| value.value()))
}

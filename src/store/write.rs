//! A write transaction, the schema, and the generations.

use redb::{ReadableTable, Table, WriteTransaction};

use super::{Store, codec, read, schema::*, storage};
use crate::{
    config::Precision,
    error::{Error, Result},
    ids::{GenerationId, ModelIdentity, NamespaceId},
};

/// A write transaction: committed as a whole, or dropped and forgotten.
pub(crate) struct Transaction {
    transaction: WriteTransaction,
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

    pub(super) fn table<'t, K: redb::Key + 'static, V: redb::Value + 'static>(
        &'t self,
        definition: redb::TableDefinition<K, V>,
    ) -> Result<Table<'t, K, V>> {
        self.transaction.open_table(definition).map_err(storage)
    }

    pub(super) fn create_schema(&mut self) -> Result<()> {
        self.set_schema()?;
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
        self.create_session_tables()?;
        self.create_row_tables()?;
        self.create_lexical_tables()
    }

    /// Brings a database of an older schema up to this one.
    pub(super) fn upgrade(&mut self, from: u32) -> Result<()> {
        // Before the others, which read them.
        if from < 4 {
            self.upgrade_generations()?;
        }
        if from < 2 {
            self.upgrade_to_2()?;
        }
        if from < 3 {
            self.upgrade_to_3()?;
        }
        // Schema 3 had no lexical index: each namespace gets one when it is loaded.
        self.create_lexical_tables()?;
        // Schema 4 knew no previous generation: a release that does not must not open what may have one.
        self.set_schema()
    }

    /// From schema 3, all of whose vectors have 32 bits a component.
    fn upgrade_generations(&mut self) -> Result<()> {
        let mut generations = self.table(GENERATIONS)?;
        let mut records = Vec::new();
        for entry in generations.iter().map_err(storage)? {
            let (id, value) = entry.map_err(storage)?;
            let old: OldGenerationRecord = codec::decode(value.value())?;
            records.push((id.value(), GenerationRecord::from(old)));
        }
        for (id, record) in records {
            generations.insert(id, codec::encode(&record).as_slice()).map_err(storage)?;
        }
        Ok(())
    }

    /// From schema 1, which had no sessions beyond their names: every message is in long-term memory.
    fn upgrade_to_2(&mut self) -> Result<()> {
        self.create_session_tables()?;
        {
            let (sessions, mut history) = (self.table(SESSIONS)?, self.table(HISTORY)?);
            for entry in self.table(MESSAGES)?.iter().map_err(storage)? {
                let (key, value) = entry.map_err(storage)?;
                let (namespace, seq) = key.value();
                let record: MessageRecord = codec::decode(value.value())?;
                let session = sessions.get((namespace, record.session.as_str())).map_err(storage)?;
                let session =
                    session.ok_or_else(|| Error::corrupted(format!("session {:?} has no number", record.session)))?;
                history.insert((namespace, session.value(), seq), Place::LongTerm(None).number()).map_err(storage)?;
            }
        }
        Ok(())
    }

    /// From schema 2, which gave no row again and stored no graph.
    fn upgrade_to_3(&mut self) -> Result<()> {
        self.create_row_tables()?;
        for (generation, _) in self.live_generations()? {
            let all = (generation.0, 0)..=(generation.0, u32::MAX);
            let spaces: Vec<u32> = self
                .table(COUNTS)?
                .range(all)
                .map_err(storage)?
                .map(|entry| Ok(entry.map_err(storage)?.0.value().1))
                .collect::<Result<_>>()?;
            for namespace in spaces {
                self.free_dead_rows(generation, NamespaceId(namespace))?;
            }
        }
        Ok(())
    }

    fn set_schema(&mut self) -> Result<()> {
        self.table(META)?.insert("schema", codec::SCHEMA.to_le_bytes().as_slice()).map_err(storage)?;
        Ok(())
    }

    fn create_session_tables(&mut self) -> Result<()> {
        self.table(HISTORY)?;
        self.table(BATCHES)?;
        self.table(BLOCKS)?;
        self.table(CURSORS)?;
        self.table(CHECKPOINTS)?;
        self.table(OLD_MESSAGES)?;
        self.table(OLD_BLOCKS)?;
        Ok(())
    }

    fn create_row_tables(&mut self) -> Result<()> {
        self.table(FREE_ROWS)?;
        self.table(GRAPHS)?;
        self.table(GRAPH_PAGES)?;
        self.table(GRAPH_DELTAS)?;
        Ok(())
    }

    fn create_lexical_tables(&mut self) -> Result<()> {
        self.table(SEGMENTS)?;
        self.table(SEGMENT_PARTS)?;
        self.table(LANGUAGES)?;
        Ok(())
    }

    pub(super) fn live_generations(&self) -> Result<Vec<(GenerationId, GenerationRecord)>> {
        let mut all = read::all_generations(&self.table(GENERATIONS)?)?;
        all.retain(|(_, record)| record.state != GenerationState::Retired);
        Ok(all)
    }

    /// Makes the first generation, which serves.
    pub(crate) fn create_serving(&mut self, identity: &ModelIdentity, precision: Precision) -> Result<GenerationId> {
        self.create_generation(GenerationRecord::new(identity, precision, GenerationState::Serving))
    }

    /// Makes a generation beside the serving one, with every message pending that has text and is in no buffer; or goes on with the one
    /// there is of this model and precision, be it half built or the previous one. All others but the serving one are retired. Returns
    /// whether it goes on with one.
    pub(crate) fn begin_building(
        &mut self,
        identity: &ModelIdentity,
        precision: Precision,
    ) -> Result<(GenerationId, bool)> {
        let new = GenerationRecord::new(identity, precision, GenerationState::Building);
        let mut known = None;
        self.change_generations(|id, record| {
            let is_live = matches!(record.state, GenerationState::Building | GenerationState::Previous);
            let is_wanted =
                (&record.hash, record.dimension, record.precision) == (&new.hash, new.dimension, new.precision);
            record.state = match record.state {
                GenerationState::Serving => GenerationState::Serving,
                _ if is_live && is_wanted && known.is_none() => {
                    known = Some(id);
                    GenerationState::Building
                }
                _ => GenerationState::Retired,
            };
        })?;
        match known {
            Some(id) => Ok((id, true)),
            None => Ok((self.create_generation(new)?, false)),
        }
    }

    fn create_generation(&mut self, record: GenerationRecord) -> Result<GenerationId> {
        let mut generations = self.table(GENERATIONS)?;
        let id = generations.last().map_err(storage)?.map_or(1, |(id, _)| id.value() + 1);
        generations.insert(id, codec::encode(&record).as_slice()).map_err(storage)?;
        let mut pending = self.table(PENDING)?;
        let messages = self.table(MESSAGES)?;
        for entry in self.table(HISTORY)?.iter().map_err(storage)? {
            let (key, place) = entry.map_err(storage)?;
            if place.value() == Place::Buffer.number() {
                continue;
            }
            let (namespace, _, seq) = key.value();
            let value = messages.get((namespace, seq)).map_err(storage)?;
            let value = value.ok_or_else(|| Error::corrupted(format!("message {seq} is missing")))?;
            let record: MessageRecord = codec::decode(value.value())?;
            let revision = record.revision;
            if !record.message()?.searchable().trim().is_empty() {
                pending.insert((id, namespace, seq), revision).map_err(storage)?;
            }
        }
        Ok(GenerationId(id))
    }

    /// Makes a generation the serving one. The one that served is kept as the previous, or retired like all others.
    pub(crate) fn switch(&mut self, to: GenerationId, keep_previous: bool) -> Result<()> {
        self.change_generations(|id, record| {
            record.state = match record.state {
                _ if id == to => GenerationState::Serving,
                GenerationState::Serving if keep_previous => GenerationState::Previous,
                _ => GenerationState::Retired,
            };
        })
    }

    /// Retires the generations in a state, which is not the serving one's. Returns whether there were any.
    pub(crate) fn retire(&mut self, state: GenerationState) -> Result<bool> {
        let mut found = false;
        self.change_generations(|_, record| {
            if record.state == state {
                (record.state, found) = (GenerationState::Retired, true);
            }
        })?;
        Ok(found)
    }

    fn change_generations(&self, mut change: impl FnMut(GenerationId, &mut GenerationRecord)) -> Result<()> {
        let mut generations = self.table(GENERATIONS)?;
        for (id, old) in read::all_generations(&generations)? {
            let mut record = old.clone();
            change(id, &mut record);
            if record != old {
                generations.insert(id.0, codec::encode(&record).as_slice()).map_err(storage)?;
            }
        }
        Ok(())
    }

    /// Deletes up to `blocks` blocks of retired generations, parts of graphs and segments among them. Returns whether there is more to delete.
    pub(crate) fn sweep(&mut self, blocks: usize) -> Result<bool> {
        let mut generations = self.table(GENERATIONS)?;
        let retired = read::all_generations(&generations)?
            .into_iter()
            .find(|(_, record)| record.state == GenerationState::Retired);
        let Some((GenerationId(id), _)) = retired else { return Ok(false) };
        let rows = (id, 0, 0)..=(id, u32::MAX, u32::MAX);
        let mut left = blocks - self.sweep_segments(GenerationId(id), blocks)?;
        for table in [GRAPH_DELTAS, GRAPH_PAGES, VECTORS] {
            let mut table = self.table(table)?;
            let some: Vec<(u32, u32, u32)> = table
                .range(rows.clone())
                .map_err(storage)?
                .take(left)
                .map(|entry| Ok(entry.map_err(storage)?.0.value()))
                .collect::<Result<_>>()?;
            for key in &some {
                table.remove(key).map_err(storage)?;
            }
            left -= some.len();
        }
        if left > 0 {
            self.table(GRAPHS)?.retain_in((id, 0)..=(id, u32::MAX), |_, _| false).map_err(storage)?;
            self.table(FREE_ROWS)?.retain_in(rows, |_, _| false).map_err(storage)?;
            let all = (id, 0, 0)..=(id, u32::MAX, u64::MAX);
            self.table(PENDING)?.retain_in(all.clone(), |_, _| false).map_err(storage)?;
            self.table(PLACES)?.retain_in(all, |_, _| false).map_err(storage)?;
            self.table(COUNTS)?.retain_in((id, 0)..=(id, u32::MAX), |_, _| false).map_err(storage)?;
            generations.remove(id).map_err(storage)?;
        }
        Ok(true)
    }
}

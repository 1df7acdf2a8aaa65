//! A write transaction, and the schema.

use redb::{ReadableTable, Table, WriteTransaction};

use super::{Store, codec, schema::*, storage};
use crate::{
    error::{Error, Result},
    ids::NamespaceId,
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
}

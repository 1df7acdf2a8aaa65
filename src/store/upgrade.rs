//! Creating the tables of a new database, and upgrading a database of an older schema.

use std::collections::BTreeSet;

use redb::{Key, ReadTransaction, TableError, Value};

use super::{
    codec,
    generations::Generations,
    message_record::MessageRecord,
    namespaces, removal,
    rows::Rows,
    schema::*,
    seal_key,
    sessions::{self, Idle, Sessions},
    tables::{ReadableTable, Tables, WriteTransaction, storage},
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    message::Timestamp,
};

/// The schema version of a database, or `None` if the file is not a database of this crate.
pub(super) fn version(tables: &ReadTransaction) -> Result<Option<u32>> {
    let table = match tables.open_table(META.definition) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_) | TableError::TableTypeMismatch { .. }) => return Ok(None),
        Err(error) => return Err(storage(error)),
    };
    let Some(value) = redb::ReadableTable::get(&table, "schema").map_err(storage)? else { return Ok(None) };
    let bytes = value.value().try_into().map_err(|_| Error::corrupted("the schema version is not 4 bytes"))?;
    Ok(Some(u32::from_le_bytes(bytes)))
}

/// Creates the tables of a new database.
pub(super) fn create(tables: &WriteTransaction) -> Result<()> {
    set_schema(tables)?;
    seal_key::create(tables)?;
    visit_tables(&mut Create(tables))
}

/// Creates the tables that are missing, so that readers find them.
struct Create<'t>(&'t WriteTransaction);

impl TableVisitor for Create<'_> {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: &Table<K, V>) -> Result<()> {
        self.0.table(table).map(drop)
    }
}

/// Upgrades a database of an older schema to the current one.
pub(super) fn upgrade(tables: &WriteTransaction, from: u32) -> Result<()> {
    visit_tables(&mut Create(tables))?;
    seal_key::create(tables)?;
    // First, because the other upgrades read the generations.
    if from < 4 {
        upgrade_generations(tables)?;
    }
    if from < 2 {
        upgrade_to_2(tables)?;
    }
    if from < 3 {
        upgrade_to_3(tables)?;
    }
    if from < 6 {
        upgrade_to_6(tables)?;
    }
    if from < 7 {
        upgrade_to_7(tables)?;
    }
    if from < 12 {
        // A replica pulls again what it has: only the shared database knows the stamps of versions.
        tables.table(VERSIONS)?.remove_range::<&str>(..)?;
    }
    // No older release may open the file from now on: it would change what it does not know, or forget a message and leave
    // it in the journal.
    set_schema(tables)
}

/// Upgrades the records of generations from schema 3 or older, in which all vectors had 32 bits a component.
fn upgrade_generations(tables: &WriteTransaction) -> Result<()> {
    let mut generations = tables.table(GENERATIONS)?;
    let mut records = Vec::new();
    for entry in generations.iter()? {
        let (id, value) = entry?;
        let old: OldGenerationRecord = codec::decode(value.value())?;
        records.push((id.value(), GenerationRecord::from(old)));
    }
    for (id, record) in records {
        generations.insert(id, codec::encode(&record).as_slice())?;
    }
    Ok(())
}

/// Upgrades from schema 1, which stored only the names of sessions: every message goes to long-term memory.
fn upgrade_to_2(tables: &WriteTransaction) -> Result<()> {
    let (sessions, mut history) = (tables.table(SESSIONS)?, tables.table(HISTORY)?);
    for entry in tables.table(MESSAGES)?.iter()? {
        let (key, value) = entry?;
        let (namespace, seq) = key.value();
        let record: MessageRecord = codec::decode(value.value())?;
        let session = sessions::known_number(&sessions, namespace, &record.session)?;
        history.insert((namespace, session, seq), SessionPosition::LongTerm(None).number())?;
    }
    Ok(())
}

/// Upgrades from schema 2, which reused no rows and stored no graphs.
fn upgrade_to_3(tables: &WriteTransaction) -> Result<()> {
    for generation in Generations(tables).live()? {
        for namespace in Rows(tables).namespaces(generation)? {
            Rows(tables).add_all_dead(generation, namespace)?;
        }
    }
    Ok(())
}

/// Upgrades from schema 5, which had no documents and did not know when a session was idle: all sessions with a buffer
/// are idle now.
fn upgrade_to_6(tables: &WriteTransaction) -> Result<()> {
    let now = Timestamp::now();
    for (namespace, session) in buffered_sessions(tables)? {
        Idle(tables).set(&namespace, &session, Some(now))?;
    }
    Ok(())
}

/// Upgrades from schema 6, which never removed the name of a namespace: those with nothing in them are removed.
fn upgrade_to_7(tables: &WriteTransaction) -> Result<()> {
    let (mut names, mut next) = (Vec::new(), 0);
    for entry in tables.table(NAMESPACES)?.iter()? {
        let (name, value) = entry?;
        next = next.max(codec::decode::<NamespaceRecord>(value.value())?.id + 1);
        names.push(Namespace::new(name.value())?);
    }
    let record = NamespaceRecord { id: next, next_seq: 0, next_session: 0, messages: 0 };
    namespaces::set_next(&mut tables.table(META)?, &record)?;
    names.iter().try_for_each(|name| removal::remove_if_unused(tables, name).map(drop))
}

/// The names of the sessions that have messages in their buffers. Cost: a pass over all messages' positions.
fn buffered_sessions(tables: &WriteTransaction) -> Result<Vec<(Namespace, String)>> {
    let mut numbers = BTreeSet::new();
    for entry in tables.table(HISTORY)?.iter()? {
        let (key, position) = entry?;
        if SessionPosition::read(position.value()) == SessionPosition::Buffer {
            numbers.insert((key.value().0, key.value().1));
        }
    }
    let mut names = Vec::new();
    for entry in tables.table(NAMESPACES)?.iter()? {
        let (name, value) = entry?;
        let id = codec::decode::<NamespaceRecord>(value.value())?.id;
        for (session, number) in Sessions(tables).all(NamespaceId(id))? {
            if numbers.contains(&(id, number)) {
                names.push((Namespace::new(name.value())?, session));
            }
        }
    }
    Ok(names)
}

fn set_schema(tables: &WriteTransaction) -> Result<()> {
    tables.table(META)?.insert("schema", codec::SCHEMA.to_le_bytes().as_slice())?;
    Ok(())
}

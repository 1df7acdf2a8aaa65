//! Creating the tables of a new database, and upgrading a database of an older schema.

use std::collections::BTreeSet;

use redb::{Key, ReadTransaction, ReadableTable, TableDefinition, TableError, Value};

use super::{
    codec,
    generations::Generations,
    idle::Idle,
    message_record::MessageRecord,
    namespaces, removal,
    rows::Rows,
    schema::*,
    seal_key,
    sessions::{self, Sessions},
    tables::{Tables, storage},
    write_tables::WriteTransaction,
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    message::Timestamp,
};

/// The schema version of a database, or `None` if the file is not a database of this crate.
pub(super) fn version(tables: &ReadTransaction) -> Result<Option<u32>> {
    let table = match tables.open_table(META) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_) | TableError::TableTypeMismatch { .. }) => return Ok(None),
        Err(error) => return Err(storage(error)),
    };
    let Some(value) = table.get("schema").map_err(storage)? else { return Ok(None) };
    let bytes = value.value().try_into().map_err(|_| Error::corrupted("the schema version is not 4 bytes"))?;
    Ok(Some(u32::from_le_bytes(bytes)))
}

/// Creates the tables of a new database.
pub(super) fn create(tables: &WriteTransaction) -> Result<()> {
    set_schema(tables)?;
    seal_key::create(tables)?;
    visit_tables(&mut Create(tables))
}

/// Creates tables, so that readers find them.
struct Create<'t>(&'t WriteTransaction);

impl TableVisitor for Create<'_> {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: TableDefinition<'_, K, V>) -> Result<()> {
        self.0.table(table).map(drop)
    }
}

/// Upgrades a database of an older schema to the current one.
pub(super) fn upgrade(tables: &WriteTransaction, from: u32) -> Result<()> {
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
    // Schema 3 had no lexical indexes. Each namespace gets one when it is loaded.
    create_lexical_tables(tables)?;
    if from < 6 {
        upgrade_to_6(tables)?;
    }
    if from < 7 {
        upgrade_to_7(tables)?;
    }
    // Schema 7 knew no shared databases, and a release for it must not change a file that is a copy of one.
    tables.table(VERSIONS)?;
    // Schema 8 had no journal, and a release for it would forget a message and leave it there.
    create_journal_tables(tables)?;
    // Schema 4 had no previous generation, and a release for it must not open a database that may have one.
    set_schema(tables)
}

/// Upgrades the records of generations from schema 3 or older, in which all vectors had 32 bits a component.
fn upgrade_generations(tables: &WriteTransaction) -> Result<()> {
    let mut generations = tables.table(GENERATIONS)?;
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

/// Upgrades from schema 1, which stored only the names of sessions: every message goes to long-term memory.
fn upgrade_to_2(tables: &WriteTransaction) -> Result<()> {
    create_session_tables(tables)?;
    let (sessions, mut history) = (tables.table(SESSIONS)?, tables.table(HISTORY)?);
    for entry in tables.table(MESSAGES)?.iter().map_err(storage)? {
        let (key, value) = entry.map_err(storage)?;
        let (namespace, seq) = key.value();
        let record: MessageRecord = codec::decode(value.value())?;
        let session = sessions::known_number(&sessions, namespace, &record.session)?;
        history.insert((namespace, session, seq), SessionPosition::LongTerm(None).number()).map_err(storage)?;
    }
    Ok(())
}

/// Upgrades from schema 2, which reused no rows and stored no graphs.
fn upgrade_to_3(tables: &WriteTransaction) -> Result<()> {
    create_row_tables(tables)?;
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
    create_window_tables(tables)?;
    create_document_tables(tables)?;
    let now = Timestamp::now();
    for (namespace, session) in buffered_sessions(tables)? {
        Idle(tables).set(&namespace, &session, Some(now))?;
    }
    Ok(())
}

/// Upgrades from schema 6, which never removed the name of a namespace: those with nothing in them are removed.
fn upgrade_to_7(tables: &WriteTransaction) -> Result<()> {
    create_forget_tables(tables)?;
    let (mut names, mut next) = (Vec::new(), 0);
    for entry in tables.table(NAMESPACES)?.iter().map_err(storage)? {
        let (name, value) = entry.map_err(storage)?;
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
    for entry in tables.table(HISTORY)?.iter().map_err(storage)? {
        let (key, position) = entry.map_err(storage)?;
        if SessionPosition::read(position.value()) == SessionPosition::Buffer {
            numbers.insert((key.value().0, key.value().1));
        }
    }
    let mut names = Vec::new();
    for entry in tables.table(NAMESPACES)?.iter().map_err(storage)? {
        let (name, value) = entry.map_err(storage)?;
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
    tables.table(META)?.insert("schema", codec::SCHEMA.to_le_bytes().as_slice()).map_err(storage)?;
    Ok(())
}

fn create_session_tables(tables: &WriteTransaction) -> Result<()> {
    tables.table(HISTORY)?;
    tables.table(BATCHES)?;
    tables.table(BLOCKS)?;
    tables.table(CURSORS)?;
    tables.table(CHECKPOINTS)?;
    tables.table(OLD_MESSAGES)?;
    tables.table(OLD_BLOCKS)?;
    Ok(())
}

fn create_row_tables(tables: &WriteTransaction) -> Result<()> {
    tables.table(FREE_ROWS)?;
    tables.table(GRAPHS)?;
    tables.table(GRAPH_PAGES)?;
    tables.table(GRAPH_DELTAS)?;
    Ok(())
}

fn create_window_tables(tables: &WriteTransaction) -> Result<()> {
    tables.table(IDLE)?;
    tables.table(WINDOWS)?;
    Ok(())
}

fn create_document_tables(tables: &WriteTransaction) -> Result<()> {
    tables.table(DOCUMENTS)?;
    tables.table(DOCUMENT_ORDER)?;
    tables.table(DOCUMENT_EXPIRY)?;
    tables.table(DOCUMENT_NAMESPACES)?;
    Ok(())
}

fn create_forget_tables(tables: &WriteTransaction) -> Result<()> {
    tables.table(DROPPED_BLOCKS)?;
    tables.table(HOLDS)?;
    tables.table(AUDIT)?;
    Ok(())
}

fn create_journal_tables(tables: &WriteTransaction) -> Result<()> {
    tables.table(PUT_TIMES)?;
    tables.table(JOURNAL)?;
    tables.table(JOURNAL_ORDER)?;
    Ok(())
}

fn create_lexical_tables(tables: &WriteTransaction) -> Result<()> {
    tables.table(SEGMENTS)?;
    tables.table(SEGMENT_PARTS)?;
    tables.table(LANGUAGES)?;
    Ok(())
}

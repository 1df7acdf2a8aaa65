//! What a transaction changed, read from its tables before it is committed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use parking_lot::Mutex;
use redb::{Key, ReadableTable, TableDefinition, TableHandle, Value};

use super::{
    super::{
        codec,
        message_record::MessageRecord,
        namespaces::{self, Namespaces},
        schema::*,
        tables::{Tables, storage},
        transaction::Snapshot,
        write_tables::{ChangedKeys, WriteTransaction},
    },
    cell::Cell,
    change::{Change, DocumentHead, Head, Sharing},
    rows,
    table::{Row, Table},
    versions::Versions,
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
};

/// The tables in which [`capture`] looks for changes.
pub(in crate::store) const SHARED_TABLES: &[&str] = &[
    "namespaces",
    "document_namespaces",
    "languages",
    "sessions",
    "messages",
    "history",
    "windows",
    "idle",
    "batches",
    "blocks",
    "cursors",
    "dropped_blocks",
    "checkpoints",
    "old_messages",
    "old_blocks",
    "documents",
    "holds",
    "audit",
];

/// The names of namespaces by their numbers, as far as they were needed.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<HashMap<u32, String>>);

impl Names {
    /// The name of the namespace with this number, if it is there.
    pub(crate) fn of(&self, snapshot: &Snapshot, NamespaceId(id): NamespaceId) -> Result<Option<String>> {
        self.get(snapshot.tables(), id)
    }

    fn get(&self, tables: &impl Tables, id: u32) -> Result<Option<String>> {
        let mut names = self.0.lock();
        let table = tables.table(NAMESPACES)?;
        let number = |value: &[u8]| codec::decode::<NamespaceRecord>(value).map(|record| record.id);
        // A transaction that was undone may have given the number to another name.
        if let Some(name) = names.get(&id)
            && let Some(value) = table.get(name.as_str()).map_err(storage)?
            && number(value.value())? == id
        {
            return Ok(Some(name.clone()));
        }
        names.clear();
        for entry in table.iter().map_err(storage)? {
            let (name, value) = entry.map_err(storage)?;
            names.insert(number(value.value())?, name.value().to_owned());
        }
        Ok(names.get(&id).cloned())
    }
}

/// Returns what a transaction changed, unless it is undone, and what its result depends on. Notes the versions that the
/// changes lead to. `changed` are the keys that the transaction changed.
pub(in crate::store) fn capture(
    tables: &WriteTransaction,
    changed: &ChangedKeys,
    names: &Names,
    is_kept: bool,
) -> Result<Sharing> {
    // What is read from here on is not part of the transaction.
    let looked_up = tables.looked_up();
    let mut changes = Vec::new();
    if is_kept {
        let mut capture = Capture { tables, names, removed: HashSet::new(), rows: BTreeMap::new() };
        capture.namespaces(changed)?;
        capture.records(changed)?;
        changes = capture.finish()?;
    }
    let is_changed = |name: &String| changes.iter().any(|change| change.namespace == *name);
    let lookups = looked_up.into_iter().filter(|name| !is_changed(name));
    let version = |name: String| Versions(tables).get(&name).map(|version| (name, version));
    let lookups = lookups.map(version).collect::<Result<_>>()?;
    Ok(Sharing { changes, lookups })
}

struct Capture<'a> {
    tables: &'a WriteTransaction,
    names: &'a Names,
    /// The numbers of the namespaces that the transaction removed.
    removed: HashSet<u32>,
    /// The rows that changed, by namespace.
    rows: BTreeMap<String, Vec<Row>>,
}

impl Capture<'_> {
    /// Finds the namespaces whose counters changed.
    fn namespaces(&mut self, changed: &ChangedKeys) -> Result<()> {
        for name in keys(changed, NAMESPACES).chain(keys(changed, DOCUMENT_NAMESPACES)) {
            let name = <&str>::from_bytes(name);
            self.rows.entry(name.to_owned()).or_default();
            let (now, before) = (self.id(name)?, Versions(self.tables).record(name)?.and_then(|record| record.id));
            if let Some(now) = now {
                self.names.0.lock().insert(now, name.to_owned());
            }
            if let Some(before) = before.filter(|before| now != Some(*before)) {
                self.removed.insert(before);
            }
        }
        for id in keys(changed, LANGUAGES) {
            let id = u32::from_bytes(id);
            if let Some(name) = self.name(id)? {
                self.rows.entry(name).or_default();
            }
        }
        Ok(())
    }

    /// Reads the records that changed.
    fn records(&mut self, changed: &ChangedKeys) -> Result<()> {
        let tables = self.tables;
        self.each(
            changed,
            SESSIONS,
            Table::Sessions,
            |(namespace, name)| (namespace, vec![name.into()]),
            |number| Ok(vec![number.into()]),
        )?;
        let histories = tables.table(HISTORY)?;
        let (sessions, messages) = (tables.table(SESSIONS)?, tables.table(MESSAGES)?);
        // A message is changed by either table.
        let mut seqs: BTreeSet<(u32, u64)> = keys(changed, MESSAGES).map(<(u32, u64)>::from_bytes).collect();
        seqs.extend(keys(changed, HISTORY).map(|key| {
            let (namespace, _, seq) = <(u32, u32, u64)>::from_bytes(key);
            (namespace, seq)
        }));
        for (namespace, seq) in seqs {
            let record = MessageRecord::read(&messages, namespace, seq)?;
            let value = record.map(|record| {
                let session = sessions.get((namespace, record.session.as_str())).map_err(storage)?;
                let session = session.ok_or_else(|| Error::corrupted("the session of a message has no number"))?;
                let position = histories.get((namespace, session.value(), seq)).map_err(storage)?;
                let position = position.ok_or_else(|| Error::corrupted(format!("message {seq} is in no session")))?;
                rows::message_cells(record, SessionPosition::read(position.value()))
            });
            let owner = NamespaceId(namespace).owner();
            let table = if owner.is_some() { Table::DocumentTexts } else { Table::Messages };
            self.add(owner.map_or(namespace, |owner| owner.0), table, vec![seq.into()], value.transpose()?)?;
        }
        drop((histories, sessions, messages));
        self.each(
            changed,
            WINDOWS,
            Table::Windows,
            |(namespace, session)| (namespace, vec![session.into()]),
            |start| Ok(vec![start.into()]),
        )?;
        let idle = tables.table(IDLE)?;
        for key in keys(changed, IDLE) {
            let (namespace, session) = <(&str, &str)>::from_bytes(key);
            let time = idle.get((namespace, session)).map_err(storage)?;
            let value = time.map(|time| vec![Cell::Time(time.value())]);
            let row = Row { table: Table::IdleTimes, key: vec![session.into()], value };
            self.rows.entry(namespace.to_owned()).or_default().push(row);
        }
        drop(idle);
        self.each(
            changed,
            BATCHES,
            Table::Batches,
            |(namespace, session, batch)| (namespace, vec![session.into(), batch.into()]),
            |(first, last)| Ok(vec![first.into(), last.into()]),
        )?;
        let block_key = |(namespace, session, block): (u32, u32, &str)| {
            (namespace, vec![rows::session_cell(session), block.into()])
        };
        self.each(changed, BLOCKS, Table::Blocks, block_key, |value| Ok(rows::block_cells(codec::decode(value)?)))?;
        self.each(changed, CURSORS, Table::BlockPositions, block_key, |value| {
            Ok(rows::cursor_cells(codec::decode(value)?))
        })?;
        self.each(changed, DROPPED_BLOCKS, Table::DroppedBlocks, block_key, |()| Ok(Vec::new()))?;
        self.each(
            changed,
            CHECKPOINTS,
            Table::Checkpoints,
            |(namespace, session, checkpoint)| (namespace, vec![session.into(), checkpoint.into()]),
            |value| Ok(rows::checkpoint_cells(codec::decode(value)?)),
        )?;
        self.each(
            changed,
            OLD_MESSAGES,
            Table::OldMessages,
            |(namespace, session, seq, checkpoint)| (namespace, vec![session.into(), seq.into(), checkpoint.into()]),
            |value| rows::old_message_cells(codec::decode(value)?),
        )?;
        self.each(
            changed,
            OLD_BLOCKS,
            Table::OldBlocks,
            |(namespace, session, block, checkpoint)| {
                (namespace, vec![rows::session_cell(session), block.into(), checkpoint.into()])
            },
            |value| Ok(rows::old_block_cells(codec::decode(value)?)),
        )?;
        self.each(
            changed,
            DOCUMENTS,
            Table::Documents,
            |(namespace, key)| (namespace, vec![key.into()]),
            |value| Ok(rows::document_cells(codec::decode(value)?)),
        )?;
        self.common(
            changed,
            HOLDS,
            Table::Holds,
            |held| held.into(),
            |value| Ok(rows::hold_cells(codec::decode(value)?)),
        )?;
        self.common(
            changed,
            AUDIT,
            Table::Audit,
            |number| number.into(),
            |value| Ok(rows::audit_cells(codec::decode(value)?)),
        )
    }

    /// Reads the records of a table whose keys begin with the number of a namespace.
    fn each<K: Key + 'static, V: Value + 'static>(
        &mut self,
        changed: &ChangedKeys,
        definition: TableDefinition<'_, K, V>,
        table: Table,
        key: impl for<'k> Fn(K::SelfType<'k>) -> (u32, Vec<Cell>),
        value: impl for<'v> Fn(V::SelfType<'v>) -> Result<Vec<Cell>>,
    ) -> Result<()> {
        for bytes in keys(changed, definition) {
            let (namespace, key) = key(K::from_bytes(bytes));
            let value = self.read(definition, bytes, &value)?;
            self.add(namespace, table, key, value)?;
        }
        Ok(())
    }

    /// Reads the records of a table of no namespace.
    fn common<K: Key + 'static, V: Value + 'static>(
        &mut self,
        changed: &ChangedKeys,
        definition: TableDefinition<'_, K, V>,
        table: Table,
        key: impl for<'k> Fn(K::SelfType<'k>) -> Cell,
        value: impl for<'v> Fn(V::SelfType<'v>) -> Result<Vec<Cell>>,
    ) -> Result<()> {
        for bytes in keys(changed, definition) {
            let value = self.read(definition, bytes, &value)?;
            let row = Row { table, key: vec![key(K::from_bytes(bytes))], value };
            self.rows.entry(COMMON.to_owned()).or_default().push(row);
        }
        Ok(())
    }

    fn read<K: Key + 'static, V: Value + 'static>(
        &self,
        definition: TableDefinition<'_, K, V>,
        key: &[u8],
        value: &impl for<'v> Fn(V::SelfType<'v>) -> Result<Vec<Cell>>,
    ) -> Result<Option<Vec<Cell>>> {
        let open = self.tables.table(definition)?;
        let found = open.get(K::from_bytes(key)).map_err(storage)?;
        found.map(|found| value(found.value())).transpose()
    }

    /// Adds a row of the namespace with this number, unless it was removed.
    fn add(&mut self, namespace: u32, table: Table, key: Vec<Cell>, value: Option<Vec<Cell>>) -> Result<()> {
        if let Some(name) = self.name(namespace)? {
            self.rows.entry(name).or_default().push(Row { table, key, value });
        }
        Ok(())
    }

    fn id(&self, name: &str) -> Result<Option<u32>> {
        Ok(Namespaces(self.tables).record(&Namespace::new(name)?)?.map(|record| record.id))
    }

    /// The name of a namespace; `None` if the transaction removed it.
    fn name(&self, id: u32) -> Result<Option<String>> {
        // What numbers the texts of documents has no name, and is shared with its owner.
        if self.removed.contains(&id) || NamespaceId(id).has_document_texts() {
            return Ok(None);
        }
        self.names.get(self.tables, id)
    }

    fn finish(self) -> Result<Vec<Change>> {
        let Capture { tables, rows, .. } = self;
        rows.into_iter()
            .map(|(namespace, rows)| {
                let before = Versions(tables).record(&namespace)?.unwrap_or_default();
                let (head, id) = head(tables, &namespace, &before)?;
                let is_from_scratch = before.id.is_some() && before.id != id;
                let (base, version) = (before.version, before.version + 1);
                let (next_seq, next_session) = (head.next_seq, head.next_session);
                Versions(tables).set(&namespace, &VersionRecord { version, id, next_seq, next_session })?;
                Ok(Change { namespace, base, version, is_from_scratch, head, rows })
            })
            .collect()
    }
}

/// The keys of a table that were changed.
fn keys<'c, K: Key + 'static, V: Value + 'static>(
    changed: &'c ChangedKeys,
    definition: TableDefinition<'_, K, V>,
) -> impl Iterator<Item = &'c [u8]> + use<'c, K, V> {
    debug_assert!(SHARED_TABLES.contains(&definition.name()), "{}", definition.name());
    changed.get(definition.name()).into_iter().flatten().map(Vec::as_slice)
}

/// The counters of a namespace, and its number if it exists.
fn head(tables: &WriteTransaction, namespace: &str, before: &VersionRecord) -> Result<(Head, Option<u32>)> {
    if namespace == COMMON {
        return Ok((Head { exists: true, ..Head::default() }, None));
    }
    let name = Namespace::new(namespace)?;
    let Some(record) = Namespaces(tables).record(&name)? else {
        let next = namespaces::next(&tables.table(META)?)?;
        let (next_seq, next_session) = (next.next_seq.max(before.next_seq), next.next_session.max(before.next_session));
        return Ok((Head { next_seq, next_session, ..Head::default() }, None));
    };
    let NamespaceRecord { id, next_seq, next_session, messages } = record;
    let documents = super::super::document_namespaces::record(&tables.table(DOCUMENT_NAMESPACES)?, &name)?;
    let documents = documents.map(|DocumentNamespaceRecord { counts, texts }| DocumentHead {
        documents: counts.documents,
        expiring: counts.expiring,
        last_change: counts.last_change,
        next_text: texts.next_seq,
        next_session: texts.next_session,
        texts: texts.messages,
    });
    let language = Namespaces(tables).language(NamespaceId(id))?;
    Ok((Head { exists: true, next_seq, next_session, messages, language, documents }, Some(id)))
}

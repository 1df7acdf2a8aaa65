//! A change that another machine made, applied to the tables.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use redb::{Key, ReadableTable, TableDefinition, Value};

use super::{
    super::{
        codec, document_namespaces,
        edit::Edit,
        edit_documents::{Changing, EditDocuments},
        effects::Effects,
        journal::Journal,
        message_record::StoredMessage,
        namespaces::{self, Namespaces},
        put_times::PutTimes,
        removal,
        schema::*,
        seal_key, sessions,
        tables::{Tables, storage},
        write_tables::WriteTransaction,
    },
    cell::{Cell, Reader},
    change::{Change, DocumentHead, Head},
    rows,
    table::{HIDDEN, Row, Table, hidden_name},
    versions::Versions,
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
};

/// Changes that other machines made.
pub(crate) struct ApplyChanges<'t>(pub(in crate::store) &'t WriteTransaction);

impl ApplyChanges<'_> {
    /// Applies a change to the version that it was made from. Returns `None`, and does nothing, if the file is at
    /// another one.
    ///
    /// # Errors
    /// [`Error::Corrupted`]: the rows do not fit together.
    pub(crate) fn apply(&self, change: &Change) -> Result<Option<Effects>> {
        let before = Versions(self.0).record(&change.namespace)?.unwrap_or_default();
        if before.version != change.base {
            return Ok(None);
        }
        if change.namespace == COMMON {
            change.rows.iter().try_for_each(|row| self.common(row))?;
            let version = change.version;
            Versions(self.0).set(COMMON, &VersionRecord { version, ..VersionRecord::default() })?;
            return Ok(Some(Effects::default()));
        }
        let name = Namespace::new(&change.namespace)?;
        let mut effects = Effects::default();
        if change.is_from_scratch || !change.head.exists {
            effects = self.empty(&name)?;
        }
        let Head { next_seq, next_session, .. } = change.head;
        let mut record = VersionRecord { version: change.version, id: None, next_seq, next_session };
        if change.head.exists {
            let known = Namespaces(self.0).record(&name)?.map_or(0, |record| record.next_seq);
            let NamespaceId(id) = Namespaces(self.0).create(&name)?;
            record.id = Some(id);
            let rows = self.with_names(&name, id, &change.rows)?;
            self.rows(&name, id, &rows, &mut effects)?;
            self.puts_and_removals(NamespaceId(id), known, &rows)?;
            self.head(&name, id, &change.head, &mut effects)?;
        }
        Versions(self.0).set(&change.namespace, &record)?;
        Ok(Some(effects))
    }

    /// Removes a namespace with all that is in it.
    fn empty(&self, name: &Namespace) -> Result<Effects> {
        let Some(id) = Namespaces(self.0).id(name)? else { return Ok(Effects::default()) };
        let mut effects = EditDocuments(self.0).delete_all(name, id)?;
        let messages: Vec<u64> = {
            let table = self.0.table(MESSAGES)?;
            let entries = table.range((id.0, 0)..=(id.0, u64::MAX)).map_err(storage)?;
            entries.map(|entry| Ok(entry.map_err(storage)?.0.value().1)).collect::<Result<_>>()?
        };
        let mut edit = Edit::begin(self.0)?;
        let mut namespace = edit.open(name)?;
        messages.into_iter().try_for_each(|seq| edit.set(&mut namespace, seq, None))?;
        edit.close(namespace);
        effects.append(edit.finish()?);
        removal::remove(self.0, name, id)?;
        Ok(effects)
    }

    /// Finds the names of deleted rows that do not say them. Leaves out those that this machine does not have, and those
    /// that were stored again.
    fn with_names<'r>(&self, name: &Namespace, id: u32, rows: &'r [Row]) -> Result<Cow<'r, [Row]>> {
        let hidden =
            |row: &Row| row.table.has_chosen_key() && matches!(&row.key[0], Cell::Text(key) if key.starts_with(HIDDEN));
        if !rows.iter().any(hidden) {
            return Ok(Cow::Borrowed(rows));
        }
        let key =
            seal_key::read(self.0)?.ok_or_else(|| Error::corrupted("a copy has no key of its shared database"))?;
        let mut found = Vec::with_capacity(rows.len());
        for table in Table::ALL {
            let of_table = || rows.iter().filter(|row| row.table == table);
            if !of_table().any(hidden) {
                found.extend(of_table().cloned());
                continue;
            }
            let mut names: HashMap<String, String> = HashMap::new();
            for known in self.names(table, name, id)? {
                names.insert(hidden_name(&key, table.name(), name.as_str(), &known), known);
            }
            let stored: HashSet<&Cell> = of_table().filter(|row| row.value.is_some()).map(|row| &row.key[0]).collect();
            for row in of_table() {
                match &row.key[0] {
                    Cell::Text(key) if hidden(row) => {
                        let name = names.get(key).map(|name| Cell::Text(name.clone()));
                        if let Some(name) = name.filter(|name| !stored.contains(name)) {
                            found.push(Row { table, key: vec![name], value: None });
                        }
                    }
                    _ => found.push(row.clone()),
                }
            }
        }
        Ok(Cow::Owned(found))
    }

    /// The names that a table of this machine has in a namespace.
    fn names(&self, table: Table, name: &Namespace, id: u32) -> Result<Vec<String>> {
        let mut names = Vec::new();
        match table {
            Table::Sessions => {
                names.extend(sessions::Sessions(self.0).all(NamespaceId(id))?.into_iter().map(|(name, _)| name))
            }
            Table::IdleTimes => {
                // No name is between the two.
                let after = format!("{name}\0");
                for entry in self.0.table(IDLE)?.range((name.as_str(), "")..(after.as_str(), "")).map_err(storage)? {
                    names.push(entry.map_err(storage)?.0.value().1.to_owned());
                }
            }
            Table::Documents => {
                for entry in self.0.table(DOCUMENTS)?.range((id, "")..(id + 1, "")).map_err(storage)? {
                    names.push(entry.map_err(storage)?.0.value().1.to_owned());
                }
            }
            _ => {}
        }
        Ok(names)
    }

    /// Applies rows, those of tables that others refer to first.
    fn rows(&self, name: &Namespace, id: u32, rows: &[Row], effects: &mut Effects) -> Result<()> {
        let of = |table: Table| rows.iter().filter(move |row| row.table == table);
        let session = |row: &Row| Reader::new(&row.key).int();
        let windows: Vec<u32> = of(Table::Windows).map(session).collect::<Result<_>>()?;
        let batches = of(Table::Batches).filter(|row| row.value.is_some());
        let flushed: Vec<u32> = batches.map(session).collect::<Result<_>>()?;
        // The messages of a session that was deleted go before its name, which may be that of a new session with another
        // number by now. And what is gone goes first, because another message may have its id.
        effects.append(self.messages(name, id, rows, true)?);
        for row in of(Table::Sessions).filter(|row| row.value.is_some()) {
            self.session(id, row)?;
        }
        effects.append(self.messages(name, id, rows, false)?);
        for row in of(Table::Sessions).filter(|row| row.value.is_none()) {
            self.session(id, row)?;
        }
        for row in rows {
            self.plain(name, id, row)?;
        }
        if !(windows.is_empty() && flushed.is_empty()) {
            for (session, number) in sessions::Sessions(self.0).all(NamespaceId(id))? {
                // What the prompts of these sessions show changed.
                if windows.contains(&number) {
                    effects.histories.push((name.clone(), session.clone()));
                }
                if flushed.contains(&number) {
                    effects.flushed.push((name.clone(), session));
                }
            }
        }
        Ok(())
    }

    /// Notes that messages from the number `known` on were put. Clears the journal if messages, or versions of them, were
    /// removed: another machine may have forgotten them.
    fn puts_and_removals(&self, namespace: NamespaceId, known: u64, rows: &[Row]) -> Result<()> {
        let of_messages = rows.iter().filter(|row| matches!(row.table, Table::Messages | Table::OldMessages));
        if of_messages.clone().any(|row| row.value.is_none()) {
            Journal(self.0).clear(namespace)?;
        }
        let mut first = None;
        for row in of_messages.filter(|row| row.table == Table::Messages && row.value.is_some()) {
            let seq: u64 = Reader::new(&row.key).int()?;
            first = first.into_iter().chain((seq >= known).then_some(seq)).min();
        }
        first.map_or(Ok(()), |first| PutTimes(self.0).note(namespace, first))
    }

    fn session(&self, namespace: u32, row: &Row) -> Result<()> {
        let (name, number) =
            (Reader::new(&row.key).text()?, row.value.as_deref().map(|value| Reader::new(value).int()));
        self.put(SESSIONS, (namespace, name), number.transpose()?)
    }

    /// Applies messages, texts of documents, and documents, with all consequences: those that are gone, or the others.
    fn messages(&self, name: &Namespace, id: u32, rows: &[Row], is_gone: bool) -> Result<Effects> {
        let is_message = |row: &&Row| {
            matches!(row.table, Table::Messages | Table::DocumentTexts | Table::Documents)
                && row.value.is_none() == is_gone
        };
        if !rows.iter().any(|row| is_message(&row)) {
            return Ok(Effects::default());
        }
        let mut changing = Changing::begin(self.0)?;
        let companion = name.document_texts();
        for row in rows.iter().filter(is_message) {
            match row.table {
                Table::Messages => self.message(&mut changing, name, row)?,
                Table::DocumentTexts => self.message(&mut changing, &companion, row)?,
                _ => {
                    let key = Reader::new(&row.key).text()?;
                    changing.set(name, id, key, row.value.as_deref().map(rows::document).transpose()?)?;
                }
            }
        }
        changing.finish()
    }

    fn message(&self, changing: &mut Changing<'_>, name: &Namespace, row: &Row) -> Result<()> {
        let seq: u64 = Reader::new(&row.key).int()?;
        let mut namespace = changing.edit.open(name)?;
        let new = match &row.value {
            None => None,
            Some(value) => {
                let (record, position) = rows::message(value)?;
                // All texts of documents are in one session, which only this machine numbers.
                let session = match name.owner() {
                    Some(_) => Some(changing.edit.session(&mut namespace, &record.session)?),
                    None => changing.edit.known_session(&namespace, &record.session)?,
                };
                let session = session.ok_or_else(|| unknown_session(&record.session))?;
                Some(StoredMessage { seq, session, position, record })
            }
        };
        changing.edit.set(&mut namespace, seq, new)?;
        changing.edit.close(namespace);
        Ok(())
    }

    /// Applies a row that nothing else follows from.
    fn plain(&self, name: &Namespace, namespace: u32, row: &Row) -> Result<()> {
        let (mut key, value) = (Reader::new(&row.key), row.value.as_deref());
        match row.table {
            Table::Windows => {
                let start = value.map(|value| Reader::new(value).int()).transpose()?;
                self.put(WINDOWS, (namespace, key.int()?), start)
            }
            Table::IdleTimes => {
                let time = value.map(|value| Reader::new(value).time()).transpose()?;
                self.put(IDLE, (name.as_str(), key.text()?), time)
            }
            Table::Batches => {
                let read = |value| -> Result<(u64, u64)> {
                    let mut value = Reader::new(value);
                    Ok((value.int()?, value.int()?))
                };
                self.put(BATCHES, (namespace, key.int()?, key.int()?), value.map(read).transpose()?)
            }
            Table::Blocks => {
                let block = value.map(rows::block).transpose()?.map(|block| codec::encode(&block));
                let key = (namespace, rows::session_number(&mut key)?, key.text()?);
                self.put(BLOCKS, key, block.as_deref())
            }
            Table::BlockPositions => {
                let cursor = value.map(|value| rows::cursor(&mut Reader::new(value))).transpose()?;
                let key = (namespace, rows::session_number(&mut key)?, key.text()?);
                self.put(CURSORS, key, cursor.map(|cursor| codec::encode(&cursor)).as_deref())
            }
            Table::DroppedBlocks => {
                let key = (namespace, rows::session_number(&mut key)?, key.text()?);
                self.put(DROPPED_BLOCKS, key, value.map(|_| ()))
            }
            Table::Checkpoints => {
                let checkpoint = value.map(rows::checkpoint).transpose()?.map(|record| codec::encode(&record));
                self.put(CHECKPOINTS, (namespace, key.int()?, key.int()?), checkpoint.as_deref())
            }
            Table::OldMessages => {
                let old = value.map(rows::old_message).transpose()?.map(|record| codec::encode(&record));
                self.put(OLD_MESSAGES, (namespace, key.int()?, key.int()?, key.int()?), old.as_deref())
            }
            Table::OldBlocks => {
                let old = value.map(rows::old_block).transpose()?.map(|record| codec::encode(&record));
                let key = (namespace, rows::session_number(&mut key)?, key.text()?, key.int()?);
                self.put(OLD_BLOCKS, key, old.as_deref())
            }
            Table::Sessions | Table::Messages | Table::DocumentTexts | Table::Documents => Ok(()),
            Table::Holds | Table::Audit => Err(Error::corrupted("a common row is in a namespace")),
        }
    }

    fn common(&self, row: &Row) -> Result<()> {
        let (mut key, value) = (Reader::new(&row.key), row.value.as_deref());
        match row.table {
            Table::Holds => {
                let hold = value.map(rows::hold).transpose()?.map(|record| codec::encode(&record));
                self.put(HOLDS, key.text()?, hold.as_deref())
            }
            Table::Audit => {
                let Some(record) = value.map(rows::audit).transpose()? else { return Ok(()) };
                super::super::audit::AuditLog(self.0).put(key.int()?, record)
            }
            _ => Err(Error::corrupted("a row of a namespace is among the common rows")),
        }
    }

    /// Stores a record, or removes it.
    fn put<K: Key + 'static, V: Value + 'static>(
        &self,
        definition: TableDefinition<'_, K, V>,
        key: K::SelfType<'_>,
        value: Option<V::SelfType<'_>>,
    ) -> Result<()> {
        let mut table = self.0.table(definition)?;
        match value {
            Some(value) => table.insert(key, value).map_err(storage)?,
            None => table.remove(key).map_err(storage)?,
        };
        Ok(())
    }

    /// Sets the counters of a namespace.
    fn head(&self, name: &Namespace, id: u32, head: &Head, effects: &mut Effects) -> Result<()> {
        let Head { next_seq, next_session, messages, .. } = *head;
        let record = NamespaceRecord { id, next_seq, next_session, messages };
        namespaces::write_record(&mut self.0.table(NAMESPACES)?, name, &record)?;
        if Namespaces(self.0).language(NamespaceId(id))? != head.language {
            for namespace in NamespaceId(id).parts() {
                self.put(LANGUAGES, namespace.0, head.language.as_deref())?;
                effects.languages.push(namespace);
            }
        }
        let Some(DocumentHead { documents, expiring, last_change, next_text, next_session, texts }) = head.documents
        else {
            return Ok(());
        };
        document_namespaces::update(self.0, name, NamespaceId(id), |record| {
            record.counts = DocumentCounts { documents, expiring, last_change };
            let id = record.texts.id;
            record.texts = NamespaceRecord { id, next_seq: next_text, next_session, messages: texts };
        })
    }
}

fn unknown_session(session: &str) -> Error {
    Error::corrupted(format!("the shared database has a message of session {session:?}, but not the session"))
}

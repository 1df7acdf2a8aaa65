//! A change that another machine made, applied to the tables.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
};

use redb::{Key, Value};

#[cfg(feature = "postgres")]
use super::lost::Lost;
use super::{
    super::{
        audit::AuditLog,
        edit::Edit,
        edit_documents::{Changing, EditDocuments},
        journal::Journal,
        lost_rows::LostRows,
        message_record::StoredMessage,
        namespaces::{self, Namespaces},
        put_times::PutTimes,
        removal,
        schema::*,
        seal_key, sessions,
        tables::{ReadableTable, Tables, WriteTransaction},
    },
    change::{Change, DocumentHead, Head, Versions},
    rows,
    table::{Cell, HIDDEN, Reader, Row, Table as PrimaryTable, hidden_name},
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    message::Timestamp,
};

/// Changes that other machines made.
pub(crate) struct ApplyChanges<'t>(pub(in crate::store) &'t WriteTransaction);

impl ApplyChanges<'_> {
    /// Applies a change to the version that it was made from. Returns false, and does nothing, if the file is at another
    /// one.
    ///
    /// # Errors
    /// [`Error::Corrupted`]: the rows do not fit together.
    pub(crate) fn apply(&self, change: &Change) -> Result<bool> {
        let mut history = Versions(self.0).history(&change.namespace)?;
        if history.version() != change.base {
            return Ok(false);
        }
        if let Some(parted) = change.parted {
            history.0.retain(|version| version.number <= parted.version.number);
        }
        let is_common = change.namespace == COMMON;
        if change.rows.iter().any(|row| row.table.is_common() != is_common) {
            return Err(Error::corrupted(
                "a common row is in a namespace, or a row of a namespace is among the common ones",
            ));
        }
        #[cfg(feature = "postgres")]
        let lost = change.parted.map(|parted| Lost::of(self.0, change, &parted)).transpose()?;
        if is_common {
            if change.is_from_scratch {
                self.empty_common()?;
            }
            self.plain("", 0, &change.rows)?;
            for row in change.rows.iter().filter(|row| row.table == PrimaryTable::AUDIT) {
                if let Some(record) = row.value.as_deref().map(rows::audit).transpose()? {
                    AuditLog(self.0).put(Reader::new(&row.key).int()?, record)?;
                }
            }
            Versions(self.0).set(COMMON, VersionRecord::default(), history, change.version)?;
            #[cfg(feature = "postgres")]
            lost.map_or(Ok(()), |lost| lost.note(self.0, change))?;
            return Ok(true);
        }
        let name = Namespace::new(&change.namespace)?;
        if change.is_from_scratch || !change.head.exists {
            self.empty(&name)?;
        }
        if !change.head.exists {
            LostRows(self.0).clear(&change.namespace)?;
        }
        let Head { next_seq, next_session, .. } = change.head;
        let mut record = VersionRecord { next_seq, next_session, ..VersionRecord::default() };
        if change.head.exists {
            let known = Namespaces(self.0).record(&name)?.map_or(0, |record| record.next_seq);
            let NamespaceId(id) = Namespaces(self.0).create(&name)?;
            record.id = Some(id);
            let rows = self.with_names(&name, id, &change.rows)?;
            self.rows(&name, id, &rows)?;
            self.puts_and_removals(NamespaceId(id), known, &rows)?;
            self.head(&name, id, &change.head)?;
        }
        Versions(self.0).set(&change.namespace, record, history, change.version)?;
        #[cfg(feature = "postgres")]
        lost.map_or(Ok(()), |lost| lost.note(self.0, change))?;
        Ok(true)
    }

    /// Removes the legal holds and the audit.
    fn empty_common(&self) -> Result<()> {
        self.0.table(HOLDS)?.remove_range::<&str>(..)?;
        self.0.table(AUDIT)?.remove_range::<u64>(..)?;
        AuditLog(self.0).set_head(&AuditHead::default())
    }

    /// Removes a namespace with all that is in it.
    fn empty(&self, name: &Namespace) -> Result<()> {
        let Some(id) = Namespaces(self.0).id(name)? else { return Ok(()) };
        EditDocuments(self.0).delete_all(name, id)?;
        let messages: Vec<u64> = {
            let table = self.0.table(MESSAGES)?;
            let entries = table.range((id.0, 0)..=(id.0, u64::MAX))?;
            entries.map(|entry| Ok(entry?.0.value().1)).collect::<Result<_>>()?
        };
        let mut edit = Edit::begin(self.0)?;
        let mut namespace = edit.open(name)?;
        messages.into_iter().try_for_each(|seq| edit.set(&mut namespace, seq, None))?;
        edit.close(namespace);
        edit.finish()?;
        removal::remove(self.0, name, id)
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
        for table in PrimaryTable::all() {
            let of_table = || rows.iter().filter(|row| row.table == table);
            if !of_table().any(hidden) {
                found.extend(of_table().cloned());
                continue;
            }
            let mut names: HashMap<String, String> = HashMap::new();
            // No name is between the two.
            let after = format!("{name}\0");
            let mut known =
                ChosenNames { tables: self.0, table, name: name.as_str(), after: &after, id, names: vec![] };
            visit_tables(&mut known)?;
            for known in known.names {
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

    /// Applies rows, those of tables that others refer to first.
    fn rows(&self, name: &Namespace, id: u32, rows: &[Row]) -> Result<()> {
        let of = |table: PrimaryTable| rows.iter().filter(move |row| row.table == table);
        let session = |row: &Row| Reader::new(&row.key).int();
        let windows: Vec<u32> = of(PrimaryTable::WINDOWS).map(session).collect::<Result<_>>()?;
        let batches = of(PrimaryTable::BATCHES).filter(|row| row.value.is_some());
        let flushed: Vec<u32> = batches.map(session).collect::<Result<_>>()?;
        // The messages of a session that was deleted go before its name, which may be that of a new session with another
        // number by now. And what is gone goes first, because another message may have its id.
        self.messages(name, id, rows, true)?;
        for row in of(PrimaryTable::SESSIONS).filter(|row| row.value.is_some()) {
            self.session(id, row)?;
        }
        self.messages(name, id, rows, false)?;
        for row in of(PrimaryTable::SESSIONS).filter(|row| row.value.is_none()) {
            self.session(id, row)?;
        }
        self.plain(name.as_str(), id, rows)?;
        if !(windows.is_empty() && flushed.is_empty()) {
            for (session, number) in sessions::Sessions(self.0).all(NamespaceId(id))? {
                // What the prompts of these sessions show changed.
                if windows.contains(&number) {
                    self.0.effects().histories.push((name.clone(), session.clone()));
                }
                if flushed.contains(&number) {
                    self.0.effects().flushed.push((name.clone(), session));
                }
            }
        }
        Ok(())
    }

    /// Notes that messages from the number `known` on were put. Clears the journal if messages, or versions of them, were
    /// removed: another machine may have forgotten them.
    fn puts_and_removals(&self, namespace: NamespaceId, known: u64, rows: &[Row]) -> Result<()> {
        let tables = [PrimaryTable::MESSAGES, PrimaryTable::OLD_MESSAGES, PrimaryTable::MESSAGE_VERSIONS];
        let of_messages = rows.iter().filter(|row| tables.contains(&row.table));
        if of_messages.clone().any(|row| row.value.is_none()) {
            Journal(self.0).clear(namespace)?;
        }
        let mut first = None;
        for row in of_messages.filter(|row| row.table == PrimaryTable::MESSAGES && row.value.is_some()) {
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

    /// Applies messages and their versions, texts of documents, and documents, with all consequences: those that are gone,
    /// or the others.
    fn messages(&self, name: &Namespace, id: u32, rows: &[Row], is_gone: bool) -> Result<()> {
        let is_message = |row: &&Row| {
            const TABLES: [PrimaryTable; 4] = [
                PrimaryTable::MESSAGES,
                PrimaryTable::MESSAGE_VERSIONS,
                PrimaryTable::DOCUMENT_TEXTS,
                PrimaryTable::DOCUMENTS,
            ];
            TABLES.contains(&row.table) && row.value.is_none() == is_gone
        };
        if !rows.iter().any(|row| is_message(&row)) {
            return Ok(());
        }
        let mut changing = Changing::begin(self.0)?;
        let companion = name.document_texts();
        for row in rows.iter().filter(is_message) {
            match row.table {
                PrimaryTable::MESSAGES => self.message(&mut changing, name, row)?,
                PrimaryTable::MESSAGE_VERSIONS => self.version(&mut changing, name, row)?,
                PrimaryTable::DOCUMENT_TEXTS => self.message(&mut changing, &companion, row)?,
                _ => {
                    let key = Reader::new(&row.key).text()?;
                    changing.set(name, id, key, row.value.as_deref().map(rows::document).transpose()?)?;
                }
            }
        }
        changing.finish()
    }

    fn version(&self, changing: &mut Changing<'_>, name: &Namespace, row: &Row) -> Result<()> {
        let mut key = Reader::new(&row.key);
        let (seq, until) = (key.int()?, Timestamp::from_micros(key.int()?));
        let until = until.ok_or_else(|| Error::corrupted("the time of a version of a message is out of range"))?;
        let version = row.value.as_deref().map(rows::message).transpose()?.map(|(record, _)| record);
        let namespace = changing.edit.open(name)?;
        changing.edit.set_version(&namespace, seq, until, version.as_ref())?;
        changing.edit.close(namespace);
        Ok(())
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

    /// Applies the rows that nothing else follows from.
    fn plain(&self, name: &str, id: u32, rows: &[Row]) -> Result<()> {
        let mut by_table: HashMap<PrimaryTable, Vec<&Row>> = HashMap::new();
        rows.iter().for_each(|row| by_table.entry(row.table).or_default().push(row));
        visit_tables(&mut PlainRows { tables: self.0, name, id, by_table })
    }

    /// Stores a record, or removes it.
    fn put<K: Key + 'static, V: Value + 'static>(
        &self,
        table: &Table<K, V>,
        key: K::SelfType<'_>,
        value: Option<V::SelfType<'_>>,
    ) -> Result<()> {
        let mut table = self.0.table(table)?;
        match value {
            Some(value) => table.insert(key, value)?,
            None => table.remove(key)?,
        };
        Ok(())
    }

    /// Sets the counters of a namespace.
    fn head(&self, name: &Namespace, id: u32, head: &Head) -> Result<()> {
        let Head { next_seq, next_session, messages, .. } = *head;
        let record = NamespaceRecord { id, next_seq, next_session, messages };
        namespaces::write_record(&mut self.0.table(NAMESPACES)?, name, &record)?;
        if Namespaces(self.0).language_record(NamespaceId(id))? != head.language {
            for namespace in NamespaceId(id).parts() {
                self.put(LANGUAGES, namespace.0, head.language.as_deref())?;
                self.0.effects().languages.push(namespace);
            }
        }
        self.put(TIMES_TO_LIVE, id, head.ttl)?;
        let Some(DocumentHead { documents, expiring, last_change, next_text, next_session, texts }) = head.documents
        else {
            return Ok(());
        };
        namespaces::update_documents(self.0, name, NamespaceId(id), |record| {
            record.counts = DocumentCounts { documents, expiring, last_change };
            let id = record.texts.id;
            record.texts = NamespaceRecord { id, next_seq: next_text, next_session, messages: texts };
        })
    }
}

/// Applies the rows that nothing else follows from.
struct PlainRows<'a> {
    tables: &'a WriteTransaction,
    name: &'a str,
    id: u32,
    by_table: HashMap<PrimaryTable, Vec<&'a Row>>,
}

impl TableVisitor for PlainRows<'_> {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: &Table<K, V>) -> Result<()> {
        let Primary::Rows(Rows { table: primary, apply: Some(apply), .. }) = &table.primary else { return Ok(()) };
        let Some(rows) = self.by_table.get(primary) else { return Ok(()) };
        let mut open = self.tables.table(table)?;
        for row in rows {
            let key = (apply.key)(self.id, self.name, &mut Reader::new(&row.key))?;
            match row.value.as_deref().map(apply.value).transpose()? {
                Some(value) => open.insert(key, V::from_bytes(&value))?,
                None => open.remove(key)?,
            };
        }
        Ok(())
    }
}

/// Collects the names that users chose and a table of this machine has in a namespace.
struct ChosenNames<'a> {
    tables: &'a WriteTransaction,
    table: PrimaryTable,
    name: &'a str,
    /// The least name after it.
    after: &'a str,
    id: u32,
    names: Vec<String>,
}

impl TableVisitor for ChosenNames<'_> {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: &Table<K, V>) -> Result<()> {
        let Primary::Rows(rows) = &table.primary else { return Ok(()) };
        if rows.table != self.table {
            return Ok(());
        }
        let open = self.tables.table(table)?;
        let entries = match table.keys {
            Keys::Namespace(least) => open.range(least(self.id)..least(self.id + 1))?,
            Keys::Name(least) => open.range(least(self.name)..least(self.after))?,
            Keys::Derived(..) | Keys::Global => return Ok(()),
        };
        for entry in entries {
            if let (_, cells) = (rows.key)(entry?.0.value())
                && let Some(Cell::Text(name)) = cells.into_iter().next()
            {
                self.names.push(name);
            }
        }
        Ok(())
    }
}

fn unknown_session(session: &str) -> Error {
    Error::corrupted(format!("the shared database has a message of session {session:?}, but not the session"))
}

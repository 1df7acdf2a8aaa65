//! What a transaction changed, read from its tables before it is committed; or everything, as if it had just been stored.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::LazyLock,
};

use parking_lot::Mutex;
use redb::{Key, Value};

use super::{
    super::{
        codec,
        message_record::MessageRecord,
        namespaces::{self, Namespaces},
        schema::*,
        tables::{ChangedKeys, ReadableTable, Tables, WriteTransaction},
    },
    change::{Change, DocumentHead, Head, Sharing, Versions},
    rows,
    table::{Row, Table as PrimaryTable},
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
};

/// Returns the names of the tables in which [`capture`] looks for changes.
pub(in crate::store) fn captured_tables() -> &'static [&'static str] {
    &REGISTERED.captured
}

impl PrimaryTable {
    /// The tables of the primary, in the order in which a pull applies them: what refers to something comes after it.
    pub(crate) fn all() -> impl Iterator<Item = PrimaryTable> {
        REGISTERED.tables.iter().copied()
    }
}

static REGISTERED: LazyLock<Registered> = LazyLock::new(|| {
    let mut registered = Registered::default();
    visit_tables(&mut registered).expect("nothing is read");
    registered
});

/// What the registry says of the primary.
#[derive(Default)]
struct Registered {
    captured: Vec<&'static str>,
    tables: Vec<PrimaryTable>,
}

impl TableVisitor for Registered {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: &Table<K, V>) -> Result<()> {
        match &table.primary {
            Primary::Nothing => return Ok(()),
            Primary::Head | Primary::Positions => {}
            Primary::Messages => self.tables.extend([PrimaryTable::MESSAGES, PrimaryTable::DOCUMENT_TEXTS]),
            Primary::Rows(rows) => self.tables.push(rows.table),
        }
        self.captured.push(table.name);
        Ok(())
    }
}

/// The names of namespaces by their numbers, as far as they were needed.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<HashMap<u32, String>>);

impl Names {
    /// The name of the namespace with this number, if it is there.
    pub(in crate::store) fn get(&self, tables: &impl Tables, id: u32) -> Result<Option<String>> {
        let mut names = self.0.lock();
        let table = tables.table(NAMESPACES)?;
        let number = |value: &[u8]| codec::decode::<NamespaceRecord>(value).map(|record| record.id);
        // A transaction that was undone may have given the number to another name.
        if let Some(name) = names.get(&id)
            && let Some(value) = table.get(name.as_str())?
            && number(value.value())? == id
        {
            return Ok(Some(name.clone()));
        }
        names.clear();
        for entry in table.iter()? {
            let (name, value) = entry?;
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
        let mut capture = Capture { tables, changed, names, removed: HashSet::new(), rows: BTreeMap::new() };
        capture.namespaces()?;
        capture.messages()?;
        visit_tables(&mut capture)?;
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
    changed: &'a ChangedKeys,
    names: &'a Names,
    /// The numbers of the namespaces that the transaction removed.
    removed: HashSet<u32>,
    /// The rows that changed, by namespace.
    rows: BTreeMap<String, Vec<Row>>,
}

impl Capture<'_> {
    /// Finds the namespaces whose counters changed.
    fn namespaces(&mut self) -> Result<()> {
        let changed = self.changed;
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
        for id in keys(changed, LANGUAGES).chain(keys(changed, TIMES_TO_LIVE)) {
            let id = u32::from_bytes(id);
            if let Some(name) = self.name(id)? {
                self.rows.entry(name).or_default();
            }
        }
        Ok(())
    }

    /// Reads the messages that changed. A message is changed by either of two tables.
    fn messages(&mut self) -> Result<()> {
        let (tables, changed) = (self.tables, self.changed);
        let (histories, sessions) = (tables.table(HISTORY)?, tables.table(SESSIONS)?);
        let messages = tables.table(MESSAGES)?;
        let mut seqs: BTreeSet<(u32, u64)> = keys(changed, MESSAGES).map(<(u32, u64)>::from_bytes).collect();
        seqs.extend(keys(changed, HISTORY).map(|key| {
            let (namespace, _, seq) = <(u32, u32, u64)>::from_bytes(key);
            (namespace, seq)
        }));
        for (namespace, seq) in seqs {
            let owner = NamespaceId(namespace).owner();
            let Some(name) = self.name(owner.map_or(namespace, |owner| owner.0))? else { continue };
            let record = MessageRecord::read(&messages, namespace, seq)?;
            let value = record.map(|record| {
                let session = sessions.get((namespace, record.session.as_str()))?;
                let session = session.ok_or_else(|| Error::corrupted("the session of a message has no number"))?;
                let position = histories.get((namespace, session.value(), seq))?;
                let position = position.ok_or_else(|| Error::corrupted(format!("message {seq} is in no session")))?;
                rows::message_cells(record, SessionPosition::read(position.value()))
            });
            let table = if owner.is_some() { PrimaryTable::DOCUMENT_TEXTS } else { PrimaryTable::MESSAGES };
            let row = Row { table, key: vec![seq.into()], value: value.transpose()? };
            self.rows.entry(name).or_default().push(row);
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
                let history = before.history();
                let base = history.version();
                let version = base.next();
                let (next_seq, next_session) = (head.next_seq, head.next_session);
                let record = VersionRecord { id, next_seq, next_session, ..VersionRecord::default() };
                Versions(tables).set(&namespace, record, history, version)?;
                Ok(Change { namespace, base, version, is_from_scratch, parted: None, head, rows })
            })
            .collect()
    }
}

/// Reads the entries that changed of each table that the primary has in rows.
impl TableVisitor for Capture<'_> {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: &Table<K, V>) -> Result<()> {
        let Primary::Rows(rows) = &table.primary else { return Ok(()) };
        let Some(changed) = self.changed.get(table.name) else { return Ok(()) };
        let tables = self.tables;
        let open = tables.table(table)?;
        for bytes in changed {
            let (owner, key) = (rows.key)(K::from_bytes(bytes));
            let name = match owner {
                Owner::Number(id) => self.name(id)?,
                Owner::Name(name) => Some(name),
                Owner::Common => Some(COMMON.to_owned()),
            };
            // Of a namespace that was removed, only that is captured.
            let Some(name) = name else { continue };
            let found = open.get(K::from_bytes(bytes))?;
            let value = found.map(|found| (rows.value)(found.value())).transpose()?;
            self.rows.entry(name).or_default().push(Row { table: rows.table, key, value });
        }
        Ok(())
    }
}

/// The keys of a table that were changed.
fn keys<'c, K: Key + 'static, V: Value + 'static>(
    changed: &'c ChangedKeys,
    table: &Table<K, V>,
) -> impl Iterator<Item = &'c [u8]> + use<'c, K, V> {
    changed.get(table.name).into_iter().flatten().map(Vec::as_slice)
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
    let documents = namespaces::document_record(&tables.table(DOCUMENT_NAMESPACES)?, &name)?;
    let documents = documents.map(|DocumentNamespaceRecord { counts, texts }| DocumentHead {
        documents: counts.documents,
        expiring: counts.expiring,
        last_change: counts.last_change,
        next_text: texts.next_seq,
        next_session: texts.next_session,
        texts: texts.messages,
    });
    let language = Namespaces(tables).language_record(NamespaceId(id))?;
    let ttl = Namespaces(tables).time_to_live(NamespaceId(id))?;
    Ok((Head { exists: true, next_seq, next_session, messages, language, documents, ttl }, Some(id)))
}

/// Returns the rows of a namespace, or the common ones.
#[cfg(feature = "postgres")]
pub(super) fn rows_of(tables: &WriteTransaction, namespace: &str) -> Result<Vec<Row>> {
    let name = if namespace == COMMON { None } else { Some(Namespace::new(namespace)?) };
    let (keys, names) = (all_keys(tables, name.as_ref())?, Names::default());
    let mut capture = Capture { tables, changed: &keys, names: &names, removed: HashSet::new(), rows: BTreeMap::new() };
    capture.namespaces()?;
    capture.messages()?;
    visit_tables(&mut capture)?;
    Ok(capture.rows.remove(namespace).unwrap_or_default())
}

/// Returns the keys of all records of a namespace that the primary has, or of those that belong to none.
#[cfg(feature = "postgres")]
pub(in crate::store) fn all_keys<T: Tables>(tables: &T, namespace: Option<&Namespace>) -> Result<ChangedKeys> {
    let mut all = All { tables, namespace: None, keys: ChangedKeys::new() };
    if let Some(name) = namespace {
        let Some(record) = Namespaces(tables).record(name)? else { return Ok(all.keys) };
        let ids = [record.id, NamespaceId(record.id).document_texts().0];
        // No name is between the two.
        all.namespace = Some((name.to_string(), format!("{name}\0"), ids));
    }
    visit_tables(&mut all)?;
    Ok(all.keys)
}

#[cfg(feature = "postgres")]
struct All<'t, T> {
    tables: &'t T,
    /// The name, the least name after it, and the numbers of the namespace and its companion.
    namespace: Option<(String, String, [u32; 2])>,
    keys: ChangedKeys,
}

#[cfg(feature = "postgres")]
impl<T: Tables> TableVisitor for All<'_, T> {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: &Table<K, V>) -> Result<()> {
        if let Primary::Nothing = table.primary {
            return Ok(());
        }
        let open = self.tables.table(table)?;
        let keys = self.keys.entry(table.name.to_owned()).or_default();
        match (&table.keys, &self.namespace) {
            (Keys::Namespace(least), Some((_, _, ids))) => {
                ids.iter().try_for_each(|&id| add(keys, open.range(least(id)..least(id + 1))?))
            }
            (Keys::Name(least), Some((name, after, _))) => add(keys, open.range(least(name)..least(after))?),
            (Keys::Global, None) => add(keys, open.iter()?),
            _ => Ok(()),
        }
    }
}

#[cfg(feature = "postgres")]
fn add<K: Key + 'static, V: Value + 'static>(
    keys: &mut BTreeSet<Vec<u8>>,
    entries: super::super::tables::Range<'_, K, V>,
) -> Result<()> {
    for entry in entries {
        keys.insert(K::as_bytes(&entry?.0.value()).as_ref().to_vec());
    }
    Ok(())
}

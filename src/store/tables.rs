//! Tables: what the registry says of one, and opening it, in a transaction that reads or in one that writes.
//!
//! The groups of tables (`Messages`, `Graphs`, ...) are generic over [`Tables`]: their reading methods work in both kinds of
//! transaction, their writing methods in a [`WriteTransaction`]. Errors of redb become errors of the library here, so that
//! nothing above knows them.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    ops::RangeBounds,
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};
use redb::{
    AccessGuard, Key, ReadOnlyTable, ReadTransaction, ReadableTable as _, ReadableTableMetadata as _, TableDefinition,
    TableStats, Value,
};

use super::{
    effects::Effects,
    pages::DamagedPage,
    primary::table::{Cell, Reader, Table as PrimaryTable},
};
use crate::error::{Error, Result};

/// A table.
pub(crate) struct Table<K: Key + 'static, V: Value + 'static> {
    pub(super) name: &'static str,
    pub(super) definition: TableDefinition<'static, K, V>,
    pub(super) keys: Keys<K>,
    pub(super) primary: Primary<K, V>,
}

/// How the keys of a table begin. A namespace's entries are those from its least key to that of the next namespace.
pub(super) enum Keys<K: Key + 'static> {
    /// Its entries are of the whole database, or are removed together with what they belong to.
    Global,
    /// With the number of a namespace, given which it returns the least key.
    Namespace(fn(u32) -> K::SelfType<'static>),
    /// With the name of a namespace.
    Name(for<'n> fn(&'n str) -> K::SelfType<'n>),
    /// With the numbers of a generation and a namespace: what is derived from the namespace in the generation.
    Derived(Size, fn(u32, u32) -> K::SelfType<'static>),
}

/// The size of an entry, for deletions in bounded steps.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// A block of vectors, or a part of a graph or segment.
    Large,
    Small,
}

/// What the primary of a shared database has of a table.
pub(super) enum Primary<K: Key + 'static, V: Value + 'static> {
    /// Nothing: the table is derived, or of this file alone.
    Nothing,
    /// The counters of a namespace, see `primary::Head`.
    Head,
    /// Messages, and the texts of documents, each with its position.
    Messages,
    /// The positions of messages.
    Positions,
    /// A row for each entry.
    Rows(Rows<K, V>),
}

/// How entries become rows of the primary, and rows entries.
pub(super) struct Rows<K: Key + 'static, V: Value + 'static> {
    pub(super) table: PrimaryTable,
    /// Splits a key into its namespace and the other cells.
    pub(super) key: for<'k> fn(K::SelfType<'k>) -> (Owner, Vec<Cell>),
    pub(super) value: for<'v> fn(V::SelfType<'v>) -> Result<Vec<Cell>>,
    /// `None` if a row has consequences: then `ApplyChanges` knows the table.
    pub(super) apply: Option<Apply<K>>,
}

/// The namespace of an entry.
pub(super) enum Owner {
    Number(u32),
    Name(String),
    /// None: the entry is among the common rows.
    Common,
}

/// How a row becomes an entry.
pub(super) struct Apply<K: Key + 'static> {
    /// Makes a key of the number and the name of a namespace and the cells of a row's key.
    pub(super) key: for<'c> fn(u32, &'c str, &mut Reader<'c>) -> Result<K::SelfType<'c>>,
    /// Makes the stored bytes of the cells of a row's value.
    pub(super) value: fn(&[Cell]) -> Result<Vec<u8>>,
}

/// Does something with each table.
pub(super) trait TableVisitor {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: &Table<K, V>) -> Result<()>;
}

/// A transaction, of either kind.
pub(crate) trait Tables {
    type Table<'t, K: Key + 'static, V: Value + 'static>: ReadableTable<K, V>
    where
        Self: 't;

    /// Opens a table. A write transaction opens a table once at a time: the last one must be dropped before.
    fn table<K: Key + 'static, V: Value + 'static>(&self, table: &Table<K, V>) -> Result<Self::Table<'_, K, V>>;

    /// Notes, in a write transaction, that its result depends on a namespace; on the common rows, if it has no name.
    fn note_lookup(&self, _namespace: &str) {}
}

impl Tables for ReadTransaction {
    type Table<'t, K: Key + 'static, V: Value + 'static> = ReadTable<K, V>;

    fn table<K: Key + 'static, V: Value + 'static>(&self, table: &Table<K, V>) -> Result<ReadTable<K, V>> {
        self.open_table(table.definition).map(ReadTable).map_err(storage)
    }
}

/// A read transaction that several snapshots share.
impl Tables for Arc<ReadTransaction> {
    type Table<'t, K: Key + 'static, V: Value + 'static> = ReadTable<K, V>;

    fn table<K: Key + 'static, V: Value + 'static>(&self, table: &Table<K, V>) -> Result<ReadTable<K, V>> {
        (**self).table(table)
    }
}

impl Tables for WriteTransaction {
    type Table<'t, K: Key + 'static, V: Value + 'static> = WriteTable<'t, K, V>;

    fn table<K: Key + 'static, V: Value + 'static>(&self, table: &Table<K, V>) -> Result<WriteTable<'_, K, V>> {
        let is_noted = |log: &&ChangeLog| log.only.is_none_or(|only| only.contains(&table.name));
        let changes = self.changes.as_ref().filter(is_noted).map(|log| (&*log.keys, table.name.to_owned()));
        Ok(WriteTable { table: self.tables.open_table(table.definition).map_err(storage)?, changes })
    }

    fn note_lookup(&self, namespace: &str) {
        if self.changes.is_some() && !self.looked_up.lock().contains(namespace) {
            self.looked_up.lock().insert(namespace.to_owned());
        }
    }
}

/// A table of either kind of transaction.
pub(crate) trait ReadableTable<K: Key + 'static, V: Value + 'static> {
    /// The table of redb.
    fn inner(&self) -> &impl redb::ReadableTable<K, V>;

    /// See [`redb::ReadableTable::get`].
    fn get<'a>(&self, key: impl Borrow<K::SelfType<'a>>) -> Result<Option<AccessGuard<'_, V>>> {
        self.inner().get(key).map_err(storage)
    }

    /// See [`redb::ReadableTable::range`].
    fn range<'a, R: Borrow<K::SelfType<'a>> + 'a>(&self, range: impl RangeBounds<R> + 'a) -> Result<Range<'_, K, V>> {
        self.inner().range(range).map(Range).map_err(storage)
    }

    /// Returns all entries in the order of their keys.
    fn iter(&self) -> Result<Range<'_, K, V>> {
        self.inner().iter().map(Range).map_err(storage)
    }

    /// Returns the entry with the least key.
    fn first(&self) -> Result<Option<Entry<'_, K, V>>> {
        self.inner().first().map_err(storage)
    }

    /// Returns the entry with the greatest key.
    fn last(&self) -> Result<Option<Entry<'_, K, V>>> {
        self.inner().last().map_err(storage)
    }

    /// Returns the number of entries.
    fn len(&self) -> Result<u64> {
        self.inner().len().map_err(storage)
    }

    fn is_empty(&self) -> Result<bool> {
        self.inner().is_empty().map_err(storage)
    }

    fn stats(&self) -> Result<TableStats> {
        self.inner().stats().map_err(storage)
    }
}

/// A key with its value.
pub(super) type Entry<'t, K, V> = (AccessGuard<'t, K>, AccessGuard<'t, V>);

/// Entries of a table in the order of their keys.
pub(crate) struct Range<'t, K: Key + 'static, V: Value + 'static>(redb::Range<'t, K, V>);

impl<'t, K: Key + 'static, V: Value + 'static> Iterator for Range<'t, K, V> {
    type Item = Result<Entry<'t, K, V>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|entry| entry.map_err(storage))
    }
}

impl<K: Key + 'static, V: Value + 'static> DoubleEndedIterator for Range<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|entry| entry.map_err(storage))
    }
}

/// A table of a transaction that reads.
pub(crate) struct ReadTable<K: Key + 'static, V: Value + 'static>(ReadOnlyTable<K, V>);

impl<K: Key + 'static, V: Value + 'static> ReadableTable<K, V> for ReadTable<K, V> {
    fn inner(&self) -> &impl redb::ReadableTable<K, V> {
        &self.0
    }
}

/// The keys that were changed since a moment, as redb stores them, by the name of their table.
pub(super) type ChangedKeys = BTreeMap<String, BTreeSet<Vec<u8>>>;

/// Where changed keys are noted: while the database is being copied, those of all tables; in a replica, those of the
/// tables that the primary has.
#[derive(Clone)]
pub(super) struct ChangeLog {
    pub(super) keys: Arc<Mutex<ChangedKeys>>,
    /// The tables; `None` for all.
    pub(super) only: Option<&'static [&'static str]>,
}

/// A redb write transaction.
pub(crate) struct WriteTransaction {
    tables: redb::WriteTransaction,
    changes: Option<ChangeLog>,
    keeps_versions: bool,
    /// The names of the namespaces that were looked up.
    looked_up: Mutex<BTreeSet<String>>,
    /// The effects of the changes so far.
    effects: Mutex<Effects>,
}

impl WriteTransaction {
    pub(super) fn new(tables: redb::WriteTransaction, changes: Option<ChangeLog>, keeps_versions: bool) -> Self {
        let (looked_up, effects) = Default::default();
        WriteTransaction { tables, changes, keeps_versions, looked_up, effects }
    }

    /// Returns true if messages that are replaced are kept as versions.
    pub(super) fn keeps_versions(&self) -> bool {
        self.keeps_versions
    }

    /// The names of the namespaces that were looked up.
    pub(super) fn looked_up(&self) -> BTreeSet<String> {
        self.looked_up.lock().clone()
    }

    /// The effects of the changes so far.
    pub(super) fn effects(&self) -> MutexGuard<'_, Effects> {
        self.effects.lock()
    }

    /// Adds the effects of a change.
    pub(super) fn add_effects(&self, later: Effects) {
        self.effects.lock().append(later);
    }

    pub(super) fn commit(self) -> Result<()> {
        self.tables.commit().map_err(storage)
    }
}

/// A table of a [`WriteTransaction`].
pub(crate) struct WriteTable<'t, K: Key + 'static, V: Value + 'static> {
    table: redb::Table<'t, K, V>,
    changes: Option<(&'t Mutex<ChangedKeys>, String)>,
}

impl<K: Key + 'static, V: Value + 'static> WriteTable<'_, K, V> {
    /// See [`redb::Table::insert`].
    pub(super) fn insert<'k, 'v>(
        &mut self,
        key: impl Borrow<K::SelfType<'k>>,
        value: impl Borrow<V::SelfType<'v>>,
    ) -> Result<Option<AccessGuard<'_, V>>> {
        note::<K>(&self.changes, key.borrow());
        self.table.insert(key, value).map_err(storage)
    }

    /// See [`redb::Table::remove`].
    pub(super) fn remove<'k>(&mut self, key: impl Borrow<K::SelfType<'k>>) -> Result<Option<AccessGuard<'_, V>>> {
        note::<K>(&self.changes, key.borrow());
        self.table.remove(key).map_err(storage)
    }

    /// See [`redb::Table::retain_in`].
    pub(super) fn retain_in<'k, R: Borrow<K::SelfType<'k>> + 'k>(
        &mut self,
        range: impl RangeBounds<R> + 'k,
        mut keep: impl for<'f> FnMut(&K::SelfType<'f>) -> bool,
    ) -> Result<()> {
        let changes = &self.changes;
        let retained = self.table.retain_in(range, |key, _| {
            let keeps = keep(&key);
            if !keeps {
                note::<K>(changes, &key);
            }
            keeps
        });
        retained.map_err(storage)
    }

    /// Removes the entries of a range.
    pub(super) fn remove_range<'k, R: Borrow<K::SelfType<'k>> + 'k>(
        &mut self,
        range: impl RangeBounds<R> + 'k,
    ) -> Result<()> {
        self.retain_in(range, |_| false)
    }

    /// Removes up to `limit` entries of a range, the first ones. Returns how many were removed.
    pub(super) fn remove_up_to<'k, R: Borrow<K::SelfType<'k>> + 'k>(
        &mut self,
        range: impl RangeBounds<R> + 'k,
        limit: usize,
    ) -> Result<usize> {
        let mut removed = 0;
        for entry in self.table.extract_from_if(range, |_, _| true).map_err(storage)?.take(limit) {
            note::<K>(&self.changes, &entry.map_err(storage)?.0.value());
            removed += 1;
        }
        Ok(removed)
    }
}

fn note<'k, K: Key>(changes: &Option<(&Mutex<ChangedKeys>, String)>, key: &K::SelfType<'k>) {
    if let Some((changes, table)) = changes {
        let key = K::as_bytes(key).as_ref().to_vec();
        changes.lock().entry(table.clone()).or_default().insert(key);
    }
}

impl<K: Key + 'static, V: Value + 'static> ReadableTable<K, V> for WriteTable<'_, K, V> {
    fn inner(&self) -> &impl redb::ReadableTable<K, V> {
        &self.table
    }
}

/// The answer of redb to a call that was under way when another one met an error of the file. `Store::explain` names
/// that error. Calls from now on find the file opened again.
#[derive(Debug, thiserror::Error)]
#[error("another call met an error of the file")]
pub(super) struct FailedElsewhere;

/// Converts an error of redb that the user did not cause.
pub(super) fn storage(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        redb::Error::Corrupted(what) => Error::Corrupted { what },
        redb::Error::Io(error) => match error.get_ref().and_then(|inner| inner.downcast_ref::<DamagedPage>()) {
            Some(page) => Error::Corrupted { what: page.to_string() },
            None => Error::Storage(Box::new(redb::Error::Io(error))),
        },
        redb::Error::PreviousIo | redb::Error::DatabaseClosed => Error::Storage(Box::new(FailedElsewhere)),
        other => Error::Storage(Box::new(other)),
    }
}

/// Returns true if a range has an entry.
pub(super) fn has<'a, K: Key + 'static, V: Value + 'static>(
    table: &impl ReadableTable<K, V>,
    range: impl RangeBounds<K::SelfType<'a>> + 'a,
) -> Result<bool>
where
    K::SelfType<'a>: Borrow<K::SelfType<'a>>,
{
    let first = table.range::<K::SelfType<'a>>(range)?.next();
    Ok(first.transpose()?.is_some())
}

/// Counts the entries of a range. Cost: a pass over them.
pub(super) fn count<'a, K: Key + 'static, V: Value + 'static>(
    table: &impl ReadableTable<K, V>,
    range: impl RangeBounds<K::SelfType<'a>> + 'a,
) -> Result<u64>
where
    K::SelfType<'a>: Borrow<K::SelfType<'a>>,
{
    let mut count = 0;
    for entry in table.range::<K::SelfType<'a>>(range)? {
        entry?;
        count += 1;
    }
    Ok(count)
}

//! The tables of a write transaction. While the database is being copied, they note which keys change, so that the copy
//! can follow.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    ops::{Bound, RangeBounds},
    sync::Arc,
};

use parking_lot::Mutex;
use redb::{
    AccessGuard, Cursor, Key, Range, ReadableTable, ReadableTableMetadata, StorageError, Table, TableDefinition,
    TableError, TableHandle, TableStats, Value,
};

/// The keys that were changed since a moment, as redb stores them, by the name of their table.
pub(super) type ChangedKeys = BTreeMap<String, BTreeSet<Vec<u8>>>;

/// Where changed keys are noted: while the database is being copied, those of all tables; in a copy of a shared database,
/// those of the tables that are shared.
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
    /// The names of the namespaces that were looked up.
    looked_up: Mutex<BTreeSet<String>>,
}

impl WriteTransaction {
    pub(super) fn new(tables: redb::WriteTransaction, changes: Option<ChangeLog>) -> Self {
        WriteTransaction { tables, changes, looked_up: Mutex::default() }
    }

    /// Notes that the result depends on a namespace.
    pub(super) fn note_lookup(&self, namespace: &str) {
        if self.changes.is_some() && !self.looked_up.lock().contains(namespace) {
            self.looked_up.lock().insert(namespace.to_owned());
        }
    }

    /// The names of the namespaces that were looked up.
    pub(super) fn looked_up(&self) -> BTreeSet<String> {
        self.looked_up.lock().clone()
    }

    pub(super) fn open_table<'t, K: Key + 'static, V: Value + 'static>(
        &'t self,
        definition: TableDefinition<'_, K, V>,
    ) -> Result<WriteTable<'t, K, V>, TableError> {
        let table = self.tables.open_table(definition)?;
        let is_noted = |log: &&ChangeLog| log.only.is_none_or(|only| only.contains(&definition.name()));
        let changes = self.changes.as_ref().filter(is_noted).map(|log| (&*log.keys, definition.name().to_owned()));
        Ok(WriteTable { table, changes })
    }

    pub(super) fn commit(self) -> Result<(), redb::CommitError> {
        self.tables.commit()
    }
}

/// A table of a [`WriteTransaction`].
pub(crate) struct WriteTable<'t, K: Key + 'static, V: Value + 'static> {
    table: Table<'t, K, V>,
    changes: Option<(&'t Mutex<ChangedKeys>, String)>,
}

impl<K: Key + 'static, V: Value + 'static> WriteTable<'_, K, V> {
    /// See [`redb::Table::insert`].
    pub(super) fn insert<'k, 'v>(
        &mut self,
        key: impl Borrow<K::SelfType<'k>>,
        value: impl Borrow<V::SelfType<'v>>,
    ) -> Result<Option<AccessGuard<'_, V>>, StorageError> {
        note::<K>(&self.changes, key.borrow());
        self.table.insert(key, value)
    }

    /// See [`redb::Table::remove`].
    pub(super) fn remove<'k>(
        &mut self,
        key: impl Borrow<K::SelfType<'k>>,
    ) -> Result<Option<AccessGuard<'_, V>>, StorageError> {
        note::<K>(&self.changes, key.borrow());
        self.table.remove(key)
    }

    /// See [`redb::Table::retain_in`].
    pub(super) fn retain_in<'k, R: Borrow<K::SelfType<'k>> + 'k>(
        &mut self,
        range: impl RangeBounds<R> + 'k,
        mut keep: impl for<'f> FnMut(&K::SelfType<'f>) -> bool,
    ) -> Result<(), StorageError> {
        let changes = &self.changes;
        self.table.retain_in(range, |key, _| {
            let keeps = keep(&key);
            if !keeps {
                note::<K>(changes, &key);
            }
            keeps
        })
    }

    /// Removes the entries of a range.
    pub(super) fn remove_range<'k, R: Borrow<K::SelfType<'k>> + 'k>(
        &mut self,
        range: impl RangeBounds<R> + 'k,
    ) -> Result<(), StorageError> {
        self.retain_in(range, |_| false)
    }

    /// Removes up to `limit` entries of a range, the first ones. Returns how many were removed.
    pub(super) fn remove_up_to<'k, R: Borrow<K::SelfType<'k>> + 'k>(
        &mut self,
        range: impl RangeBounds<R> + 'k,
        limit: usize,
    ) -> Result<usize, StorageError> {
        let mut removed = 0;
        for entry in self.table.extract_from_if(range, |_, _| true)?.take(limit) {
            note::<K>(&self.changes, &entry?.0.value());
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

impl<K: Key + 'static, V: Value + 'static> ReadableTableMetadata for WriteTable<'_, K, V> {
    fn stats(&self) -> Result<TableStats, StorageError> {
        self.table.stats()
    }

    fn len(&self) -> Result<u64, StorageError> {
        self.table.len()
    }
}

impl<K: Key + 'static, V: Value + 'static> ReadableTable<K, V> for WriteTable<'_, K, V> {
    fn get<'a>(&self, key: impl Borrow<K::SelfType<'a>>) -> Result<Option<AccessGuard<'_, V>>, StorageError> {
        self.table.get(key)
    }

    fn range<'a, R: Borrow<K::SelfType<'a>> + 'a>(
        &self,
        range: impl RangeBounds<R> + 'a,
    ) -> Result<Range<'_, K, V>, StorageError> {
        self.table.range(range)
    }

    fn first(&self) -> Result<Option<(AccessGuard<'_, K>, AccessGuard<'_, V>)>, StorageError> {
        self.table.first()
    }

    fn last(&self) -> Result<Option<(AccessGuard<'_, K>, AccessGuard<'_, V>)>, StorageError> {
        self.table.last()
    }

    fn lower_bound<'a>(&self, bound: Bound<impl Borrow<K::SelfType<'a>>>) -> Result<Cursor<'_, K, V>, StorageError> {
        self.table.lower_bound(bound)
    }

    fn upper_bound<'a>(&self, bound: Bound<impl Borrow<K::SelfType<'a>>>) -> Result<Cursor<'_, K, V>, StorageError> {
        self.table.upper_bound(bound)
    }
}

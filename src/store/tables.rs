//! Opening tables, in a transaction that reads or in one that writes.

use std::{borrow::Borrow, sync::Arc};

use redb::{Key, ReadOnlyTable, ReadTransaction, ReadableTable, TableDefinition, Value};

use super::{
    pages::DamagedPage,
    write_tables::{WriteTable, WriteTransaction},
};
use crate::error::{Error, Result};

/// A redb transaction, of either kind. The groups of tables (`Messages`, `Graphs`, ...) are generic over it: their
/// reading methods work in both kinds, their writing methods only in a `WriteTransaction`.
pub(crate) trait Tables {
    type Table<'t, K: Key + 'static, V: Value + 'static>: ReadableTable<K, V>
    where
        Self: 't;

    /// Opens a table. A write transaction opens a table once at a time: the last one must be dropped before.
    fn table<K: Key + 'static, V: Value + 'static>(
        &self,
        definition: TableDefinition<'_, K, V>,
    ) -> Result<Self::Table<'_, K, V>>;

    /// Notes, in a write transaction, that its result depends on a namespace; on the common rows, if it has no name.
    fn note_lookup(&self, _namespace: &str) {}
}

impl Tables for ReadTransaction {
    type Table<'t, K: Key + 'static, V: Value + 'static> = ReadOnlyTable<K, V>;

    fn table<K: Key + 'static, V: Value + 'static>(
        &self,
        definition: TableDefinition<'_, K, V>,
    ) -> Result<ReadOnlyTable<K, V>> {
        self.open_table(definition).map_err(storage)
    }
}

/// A read transaction that several snapshots share.
impl Tables for Arc<ReadTransaction> {
    type Table<'t, K: Key + 'static, V: Value + 'static> = ReadOnlyTable<K, V>;

    fn table<K: Key + 'static, V: Value + 'static>(
        &self,
        definition: TableDefinition<'_, K, V>,
    ) -> Result<ReadOnlyTable<K, V>> {
        (**self).table(definition)
    }
}

impl Tables for WriteTransaction {
    type Table<'t, K: Key + 'static, V: Value + 'static> = WriteTable<'t, K, V>;

    fn table<K: Key + 'static, V: Value + 'static>(
        &self,
        definition: TableDefinition<'_, K, V>,
    ) -> Result<WriteTable<'_, K, V>> {
        self.open_table(definition).map_err(storage)
    }

    fn note_lookup(&self, namespace: &str) {
        WriteTransaction::note_lookup(self, namespace);
    }
}

/// The answer of redb to a call that was under way when another one met an error of the file. `Store::explain` names
/// that error. Calls from now on find the file opened again.
#[derive(Debug, thiserror::Error)]
#[error("another call met an error of the file; repeat the call")]
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
    range: impl std::ops::RangeBounds<K::SelfType<'a>> + 'a,
) -> Result<bool>
where
    K::SelfType<'a>: Borrow<K::SelfType<'a>>,
{
    let first = table.range::<K::SelfType<'a>>(range).map_err(storage)?.next();
    Ok(first.transpose().map_err(storage)?.is_some())
}

/// Counts the entries of a range. Cost: a pass over them.
pub(super) fn count<'a, K: Key + 'static, V: Value + 'static>(
    table: &impl ReadableTable<K, V>,
    range: impl std::ops::RangeBounds<K::SelfType<'a>> + 'a,
) -> Result<u64>
where
    K::SelfType<'a>: Borrow<K::SelfType<'a>>,
{
    let mut count = 0;
    for entry in table.range::<K::SelfType<'a>>(range).map_err(storage)? {
        entry.map_err(storage)?;
        count += 1;
    }
    Ok(count)
}

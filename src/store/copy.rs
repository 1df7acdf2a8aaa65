//! Copies of a database: all tables of a snapshot, written in order into a new file. A copy has no free space, and
//! nothing of what was deleted.

use std::ops::Bound;

use redb::{CursorError, Database, Key, ReadTransaction, ReadableTable, TableDefinition, TableError, Value};

use super::{
    schema::{TableVisitor, visit_tables},
    tables::storage,
    write_tables::ChangedKeys,
};
use crate::error::{Error, Result};

/// Copies all tables in one commit.
pub(super) fn copy(from: &ReadTransaction, to: &Database) -> Result<()> {
    let to = to.begin_write().map_err(storage)?;
    visit_tables(&mut Copy { from, to: &to })?;
    to.commit().map_err(storage)
}

/// Brings a copy to the state of another snapshot of the same database, given the keys that changed in between.
pub(super) fn follow(from: &ReadTransaction, to: &Database, changed: &ChangedKeys) -> Result<()> {
    let to = to.begin_write().map_err(storage)?;
    visit_tables(&mut Follow { from, to: &to, changed })?;
    to.commit().map_err(storage)
}

struct Copy<'t> {
    from: &'t ReadTransaction,
    to: &'t redb::WriteTransaction,
}

impl TableVisitor for Copy<'_> {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: TableDefinition<'_, K, V>) -> Result<()> {
        let from = match self.from.open_table(table) {
            // A database of an older schema lacks it.
            Err(TableError::TableDoesNotExist(_)) => return Ok(()),
            from => from.map_err(storage)?,
        };
        let mut to = self.to.open_table(table).map_err(storage)?;
        let mut end = to.upper_bound_mut(Bound::<K::SelfType<'_>>::Unbounded).map_err(storage)?;
        for entry in from.iter().map_err(storage)? {
            let (key, value) = entry.map_err(storage)?;
            end.insert_before(key.value(), value.value()).map_err(|error| match error {
                CursorError::Storage(error) => storage(error),
                error => Error::corrupted(format!("a table of the database is not in order: {error}")),
            })?;
        }
        Ok(())
    }
}

struct Follow<'t> {
    from: &'t ReadTransaction,
    to: &'t redb::WriteTransaction,
    changed: &'t ChangedKeys,
}

impl TableVisitor for Follow<'_> {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: TableDefinition<'_, K, V>) -> Result<()> {
        let Some(keys) = self.changed.get(redb::TableHandle::name(&table)) else { return Ok(()) };
        let (from, mut to) =
            (self.from.open_table(table).map_err(storage)?, self.to.open_table(table).map_err(storage)?);
        for key in keys {
            let key = K::from_bytes(key);
            match from.get(&key).map_err(storage)? {
                Some(value) => to.insert(&key, value.value()).map_err(storage)?,
                None => to.remove(&key).map_err(storage)?,
            };
        }
        Ok(())
    }
}

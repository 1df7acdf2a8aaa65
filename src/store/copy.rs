//! Copies of a database: all tables of a snapshot, written in order into a new file. A copy has no free space, and
//! nothing of what was deleted.

use std::{collections::BTreeSet, ops::Bound};

use redb::{Database, Key, ReadTransaction, ReadableTable, TableError, Value};

use super::{
    schema::{Table, TableVisitor, visit_tables},
    tables::{ChangedKeys, storage},
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

impl Copy<'_> {
    fn copy<K: Key + 'static, V: Value + 'static>(&self, table: &Table<K, V>) -> Result<(), redb::Error> {
        let from = match self.from.open_table(table.definition) {
            // A database of an older schema lacks it.
            Err(TableError::TableDoesNotExist(_)) => return Ok(()),
            from => from?,
        };
        let mut to = self.to.open_table(table.definition)?;
        let mut end = to.upper_bound_mut(Bound::<K::SelfType<'_>>::Unbounded)?;
        for entry in from.iter()? {
            let (key, value) = entry?;
            end.insert_before(key.value(), value.value())?;
        }
        Ok(())
    }
}

impl TableVisitor for Copy<'_> {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: &Table<K, V>) -> Result<()> {
        self.copy(table).map_err(|error| match error {
            redb::Error::UnorderedKey => Error::corrupted("a table of the database is not in order"),
            error => storage(error),
        })
    }
}

struct Follow<'t> {
    from: &'t ReadTransaction,
    to: &'t redb::WriteTransaction,
    changed: &'t ChangedKeys,
}

impl Follow<'_> {
    fn follow<K: Key + 'static, V: Value + 'static>(
        &self,
        table: &Table<K, V>,
        keys: &BTreeSet<Vec<u8>>,
    ) -> Result<(), redb::Error> {
        let (from, mut to) = (self.from.open_table(table.definition)?, self.to.open_table(table.definition)?);
        for key in keys {
            let key = K::from_bytes(key);
            match from.get(&key)? {
                Some(value) => to.insert(&key, value.value())?,
                None => to.remove(&key)?,
            };
        }
        Ok(())
    }
}

impl TableVisitor for Follow<'_> {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: &Table<K, V>) -> Result<()> {
        let keys = self.changed.get(table.name);
        keys.map_or(Ok(()), |keys| self.follow(table, keys).map_err(storage))
    }
}

//! The keys of everything that is shared, as if all of it had just been stored.

use std::{borrow::Borrow, ops::RangeBounds};

use redb::{Key, ReadableTable, TableDefinition, TableHandle, Value};

use super::super::{
    namespaces::Namespaces,
    schema::*,
    tables::{Tables, storage},
    write_tables::ChangedKeys,
};
use crate::{
    error::Result,
    ids::{Namespace, NamespaceId},
};

/// Returns the keys of all records of a namespace that are shared, or of those that belong to none.
pub(in crate::store) fn all_keys<T: Tables>(tables: &T, namespace: Option<&Namespace>) -> Result<ChangedKeys> {
    let mut all = All { tables, keys: ChangedKeys::new() };
    let Some(name) = namespace else {
        all.add::<_, _, &str>(HOLDS, ..)?;
        all.add::<_, _, u64>(AUDIT, ..)?;
        return Ok(all.keys);
    };
    let Some(record) = Namespaces(tables).record(name)? else { return Ok(all.keys) };
    let id = record.id;
    all.add(NAMESPACES, name.as_str()..=name.as_str())?;
    for NamespaceId(id) in NamespaceId(id).parts() {
        all.add(MESSAGES, (id, 0)..=(id, u64::MAX))?;
    }
    all.add(SESSIONS, (id, "")..(id + 1, ""))?;
    all.add(WINDOWS, (id, 0)..(id + 1, 0))?;
    // No name is between the two.
    let after = format!("{name}\0");
    all.add(IDLE, (name.as_str(), "")..(after.as_str(), ""))?;
    all.add(BATCHES, (id, 0, 0)..(id + 1, 0, 0))?;
    for table in [BLOCKS, CURSORS] {
        all.add(table, (id, 0, "")..(id + 1, 0, ""))?;
    }
    all.add(DROPPED_BLOCKS, (id, 0, "")..(id + 1, 0, ""))?;
    all.add(CHECKPOINTS, (id, 0, 0)..(id + 1, 0, 0))?;
    all.add(OLD_MESSAGES, (id, 0, 0, 0)..(id + 1, 0, 0, 0))?;
    all.add(OLD_BLOCKS, (id, 0, "", 0)..(id + 1, 0, "", 0))?;
    all.add(DOCUMENTS, (id, "")..(id + 1, ""))?;
    Ok(all.keys)
}

struct All<'t, T> {
    tables: &'t T,
    keys: ChangedKeys,
}

impl<T: Tables> All<'_, T> {
    fn add<'a, K: Key + 'static, V: Value + 'static, KR: Borrow<K::SelfType<'a>> + 'a>(
        &mut self,
        definition: TableDefinition<'_, K, V>,
        range: impl RangeBounds<KR> + 'a,
    ) -> Result<()> {
        let found = self.keys.entry(definition.name().to_owned()).or_default();
        for entry in self.tables.table(definition)?.range(range).map_err(storage)? {
            let (key, _) = entry.map_err(storage)?;
            found.insert(K::as_bytes(&key.value()).as_ref().to_vec());
        }
        Ok(())
    }
}

//! The key that seals the memory in prompts: random, one for each database, made with its tables.

use super::{
    schema::META,
    tables::{ReadableTable, Tables, WriteTransaction},
};
use crate::{
    error::{Error, Result},
    ids::random_bytes,
};

const NAME: &str = "seal_key";

/// Returns the key. `None` if the database has no key yet.
pub(super) fn read(tables: &impl Tables) -> Result<Option<[u8; 32]>> {
    let table = tables.table(META)?;
    let Some(key) = table.get(NAME)? else { return Ok(None) };
    let key = key.value().try_into().map_err(|_| Error::corrupted("the key of prompts is not 32 bytes"))?;
    Ok(Some(key))
}

/// Replaces the key.
pub(super) fn set(tables: &WriteTransaction, key: [u8; 32]) -> Result<()> {
    tables.table(META)?.insert(NAME, key.as_slice())?;
    Ok(())
}

/// Makes a key, unless there is one.
pub(super) fn create(tables: &WriteTransaction) -> Result<()> {
    let mut table = tables.table(META)?;
    if table.get(NAME)?.is_none() {
        table.insert(NAME, random_bytes().as_slice())?;
    }
    Ok(())
}

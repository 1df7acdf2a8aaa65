//! The number and the id of the last commit, by which a caller tells that an older copy was put in the place of the file.

use super::{
    schema::META,
    tables::{ReadableTable, Tables, WriteTransaction},
};
use crate::{
    error::{Error, Result},
    ids::Anchor,
};

const NAME: &str = "anchor";

/// Returns the anchor of the last commit. That of a file of an older release is 0.
pub(super) fn read(tables: &impl Tables) -> Result<Anchor> {
    let table = tables.table(META)?;
    let Some(bytes) = table.get(NAME)? else { return Ok(Anchor::default()) };
    let bytes = bytes.value().try_into().map_err(|_| Error::corrupted("the anchor is not 16 bytes"))?;
    Ok(Anchor::from_bytes(bytes))
}

/// Writes the anchor of the commit that the transaction is to be.
pub(super) fn write(tables: &WriteTransaction) -> Result<()> {
    let next = read(tables)?.next();
    tables.table(META)?.insert(NAME, next.to_bytes().as_slice())?;
    Ok(())
}

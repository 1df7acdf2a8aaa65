//! The numbers of sessions in their namespaces.

use redb::ReadableTable;

use super::{
    schema::*,
    tables::{Tables, storage},
    write_tables::WriteTable,
};
use crate::{
    error::{Error, Result},
    ids::NamespaceId,
};

/// The table of sessions.
pub(crate) struct Sessions<'t, T>(pub(super) &'t T);

impl<T: Tables> Sessions<'_, T> {
    /// The number of a session in its namespace, or `None` if there is no such session.
    pub(crate) fn number(&self, namespace: NamespaceId, session: &str) -> Result<Option<u32>> {
        number(&self.0.table(SESSIONS)?, namespace.0, session)
    }

    /// The names and numbers of the sessions of a namespace, by name.
    pub(super) fn all(&self, namespace: NamespaceId) -> Result<Vec<(String, u32)>> {
        let table = self.0.table(SESSIONS)?;
        let entries = table.range((namespace.0, "")..(namespace.0 + 1, "")).map_err(storage)?;
        entries
            .map(|entry| {
                let (key, number) = entry.map_err(storage)?;
                Ok((key.value().1.to_owned(), number.value()))
            })
            .collect()
    }
}

/// The number of a session, or `None` if there is no such session.
pub(super) fn number(
    table: &impl ReadableTable<(u32, &'static str), u32>,
    namespace: u32,
    session: &str,
) -> Result<Option<u32>> {
    Ok(table.get((namespace, session)).map_err(storage)?.map(|number| number.value()))
}

/// The number of a session that a message belongs to.
///
/// # Errors
/// [`Error::Corrupted`] if there is no such session.
pub(super) fn known_number(
    table: &impl ReadableTable<(u32, &'static str), u32>,
    namespace: u32,
    session: &str,
) -> Result<u32> {
    number(table, namespace, session)?.ok_or_else(|| Error::corrupted(format!("session {session:?} has no number")))
}

/// The number of a session, which is assigned if there is no such session.
pub(super) fn number_or_new(
    table: &mut WriteTable<'_, (u32, &'static str), u32>,
    namespace: &mut NamespaceRecord,
    session: &str,
) -> Result<u32> {
    if let Some(number) = number(table, namespace.id, session)? {
        return Ok(number);
    }
    let number = namespace.next_session;
    table.insert((namespace.id, session), number).map_err(storage)?;
    namespace.next_session += 1;
    Ok(number)
}

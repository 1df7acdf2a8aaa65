//! The times at which sessions are idle, so that their buffers are flushed.

use redb::ReadableTable;

use super::{
    schema::*,
    tables::{Tables, storage},
    write_tables::WriteTransaction,
};
use crate::{
    error::{Error, Result},
    ids::Namespace,
    message::Timestamp,
};

/// A session by name, and the time at which it is idle.
pub(crate) type IdleSession = (Namespace, String, Timestamp);

/// The table of the times at which sessions are idle.
pub(crate) struct Idle<'t, T>(pub(super) &'t T);

impl<T: Tables> Idle<'_, T> {
    /// The time at which a session is idle, or `None` if it was not put to since it was last idle.
    pub(crate) fn get(&self, namespace: &Namespace, session: &str) -> Result<Option<Timestamp>> {
        let table = self.0.table(IDLE)?;
        let time = table.get((namespace.as_str(), session)).map_err(storage)?;
        time.map(|time| timestamp(time.value())).transpose()
    }

    /// All sessions that have such a time.
    pub(crate) fn all(&self) -> Result<Vec<IdleSession>> {
        let table = self.0.table(IDLE)?;
        let entries = table.iter().map_err(storage)?;
        entries
            .map(|entry| {
                let (key, time) = entry.map_err(storage)?;
                let (namespace, session) = key.value();
                Ok((Namespace::new(namespace)?, session.to_owned(), timestamp(time.value())?))
            })
            .collect()
    }
}

impl Idle<'_, WriteTransaction> {
    /// Sets the time at which a session is idle; with `None` it never is.
    pub(crate) fn set(&self, namespace: &Namespace, session: &str, time: Option<Timestamp>) -> Result<()> {
        let mut table = self.0.table(IDLE)?;
        let key = (namespace.as_str(), session);
        match time {
            Some(time) => table.insert(key, time.as_micros()).map_err(storage)?,
            None => table.remove(key).map_err(storage)?,
        };
        Ok(())
    }
}

fn timestamp(micros: i64) -> Result<Timestamp> {
    Timestamp::from_micros(micros)
        .ok_or_else(|| Error::corrupted("the time at which a session is idle is out of range"))
}

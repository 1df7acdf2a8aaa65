//! The history of a session: its messages in order, and which of them are in its buffer.

use std::ops::RangeInclusive;

use redb::ReadableTable;

use super::{
    message_record::MessageRecord,
    schema::*,
    tables::{Tables, storage},
};
use crate::{error::Result, ids::NamespaceId, message::Message};

/// The table of histories.
pub(crate) struct History<'t, T>(pub(super) &'t T);

impl<T: Tables> History<'_, T> {
    /// A session's messages in order, with their sequence numbers: all, or those at one position.
    pub(crate) fn messages(
        &self,
        namespace: NamespaceId,
        session: u32,
        only: Option<SessionPosition>,
    ) -> Result<Vec<(u64, Message)>> {
        self.messages_in(namespace, session, 0..=u64::MAX, only)
    }

    /// Same as [`History::messages`], for the messages whose sequence numbers are in `range`.
    pub(super) fn messages_in(
        &self,
        namespace: NamespaceId,
        session: u32,
        range: RangeInclusive<u64>,
        only: Option<SessionPosition>,
    ) -> Result<Vec<(u64, Message)>> {
        let messages = self.0.table(MESSAGES)?;
        positions(&self.0.table(HISTORY)?, namespace.0, session, range)?
            .into_iter()
            .filter(|(_, position)| only.is_none_or(|only| only == *position))
            .map(|(seq, _)| Ok((seq, MessageRecord::expect(&messages, namespace.0, seq)?.message()?)))
            .collect()
    }

    /// The sequence numbers and positions of a session's messages, in order.
    pub(super) fn positions(&self, namespace: NamespaceId, session: u32) -> Result<Vec<(u64, SessionPosition)>> {
        positions(&self.0.table(HISTORY)?, namespace.0, session, 0..=u64::MAX)
    }

    /// The position of a message in its session, or `None` if it is not in it.
    pub(super) fn position(&self, namespace: NamespaceId, session: u32, seq: u64) -> Result<Option<SessionPosition>> {
        position(&self.0.table(HISTORY)?, namespace.0, session, seq)
    }
}

/// See [`History::positions`].
pub(super) fn positions(
    history: &impl ReadableTable<(u32, u32, u64), u32>,
    namespace: u32,
    session: u32,
    range: RangeInclusive<u64>,
) -> Result<Vec<(u64, SessionPosition)>> {
    if range.is_empty() {
        return Ok(Vec::new());
    }
    let keys = (namespace, session, *range.start())..=(namespace, session, *range.end());
    history
        .range(keys)
        .map_err(storage)?
        .map(|entry| {
            let (key, position) = entry.map_err(storage)?;
            Ok((key.value().2, SessionPosition::read(position.value())))
        })
        .collect()
}

/// See [`History::position`].
pub(super) fn position(
    history: &impl ReadableTable<(u32, u32, u64), u32>,
    namespace: u32,
    session: u32,
    seq: u64,
) -> Result<Option<SessionPosition>> {
    let position = history.get((namespace, session, seq)).map_err(storage)?;
    Ok(position.map(|position| SessionPosition::read(position.value())))
}

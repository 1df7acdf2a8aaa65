//! Batches: which messages of a session each flush moved to long-term memory.

use redb::ReadableTable;

use super::{
    history::History,
    messages::Messages,
    schema::*,
    sessions::Sessions,
    tables::{Tables, storage},
    write_tables::WriteTransaction,
};
use crate::{error::Result, ids::NamespaceId, message::Message};

/// The messages that one flush moved to long-term memory.
#[derive(Clone, Debug)]
pub(crate) struct StoredBatch {
    pub(crate) number: u32,
    /// The first and the last sequence number.
    pub(crate) ends: (u64, u64),
    pub(crate) messages: Vec<Message>,
}

/// The table of batches.
pub(crate) struct Batches<'t, T>(pub(super) &'t T);

impl<T: Tables> Batches<'_, T> {
    /// A batch of a session, or `None` if the session has no batch of this number yet. It holds fewer messages than
    /// were flushed if some were deleted since.
    pub(crate) fn get(&self, namespace: NamespaceId, session: u32, number: u32) -> Result<Option<StoredBatch>> {
        let Some(ends) = self.ends(namespace, session, number)? else { return Ok(None) };
        let position = SessionPosition::LongTerm(Some(number));
        let messages = History(self.0).messages_in(namespace, session, ends.0..=ends.1, Some(position))?;
        let messages = messages.into_iter().map(|(_, message)| message).collect();
        Ok(Some(StoredBatch { number, ends, messages }))
    }

    /// The number that the next batch of a session will have.
    pub(crate) fn next_number(&self, namespace: NamespaceId, session: u32) -> Result<u32> {
        let all = (namespace.0, session, 0)..=(namespace.0, session, u32::MAX);
        let table = self.0.table(BATCHES)?;
        let last = table.range(all).map_err(storage)?.next_back().transpose().map_err(storage)?;
        Ok(last.map_or(0, |(key, _)| key.value().2 + 1))
    }

    /// The messages that were flushed together with a message; none if it was not flushed.
    pub(crate) fn of_message(&self, namespace: NamespaceId, id: &str) -> Result<Vec<Message>> {
        let Some((seq, session)) = Messages(self.0).locate(namespace, id)? else { return Ok(Vec::new()) };
        let position = History(self.0).position(namespace, session, seq)?;
        let Some(SessionPosition::LongTerm(Some(batch))) = position else { return Ok(Vec::new()) };
        Ok(self.get(namespace, session, batch)?.map_or(Vec::new(), |batch| batch.messages))
    }

    /// The number of the batch that a message was flushed in, or `None` if it was not flushed.
    pub(crate) fn number_of(&self, namespace: NamespaceId, session: &str, seq: u64) -> Result<Option<u32>> {
        let Some(session) = Sessions(self.0).number(namespace, session)? else { return Ok(None) };
        Ok(match History(self.0).position(namespace, session, seq)? {
            Some(SessionPosition::LongTerm(batch)) => batch,
            _ => None,
        })
    }

    /// The first and the last sequence number of a batch.
    pub(super) fn ends(&self, namespace: NamespaceId, session: u32, number: u32) -> Result<Option<(u64, u64)>> {
        let table = self.0.table(BATCHES)?;
        Ok(table.get((namespace.0, session, number)).map_err(storage)?.map(|ends| ends.value()))
    }
}

impl Batches<'_, WriteTransaction> {
    /// Stores the first and the last sequence number of a batch.
    pub(super) fn put(&self, namespace: NamespaceId, session: u32, number: u32, ends: (u64, u64)) -> Result<()> {
        self.0.table(BATCHES)?.insert((namespace.0, session, number), ends).map_err(storage)?;
        Ok(())
    }

    /// Deletes a session's batches from this number on.
    pub(super) fn remove_from(&self, namespace: NamespaceId, session: u32, first: u32) -> Result<()> {
        let later = (namespace.0, session, first)..=(namespace.0, session, u32::MAX);
        self.0.table(BATCHES)?.remove_range(later).map_err(storage)
    }
}

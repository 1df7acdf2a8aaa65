//! Reading messages, by id or by sequence number. `edit` writes them.

use std::{collections::HashSet, sync::Arc};

use redb::{ReadOnlyTable, ReadTransaction, ReadableTable};

use super::{
    message_record::MessageRecord,
    schema::*,
    sessions::Sessions,
    tables::{Tables, storage},
};
use crate::{error::Result, ids::NamespaceId, message::Message};

/// The tables of messages and of their ids.
pub(crate) struct Messages<'t, T>(pub(super) &'t T);

impl<T: Tables> Messages<'_, T> {
    /// The message with this sequence number.
    pub(crate) fn get(&self, namespace: NamespaceId, seq: u64) -> Result<Option<Message>> {
        let record = MessageRecord::read(&self.0.table(MESSAGES)?, namespace.0, seq)?;
        record.map(MessageRecord::message).transpose()
    }

    /// The message with this id.
    pub(crate) fn by_id(&self, namespace: NamespaceId, id: &str) -> Result<Option<Message>> {
        let message = self.seq(namespace, id)?.map_or(Ok(None), |seq| self.get(namespace, seq));
        message.map_err(|error| error.within(|| format!("message {id:?}")))
    }

    /// The sequence number of a message.
    pub(crate) fn seq(&self, namespace: NamespaceId, id: &str) -> Result<Option<u64>> {
        seq(&self.0.table(IDS)?, namespace.0, id)
    }

    /// The sequence numbers of those of the ids that exist.
    pub(crate) fn seqs<'i>(
        &self,
        namespace: NamespaceId,
        ids: impl IntoIterator<Item = &'i String>,
    ) -> Result<HashSet<u64>> {
        // Opening a table costs as much as reading from it.
        let table = self.0.table(IDS)?;
        ids.into_iter().filter_map(|id| seq(&table, namespace.0, id).transpose()).collect()
    }

    /// The highest number that the message with this id was given, its sequence number or its revision: it has been what
    /// it is since the namespace assigned this number. Changes of metadata alone do not count.
    pub(crate) fn last_number(&self, namespace: NamespaceId, id: &str) -> Result<Option<u64>> {
        let Some(seq) = self.seq(namespace, id)? else { return Ok(None) };
        let record = MessageRecord::read(&self.0.table(MESSAGES)?, namespace.0, seq)?;
        Ok(record.map(|record| record.revision.max(seq)))
    }

    /// The sequence number of a message, and the number of its session.
    pub(crate) fn locate(&self, namespace: NamespaceId, id: &str) -> Result<Option<(u64, u32)>> {
        let Some(seq) = self.seq(namespace, id)? else { return Ok(None) };
        let record = MessageRecord::read(&self.0.table(MESSAGES)?, namespace.0, seq)?;
        let Some(record) = record else { return Ok(None) };
        Ok(Sessions(self.0).number(namespace, &record.session)?.map(|session| (seq, session)))
    }
}

/// The messages of a snapshot by sequence number, for several reads: opening the table costs as much as one.
pub(crate) struct MessageReader(ReadOnlyTable<(u32, u64), Bytes>);

impl Messages<'_, Arc<ReadTransaction>> {
    /// Opens the table of messages for several reads.
    pub(crate) fn reader(&self) -> Result<MessageReader> {
        Ok(MessageReader(self.0.table(MESSAGES)?))
    }
}

impl MessageReader {
    /// The message with this sequence number.
    pub(crate) fn get(&self, namespace: NamespaceId, seq: u64) -> Result<Option<Message>> {
        MessageRecord::read(&self.0, namespace.0, seq)?.map(MessageRecord::message).transpose()
    }

    /// The id of the message with this sequence number.
    pub(crate) fn id(&self, namespace: NamespaceId, seq: u64) -> Result<Option<String>> {
        MessageRecord::read_id(&self.0, namespace.0, seq)
    }
}

/// The sequence number of a message.
pub(super) fn seq(ids: &impl ReadableTable<(u32, &'static str), u64>, namespace: u32, id: &str) -> Result<Option<u64>> {
    Ok(ids.get((namespace, id)).map_err(storage)?.map(|seq| seq.value()))
}

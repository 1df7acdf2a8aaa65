//! The times at which messages were put: for each commit that put some, the first of their sequence numbers.
//!
//! Sequence numbers rise from put to put, so a time divides the messages of a namespace into those before and those from
//! some number on. A message has no record of its own here. Those from before schema 9 have none at all.

use super::{
    schema::*,
    tables::{ReadableTable, Tables, WriteTransaction},
};
use crate::{error::Result, ids::NamespaceId, message::Timestamp};

/// The table of the times of puts.
pub(crate) struct PutTimes<'t, T>(pub(super) &'t T);

impl<T: Tables> PutTimes<'_, T> {
    /// Returns the sequence number that the messages put after `time` begin with; `u64::MAX` if there are none. Messages
    /// whose time is not known count as put before. If the clock was set back between two puts, one of the moments at
    /// which it passed `time` is taken. Cost: a lookup for each halving of the numbers.
    pub(crate) fn first_after(&self, namespace: NamespaceId, time: Timestamp) -> Result<u64> {
        let table = self.0.table(PUT_TIMES)?;
        let last = |seq: u64| -> Result<Option<(u64, bool)>> {
            let mut commits = table.range((namespace.0, 0)..=(namespace.0, seq))?;
            let last = commits.next_back().transpose()?;
            Ok(last.map(|(key, at)| (key.value().1, at.value() > time.as_micros())))
        };
        // The commit that put a message with this number is later.
        let is_after = |seq: u64| -> Result<bool> { Ok(last(seq)?.is_some_and(|(_, is_after)| is_after)) };
        let Some((mut after, true)) = last(u64::MAX)? else { return Ok(u64::MAX) };
        let mut low = 0;
        while low < after {
            let middle = low + (after - low) / 2;
            match is_after(middle)? {
                true => after = middle,
                false => low = middle + 1,
            }
        }
        Ok(after)
    }
}

impl PutTimes<'_, WriteTransaction> {
    /// Notes that the messages from this sequence number on are put now.
    pub(super) fn note(&self, namespace: NamespaceId, first: u64) -> Result<()> {
        let now = Timestamp::now().as_micros();
        self.0.table(PUT_TIMES)?.insert((namespace.0, first), now)?;
        Ok(())
    }

    /// Drops the time of the commit that put a message which was removed, if no other message of the commit is left.
    pub(super) fn message_removed(
        &self,
        NamespaceId(namespace): NamespaceId,
        seq: u64,
        messages: &impl ReadableTable<(u32, u64), Bytes>,
    ) -> Result<()> {
        let mut table = self.0.table(PUT_TIMES)?;
        let until = table.range((namespace, 0)..=(namespace, seq))?.next_back();
        let until = until.transpose()?.map(|(key, _)| key.value().1);
        let Some(first) = until else { return Ok(()) };
        let after = table.range((namespace, seq + 1)..=(namespace, u64::MAX))?.next();
        let end = after.transpose()?.map_or(u64::MAX, |(key, _)| key.value().1);
        if messages.range((namespace, first)..(namespace, end))?.next().is_none() {
            table.remove((namespace, first))?;
        }
        Ok(())
    }
}

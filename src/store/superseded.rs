//! The messages that others supersede, as their metadata say ([`Message::supersedes`](crate::Message::supersedes)).
//!
//! Invariant: [`SUPERSEDES`] has a row for each id that a message says it supersedes which was stored since 0.2.0, and no others.
//! `edit` keeps them.

use std::collections::HashSet;

use super::{
    message_record::MessageRecord,
    schema::*,
    sessions,
    tables::{ReadableTable, Tables, WriteTransaction},
};
use crate::{
    error::Result,
    ids::NamespaceId,
    message::{Timestamp, superseded_in_json},
};

/// The superseded messages of namespaces.
pub(crate) struct Superseded<'t, T>(pub(super) &'t T);

impl<T: Tables> Superseded<'_, T> {
    /// Returns the sequence numbers of the messages of a namespace that another one supersedes. `then` is a time and the first
    /// sequence number that was put after it: what supersedes them was known then. Cost: a pass over the messages that
    /// supersede others.
    pub(crate) fn seqs(&self, namespace: NamespaceId, then: Option<(Timestamp, u64)>) -> Result<HashSet<u64>> {
        let mut noted: Vec<(u64, String)> = Vec::new();
        for row in self.0.table(SUPERSEDES)?.range((namespace.0, 0, "")..(namespace.0 + 1, 0, ""))? {
            let (key, _) = row?;
            let (_, later, id) = key.value();
            noted.push((later, id.to_owned()));
        }
        // Nearly every namespace has none. Opening a table costs as much as reading from it.
        if noted.is_empty() {
            return Ok(HashSet::new());
        }
        let ids = self.0.table(IDS)?;
        let mut pairs: HashSet<(u64, u64)> = HashSet::new();
        for (later, id) in noted {
            let is_known = match then {
                Some((time, before)) => later < before && !self.is_after(namespace, later, time)?,
                None => true,
            };
            let earlier = if is_known { sessions::seq(&ids, namespace.0, &id)? } else { None };
            pairs.extend(earlier.map(|earlier| (later, earlier)));
        }
        // Nothing supersedes itself, and of two that supersede each other the later one counts.
        let counts = |&&(later, earlier): &&(u64, u64)| later > earlier || !pairs.contains(&(earlier, later));
        Ok(pairs
            .iter()
            .filter(counts)
            .filter(|(later, earlier)| later != earlier)
            .map(|&(_, earlier)| earlier)
            .collect())
    }

    fn is_after(&self, namespace: NamespaceId, seq: u64, time: Timestamp) -> Result<bool> {
        let message = MessageRecord::read(&self.0.table(MESSAGES)?, namespace.0, seq)?;
        Ok(message.and_then(|message| message.created_at).is_some_and(|at| at > time.as_micros()))
    }
}

impl Superseded<'_, WriteTransaction> {
    /// Notes what a message supersedes.
    pub(super) fn note(&self, (namespace, seq): (u32, u64), record: &MessageRecord) -> Result<()> {
        for id in superseded_by(record) {
            self.0.table(SUPERSEDES)?.insert((namespace, seq, id.as_str()), ())?;
        }
        Ok(())
    }

    /// Removes what [`note`](Self::note) noted.
    pub(super) fn remove(&self, (namespace, seq): (u32, u64), record: &MessageRecord) -> Result<()> {
        for id in superseded_by(record) {
            self.0.table(SUPERSEDES)?.remove((namespace, seq, id.as_str()))?;
        }
        Ok(())
    }
}

/// Returns the ids of the messages that a message supersedes.
pub(super) fn superseded_by(record: &MessageRecord) -> Vec<String> {
    record.metadata.as_deref().map(superseded_in_json).unwrap_or_default()
}

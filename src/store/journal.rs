//! The journal of recalls: an entry for each, as JSON that this module does not read.
//!
//! Invariants: the table has at most as many entries as the last append allowed. An entry of a recall that began before
//! something was forgotten is never appended after it.

use super::{
    codec,
    schema::*,
    tables::{ReadableTable, Tables, WriteTransaction},
};
use crate::{error::Result, ids::NamespaceId};

/// The key in [`META`] of the number of times that entries were removed because something was forgotten.
const CLEARED: &str = "journal_cleared";

/// The tables of the journal.
pub(crate) struct Journal<'t, T>(pub(super) &'t T);

impl<T: Tables> Journal<'_, T> {
    /// Returns the number of times that entries were removed because something was forgotten, in any namespace.
    pub(crate) fn cleared(&self) -> Result<u64> {
        let meta = self.0.table(META)?;
        meta.get(CLEARED)?.map_or(Ok(0), |count| codec::decode(count.value()))
    }

    /// Returns up to `limit` entries of a namespace with their numbers, the newest first; with `before`, those with a
    /// lower number.
    pub(crate) fn page(&self, namespace: NamespaceId, limit: usize, before: Option<u64>) -> Result<Vec<(u64, String)>> {
        let table = self.0.table(JOURNAL)?;
        let range = (namespace.0, 0)..(namespace.0, before.unwrap_or(u64::MAX));
        let entries = table.range(range)?.rev().take(limit);
        entries
            .map(|entry| {
                let (key, value) = entry?;
                Ok((key.value().1, codec::decode(value.value())?))
            })
            .collect()
    }
}

impl Journal<'_, WriteTransaction> {
    /// Appends an entry, and removes the oldest ones of all namespaces beyond `most`. Does nothing if something was
    /// forgotten since [`Journal::cleared`] returned `cleared`.
    pub(crate) fn append(&self, namespace: NamespaceId, entry: &String, cleared: u64, most: u64) -> Result<()> {
        if self.cleared()? != cleared {
            return Ok(());
        }
        let (mut entries, mut order) = (self.0.table(JOURNAL)?, self.0.table(JOURNAL_ORDER)?);
        let last = order.last()?.map_or(0, |(number, _)| number.value());
        let number = last + 1;
        entries.insert((namespace.0, number), codec::encode(entry).as_slice())?;
        order.insert(number, namespace.0)?;
        loop {
            let oldest = order.first()?.map(|(number, owner)| (number.value(), owner.value()));
            let Some((oldest, owner)) = oldest.filter(|(oldest, _)| oldest + most <= number) else { return Ok(()) };
            order.remove(oldest)?;
            entries.remove((owner, oldest))?;
        }
    }

    /// Removes the entries of a namespace, because something of it is forgotten. Their numbers stay used.
    pub(super) fn clear(&self, namespace: NamespaceId) -> Result<()> {
        let cleared = self.cleared()? + 1;
        self.0.table(META)?.insert(CLEARED, codec::encode(&cleared).as_slice())?;
        let all = (namespace.0, 0)..=(namespace.0, u64::MAX);
        self.0.table(JOURNAL)?.remove_range(all)
    }
}

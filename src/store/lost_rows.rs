//! What a replica had and its shared database lost, in a fail-over or by a restore: lines of JSON, by namespace.
//!
//! Only an operator reads them. They are never served, and never stored in the shared database again. They stay until
//! something is forgotten in their namespace. Which rows these are is not known here: `primary` finds them.

use super::{
    codec,
    schema::*,
    tables::{ReadableTable, Tables, WriteTransaction},
};
use crate::error::Result;

/// The table of what was lost.
pub(crate) struct LostRows<'t, T>(pub(super) &'t T);

impl<T: Tables> LostRows<'_, T> {
    /// All lines, by namespace.
    pub(crate) fn lines(&self) -> Result<Vec<String>> {
        let table = self.0.table(LOST)?;
        table.iter()?.map(|entry| codec::decode(entry?.1.value())).collect()
    }
}

impl LostRows<'_, WriteTransaction> {
    /// Adds lines of a namespace.
    #[cfg(feature = "postgres")]
    pub(super) fn append(&self, namespace: &str, lines: impl Iterator<Item = String>) -> Result<()> {
        let mut table = self.0.table(LOST)?;
        let last = table.range((namespace, 0)..=(namespace, u64::MAX))?.next_back().transpose()?;
        let first = last.map_or(0, |(key, _)| key.value().1 + 1);
        for (number, line) in (first..).zip(lines) {
            table.insert((namespace, number), codec::encode(&line).as_slice())?;
        }
        Ok(())
    }

    /// Removes the lines of a namespace.
    pub(super) fn clear(&self, namespace: &str) -> Result<()> {
        self.0.table(LOST)?.remove_range((namespace, 0)..=(namespace, u64::MAX))
    }
}

//! The audit: entries about what was forgotten, held and purged, each with the hash of the one before.

use redb::ReadableTable;

use super::{
    codec,
    schema::*,
    tables::{Tables, storage},
    write_tables::WriteTransaction,
};
use crate::{
    error::Result,
    forget::{Audit, AuditEvent, ChainedEntry, Receipt, no_hash},
    message::Timestamp,
};

/// The key of the [`AuditHead`] in [`META`].
const HEAD: &str = "audit";

/// The table of the audit.
pub(crate) struct AuditLog<'t, T>(pub(super) &'t T);

impl<T: Tables> AuditLog<'_, T> {
    /// Reads all entries and checks their chain.
    pub(crate) fn read(&self) -> Result<Audit> {
        let mut entries: Vec<ChainedEntry> = Vec::new();
        for entry in self.0.table(AUDIT)?.iter().map_err(storage)? {
            let (sequence, value) = entry.map_err(storage)?;
            // An entry that does not decode is one that cannot be read.
            let record = codec::decode(value.value());
            let AuditRecord { entry, hash } =
                record.unwrap_or(AuditRecord { entry: String::new(), hash: String::new() });
            entries.push((sequence.value(), entry, hash));
        }
        let AuditHead { entries: count, hash } = self.head()?;
        Ok(Audit::check(entries, count, &hash))
    }

    /// Number of entries.
    pub(crate) fn entries(&self) -> Result<u64> {
        Ok(self.head()?.entries)
    }

    pub(super) fn head(&self) -> Result<AuditHead> {
        let meta = self.0.table(META)?;
        let head = meta.get(HEAD).map_err(storage)?;
        head.map_or_else(|| Ok(AuditHead::default()), |head| codec::decode(head.value()))
    }
}

impl AuditLog<'_, WriteTransaction> {
    /// Adds an entry at the end of the chain.
    pub(crate) fn append(&self, event: AuditEvent) -> Result<Receipt> {
        let AuditHead { entries, hash } = self.head()?;
        let previous = if entries == 0 { no_hash() } else { hash };
        let receipt = Receipt::new(entries, Timestamp::now(), event, previous);
        let record = AuditRecord { entry: receipt.hashed(), hash: receipt.hash.clone() };
        self.0.table(AUDIT)?.insert(entries, codec::encode(&record).as_slice()).map_err(storage)?;
        self.set_head(&AuditHead { entries: entries + 1, hash: record.hash })?;
        Ok(receipt)
    }

    /// Sets the end of the chain.
    pub(super) fn set_head(&self, head: &AuditHead) -> Result<()> {
        self.0.table(META)?.insert(HEAD, codec::encode(head).as_slice()).map_err(storage)?;
        Ok(())
    }

    /// Stores an entry that another machine added. Entries come in order.
    pub(super) fn put(&self, number: u64, record: AuditRecord) -> Result<()> {
        self.0.table(AUDIT)?.insert(number, codec::encode(&record).as_slice()).map_err(storage)?;
        self.set_head(&AuditHead { entries: number + 1, hash: record.hash })
    }

    /// Records that the file was purged. `covers` is the number of entries when the purge began.
    pub(crate) fn record_purge(&self, covers: u64) -> Result<Receipt> {
        self.append(AuditEvent::Purge { covers })
    }
}

//! Legal holds, and the audit of what was forgotten, held, released and purged.

use std::ops::Range;

use super::{
    codec,
    schema::*,
    tables::{ReadableTable, Tables, WriteTransaction},
};
use crate::{
    error::{Error, Result},
    forget::{Audit, AuditEvent, ChainedEntry, Hold, Receipt, no_hash},
    ids::Namespace,
    message::Timestamp,
};

/// The key of the [`AuditHead`] in [`META`].
const HEAD: &str = "audit";

/// The table of the audit.
pub(crate) struct AuditLog<'t, T>(pub(super) &'t T);

impl<T: Tables> AuditLog<'_, T> {
    /// Checks the chain of all entries, and returns those whose numbers are in `kept`.
    pub(crate) fn read(&self, kept: Range<u64>) -> Result<Audit> {
        let table = self.0.table(AUDIT)?;
        let entries = table.iter()?.map(|entry| -> Result<ChainedEntry> {
            let (sequence, value) = entry?;
            // An entry that does not decode is one that cannot be read.
            let record = codec::decode(value.value());
            let AuditRecord { entry, hash } =
                record.unwrap_or(AuditRecord { entry: String::new(), hash: String::new() });
            Ok((sequence.value(), entry, hash))
        });
        let AuditHead { entries: count, hash } = self.head()?;
        Audit::check(entries, kept, count, &hash)
    }

    /// Number of entries.
    pub(crate) fn entries(&self) -> Result<u64> {
        Ok(self.head()?.entries)
    }

    pub(super) fn head(&self) -> Result<AuditHead> {
        let meta = self.0.table(META)?;
        let head = meta.get(HEAD)?;
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
        self.0.table(AUDIT)?.insert(entries, codec::encode(&record).as_slice())?;
        self.set_head(&AuditHead { entries: entries + 1, hash: record.hash })?;
        Ok(receipt)
    }

    /// Sets the end of the chain.
    pub(super) fn set_head(&self, head: &AuditHead) -> Result<()> {
        self.0.table(META)?.insert(HEAD, codec::encode(head).as_slice())?;
        Ok(())
    }

    /// Stores an entry that another machine added. Entries come in order.
    pub(super) fn put(&self, number: u64, record: AuditRecord) -> Result<()> {
        self.0.table(AUDIT)?.insert(number, codec::encode(&record).as_slice())?;
        self.set_head(&AuditHead { entries: number + 1, hash: record.hash })
    }

    /// Records that the file was purged. `covers` is the number of entries when the purge began.
    pub(crate) fn record_purge(&self, covers: u64) -> Result<Receipt> {
        self.append(AuditEvent::Purge { covers })
    }
}

/// The table of legal holds.
pub(crate) struct Holds<'t, T>(pub(super) &'t T);

impl<T: Tables> Holds<'_, T> {
    /// All holds, by namespace.
    pub(crate) fn all(&self) -> Result<Vec<Hold>> {
        let table = self.0.table(HOLDS)?;
        let entries = table.iter()?;
        entries
            .map(|entry| {
                let (name, value) = entry?;
                let HoldRecord { id, reason, since } = codec::decode(value.value())?;
                let since = Timestamp::from_micros(since)
                    .ok_or_else(|| Error::corrupted("the time of a legal hold is out of range"))?;
                Ok(Hold { namespace: Namespace::new(name.value())?, reason, since, id })
            })
            .collect()
    }

    /// Checks that a namespace or companion is not held, and none above it.
    ///
    /// # Errors
    /// [`Error::LegalHold`].
    pub(crate) fn check(&self, namespace: &Namespace) -> Result<()> {
        self.0.note_lookup(COMMON);
        let table = self.0.table(HOLDS)?;
        let owner = namespace.owner();
        let name = owner.as_ref().unwrap_or(namespace).as_str();
        let ends = name.match_indices('/').map(|(at, _)| at).chain([name.len()]);
        for held in ends.map(|end| &name[..end]) {
            if let Some(value) = table.get(held)? {
                let HoldRecord { reason, .. } = codec::decode(value.value())?;
                return Err(Error::LegalHold { namespace: name.to_owned(), held: held.to_owned(), reason });
            }
        }
        Ok(())
    }

    /// Returns true if a namespace is held, or one above it.
    pub(super) fn is_held(&self, namespace: &Namespace) -> Result<bool> {
        match self.check(namespace) {
            Err(Error::LegalHold { .. }) => Ok(true),
            checked => checked.map(|()| false),
        }
    }

    /// Checks that no namespace under a prefix is held, nor any above it.
    ///
    /// # Errors
    /// [`Error::LegalHold`].
    pub(crate) fn check_under(&self, prefix: &Namespace) -> Result<()> {
        self.check(prefix)?;
        // '0' follows '/'.
        let (first, end) = (format!("{prefix}/"), format!("{prefix}0"));
        let table = self.0.table(HOLDS)?;
        let found = table.range(&*first..&*end)?.next().transpose()?;
        let Some((held, value)) = found else { return Ok(()) };
        let HoldRecord { reason, .. } = codec::decode(value.value())?;
        let held = held.value().to_owned();
        Err(Error::LegalHold { namespace: held.clone(), held, reason })
    }
}

impl Holds<'_, WriteTransaction> {
    /// Sets a hold, or the reason of the one that there is. Returns its entry in the audit.
    pub(crate) fn put(&self, namespace: &Namespace, reason: &str) -> Result<Receipt> {
        let mut table = self.0.table(HOLDS)?;
        let old = table.get(namespace.as_str())?.map(|value| codec::decode(value.value()));
        let old: Option<HoldRecord> = old.transpose()?;
        let (id, since) = old.map_or_else(
            || (uuid::Uuid::now_v7().simple().to_string(), Timestamp::now().as_micros()),
            |old| (old.id, old.since),
        );
        let record = HoldRecord { id: id.clone(), reason: reason.to_owned(), since };
        table.insert(namespace.as_str(), codec::encode(&record).as_slice())?;
        AuditLog(self.0).append(AuditEvent::Hold { hold: id })
    }

    /// Releases a hold. Returns its entry in the audit, or `None` if there is no hold of exactly this namespace.
    pub(crate) fn remove(&self, namespace: &Namespace) -> Result<Option<Receipt>> {
        let record: Option<HoldRecord> = {
            let mut table = self.0.table(HOLDS)?;
            let removed = table.remove(namespace.as_str())?;
            removed.map(|value| codec::decode(value.value())).transpose()?
        };
        record.map(|record| AuditLog(self.0).append(AuditEvent::Release { hold: record.id })).transpose()
    }
}

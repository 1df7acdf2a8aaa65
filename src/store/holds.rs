//! Legal holds: namespaces whose data must not be deleted, with those under them.

use redb::ReadableTable;

use super::{
    audit::AuditLog,
    codec,
    schema::*,
    tables::{Tables, storage},
    write_tables::WriteTransaction,
};
use crate::{
    error::{Error, Result},
    forget::{AuditEvent, Hold, Receipt},
    ids::Namespace,
    message::Timestamp,
};

/// The table of legal holds.
pub(crate) struct Holds<'t, T>(pub(super) &'t T);

impl<T: Tables> Holds<'_, T> {
    /// All holds, by namespace.
    pub(crate) fn all(&self) -> Result<Vec<Hold>> {
        let table = self.0.table(HOLDS)?;
        let entries = table.iter().map_err(storage)?;
        entries
            .map(|entry| {
                let (name, value) = entry.map_err(storage)?;
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
            if let Some(value) = table.get(held).map_err(storage)? {
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
        let found = table.range(&*first..&*end).map_err(storage)?.next().transpose().map_err(storage)?;
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
        let old = table.get(namespace.as_str()).map_err(storage)?.map(|value| codec::decode(value.value()));
        let old: Option<HoldRecord> = old.transpose()?;
        let (id, since) = old.map_or_else(
            || (uuid::Uuid::now_v7().simple().to_string(), Timestamp::now().as_micros()),
            |old| (old.id, old.since),
        );
        let record = HoldRecord { id: id.clone(), reason: reason.to_owned(), since };
        table.insert(namespace.as_str(), codec::encode(&record).as_slice()).map_err(storage)?;
        AuditLog(self.0).append(AuditEvent::Hold { hold: id })
    }

    /// Releases a hold. Returns its entry in the audit, or `None` if there is no hold of exactly this namespace.
    pub(crate) fn remove(&self, namespace: &Namespace) -> Result<Option<Receipt>> {
        let record: Option<HoldRecord> = {
            let mut table = self.0.table(HOLDS)?;
            let removed = table.remove(namespace.as_str()).map_err(storage)?;
            removed.map(|value| codec::decode(value.value())).transpose()?
        };
        record.map(|record| AuditLog(self.0).append(AuditEvent::Release { hold: record.id })).transpose()
    }
}

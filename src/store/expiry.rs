//! Expiry: what is due to be deleted, messages and documents.
//!
//! When a message expires is in its record, so a read that has the record needs no look here. The rows that lead to what is
//! due are kept by `lifetimes` and `edit_documents`.

use std::collections::BTreeSet;

use super::{
    audit::Holds,
    checkpoints::Checkpoints,
    documents::{self, Documents},
    edit::Edit,
    edit_documents::EditDocuments,
    namespaces::Namespaces,
    removal,
    schema::*,
    tables::{ReadableTable, Tables, WriteTransaction},
};
use crate::{
    error::Result,
    ids::{Namespace, NamespaceId},
    message::Timestamp,
};

/// The tables of when messages and documents expire.
pub(crate) struct Expiry<'t, T>(pub(super) &'t T);

impl<T: Tables> Expiry<'_, T> {
    /// The time at which the next message or document expires, of those that no legal hold keeps. Cost: a pass over those
    /// that expire earlier and are kept.
    pub(crate) fn next(&self) -> Result<Option<Timestamp>> {
        let mut next = Documents(self.0).next_expiry()?;
        for entry in self.0.table(MESSAGE_EXPIRY)?.iter()? {
            let (key, _) = entry?;
            let (at, namespace, _) = key.value();
            if !Holds(self.0).is_held(&Namespace::new(namespace)?)? {
                next = next.into_iter().chain([documents::timestamp(at)?]).min();
                break;
            }
        }
        Ok(next)
    }
}

impl Expiry<'_, WriteTransaction> {
    /// Sets the time to live of the messages that are put into a namespace from now on, in microseconds. The namespace is
    /// created if it does not exist. `None` ends it, and removes the namespace if nothing is in it.
    pub(crate) fn set_time_to_live(&self, name: &Namespace, ttl: Option<i64>) -> Result<()> {
        if let Some(ttl) = ttl {
            let NamespaceId(id) = Namespaces(self.0).create(name)?;
            self.0.table(TIMES_TO_LIVE)?.insert(id, ttl)?;
        } else if let Some(NamespaceId(id)) = Namespaces(self.0).id(name)? {
            self.0.table(TIMES_TO_LIVE)?.remove(id)?;
            removal::remove_if_unused(self.0, name)?;
        }
        Ok(())
    }

    /// Deletes up to `limit` messages and `limit` documents that expired before `now`, but none of a namespace under a
    /// legal hold. A message goes with its versions, and a version at its own time.
    pub(crate) fn delete_due(&self, now: Timestamp, limit: usize) -> Result<()> {
        EditDocuments(self.0).delete_expired(now, limit)?;
        // A message and versions of it may be due together.
        let mut due: BTreeSet<(Namespace, u64)> = BTreeSet::new();
        for entry in self.0.table(MESSAGE_EXPIRY)?.range(..(now.as_micros() + 1, "", 0))? {
            let (key, _) = entry?;
            let (_, name, seq) = key.value();
            let name = Namespace::new(name)?;
            if !Holds(self.0).is_held(&name)? {
                due.insert((name, seq));
            }
            if due.len() == limit {
                break;
            }
        }
        let mut edit = Edit::begin(self.0)?;
        for (name, seq) in due {
            let mut namespace = edit.open(&name)?;
            let old = edit.stored(&namespace, seq)?;
            if old.record.has_expired() {
                Checkpoints(self.0).remove_old_messages(namespace.id(), old.session, seq)?;
            }
            edit.forget_expired(&mut namespace, old)?;
            edit.close(namespace);
        }
        edit.finish()
    }
}

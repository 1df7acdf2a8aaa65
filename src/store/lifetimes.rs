//! When messages expire, and what they were: the rows beside the messages while these change.
//!
//! Invariant: a row of [`MESSAGE_EXPIRY`] says of each message, and of each version of one, when it expires; there are no others.

use std::collections::HashMap;

use super::{
    codec,
    message_record::MessageRecord,
    message_versions::{self, VersionKey},
    namespaces::Namespaces,
    schema::*,
    tables::{ReadableTable, Tables, WriteTable, WriteTransaction},
};
use crate::{
    error::Result,
    ids::{Namespace, NamespaceId},
    message::Timestamp,
};

pub(super) struct Lifetimes<'t> {
    tables: &'t WriteTransaction,
    /// Opened when the first message that expires is written or deleted.
    expiry: Option<WriteTable<'t, (i64, &'static str, u64), ()>>,
    /// Opened when the first message is replaced or deleted.
    versions: Option<WriteTable<'t, VersionKey, Bytes>>,
    /// The times to live of the namespaces whose messages were put without a time of expiry.
    times_to_live: HashMap<NamespaceId, Option<i64>>,
    /// The first time at which something expires that was written.
    pub(super) next_expiry: Option<Timestamp>,
}

impl<'t> Lifetimes<'t> {
    pub(super) fn new(tables: &'t WriteTransaction) -> Self {
        Lifetimes { tables, expiry: None, versions: None, times_to_live: HashMap::new(), next_expiry: None }
    }

    /// Gives a record that is put, if it has no time of expiry, that of its namespace's time to live. The same message put
    /// again keeps the time that `old` has.
    pub(super) fn with_expiry(
        &mut self,
        namespace: NamespaceId,
        old: Option<&MessageRecord>,
        record: MessageRecord,
    ) -> Result<MessageRecord> {
        if record.expires_at.is_some() {
            return Ok(record);
        }
        let ttl = match self.times_to_live.get(&namespace) {
            Some(known) => *known,
            None => {
                let ttl = Namespaces(self.tables).time_to_live(namespace)?;
                self.times_to_live.insert(namespace, ttl);
                ttl
            }
        };
        let Some(ttl) = ttl else { return Ok(record) };
        let expires_at = match old {
            Some(old)
                if *old == (MessageRecord { revision: old.revision, expires_at: old.expires_at, ..record.clone() }) =>
            {
                old.expires_at
            }
            _ => Some(Timestamp::now().as_micros().saturating_add(ttl)),
        };
        Ok(MessageRecord { expires_at, ..record })
    }

    /// Notes when a message expires, instead of when it did. `messages` has the message as it is now.
    pub(super) fn set_expiry(
        &mut self,
        messages: &impl ReadableTable<(u32, u64), Bytes>,
        name: &Namespace,
        key: (u32, u64),
        old: Option<i64>,
        new: Option<i64>,
    ) -> Result<()> {
        if old == new {
            return Ok(());
        }
        if let Some(new) = new {
            self.expiry()?.insert((new, name.as_str(), key.1), ())?;
            self.next_expiry = self.next_expiry.into_iter().chain(Timestamp::from_micros(new)).min();
        }
        old.map_or(Ok(()), |old| self.expires_no_more(messages, name, key, old))
    }

    /// Removes the row of a time at which a message, or a version of it, expired, unless something of it expires then yet.
    fn expires_no_more(
        &mut self,
        messages: &impl ReadableTable<(u32, u64), Bytes>,
        name: &Namespace,
        (namespace, seq): (u32, u64),
        at: i64,
    ) -> Result<()> {
        let message = MessageRecord::read(messages, namespace, seq)?;
        let versions = self.versions(NamespaceId(namespace), seq)?;
        let mut records = message.into_iter().chain(versions.into_iter().map(|(_, record)| record));
        if !records.any(|record| record.expires_at == Some(at)) {
            self.expiry()?.remove((at, name.as_str(), seq))?;
        }
        Ok(())
    }

    /// The versions of a message with their times, oldest first.
    pub(super) fn versions(&mut self, namespace: NamespaceId, seq: u64) -> Result<Vec<(Timestamp, MessageRecord)>> {
        message_versions::records(self.version_table()?, namespace, seq)
    }

    /// Keeps a message as it is until now. If the clock was set back, it ends just after the version before it.
    pub(super) fn keep_version(
        &mut self,
        messages: &impl ReadableTable<(u32, u64), Bytes>,
        name: &Namespace,
        (namespace, seq): (u32, u64),
        record: &MessageRecord,
    ) -> Result<()> {
        let last = message_versions::last(self.version_table()?, NamespaceId(namespace), seq)?;
        let until = Timestamp::now().as_micros().max(last.saturating_add(1));
        self.set_version(messages, name, (namespace, seq, until), Some(record)).map(drop)
    }

    /// Stores a version of a message, or with `None` removes it. Returns false if there was one until this time.
    pub(super) fn set_version(
        &mut self,
        messages: &impl ReadableTable<(u32, u64), Bytes>,
        name: &Namespace,
        key: VersionKey,
        version: Option<&MessageRecord>,
    ) -> Result<bool> {
        let table = self.version_table()?;
        let old = match version {
            Some(version) => table.insert(key, codec::encode(version).as_slice())?,
            None => table.remove(key)?,
        };
        let old = old.map(|old| codec::decode::<MessageRecord>(old.value())).transpose()?;
        let [before, now] = [old.as_ref(), version].map(|record| record.and_then(|record| record.expires_at));
        self.set_expiry(messages, name, (key.0, key.1), before, now)?;
        Ok(old.is_none())
    }

    /// Removes the versions of a message of which `is_removed` is true.
    pub(super) fn remove_versions(
        &mut self,
        messages: &impl ReadableTable<(u32, u64), Bytes>,
        name: &Namespace,
        (namespace, seq): (u32, u64),
        is_removed: impl Fn(&MessageRecord) -> bool,
    ) -> Result<()> {
        for (until, version) in self.versions(NamespaceId(namespace), seq)? {
            if is_removed(&version) {
                self.set_version(messages, name, (namespace, seq, until.as_micros()), None)?;
            }
        }
        Ok(())
    }

    fn version_table(&mut self) -> Result<&mut WriteTable<'t, VersionKey, Bytes>> {
        if self.versions.is_none() {
            self.versions = Some(self.tables.table(MESSAGE_VERSIONS)?);
        }
        Ok(self.versions.as_mut().expect("set above"))
    }

    fn expiry(&mut self) -> Result<&mut WriteTable<'t, (i64, &'static str, u64), ()>> {
        if self.expiry.is_none() {
            self.expiry = Some(self.tables.table(MESSAGE_EXPIRY)?);
        }
        Ok(self.expiry.as_mut().expect("set above"))
    }
}

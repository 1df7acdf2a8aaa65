//! Earlier versions of messages: what a message was until its text, role or name changed.
//!
//! The key of a version ends with the time until which it was current. So the version of a time is the first one whose time
//! is later, and a message without one is what it is now. Versions are removed together with their message.

use serde::Serialize;

use super::{codec, message_record::MessageRecord, schema::*, tables::ReadableTable};
use crate::{
    error::{Error, Result},
    ids::NamespaceId,
    message::{Message, Timestamp},
};

/// What a message was until its text, role or name changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct MessageVersion {
    /// The message as it was.
    #[serde(flatten)]
    pub message: Message,
    /// The time of the change.
    pub until: Timestamp,
}

/// (namespace, sequence number, time in microseconds).
pub(super) type VersionKey = (u32, u64, i64);

/// The versions of a message with their times, oldest first.
pub(super) fn records(
    table: &impl ReadableTable<VersionKey, Bytes>,
    NamespaceId(namespace): NamespaceId,
    seq: u64,
) -> Result<Vec<(Timestamp, MessageRecord)>> {
    let mut records = Vec::new();
    for entry in table.range((namespace, seq, i64::MIN)..=(namespace, seq, i64::MAX))? {
        let (key, record) = entry?;
        records.push((until(key.value())?, codec::decode(record.value())?));
    }
    Ok(records)
}

fn until((.., until): (u32, u64, i64)) -> Result<Timestamp> {
    let out_of_range = || Error::corrupted("the time of a version of a message is out of range");
    Timestamp::from_micros(until).ok_or_else(out_of_range)
}

/// The versions of a message that have not expired and end at a time or later, oldest first, as long as `fits` returns true for the
/// bytes of the next one.
pub(super) fn live(
    table: &impl ReadableTable<VersionKey, Bytes>,
    NamespaceId(namespace): NamespaceId,
    seq: u64,
    from: i64,
    mut fits: impl FnMut(usize) -> Result<bool>,
) -> Result<Vec<MessageVersion>> {
    let mut versions = Vec::new();
    for entry in table.range((namespace, seq, from)..=(namespace, seq, i64::MAX))? {
        let (key, record) = entry?;
        let until = until(key.value())?;
        let record: MessageRecord = codec::decode(record.value())?;
        if record.has_expired() {
            continue;
        }
        if !fits(record.bytes())? {
            break;
        }
        versions.push(MessageVersion { message: record.message()?, until });
    }
    Ok(versions)
}

/// What a message was at a time, if it has changed since.
pub(super) fn as_of(
    table: &impl ReadableTable<VersionKey, Bytes>,
    NamespaceId(namespace): NamespaceId,
    seq: u64,
    time: Timestamp,
) -> Result<Option<MessageRecord>> {
    let later = (namespace, seq, time.as_micros() + 1)..=(namespace, seq, i64::MAX);
    let version = table.range(later)?.next().transpose()?;
    version.map(|(_, record)| codec::decode(record.value())).transpose()
}

/// What the messages of a namespace were at a time, of those that have changed since, with their sequence numbers. Cost: a
/// pass over the keys of all versions.
pub(super) fn all_as_of(
    table: &impl ReadableTable<VersionKey, Bytes>,
    NamespaceId(namespace): NamespaceId,
    time: Timestamp,
) -> Result<Vec<(u64, MessageRecord)>> {
    let mut found: Vec<(u64, MessageRecord)> = Vec::new();
    for entry in table.range((namespace, 0, i64::MIN)..=(namespace, u64::MAX, i64::MAX))? {
        let (key, record) = entry?;
        let (_, seq, until) = key.value();
        if until > time.as_micros() && found.last().is_none_or(|(last, _)| *last != seq) {
            found.push((seq, codec::decode(record.value())?));
        }
    }
    Ok(found)
}

/// Visits all versions of a namespace with their keys.
pub(super) fn visit(
    table: &impl ReadableTable<VersionKey, Bytes>,
    NamespaceId(namespace): NamespaceId,
    mut visit: impl FnMut(VersionKey, MessageRecord) -> Result<()>,
) -> Result<()> {
    for entry in table.range((namespace, 0, i64::MIN)..=(namespace, u64::MAX, i64::MAX))? {
        let (key, record) = entry?;
        visit(key.value(), codec::decode(record.value())?)?;
    }
    Ok(())
}

/// The time of the newest version of a message, in microseconds; `i64::MIN` if it has none.
pub(super) fn last(
    table: &impl ReadableTable<VersionKey, Bytes>,
    NamespaceId(namespace): NamespaceId,
    seq: u64,
) -> Result<i64> {
    let last = table.range((namespace, seq, i64::MIN)..=(namespace, seq, i64::MAX))?.next_back();
    Ok(last.transpose()?.map_or(i64::MIN, |(key, _)| key.value().2))
}

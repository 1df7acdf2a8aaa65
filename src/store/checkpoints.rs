//! Checkpoints: earlier states of a session.
//!
//! A checkpoint is a small record. When a message or a block changes, its old version is kept for the newest checkpoint
//! only. So the state at a checkpoint consists, for each message and block, of the version kept for that checkpoint or
//! for the first one after it, or else of the current version.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use serde::Serialize;

use super::{
    codec,
    message_record::{MessageRecord, OldMessage},
    namespaces::Namespaces,
    schema::*,
    sessions::{Batches, History, Sessions},
    tables::{ReadableTable, Tables, WriteTransaction, has},
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    message::{Message, Timestamp},
};

/// An earlier state of a session, to which the session can be restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Checkpoint {
    /// The number of the checkpoint in its session. Numbers ascend.
    pub number: u32,
    /// The label it was given; may be empty.
    pub label: String,
    /// The time at which it was created.
    pub created_at: Timestamp,
    /// Number of messages that the session had, including those in the buffer.
    pub messages: u64,
}

/// The checkpoints of a session that stay when another one is made: the newest, and those that either of these keeps. All,
/// without either.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeptCheckpoints {
    /// So many of the newest.
    pub(crate) last: Option<usize>,
    /// Those that were made within this time.
    pub(crate) within: Option<Duration>,
}

/// The most checkpoints that are deleted when one is made.
const MAX_RETIRED: usize = 100;

/// The tables of checkpoints and of the old versions kept for them.
pub(crate) struct Checkpoints<'t, T>(pub(super) &'t T);

impl<T: Tables> Checkpoints<'_, T> {
    /// The checkpoints of a session, oldest first.
    pub(crate) fn list(&self, namespace: NamespaceId, session: u32) -> Result<Vec<Checkpoint>> {
        let all = (namespace.0, session, 0)..=(namespace.0, session, u32::MAX);
        let table = self.0.table(CHECKPOINTS)?;
        let entries = table.range(all)?;
        entries
            .map(|entry| {
                let (key, value) = entry?;
                let record: CheckpointRecord = codec::decode(value.value())?;
                let created_at = Timestamp::from_micros(record.created_at)
                    .ok_or_else(|| Error::corrupted("the time of a checkpoint is out of range"))?;
                Ok(Checkpoint { number: key.value().2, label: record.label, created_at, messages: record.messages })
            })
            .collect()
    }

    /// A session's messages as they were at a checkpoint.
    ///
    /// # Errors
    /// [`Error::CheckpointNotFound`].
    pub(crate) fn messages_at(&self, namespace: NamespaceId, session: u32, checkpoint: u32) -> Result<Vec<Message>> {
        let record = self.get(namespace, session, checkpoint)?;
        let now = History(self.0).messages(namespace, session, None)?;
        let mut messages: BTreeMap<u64, Message> = now.into_iter().collect();
        for (seq, old) in self.old_messages(namespace, session, checkpoint)? {
            messages.insert(seq, old.record.message()?);
        }
        messages.retain(|_, message| !message.has_expired());
        Ok(messages.into_iter().filter(|(seq, _)| *seq < record.next_seq).map(|(_, message)| message).collect())
    }

    /// The record of a checkpoint.
    ///
    /// # Errors
    /// [`Error::CheckpointNotFound`].
    pub(super) fn get(&self, namespace: NamespaceId, session: u32, checkpoint: u32) -> Result<CheckpointRecord> {
        let table = self.0.table(CHECKPOINTS)?;
        let value = table.get((namespace.0, session, checkpoint));
        let record =
            value.and_then(|value| codec::decode(value.ok_or(Error::CheckpointNotFound { checkpoint })?.value()));
        record.map_err(|error| error.within(|| format!("checkpoint {checkpoint}")))
    }

    /// The messages of a session that changed after a checkpoint, as they were, by sequence number.
    pub(super) fn old_messages(
        &self,
        NamespaceId(namespace): NamespaceId,
        session: u32,
        checkpoint: u32,
    ) -> Result<BTreeMap<u64, OldMessage>> {
        let mut old = BTreeMap::new();
        let all = (namespace, session, 0, 0)..(namespace, session + 1, 0, 0);
        for entry in self.0.table(OLD_MESSAGES)?.range(all)? {
            let (key, value) = entry?;
            let (_, _, seq, kept_for) = key.value();
            if kept_for >= checkpoint && !old.contains_key(&seq) {
                old.insert(seq, codec::decode(value.value())?);
            }
        }
        Ok(old)
    }

    /// Visits the versions of messages of a namespace that are kept for checkpoints, with their keys.
    pub(super) fn visit_old_messages(
        &self,
        NamespaceId(namespace): NamespaceId,
        mut visit: impl FnMut((u32, u32, u64, u32), OldMessage) -> Result<()>,
    ) -> Result<()> {
        let table = self.0.table(OLD_MESSAGES)?;
        for entry in table.range((namespace, 0, 0, 0)..(namespace + 1, 0, 0, 0))? {
            let (key, value) = entry?;
            visit(key.value(), codec::decode(value.value())?)?;
        }
        Ok(())
    }

    /// Returns true if a session has versions of messages that are kept for checkpoints.
    pub(super) fn has_old_messages(&self, NamespaceId(namespace): NamespaceId, session: u32) -> Result<bool> {
        let all = (namespace, session, 0, 0)..(namespace, session + 1, 0, 0);
        has(&self.0.table(OLD_MESSAGES)?, all)
    }

    /// The blocks of a session that changed after a checkpoint, as they were, by name. Blocks for which `is_wanted` is
    /// false are left out.
    pub(super) fn old_blocks(
        &self,
        NamespaceId(namespace): NamespaceId,
        session: u32,
        checkpoint: u32,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<(String, OldBlock)>> {
        let mut old = Vec::new();
        let mut seen = HashSet::new();
        let all = (namespace, session, "", 0)..(namespace, session + 1, "", 0);
        for entry in self.0.table(OLD_BLOCKS)?.range(all)? {
            let (key, value) = entry?;
            let (_, _, name, kept_for) = key.value();
            if kept_for >= checkpoint && is_wanted(name) && seen.insert(name.to_owned()) {
                old.push((name.to_owned(), codec::decode(value.value())?));
            }
        }
        Ok(old)
    }

    /// The number and record of a session's newest checkpoint.
    fn newest(&self, NamespaceId(namespace): NamespaceId, session: u32) -> Result<Option<(u32, CheckpointRecord)>> {
        let all = (namespace, session, 0)..=(namespace, session, u32::MAX);
        let table = self.0.table(CHECKPOINTS)?;
        let newest = table.range(all)?.next_back().transpose()?;
        newest.map(|(key, value)| Ok((key.value().2, codec::decode(value.value())?))).transpose()
    }
}

impl Checkpoints<'_, WriteTransaction> {
    /// Makes a checkpoint of a session as it is now, and deletes the oldest that are not to be kept. Returns its number.
    ///
    /// # Errors
    /// The error of [`Error::no_session`] if there is no such session.
    pub(crate) fn create(
        &self,
        namespace: &Namespace,
        session: &str,
        label: &str,
        keep: KeptCheckpoints,
    ) -> Result<u32> {
        let no_session = || Error::no_session(namespace, session);
        let stored = Namespaces(self.0).record(namespace)?.ok_or_else(no_session)?;
        let id = NamespaceId(stored.id);
        let number = Sessions(self.0).number(id, session)?.ok_or_else(no_session)?;
        let positions = History(self.0).positions(id, number)?;
        let record = CheckpointRecord {
            label: label.to_owned(),
            created_at: Timestamp::now().as_micros(),
            next_seq: stored.next_seq,
            buffered: buffered_runs(&positions),
            next_batch: Batches(self.0).next_number(id, number)?,
            messages: positions.len() as u64,
        };
        let checkpoint = self.newest(id, number)?.map_or(0, |(newest, _)| newest + 1);
        self.put(id, number, checkpoint, &record)?;
        self.retire(id, number, keep)?;
        Ok(checkpoint)
    }

    /// Deletes the oldest checkpoints of a session that are not to be kept, with the versions that only they need: a version
    /// serves the checkpoint that it is kept for and earlier ones.
    fn retire(&self, NamespaceId(namespace): NamespaceId, session: u32, keep: KeptCheckpoints) -> Result<()> {
        if keep.last.is_none() && keep.within.is_none() {
            return Ok(());
        }
        let all = (namespace, session, 0)..=(namespace, session, u32::MAX);
        let table = self.0.table(CHECKPOINTS)?;
        let Some(newest) = table.range(all.clone())?.rev().nth(keep.last.unwrap_or(1).max(1) - 1) else {
            return Ok(());
        };
        let newest = newest?.0.value().2;
        let within = keep.within.map(|within| i64::try_from(within.as_micros()).unwrap_or(i64::MAX));
        let since = within.map(|within| Timestamp::now().as_micros().saturating_sub(within));
        let mut first = None;
        for entry in table.range(all)?.take(MAX_RETIRED) {
            let (key, value) = entry?;
            let record: CheckpointRecord = codec::decode(value.value())?;
            if key.value().2 >= newest || since.is_some_and(|since| record.created_at >= since) {
                break;
            }
            first = Some(key.value().2 + 1);
        }
        drop(table);
        let Some(first) = first else { return Ok(()) };
        self.0.table(CHECKPOINTS)?.remove_range((namespace, session, 0)..(namespace, session, first))?;
        let all = (namespace, session, 0, 0)..(namespace, session + 1, 0, 0);
        self.0.table(OLD_MESSAGES)?.retain_in(all, |key| key.3 >= first)?;
        let all = (namespace, session, "", 0)..(namespace, session + 1, "", 0);
        self.0.table(OLD_BLOCKS)?.retain_in(all, |key| key.3 >= first)
    }

    /// Stores the record of a checkpoint.
    pub(super) fn put(
        &self,
        NamespaceId(namespace): NamespaceId,
        session: u32,
        checkpoint: u32,
        record: &CheckpointRecord,
    ) -> Result<()> {
        let key = (namespace, session, checkpoint);
        self.0.table(CHECKPOINTS)?.insert(key, codec::encode(record).as_slice())?;
        Ok(())
    }

    /// Stores a message as it was at a checkpoint.
    pub(super) fn put_old_message(
        &self,
        NamespaceId(namespace): NamespaceId,
        session: u32,
        seq: u64,
        checkpoint: u32,
        old: &OldMessage,
    ) -> Result<()> {
        let key = (namespace, session, seq, checkpoint);
        self.0.table(OLD_MESSAGES)?.insert(key, codec::encode(old).as_slice())?;
        Ok(())
    }

    /// Stores a block as it was at a checkpoint.
    pub(super) fn put_old_block(
        &self,
        NamespaceId(namespace): NamespaceId,
        session: u32,
        name: &str,
        checkpoint: u32,
        old: &OldBlock,
    ) -> Result<()> {
        let key = (namespace, session, name, checkpoint);
        self.0.table(OLD_BLOCKS)?.insert(key, codec::encode(old).as_slice())?;
        Ok(())
    }

    /// Keeps a message as it is for the newest checkpoint that has it, before it changes.
    pub(super) fn keep_message(
        &self,
        namespace: NamespaceId,
        session: u32,
        seq: u64,
        record: &MessageRecord,
        position: SessionPosition,
    ) -> Result<()> {
        let Some((checkpoint, newest)) = self.newest(namespace, session)? else { return Ok(()) };
        let key = (namespace.0, session, seq, checkpoint);
        let mut table = self.0.table(OLD_MESSAGES)?;
        if seq < newest.next_seq && table.get(key)?.is_none() {
            let old = OldMessage { record: record.clone(), position: position.number() };
            table.insert(key, codec::encode(&old).as_slice())?;
        }
        Ok(())
    }

    /// Keeps a block as it is for the newest checkpoint, before it changes.
    pub(super) fn keep_block(
        &self,
        namespace: NamespaceId,
        session: u32,
        name: &str,
        block: Option<BlockRecord>,
        cursor: CursorRecord,
    ) -> Result<()> {
        let Some((checkpoint, _)) = self.newest(namespace, session)? else { return Ok(()) };
        let key = (namespace.0, session, name, checkpoint);
        let mut table = self.0.table(OLD_BLOCKS)?;
        if table.get(key)?.is_none() {
            table.insert(key, codec::encode(&OldBlock { block, cursor }).as_slice())?;
        }
        Ok(())
    }

    /// Changes the states of a block that are kept for checkpoints, where `change` returns another one, and drops the
    /// reasons of failures, which may quote messages. Returns how many states were changed.
    pub(super) fn change_old_blocks(
        &self,
        NamespaceId(namespace): NamespaceId,
        session: u32,
        name: &str,
        change: impl Fn(&str) -> Option<String>,
    ) -> Result<u64> {
        let mut table = self.0.table(OLD_BLOCKS)?;
        let mut kept: Vec<(u32, OldBlock)> = Vec::new();
        let all = (namespace, session, name, 0)..=(namespace, session, name, u32::MAX);
        for entry in table.range(all)? {
            let (key, value) = entry?;
            kept.push((key.value().3, codec::decode(value.value())?));
        }
        let mut changed = 0;
        for (checkpoint, mut old) in kept {
            old.cursor.failed.clear();
            if let Some(block) = &mut old.block
                && let Some(state) = change(&block.state)
            {
                block.state = state;
                changed += 1;
            }
            let key = (namespace, session, name, checkpoint);
            table.insert(key, codec::encode(&old).as_slice())?;
        }
        Ok(changed)
    }

    /// Deletes a version of a message that is kept for a checkpoint.
    pub(super) fn remove_old_message(&self, key: (u32, u32, u64, u32)) -> Result<()> {
        self.0.table(OLD_MESSAGES)?.remove(key)?;
        Ok(())
    }

    /// Deletes all versions of a message that are kept for checkpoints.
    pub(super) fn remove_old_messages(&self, namespace: NamespaceId, session: u32, seq: u64) -> Result<()> {
        let versions = (namespace.0, session, seq, 0)..=(namespace.0, session, seq, u32::MAX);
        self.0.table(OLD_MESSAGES)?.remove_range(versions)
    }

    /// Counts the messages that each checkpoint of a session has, after some were forgotten.
    pub(super) fn recount(&self, namespace: NamespaceId, session: u32) -> Result<()> {
        for checkpoint in self.list(namespace, session)? {
            let messages = self.messages_at(namespace, session, checkpoint.number)?.len() as u64;
            let record = CheckpointRecord { messages, ..self.get(namespace, session, checkpoint.number)? };
            self.put(namespace, session, checkpoint.number, &record)?;
        }
        Ok(())
    }

    /// Deletes a session's checkpoints from this number on, with the versions kept for them.
    pub(super) fn remove_from(&self, namespace: NamespaceId, session: u32, first: u32) -> Result<()> {
        let later = (namespace.0, session, first)..=(namespace.0, session, u32::MAX);
        self.0.table(CHECKPOINTS)?.remove_range(later)?;
        self.remove_old_from(namespace, session, first)
    }

    /// Deletes the versions kept for checkpoints from this number on.
    pub(super) fn remove_old_from(&self, NamespaceId(namespace): NamespaceId, session: u32, first: u32) -> Result<()> {
        let all = (namespace, session, 0, 0)..(namespace, session + 1, 0, 0);
        self.0.table(OLD_MESSAGES)?.retain_in(all, |key| key.3 < first)?;
        let all = (namespace, session, "", 0)..(namespace, session + 1, "", 0);
        self.0.table(OLD_BLOCKS)?.retain_in(all, |key| key.3 < first)
    }
}

/// The first and last sequence numbers of each run of messages that are in the buffer.
fn buffered_runs(positions: &[(u64, SessionPosition)]) -> Vec<(u64, u64)> {
    let runs = positions.chunk_by(|(_, a), (_, b)| (*a == SessionPosition::Buffer) == (*b == SessionPosition::Buffer));
    runs.filter(|run| run[0].1 == SessionPosition::Buffer).map(|run| (run[0].0, run[run.len() - 1].0)).collect()
}

//! Checkpoints: a session as it was.
//!
//! A checkpoint is a small record. What changes after it is kept as it was, for the newest checkpoint alone (`edit`,
//! `blocks`): so the state at a checkpoint is, of each thing, the oldest version kept since, or else what is there now.

use std::collections::{BTreeMap, HashSet};

use redb::ReadableTable;
use serde::Serialize;

use super::{
    Snapshot, Transaction,
    blocks::SessionBlocks,
    codec,
    edit::{Edit, Effects, Space, Stored},
    schema::*,
    sessions::next_batch,
    storage,
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    message::{Message, Timestamp},
};

/// A session's state that can be gone back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Checkpoint {
    /// Its number in its session, ascending.
    pub number: u32,
    /// What it was called, perhaps nothing.
    pub label: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// The session's messages then, those in the buffer included.
    pub messages: u64,
}

/// A session at a moment.
pub(super) struct SessionState {
    pub(super) messages: Vec<Stored>,
    pub(super) next_batch: u32,
    pub(super) blocks: SessionBlocks,
}

impl Transaction {
    /// Makes a checkpoint of a session as it is now. Returns its number.
    pub(crate) fn checkpoint(&mut self, namespace: &Namespace, session: &str, label: &str) -> Result<u32> {
        let mut edit = Edit::begin(self)?;
        let space = edit.space(namespace)?;
        let number = edit.known_session(&space, session)?.ok_or_else(|| Error::no_session(namespace, session))?;
        let history = edit.history(&space, number)?;
        let (id, next_seq) = (space.record.id, space.record.next_seq);
        edit.put_back(space);
        edit.finish()?;
        let mut buffered: Vec<(u64, u64)> = Vec::new();
        let mut before = Place::LongTerm(None);
        for (seq, place) in &history {
            match (place, before) {
                (Place::Buffer, Place::Buffer) => buffered.last_mut().expect("a run was begun").1 = *seq,
                (Place::Buffer, Place::LongTerm(_)) => buffered.push((*seq, *seq)),
                (Place::LongTerm(_), _) => {}
            }
            before = *place;
        }
        let record = CheckpointRecord {
            label: label.to_owned(),
            created_at: Timestamp::now().as_micros(),
            next_seq,
            buffered,
            next_batch: next_batch(&self.table(BATCHES)?, id, number)?,
            messages: history.len() as u64,
        };
        let mut table = self.table(CHECKPOINTS)?;
        let all = (id, number, 0)..=(id, number, u32::MAX);
        let last = table.range(all).map_err(storage)?.next_back().transpose().map_err(storage)?;
        let checkpoint = last.map_or(0, |(key, _)| key.value().2 + 1);
        table.insert((id, number, checkpoint), codec::encode(&record).as_slice()).map_err(storage)?;
        Ok(checkpoint)
    }

    /// Makes a session what it was at a checkpoint. Later messages, batches and checkpoints are deleted.
    pub(crate) fn restore(&mut self, namespace: &Namespace, session: &str, checkpoint: u32) -> Result<Effects> {
        let mut edit = Edit::begin(self)?;
        let mut space = edit.space(namespace)?;
        let number = edit.known_session(&space, session)?.ok_or_else(|| Error::no_session(namespace, session))?;
        let state = edit.state_at(self, &space, number, checkpoint)?;
        let kept: HashSet<u64> = state.messages.iter().map(|stored| stored.seq).collect();
        for (seq, _) in edit.history(&space, number)? {
            if !kept.contains(&seq) {
                let old = edit.stored(&space, seq)?;
                edit.remove(&mut space, old)?;
            }
        }
        for was in state.messages {
            match edit.find(&space, &was.record.id)? {
                Some(now) if now.seq == was.seq => {
                    let place = was.place;
                    if now.record != was.record {
                        edit.replace(&mut space, now, was.record.clone())?;
                    }
                    let now = edit.stored(&space, was.seq)?;
                    edit.move_to(&mut space, now, place)?;
                }
                Some(_) => {
                    let reason = format!(
                        "message {:?} was deleted and its id given again; delete that one first",
                        was.record.id
                    );
                    return Err(Error::message(reason));
                }
                None => {
                    edit.add_again(&mut space, was)?;
                }
            }
        }
        let id = space.record.id;
        edit.put_back(space);
        let effects = edit.finish()?;
        let later = (id, number, state.next_batch)..=(id, number, u32::MAX);
        self.table(BATCHES)?.retain_in(later, |_, _| false).map_err(storage)?;
        let restores = self.restores(id, number)?;
        self.forget_blocks(id, number)?;
        self.write_blocks(id, number, &state.blocks)?;
        self.set_restores(id, number, restores + 1)?;
        self.forget_checkpoints(id, number, checkpoint + 1)?;
        self.forget_old(id, number, checkpoint)?;
        Ok(effects)
    }

    /// Deletes a session's checkpoints from this number on.
    pub(super) fn forget_checkpoints(&mut self, namespace: u32, session: u32, from: u32) -> Result<()> {
        let later = (namespace, session, from)..=(namespace, session, u32::MAX);
        self.table(CHECKPOINTS)?.retain_in(later, |_, _| false).map_err(storage)?;
        self.forget_old(namespace, session, from)
    }

    /// Deletes what was kept for checkpoints from this number on.
    fn forget_old(&mut self, namespace: u32, session: u32, from: u32) -> Result<()> {
        let all = (namespace, session, 0, 0)..(namespace, session + 1, 0, 0);
        self.table(OLD_MESSAGES)?.retain_in(all, |key, _| key.3 < from).map_err(storage)?;
        let all = (namespace, session, "", 0)..(namespace, session + 1, "", 0);
        self.table(OLD_BLOCKS)?.retain_in(all, |key, _| key.3 < from).map_err(storage)
    }
}

impl Edit<'_> {
    /// A session as it is.
    pub(super) fn now(&self, transaction: &Transaction, space: &Space, session: u32) -> Result<SessionState> {
        let messages = self
            .history(space, session)?
            .into_iter()
            .map(|(seq, _)| self.stored(space, seq))
            .collect::<Result<Vec<_>>>()?;
        let id = space.record.id;
        let next_batch = next_batch(&transaction.table(BATCHES)?, id, session)?;
        Ok(SessionState { messages, next_batch, blocks: transaction.session_blocks(id, session)? })
    }

    /// A session as it was at a checkpoint.
    pub(super) fn state_at(
        &self,
        transaction: &Transaction,
        space: &Space,
        session: u32,
        checkpoint: u32,
    ) -> Result<SessionState> {
        let id = space.record.id;
        let record = self.checkpoint(id, session, checkpoint)?;
        let record = record.ok_or(Error::CheckpointNotFound { checkpoint })?;
        let now = self.now(transaction, space, session)?;
        let mut messages: BTreeMap<u64, Stored> =
            now.messages.into_iter().filter(|m| m.seq < record.next_seq).map(|m| (m.seq, m)).collect();
        let changed = self.old_messages(id, session, checkpoint)?;
        for (seq, old) in changed.into_iter().filter(|(seq, _)| *seq < record.next_seq) {
            messages.insert(seq, Stored { seq, session, place: Place::read(old.place), record: old.record });
        }
        for stored in messages.values_mut() {
            let buffered = record.buffered.iter().any(|(first, last)| (*first..=*last).contains(&stored.seq));
            stored.place = match stored.place {
                _ if buffered => Place::Buffer,
                Place::Buffer => Place::LongTerm(None),
                before => before,
            };
        }
        let mut blocks: BTreeMap<String, OldBlock> = now.blocks.into_iter().collect();
        let all = (id, session, "", 0)..(id, session + 1, "", 0);
        let mut seen = HashSet::new();
        for entry in transaction.table(OLD_BLOCKS)?.range(all).map_err(storage)? {
            let (key, value) = entry.map_err(storage)?;
            let (_, _, name, kept_for) = key.value();
            // What all sessions share is not gone back on.
            let shared = blocks.get(name).is_some_and(|now| now.cursor.shared);
            if kept_for >= checkpoint && !shared && seen.insert(name.to_owned()) {
                blocks.insert(name.to_owned(), codec::decode(value.value())?);
            }
        }
        for old in blocks.values_mut() {
            old.cursor.next = old.cursor.next.min(record.next_batch);
            old.cursor.failed.retain(|(batch, _)| *batch < record.next_batch);
        }
        Ok(SessionState {
            messages: messages.into_values().collect(),
            next_batch: record.next_batch,
            blocks: blocks.into_iter().collect(),
        })
    }
}

/// The messages of a session that changed after a checkpoint, as they were.
pub(super) fn old_messages(
    table: &impl ReadableTable<(u32, u32, u64, u32), &'static [u8]>,
    namespace: u32,
    session: u32,
    at: u32,
) -> Result<BTreeMap<u64, OldMessage>> {
    let mut old = BTreeMap::new();
    for entry in table.range((namespace, session, 0, 0)..(namespace, session + 1, 0, 0)).map_err(storage)? {
        let (key, value) = entry.map_err(storage)?;
        let (_, _, seq, kept_for) = key.value();
        if kept_for >= at && !old.contains_key(&seq) {
            old.insert(seq, codec::decode(value.value())?);
        }
    }
    Ok(old)
}

impl Snapshot {
    /// A session's messages as they were at a checkpoint.
    pub(crate) fn messages_at(&self, namespace: NamespaceId, session: u32, checkpoint: u32) -> Result<Vec<Message>> {
        let value = self.table(CHECKPOINTS)?.get((namespace.0, session, checkpoint)).map_err(storage)?;
        let record: CheckpointRecord = codec::decode(value.ok_or(Error::CheckpointNotFound { checkpoint })?.value())?;
        let now = self.history(namespace, session, None)?;
        let mut messages: BTreeMap<u64, Message> = now.into_iter().collect();
        let changed = old_messages(&self.table(OLD_MESSAGES)?, namespace.0, session, checkpoint)?;
        for (seq, old) in changed {
            messages.insert(seq, old.record.message()?);
        }
        Ok(messages.into_iter().filter(|(seq, _)| *seq < record.next_seq).map(|(_, message)| message).collect())
    }

    /// The checkpoints of a session, oldest first.
    pub(crate) fn checkpoints(&self, namespace: NamespaceId, session: u32) -> Result<Vec<Checkpoint>> {
        let all = (namespace.0, session, 0)..=(namespace.0, session, u32::MAX);
        let table = self.table(CHECKPOINTS)?;
        let entries = table.range(all).map_err(storage)?;
        entries
            .map(|entry| {
                let (key, value) = entry.map_err(storage)?;
                let record: CheckpointRecord = codec::decode(value.value())?;
                let created_at = Timestamp::from_micros(record.created_at)
                    .ok_or_else(|| Error::corrupted("the time of a checkpoint is out of range"))?;
                Ok(Checkpoint { number: key.value().2, label: record.label, created_at, messages: record.messages })
            })
            .collect()
    }
}

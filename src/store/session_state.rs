//! A session as a whole, as it is now or as it was at a checkpoint.

use std::collections::BTreeMap;

use super::{
    batches::Batches,
    blocks::{Blocks, SessionBlocks},
    checkpoints::Checkpoints,
    history::History,
    message_record::{MessageRecord, StoredMessage},
    schema::*,
    tables::Tables,
};
use crate::{error::Result, ids::NamespaceId};

/// The messages of a session, the number of its next batch and its blocks.
pub(super) struct SessionState {
    pub(super) messages: Vec<StoredMessage>,
    pub(super) next_batch: u32,
    pub(super) blocks: SessionBlocks,
}

impl SessionState {
    /// The session as it is now.
    pub(super) fn now(tables: &impl Tables, namespace: NamespaceId, session: u32) -> Result<Self> {
        let records = tables.table(MESSAGES)?;
        let messages = History(tables)
            .positions(namespace, session)?
            .into_iter()
            .map(|(seq, position)| {
                let record = MessageRecord::expect(&records, namespace.0, seq)?;
                Ok(StoredMessage { seq, session, position, record })
            })
            .collect::<Result<Vec<_>>>()?;
        let next_batch = Batches(tables).next_number(namespace, session)?;
        Ok(SessionState { messages, next_batch, blocks: Blocks(tables).of_session(namespace, session)? })
    }

    /// The session as it was at a checkpoint.
    ///
    /// # Errors
    /// [`Error::CheckpointNotFound`](crate::Error::CheckpointNotFound).
    pub(super) fn at(tables: &impl Tables, namespace: NamespaceId, session: u32, checkpoint: u32) -> Result<Self> {
        let checkpoints = Checkpoints(tables);
        let record = checkpoints.get(namespace, session, checkpoint)?;
        let now = Self::now(tables, namespace, session)?;
        let mut messages: BTreeMap<u64, StoredMessage> =
            now.messages.into_iter().filter(|m| m.seq < record.next_seq).map(|m| (m.seq, m)).collect();
        let changed = checkpoints.old_messages(namespace, session, checkpoint)?;
        for (seq, old) in changed.into_iter().filter(|(seq, _)| *seq < record.next_seq) {
            let position = SessionPosition::read(old.position);
            messages.insert(seq, StoredMessage { seq, session, position, record: old.record });
        }
        for stored in messages.values_mut() {
            let buffered = record.buffered.iter().any(|(first, last)| (*first..=*last).contains(&stored.seq));
            stored.position = match stored.position {
                _ if buffered => SessionPosition::Buffer,
                SessionPosition::Buffer => SessionPosition::LongTerm(None),
                before => before,
            };
        }
        let mut blocks: BTreeMap<String, OldBlock> = now.blocks.into_iter().collect();
        // A state that all sessions share is not restored.
        let is_own = |name: &str| !blocks.get(name).is_some_and(|now| now.cursor.shared);
        let old_blocks = checkpoints.old_blocks(namespace, session, checkpoint, is_own)?;
        blocks.extend(old_blocks);
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

//! Changes of sessions as a whole: flushing buffers, copying, restoring and deleting.

use std::collections::{BTreeMap, HashSet};

use super::{
    audit::Holds,
    blocks::{Blocks, SessionBlocks},
    checkpoints::Checkpoints,
    edit::Edit,
    edit_documents::EditDocuments,
    message_record::{MessageRecord, StoredMessage},
    namespaces::Namespaces,
    removal,
    schema::*,
    sessions::{Batches, History, Idle, Sessions, Window},
    tables::{Tables, WriteTransaction},
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    message::{Role, Timestamp, new_id},
};

/// The outcome of a flush of a session that may be idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleFlush {
    /// The session was idle, and this many messages were moved.
    Flushed(u64),
    /// The session is idle at this time.
    Later(Timestamp),
}

/// Changes of sessions as a whole, in one transaction.
pub(crate) struct EditSessions<'t>(pub(super) &'t WriteTransaction);

impl EditSessions<'_> {
    /// Moves messages from a session's buffer to long-term memory, as one batch for each of `batches`. Messages that
    /// are no longer in the buffer are skipped. With `window`, the session's window begins at this sequence number or a
    /// later one from now on. Returns how many were moved.
    pub(crate) fn flush(
        &self,
        namespace: &Namespace,
        session: &str,
        batches: &[Vec<u64>],
        window: Option<u64>,
    ) -> Result<u64> {
        let mut edit = Edit::begin(self.0)?;
        if edit.known_namespace(namespace)?.is_none() {
            return Ok(0);
        }
        let mut namespace = edit.open(namespace)?;
        let id = namespace.id();
        let mut moved = 0;
        if let Some(number) = edit.known_session(&namespace, session)? {
            let mut next = Batches(self.0).next_number(id, number)?;
            for batch in batches {
                let mut ends = None;
                for &seq in batch {
                    if edit.position(&namespace, number, seq)? == Some(SessionPosition::Buffer) {
                        let old = edit.stored(&namespace, seq)?;
                        edit.move_to(&mut namespace, old, SessionPosition::LongTerm(Some(next)))?;
                        ends = Some((ends.map_or(seq, |(first, _)| first), seq));
                        moved += 1;
                    }
                }
                if let Some(ends) = ends {
                    Batches(self.0).put(id, number, next, ends)?;
                    next += 1;
                }
            }
        }
        if let Some(start) = window {
            edit.advance_window(&namespace, session, start)?;
        }
        edit.close(namespace);
        edit.finish()?;
        Ok(moved)
    }

    /// Flushes the whole buffer of a session except its leading system messages, as one batch, if the session is idle.
    pub(crate) fn flush_idle(&self, namespace: &Namespace, session: &str, now: Timestamp) -> Result<IdleFlush> {
        let idle = Idle(self.0);
        match idle.get(namespace, session)? {
            None => return Ok(IdleFlush::Flushed(0)),
            Some(later) if later > now => return Ok(IdleFlush::Later(later)),
            Some(_) => idle.set(namespace, session, None)?,
        }
        let (id, number) = match self.existing(namespace, session) {
            Err(Error::SessionNotFound { .. }) => return Ok(IdleFlush::Flushed(0)),
            existing => existing?,
        };
        let buffer = History(self.0).messages(id, number, Some(SessionPosition::Buffer))?;
        let rest = buffer.iter().skip_while(|(_, message)| message.role == Role::System);
        let batch: Vec<u64> = rest.map(|(seq, _)| *seq).collect();
        self.flush(namespace, session, &[batch], None).map(IdleFlush::Flushed)
    }

    /// Deletes a session with its messages, batches, blocks and checkpoints, and the namespace if nothing is left in
    /// it. Returns how many messages it had, or `None` if there was no such session.
    ///
    /// # Errors
    /// [`Error::LegalHold`].
    pub(crate) fn delete(&self, name: &Namespace, session: &str) -> Result<Option<u64>> {
        Holds(self.0).check(name)?;
        let mut edit = Edit::begin(self.0)?;
        if edit.known_namespace(name)?.is_none() {
            return Ok(None);
        }
        let mut namespace = edit.open(name)?;
        let id = namespace.id();
        let number = edit.known_session(&namespace, session)?;
        let mut messages = 0;
        if let Some(number) = number {
            for (seq, _) in edit.history(&namespace, number)? {
                messages += 1;
                let old = edit.stored(&namespace, seq)?;
                edit.delete(&mut namespace, old)?;
            }
            edit.remove_session(&namespace, session)?;
        }
        edit.close(namespace);
        edit.finish()?;
        if let Some(number) = number {
            Batches(self.0).remove_from(id, number, 0)?;
            Blocks(self.0).remove(id, number)?;
            Checkpoints(self.0).remove_from(id, number, 0)?;
            Window(self.0).set_start(id, number, 0)?;
            Idle(self.0).set(name, session, None)?;
            removal::remove_if_unused(self.0, name)?;
        }
        Ok(number.map(|_| messages))
    }

    /// Deletes all sessions and documents of a namespace. Returns how many messages the sessions had.
    pub(crate) fn delete_all(&self, namespace: &Namespace) -> Result<u64> {
        let mut messages = 0;
        let Some(id) = Namespaces(self.0).id(namespace)? else { return Ok(0) };
        for (session, _) in Sessions(self.0).all(id)? {
            messages += self.delete(namespace, &session)?.unwrap_or(0);
        }
        EditDocuments(self.0).delete_all(namespace, id)?;
        Ok(messages)
    }

    /// Copies a session, as it is now or as it was `at` a checkpoint, to a new session of its namespace: the messages
    /// under new ids, the buffer, the batches and the states of its blocks. The copy is idle at `idle`, or else when
    /// the session is. Returns the number of messages.
    ///
    /// # Errors
    /// The error of [`Error::no_session`]; [`Error::SessionExists`]; [`Error::CheckpointNotFound`].
    pub(crate) fn copy(
        &self,
        namespace: &Namespace,
        from: &str,
        at: Option<u32>,
        to: &str,
        idle: Option<Timestamp>,
    ) -> Result<u64> {
        let (id, source) = self.existing(namespace, from)?;
        if Sessions(self.0).number(id, to)?.is_some() {
            return Err(Error::SessionExists { session: to.to_owned() });
        }
        let state = match at {
            None => SessionState::now(self.0, id, source)?,
            Some(checkpoint) => SessionState::at(self.0, id, source, checkpoint)?,
        };
        let window = Window(self.0).start(id, source)?;
        let idle = idle.map_or_else(|| Idle(self.0).get(namespace, from), |idle| Ok(Some(idle)))?;
        Idle(self.0).set(namespace, to, idle)?;
        let mut edit = Edit::begin(self.0)?;
        let mut namespace = edit.open(namespace)?;
        let target = edit.session(&mut namespace, to)?;
        // Old and new sequence numbers, ascending.
        let mut numbers = Vec::new();
        for StoredMessage { seq, position, record, .. } in state.messages {
            if record.has_expired() {
                continue;
            }
            let record = MessageRecord { id: new_id(), session: to.to_owned(), revision: 0, ..record };
            numbers.push((seq, edit.insert(&mut namespace, record, position)?));
        }
        match numbers.iter().find(|(old, _)| *old >= window) {
            Some((_, start)) if window > 0 => edit.advance_window(&namespace, to, *start)?,
            None if at.is_none() => edit.empty_window(&namespace, to)?,
            // As in a session that is restored.
            _ => {}
        }
        edit.close(namespace);
        edit.finish()?;
        for batch in 0..state.next_batch {
            let Some((first, last)) = Batches(self.0).ends(id, source, batch)? else { continue };
            let within: Vec<u64> =
                numbers.iter().filter(|(old, _)| (first..=last).contains(old)).map(|(_, new)| *new).collect();
            // A batch whose messages are all deleted keeps its number and is empty.
            let ends = match within.as_slice() {
                [] => (1, 0),
                some => (some[0], some[some.len() - 1]),
            };
            Batches(self.0).put(id, target, batch, ends)?;
        }
        Blocks(self.0).write_all(id, target, &state.blocks)?;
        Ok(numbers.len() as u64)
    }

    /// Restores a session to a checkpoint. Later messages, batches and checkpoints are deleted. With `idle`, the time
    /// at which the session is idle again.
    ///
    /// # Errors
    /// The error of [`Error::no_session`]; [`Error::CheckpointNotFound`]; [`Error::InvalidMessage`] if the id of a
    /// message to restore belongs to another message now.
    pub(crate) fn restore(
        &self,
        namespace: &Namespace,
        session: &str,
        checkpoint: u32,
        idle: Option<Timestamp>,
    ) -> Result<()> {
        Idle(self.0).set(namespace, session, idle)?;
        let (id, number) = self.existing(namespace, session)?;
        let state = SessionState::at(self.0, id, number, checkpoint)?;
        let mut edit = Edit::begin(self.0)?;
        let mut namespace = edit.open(namespace)?;
        let last = state.messages.last().map_or(0, |stored| stored.seq);
        let kept: HashSet<u64> = state.messages.iter().map(|stored| stored.seq).collect();
        for (seq, _) in edit.history(&namespace, number)? {
            if !kept.contains(&seq) {
                let old = edit.stored(&namespace, seq)?;
                edit.delete(&mut namespace, old)?;
            }
        }
        for was in state.messages {
            match edit.find(&namespace, &was.record.id)? {
                Some(now) if now.seq == was.seq => {
                    if now.record != was.record {
                        edit.replace(&mut namespace, now, was.record)?;
                    }
                    let now = edit.stored(&namespace, was.seq)?;
                    edit.move_to(&mut namespace, now, was.position)?;
                }
                Some(_) => {
                    let reason = format!(
                        "cannot restore message {:?}: another message has its id now; delete that one first",
                        was.record.id
                    );
                    return Err(Error::message(reason));
                }
                None => edit.add_again(&mut namespace, was)?,
            }
        }
        // Later than all messages of the session as it is now: it would show none of them.
        if Window(self.0).start(id, number)? > last {
            edit.whole_window(&namespace, session)?;
        }
        edit.close(namespace);
        edit.finish()?;
        Batches(self.0).remove_from(id, number, state.next_batch)?;
        let blocks = Blocks(self.0);
        let restores = blocks.restores(id, number)?;
        blocks.remove(id, number)?;
        blocks.write_all(id, number, &state.blocks)?;
        blocks.set_restores(id, number, restores + 1)?;
        Checkpoints(self.0).remove_from(id, number, checkpoint + 1)?;
        Checkpoints(self.0).remove_old_from(id, number, checkpoint)
    }

    /// The numbers of a namespace and of a session in it.
    ///
    /// # Errors
    /// The error of [`Error::no_session`] if there is no such session.
    fn existing(&self, namespace: &Namespace, session: &str) -> Result<(NamespaceId, u32)> {
        let no_session = || Error::no_session(namespace, session);
        let id = Namespaces(self.0).id(namespace)?.ok_or_else(no_session)?;
        Ok((id, Sessions(self.0).number(id, session)?.ok_or_else(no_session)?))
    }
}

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

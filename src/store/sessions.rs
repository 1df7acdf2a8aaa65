//! Sessions: their histories, flushing their buffers, copying and deleting them.

use redb::ReadableTable;
use serde::Serialize;

use super::{
    Snapshot, Transaction, codec,
    edit::{Edit, Effects, Stored},
    schema::*,
    storage,
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    message::{Message, new_id},
};

/// A session and what is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Its id.
    pub session: String,
    /// Its messages, those in the buffer included.
    pub messages: u64,
    /// Those in the short-term buffer.
    pub buffered: u64,
    /// Flushes so far.
    pub batches: u64,
}

/// What one flush moved to long-term memory.
#[derive(Clone, Debug)]
pub(crate) struct StoredBatch {
    pub(crate) number: u32,
    /// The first and the last sequence number.
    pub(crate) ends: (u64, u64),
    pub(crate) messages: Vec<Message>,
}

impl Transaction {
    /// Moves messages out of a session's buffer, a batch each; what is not in the buffer any more is passed over. Returns
    /// how many were moved.
    pub(crate) fn flush(
        &mut self,
        namespace: &Namespace,
        session: &str,
        batches: &[Vec<u64>],
    ) -> Result<(u64, Effects)> {
        let mut edit = Edit::begin(self)?;
        let mut table = self.table(BATCHES)?;
        let mut space = edit.space(namespace)?;
        let mut moved = 0;
        if let Some(number) = edit.known_session(&space, session)? {
            let mut next = next_batch(&table, space.record.id, number)?;
            for batch in batches {
                let mut ends = None;
                for &seq in batch {
                    if edit.place(&space, number, seq)? == Some(Place::Buffer) {
                        let old = edit.stored(&space, seq)?;
                        edit.move_to(&mut space, old, Place::LongTerm(Some(next)))?;
                        ends = Some((ends.map_or(seq, |(first, _)| first), seq));
                        moved += 1;
                    }
                }
                if let Some(ends) = ends {
                    table.insert((space.record.id, number, next), ends).map_err(storage)?;
                    next += 1;
                }
            }
        }
        edit.put_back(space);
        Ok((moved, edit.finish()?))
    }

    /// Deletes a session with all that was made of it. Returns how many messages it had, if there was one.
    pub(crate) fn delete_session(&mut self, namespace: &Namespace, session: &str) -> Result<(Option<u64>, Effects)> {
        let mut edit = Edit::begin(self)?;
        let mut space = edit.space(namespace)?;
        let number = edit.known_session(&space, session)?;
        let mut messages = 0;
        if let Some(number) = number {
            for (seq, _) in edit.history(&space, number)? {
                messages += 1;
                let old = edit.stored(&space, seq)?;
                edit.remove(&mut space, old)?;
            }
            edit.remove_session(&space, session)?;
        }
        let id = space.record.id;
        edit.put_back(space);
        let effects = edit.finish()?;
        if let Some(number) = number {
            let all = (id, number, 0)..=(id, number, u32::MAX);
            self.table(BATCHES)?.retain_in(all, |_, _| false).map_err(storage)?;
            self.forget_blocks(id, number)?;
            self.forget_checkpoints(id, number, 0)?;
        }
        Ok((number.map(|_| messages), effects))
    }

    /// Deletes all sessions of a namespace. Returns how many messages there were.
    pub(crate) fn delete_all(&mut self, namespace: &Namespace) -> Result<(u64, Effects)> {
        let names: Vec<String> = {
            let mut edit = Edit::begin(self)?;
            let space = edit.space(namespace)?;
            let names = edit.session_names(&space)?;
            edit.put_back(space);
            edit.finish()?;
            names
        };
        let mut all = (0, Effects::default());
        for name in names {
            let (messages, effects) = self.delete_session(namespace, &name)?;
            all.0 += messages.unwrap_or(0);
            all.1.removed.extend(effects.removed);
            all.1.buffers.extend(effects.buffers);
        }
        Ok(all)
    }

    /// Copies a session, as it is or was at a checkpoint, to a new one in its namespace: messages under new ids, the buffer,
    /// batches, and what its blocks have made. Returns the number of messages.
    pub(crate) fn copy_session(
        &mut self,
        namespace: &Namespace,
        from: &str,
        at: Option<u32>,
        to: &str,
    ) -> Result<(u64, Effects)> {
        let mut edit = Edit::begin(self)?;
        let mut space = edit.space(namespace)?;
        let id = space.record.id;
        let source = edit.known_session(&space, from)?.ok_or_else(|| Error::no_session(namespace, from))?;
        if edit.known_session(&space, to)?.is_some() {
            return Err(Error::SessionExists { session: to.to_owned() });
        }
        let state = match at {
            None => edit.now(self, &space, source)?,
            Some(checkpoint) => edit.state_at(self, &space, source, checkpoint)?,
        };
        let target = edit.session(&mut space, to)?;
        // Old and new numbers, ascending.
        let mut numbers = Vec::new();
        for Stored { seq, place, record, .. } in state.messages {
            let record = MessageRecord { id: new_id(), session: to.to_owned(), revision: 0, ..record };
            numbers.push((seq, edit.insert(&mut space, record, place)?));
        }
        edit.put_back(space);
        let effects = edit.finish()?;
        let mut batches = self.table(BATCHES)?;
        let sources: Vec<(u32, (u64, u64))> = batches
            .range((id, source, 0)..(id, source, state.next_batch))
            .map_err(storage)?
            .map(|entry| entry.map(|(key, ends)| (key.value().2, ends.value())).map_err(storage))
            .collect::<Result<_>>()?;
        for (batch, (first, last)) in sources {
            let within: Vec<u64> =
                numbers.iter().filter(|(old, _)| (first..=last).contains(old)).map(|(_, new)| *new).collect();
            // A batch whose messages are all gone keeps its number, and has none.
            let ends = match within.as_slice() {
                [] => (1, 0),
                some => (some[0], some[some.len() - 1]),
            };
            batches.insert((id, target, batch), ends).map_err(storage)?;
        }
        drop(batches);
        self.write_blocks(id, target, &state.blocks)?;
        Ok((numbers.len() as u64, effects))
    }
}

/// The number of a session's next batch.
pub(super) fn next_batch(
    table: &impl ReadableTable<(u32, u32, u32), (u64, u64)>,
    namespace: u32,
    session: u32,
) -> Result<u32> {
    let all = (namespace, session, 0)..=(namespace, session, u32::MAX);
    let last = table.range(all).map_err(storage)?.next_back().transpose().map_err(storage)?;
    Ok(last.map_or(0, |(key, _)| key.value().2 + 1))
}

impl Snapshot {
    /// The sessions of a namespace that have messages, by name.
    pub(crate) fn sessions(&self, namespace: NamespaceId) -> Result<Vec<SessionInfo>> {
        let (history, batches) = (self.table(HISTORY)?, self.table(BATCHES)?);
        let mut sessions = Vec::new();
        for entry in self.table(SESSIONS)?.range((namespace.0, "")..(namespace.0 + 1, "")).map_err(storage)? {
            let (key, number) = entry.map_err(storage)?;
            let (session, number) = (key.value().1.to_owned(), number.value());
            let (mut messages, mut buffered) = (0, 0);
            for entry in history.range((namespace.0, number, 0)..=(namespace.0, number, u64::MAX)).map_err(storage)? {
                let (_, place) = entry.map_err(storage)?;
                messages += 1;
                buffered += u64::from(place.value() == Place::Buffer.number());
            }
            let batches = u64::from(next_batch(&batches, namespace.0, number)?);
            if messages > 0 {
                sessions.push(SessionInfo { session, messages, buffered, batches });
            }
        }
        Ok(sessions)
    }

    /// A session's messages in order, with their sequence numbers: all, or those in the buffer.
    pub(crate) fn history(
        &self,
        namespace: NamespaceId,
        session: u32,
        only: Option<Place>,
    ) -> Result<Vec<(u64, Message)>> {
        self.history_range(namespace, session, 0, u64::MAX, only)
    }

    fn history_range(
        &self,
        namespace: NamespaceId,
        session: u32,
        first: u64,
        last: u64,
        only: Option<Place>,
    ) -> Result<Vec<(u64, Message)>> {
        let messages = self.table(MESSAGES)?;
        let mut found = Vec::new();
        if first > last {
            return Ok(found);
        }
        for entry in
            self.table(HISTORY)?.range((namespace.0, session, first)..=(namespace.0, session, last)).map_err(storage)?
        {
            let (key, place) = entry.map_err(storage)?;
            if only.is_some_and(|only| only.number() != place.value()) {
                continue;
            }
            let seq = key.value().2;
            let value = messages.get((namespace.0, seq)).map_err(storage)?;
            let value = value.ok_or_else(|| Error::corrupted(format!("message {seq} is missing")))?;
            found.push((seq, codec::decode::<MessageRecord>(value.value())?.message()?));
        }
        Ok(found)
    }

    /// A batch of a session, if it has come so far. It has fewer messages than were flushed, if some were deleted since.
    pub(crate) fn batch(&self, namespace: NamespaceId, session: u32, number: u32) -> Result<Option<StoredBatch>> {
        let ends = self.table(BATCHES)?.get((namespace.0, session, number)).map_err(storage)?.map(|ends| ends.value());
        let Some(ends) = ends else { return Ok(None) };
        let messages = self.history_range(namespace, session, ends.0, ends.1, Some(Place::LongTerm(Some(number))))?;
        let messages = messages.into_iter().map(|(_, message)| message).collect();
        Ok(Some(StoredBatch { number, ends, messages }))
    }

    /// The number of a session's next batch.
    pub(crate) fn next_batch(&self, namespace: NamespaceId, session: u32) -> Result<u32> {
        next_batch(&self.table(BATCHES)?, namespace.0, session)
    }

    /// The messages that were flushed together with this one; none, if it was not flushed.
    pub(crate) fn batch_of(&self, namespace: NamespaceId, id: &str) -> Result<Vec<Message>> {
        let Some((seq, session)) = self.locate(namespace, id)? else { return Ok(Vec::new()) };
        let place = self.table(HISTORY)?.get((namespace.0, session, seq)).map_err(storage)?;
        let Some(Place::LongTerm(Some(batch))) = place.map(|place| Place::read(place.value())) else {
            return Ok(Vec::new());
        };
        Ok(self.batch(namespace, session, batch)?.map_or(Vec::new(), |batch| batch.messages))
    }

    /// The batch that a message was flushed in, if it was.
    pub(crate) fn batch_number(&self, namespace: NamespaceId, session: &str, seq: u64) -> Result<Option<u32>> {
        let Some(session) = self.session(namespace, session)? else { return Ok(None) };
        let place = self.table(HISTORY)?.get((namespace.0, session, seq)).map_err(storage)?;
        Ok(match place.map(|place| Place::read(place.value())) {
            Some(Place::LongTerm(batch)) => batch,
            _ => None,
        })
    }

    /// The sequence number of a message, and its session's number.
    pub(crate) fn locate(&self, namespace: NamespaceId, id: &str) -> Result<Option<(u64, u32)>> {
        let seq = self.table(IDS)?.get((namespace.0, id)).map_err(storage)?.map(|seq| seq.value());
        let Some(seq) = seq else { return Ok(None) };
        let Some(record) = self.record(namespace, seq)? else { return Ok(None) };
        Ok(self.session(namespace, &record.session)?.map(|session| (seq, session)))
    }
}

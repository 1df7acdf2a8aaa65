//! Editing messages: the tables that hold them, open together, and the steps that every change is made of.
//!
//! Keeps true, at each step's end: a message is in the history of its session; it is pending in every live generation, or
//! has its vectors, if and only if it has text and is not in the buffer; a checkpoint can be told from what is stored.

use std::collections::{BTreeMap, HashMap};

use redb::{ReadableTable, Table};

use super::{Removed, Transaction, checkpoints::old_messages, codec, schema::*, storage};
use crate::{
    error::{Error, Result},
    ids::{GenerationId, Namespace, NamespaceId},
    message::Message,
};

type Bytes = &'static [u8];

/// What a change did, beyond its own result.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Messages that now wait to be embedded.
    pub(crate) pending: u64,
    /// Rows that are dead now, of all generations that take writes.
    pub(crate) removed: Vec<Removed>,
    /// What changed in short-term buffers, in order.
    pub(crate) buffers: Vec<BufferChange>,
}

/// A message that came into a short-term buffer, changed there, or left it.
#[derive(Debug)]
pub(crate) struct BufferChange {
    pub(crate) namespace: Namespace,
    pub(crate) session: String,
    pub(crate) seq: u64,
    /// `None`: it left.
    pub(crate) message: Option<Message>,
}

/// A message as it is stored.
pub(super) struct Stored {
    pub(super) seq: u64,
    pub(super) session: u32,
    pub(super) place: Place,
    pub(super) record: MessageRecord,
}

/// A namespace that is being edited.
pub(super) struct Space {
    pub(super) namespace: Namespace,
    pub(super) record: NamespaceRecord,
}

/// The generations that take writes, and what is pending in each.
struct Generations<'t> {
    live: Vec<(GenerationId, GenerationRecord)>,
    pending: Table<'t, (u32, u32, u64), u64>,
}

pub(super) struct Edit<'t> {
    transaction: &'t Transaction,
    /// Read, and their table of what is pending opened, when something comes into long-term memory or leaves it.
    generations: Option<Generations<'t>>,
    namespaces: Table<'t, &'static str, Bytes>,
    sessions: Table<'t, (u32, &'static str), u32>,
    messages: Table<'t, (u32, u64), Bytes>,
    ids: Table<'t, (u32, &'static str), u64>,
    history: Table<'t, (u32, u32, u64), u32>,
    spaces: HashMap<Namespace, NamespaceRecord>,
    /// Whose vectors no longer hold.
    outdated: Vec<(NamespaceId, u64)>,
    effects: Effects,
}

impl<'t> Edit<'t> {
    pub(super) fn begin(transaction: &'t Transaction) -> Result<Self> {
        Ok(Edit {
            transaction,
            generations: None,
            namespaces: transaction.table(NAMESPACES)?,
            sessions: transaction.table(SESSIONS)?,
            messages: transaction.table(MESSAGES)?,
            ids: transaction.table(IDS)?,
            history: transaction.table(HISTORY)?,
            spaces: HashMap::new(),
            outdated: Vec::new(),
            effects: Effects::default(),
        })
    }

    /// Writes what was counted, and erases vectors.
    pub(super) fn finish(mut self) -> Result<Effects> {
        for (namespace, record) in &self.spaces {
            self.namespaces.insert(namespace.as_str(), codec::encode(record).as_slice()).map_err(storage)?;
        }
        let mut effects = std::mem::take(&mut self.effects);
        if self.outdated.is_empty() {
            return Ok(effects);
        }
        let live = self.generations()?.live.clone();
        for (id, _) in &live {
            effects.removed.extend(self.transaction.erase(*id, &self.outdated)?);
        }
        Ok(effects)
    }

    /// A namespace to edit, made if it is new. To be given back by [`Edit::put_back`].
    pub(super) fn space(&mut self, namespace: &Namespace) -> Result<Space> {
        let record = match self.spaces.remove(namespace) {
            Some(record) => record,
            None => {
                let found = self.namespaces.get(namespace.as_str()).map_err(storage)?;
                let found = found.map(|value| codec::decode(value.value())).transpose()?;
                match found {
                    Some(record) => record,
                    None => {
                        // Ids are counted, never reused: a namespace is never deleted from this table.
                        let id = redb::ReadableTableMetadata::len(&self.namespaces).map_err(storage)? as u32;
                        let record = NamespaceRecord { id, next_seq: 0, next_session: 0, messages: 0 };
                        let bytes = codec::encode(&record);
                        self.namespaces.insert(namespace.as_str(), bytes.as_slice()).map_err(storage)?;
                        record
                    }
                }
            }
        };
        Ok(Space { namespace: namespace.clone(), record })
    }

    pub(super) fn put_back(&mut self, space: Space) {
        self.spaces.insert(space.namespace, space.record);
    }

    /// The number of a session, if it has one.
    pub(super) fn known_session(&self, space: &Space, session: &str) -> Result<Option<u32>> {
        Ok(self.sessions.get((space.record.id, session)).map_err(storage)?.map(|number| number.value()))
    }

    /// The number of a session, given now if it has none.
    pub(super) fn session(&mut self, space: &mut Space, session: &str) -> Result<u32> {
        if let Some(number) = self.known_session(space, session)? {
            return Ok(number);
        }
        let number = space.record.next_session;
        self.sessions.insert((space.record.id, session), number).map_err(storage)?;
        space.record.next_session += 1;
        Ok(number)
    }

    pub(super) fn session_names(&self, space: &Space) -> Result<Vec<String>> {
        let id = space.record.id;
        let entries = self.sessions.range((id, "")..(id + 1, "")).map_err(storage)?;
        entries.map(|entry| Ok(entry.map_err(storage)?.0.value().1.to_owned())).collect()
    }

    /// Forgets the name of a session. Its messages are gone already.
    pub(super) fn remove_session(&mut self, space: &Space, session: &str) -> Result<()> {
        self.sessions.remove((space.record.id, session)).map_err(storage)?;
        Ok(())
    }

    pub(super) fn find(&self, space: &Space, id: &str) -> Result<Option<Stored>> {
        let seq = self.ids.get((space.record.id, id)).map_err(storage)?.map(|seq| seq.value());
        seq.map(|seq| self.stored(space, seq)).transpose()
    }

    pub(super) fn stored(&self, space: &Space, seq: u64) -> Result<Stored> {
        let value = self.messages.get((space.record.id, seq)).map_err(storage)?;
        let value = value.ok_or_else(|| Error::corrupted(format!("message {seq} is missing")))?;
        let record: MessageRecord = codec::decode(value.value())?;
        let session = self.known_session(space, &record.session)?;
        let session = session.ok_or_else(|| Error::corrupted(format!("session {:?} has no number", record.session)))?;
        let place = self.place(space, session, seq)?;
        let place = place.ok_or_else(|| Error::corrupted(format!("message {seq} is not in its session")))?;
        Ok(Stored { seq, session, place, record })
    }

    pub(super) fn place(&self, space: &Space, session: u32, seq: u64) -> Result<Option<Place>> {
        let place = self.history.get((space.record.id, session, seq)).map_err(storage)?;
        Ok(place.map(|place| Place::read(place.value())))
    }

    pub(super) fn checkpoint(&self, namespace: u32, session: u32, number: u32) -> Result<Option<CheckpointRecord>> {
        let checkpoints = self.transaction.table(CHECKPOINTS)?;
        let value = checkpoints.get((namespace, session, number)).map_err(storage)?;
        value.map(|value| codec::decode(value.value())).transpose()
    }

    /// The messages of a session that changed after a checkpoint, as they were.
    pub(super) fn old_messages(&self, namespace: u32, session: u32, at: u32) -> Result<BTreeMap<u64, OldMessage>> {
        old_messages(&self.transaction.table(OLD_MESSAGES)?, namespace, session, at)
    }

    /// The session's messages in order: sequence numbers and places.
    pub(super) fn history(&self, space: &Space, session: u32) -> Result<Vec<(u64, Place)>> {
        let all = (space.record.id, session, 0)..=(space.record.id, session, u64::MAX);
        let entries = self.history.range(all).map_err(storage)?;
        entries
            .map(|entry| {
                let (key, place) = entry.map_err(storage)?;
                Ok((key.value().2, Place::read(place.value())))
            })
            .collect()
    }

    /// Stores a message that is new.
    pub(super) fn insert(&mut self, space: &mut Space, record: MessageRecord, place: Place) -> Result<u64> {
        let session = self.session(space, &record.session)?;
        let seq = fresh(space);
        self.add(space, Stored { seq, session, place, record })?;
        Ok(seq)
    }

    /// Stores a message under a sequence number that it had, as another version.
    pub(super) fn add_again(&mut self, space: &mut Space, mut stored: Stored) -> Result<()> {
        stored.record.revision = fresh(space);
        self.add(space, stored)
    }

    fn add(&mut self, space: &mut Space, stored: Stored) -> Result<()> {
        space.record.messages += 1;
        self.ids.insert((space.record.id, stored.record.id.as_str()), stored.seq).map_err(storage)?;
        self.write(space, stored, true)
    }

    /// Stores another version of a message in its place. If it changes its session, it is the last there, and in long-term
    /// memory.
    pub(super) fn replace(&mut self, space: &mut Space, old: Stored, mut record: MessageRecord) -> Result<()> {
        if record.session != old.record.session {
            self.remove(space, old)?;
            record.revision = fresh(space);
            return self.insert(space, record, Place::LongTerm(None)).map(drop);
        }
        self.remember(space, &old)?;
        let keeps_vectors = old.record.same_vectors(&record);
        record.revision = if keeps_vectors { old.record.revision } else { fresh(space) };
        if !keeps_vectors && old.place != Place::Buffer {
            self.outdated.push((NamespaceId(space.record.id), old.seq));
        }
        self.write(space, Stored { record, ..old }, !keeps_vectors)
    }

    /// Deletes a message with all that was made of it.
    pub(super) fn remove(&mut self, space: &mut Space, old: Stored) -> Result<()> {
        self.remember(space, &old)?;
        let key = (space.record.id, old.seq);
        space.record.messages -= 1;
        self.messages.remove(key).map_err(storage)?;
        self.ids.remove((key.0, old.record.id.as_str())).map_err(storage)?;
        self.history.remove((key.0, old.session, old.seq)).map_err(storage)?;
        if old.place == Place::Buffer {
            self.leave(space, &old);
            return Ok(());
        }
        self.wait(space, old.seq, None)?;
        self.outdated.push((NamespaceId(key.0), old.seq));
        Ok(())
    }

    /// Moves a message into its session's buffer, or out of it.
    pub(super) fn move_to(&mut self, space: &mut Space, old: Stored, place: Place) -> Result<()> {
        match (old.place, place) {
            _ if old.place == place => return Ok(()),
            (Place::Buffer, _) => self.leave(space, &old),
            (_, Place::Buffer) => {
                self.wait(space, old.seq, None)?;
                self.outdated.push((NamespaceId(space.record.id), old.seq));
            }
            _ => {
                let key = (space.record.id, old.session, old.seq);
                self.history.insert(key, place.number()).map_err(storage)?;
                return Ok(());
            }
        }
        self.write(space, Stored { place, ..old }, true)
    }

    fn write(&mut self, space: &Space, stored: Stored, needs_vectors: bool) -> Result<()> {
        let Stored { seq, session, place, record } = stored;
        self.messages.insert((space.record.id, seq), codec::encode(&record).as_slice()).map_err(storage)?;
        self.history.insert((space.record.id, session, seq), place.number()).map_err(storage)?;
        if needs_vectors || place == Place::Buffer {
            let message = record.clone().message()?;
            let has_text = !message.searchable().trim().is_empty();
            match place {
                Place::LongTerm(_) => self.wait(space, seq, has_text.then_some(record.revision))?,
                Place::Buffer => {
                    let (namespace, session) = (space.namespace.clone(), record.session);
                    self.effects.buffers.push(BufferChange { namespace, session, seq, message: Some(message) });
                }
            }
        }
        Ok(())
    }

    /// Makes a message pending at this revision, or no longer.
    fn wait(&mut self, space: &Space, seq: u64, revision: Option<u64>) -> Result<()> {
        let id = space.record.id;
        let Generations { live, pending } = self.generations()?;
        for (generation, _) in live {
            let key = (generation.0, id, seq);
            match revision {
                Some(revision) => pending.insert(key, revision).map_err(storage)?,
                None => pending.remove(key).map_err(storage)?,
            };
        }
        self.effects.pending += u64::from(revision.is_some());
        Ok(())
    }

    fn generations(&mut self) -> Result<&mut Generations<'t>> {
        if self.generations.is_none() {
            let (live, pending) = (self.transaction.live_generations()?, self.transaction.table(PENDING)?);
            self.generations = Some(Generations { live, pending });
        }
        Ok(self.generations.as_mut().expect("just made"))
    }

    fn leave(&mut self, space: &Space, old: &Stored) {
        let (namespace, session) = (space.namespace.clone(), old.record.session.clone());
        self.effects.buffers.push(BufferChange { namespace, session, seq: old.seq, message: None });
    }

    /// Keeps a message as it is for the newest checkpoint that has it, before it changes.
    fn remember(&mut self, space: &Space, old: &Stored) -> Result<()> {
        let (id, session) = (space.record.id, old.session);
        let all = (id, session, 0)..=(id, session, u32::MAX);
        // Opened when something changes: most puts change nothing.
        let checkpoints = self.transaction.table(CHECKPOINTS)?;
        let newest = checkpoints.range(all).map_err(storage)?.next_back().transpose().map_err(storage)?;
        let Some((key, value)) = newest else { return Ok(()) };
        let checkpoint: CheckpointRecord = codec::decode(value.value())?;
        let key = (id, session, old.seq, key.value().2);
        let mut old_messages = self.transaction.table(OLD_MESSAGES)?;
        if old.seq < checkpoint.next_seq && old_messages.get(key).map_err(storage)?.is_none() {
            let old = OldMessage { record: old.record.clone(), place: old.place.number() };
            old_messages.insert(key, codec::encode(&old).as_slice()).map_err(storage)?;
        }
        Ok(())
    }
}

/// A number that none of the namespace's messages and their versions ever had: vectors made from a version that was undone
/// must not be taken for those of another.
fn fresh(space: &mut Space) -> u64 {
    let number = space.record.next_seq;
    space.record.next_seq += 1;
    number
}

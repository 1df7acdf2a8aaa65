//! Sessions and their messages: numbers, messages by id and by number, the history, the window that prompts show, the
//! batches of flushes, and the times at which sessions are idle. `edit` writes messages.
//!
//! A message enters the window when it is put, and leaves it when the token budget pushes it out. In between it may be in the
//! session's buffer or in long-term memory: a flush for another reason than the budget changes no prompt.

use std::{
    collections::{HashMap, HashSet},
    ops::{Range, RangeInclusive},
    sync::Arc,
};

use redb::ReadTransaction;

use super::{
    codec,
    message_record::MessageRecord,
    message_versions::{self, MessageVersion, VersionKey},
    schema::*,
    tables::{ReadTable, ReadableTable, Tables, WriteTable, WriteTransaction},
};
use crate::{
    error::{Error, Result},
    ids::{Namespace, NamespaceId},
    message::{Message, Role, Timestamp},
};

/// The table of sessions.
pub(crate) struct Sessions<'t, T>(pub(super) &'t T);

impl<T: Tables> Sessions<'_, T> {
    /// The number of a session in its namespace, or `None` if there is no such session.
    pub(crate) fn number(&self, namespace: NamespaceId, session: &str) -> Result<Option<u32>> {
        number(&self.0.table(SESSIONS)?, namespace.0, session)
    }

    /// The names of the sessions of a namespace, by number.
    pub(super) fn names(&self, namespace: NamespaceId) -> Result<HashMap<u32, String>> {
        Ok(self.all(namespace)?.into_iter().map(|(name, number)| (number, name)).collect())
    }

    /// The names and numbers of the sessions of a namespace, by name.
    pub(super) fn all(&self, namespace: NamespaceId) -> Result<Vec<(String, u32)>> {
        self.from(namespace, "")
    }

    /// Same as [`Sessions::all`], from this name on.
    pub(super) fn from(&self, namespace: NamespaceId, first: &str) -> Result<Vec<(String, u32)>> {
        let table = self.0.table(SESSIONS)?;
        let entries = table.range((namespace.0, first)..(namespace.0 + 1, ""))?;
        entries
            .map(|entry| {
                let (key, number) = entry?;
                Ok((key.value().1.to_owned(), number.value()))
            })
            .collect()
    }
}

/// The number of a session, or `None` if there is no such session.
pub(super) fn number(
    table: &impl ReadableTable<(u32, &'static str), u32>,
    namespace: u32,
    session: &str,
) -> Result<Option<u32>> {
    Ok(table.get((namespace, session))?.map(|number| number.value()))
}

/// The number of a session that a message belongs to.
///
/// # Errors
/// [`Error::Corrupted`] if there is no such session.
pub(super) fn known_number(
    table: &impl ReadableTable<(u32, &'static str), u32>,
    namespace: u32,
    session: &str,
) -> Result<u32> {
    number(table, namespace, session)?.ok_or_else(|| Error::corrupted(format!("session {session:?} has no number")))
}

/// The number of a session, which is assigned if there is no such session.
pub(super) fn number_or_new(
    table: &mut WriteTable<'_, (u32, &'static str), u32>,
    namespace: &mut NamespaceRecord,
    session: &str,
) -> Result<u32> {
    if let Some(number) = number(table, namespace.id, session)? {
        return Ok(number);
    }
    let number = namespace.next_session;
    table.insert((namespace.id, session), number)?;
    namespace.next_session += 1;
    Ok(number)
}

/// The tables of messages and of their ids.
pub(crate) struct Messages<'t, T>(pub(super) &'t T);

impl<T: Tables> Messages<'_, T> {
    /// The message with this sequence number, unless it has expired.
    pub(crate) fn get(&self, namespace: NamespaceId, seq: u64) -> Result<Option<Message>> {
        let record = MessageRecord::read_live(&self.0.table(MESSAGES)?, namespace.0, seq)?;
        record.map(MessageRecord::message).transpose()
    }

    /// The message with this id, unless it has expired. `take` is given its bytes before it is parsed, and may refuse them.
    pub(crate) fn by_id(
        &self,
        namespace: NamespaceId,
        id: &str,
        take: impl FnOnce(usize) -> Result<()>,
    ) -> Result<Option<Message>> {
        let read = || {
            let Some(seq) = self.seq(namespace, id)? else { return Ok(None) };
            let record = MessageRecord::read_live(&self.0.table(MESSAGES)?, namespace.0, seq)?;
            let Some(record) = record else { return Ok(None) };
            take(record.bytes())?;
            record.message().map(Some)
        };
        read().map_err(|error: Error| error.within(|| format!("message {id:?}")))
    }

    /// Passes the text of each message of a namespace to `visit`, in the order of their sequence numbers, until it returns
    /// a value. That of a system prompt or a tool is passed as empty.
    pub(crate) fn find_in_texts<R>(
        &self,
        namespace: NamespaceId,
        mut visit: impl FnMut(&str) -> Option<R>,
    ) -> Result<Option<R>> {
        for entry in self.0.table(MESSAGES)?.range((namespace.0, 0)..=(namespace.0, u64::MAX))? {
            let (_, record) = entry?;
            let message = codec::decode::<MessageRecord>(record.value())?.message()?;
            let text = match message.role {
                Role::User | Role::Assistant => message.borrowed_text(),
                _ => "".into(),
            };
            if let Some(found) = visit(&text) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The ids of the messages of a namespace that `is_wanted` accepts, sorted.
    pub(crate) fn ids(&self, namespace: NamespaceId, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for entry in self.0.table(IDS)?.range((namespace.0, "")..)? {
            let (key, _) = entry?;
            match key.value() {
                (of, _) if of != namespace.0 => break,
                (_, id) if is_wanted(id) => found.push(id.to_owned()),
                _ => {}
            }
        }
        Ok(found)
    }

    /// The sequence number of a message.
    pub(crate) fn seq(&self, namespace: NamespaceId, id: &str) -> Result<Option<u64>> {
        seq(&self.0.table(IDS)?, namespace.0, id)
    }

    /// The sequence numbers of those of the ids that exist.
    pub(crate) fn seqs<'i>(
        &self,
        namespace: NamespaceId,
        ids: impl IntoIterator<Item = &'i String>,
    ) -> Result<HashSet<u64>> {
        // Opening a table costs as much as reading from it.
        let table = self.0.table(IDS)?;
        ids.into_iter().filter_map(|id| seq(&table, namespace.0, id).transpose()).collect()
    }

    /// The earlier versions of the message with this id that end at a time or later, oldest first, without those that have expired, as
    /// long as `fits` returns true for the bytes of the next one.
    pub(crate) fn versions(
        &self,
        namespace: NamespaceId,
        id: &str,
        from: i64,
        fits: impl FnMut(usize) -> Result<bool>,
    ) -> Result<Vec<MessageVersion>> {
        let Some(seq) = self.seq(namespace, id)? else { return Ok(Vec::new()) };
        if MessageRecord::read_live(&self.0.table(MESSAGES)?, namespace.0, seq)?.is_none() {
            return Ok(Vec::new());
        }
        message_versions::live(&self.0.table(MESSAGE_VERSIONS)?, namespace, seq, from, fits)
    }

    /// What the messages of a namespace were at a time, of those that have changed since, with their sequence numbers. Cost:
    /// a pass over the keys of the namespace's versions.
    pub(crate) fn as_of(&self, namespace: NamespaceId, time: Timestamp) -> Result<Vec<(u64, Message)>> {
        let found = message_versions::all_as_of(&self.0.table(MESSAGE_VERSIONS)?, namespace, time)?;
        found.into_iter().map(|(seq, record)| Ok((seq, record.message()?))).collect()
    }

    /// The highest number that the message with this id was given, its sequence number or its revision: it has been what
    /// it is since the namespace assigned this number. Changes of metadata alone do not count.
    pub(crate) fn last_number(&self, namespace: NamespaceId, id: &str) -> Result<Option<u64>> {
        let Some(seq) = self.seq(namespace, id)? else { return Ok(None) };
        let record = MessageRecord::read_live(&self.0.table(MESSAGES)?, namespace.0, seq)?;
        Ok(record.map(|record| record.revision.max(seq)))
    }

    /// Returns true if each of these messages is still stored with its text in its session: none was deleted, has expired or
    /// was replaced. What was made of messages is stored only then.
    pub(crate) fn are_stored(&self, namespace: NamespaceId, messages: &[Message]) -> Result<bool> {
        let (ids, stored) = (self.0.table(IDS)?, self.0.table(MESSAGES)?);
        for message in messages {
            let Some(seq) = seq(&ids, namespace.0, &message.id)? else { return Ok(false) };
            let record = MessageRecord::read_live(&stored, namespace.0, seq)?;
            if !record.is_some_and(|record| record.same_vectors(&MessageRecord::new(message, record.revision))) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The sequence number of a message, and the number of its session.
    pub(crate) fn locate(&self, namespace: NamespaceId, id: &str) -> Result<Option<(u64, u32)>> {
        let Some(seq) = self.seq(namespace, id)? else { return Ok(None) };
        let record = MessageRecord::read_live(&self.0.table(MESSAGES)?, namespace.0, seq)?;
        let Some(record) = record else { return Ok(None) };
        Ok(Sessions(self.0).number(namespace, &record.session)?.map(|session| (seq, session)))
    }
}

/// The messages of a snapshot by sequence number, for several reads: opening the table costs as much as one.
pub(crate) struct MessageReader {
    messages: ReadTable<(u32, u64), Bytes>,
    /// The time as of which messages are read, with their versions.
    as_of: Option<(ReadTable<VersionKey, Bytes>, Timestamp)>,
    /// True if messages are returned without their metadata.
    skips_metadata: bool,
}

/// A message, and about how many bytes its content and its metadata take in memory and in an answer.
pub(crate) struct SizedMessage {
    pub(crate) message: Message,
    pub(crate) content_bytes: usize,
    pub(crate) metadata_bytes: usize,
}

impl Messages<'_, Arc<ReadTransaction>> {
    /// Opens the table of messages for several reads: as they are, or as they were at a time.
    pub(crate) fn reader(&self, as_of: Option<Timestamp>, skips_metadata: bool) -> Result<MessageReader> {
        let as_of = match as_of {
            Some(time) => Some((self.0.table(MESSAGE_VERSIONS)?, time)),
            None => None,
        };
        Ok(MessageReader { messages: self.0.table(MESSAGES)?, as_of, skips_metadata })
    }
}

impl MessageReader {
    /// The message with this sequence number, unless it has expired by now, or what it was has.
    pub(crate) fn get(&self, namespace: NamespaceId, seq: u64) -> Result<Option<SizedMessage>> {
        let Some(now) = MessageRecord::read_live(&self.messages, namespace.0, seq)? else { return Ok(None) };
        let then = match &self.as_of {
            Some((versions, time)) => message_versions::as_of(versions, namespace, seq, *time)?,
            None => None,
        };
        let mut read = then.unwrap_or(now);
        if self.skips_metadata {
            read.metadata = None;
        }
        if read.has_expired() {
            return Ok(None);
        }
        let (content_bytes, metadata_bytes) = (read.content_bytes(), read.metadata_bytes());
        Ok(Some(SizedMessage { message: read.message()?, content_bytes, metadata_bytes }))
    }

    /// The id of the message with this sequence number.
    pub(crate) fn id(&self, namespace: NamespaceId, seq: u64) -> Result<Option<String>> {
        MessageRecord::read_id(&self.messages, namespace.0, seq)
    }
}

/// The sequence number of a message.
pub(super) fn seq(ids: &impl ReadableTable<(u32, &'static str), u64>, namespace: u32, id: &str) -> Result<Option<u64>> {
    Ok(ids.get((namespace, id))?.map(|seq| seq.value()))
}

/// A message of a session.
#[derive(Clone, Debug)]
pub struct PlacedMessage {
    /// Its number in the namespace. The messages of a session are in the order of their numbers, and no other message gets the number
    /// of a deleted one.
    pub number: u64,
    /// True if it is in the session's buffer.
    pub is_buffered: bool,
    /// The message.
    pub message: Message,
}

/// The table of histories.
pub(crate) struct History<'t, T>(pub(super) &'t T);

impl<T: Tables> History<'_, T> {
    /// A session's messages in order, with their sequence numbers: all, or those at one position. Those that have expired
    /// are left out, as from every list of messages.
    pub(crate) fn messages(
        &self,
        namespace: NamespaceId,
        session: u32,
        only: Option<SessionPosition>,
    ) -> Result<Vec<(u64, Message)>> {
        self.messages_in(namespace, session, 0..=u64::MAX, only)
    }

    /// Same as [`History::messages`], for the messages whose sequence numbers are in `range`.
    pub(super) fn messages_in(
        &self,
        namespace: NamespaceId,
        session: u32,
        range: RangeInclusive<u64>,
        only: Option<SessionPosition>,
    ) -> Result<Vec<(u64, Message)>> {
        let messages = self.0.table(MESSAGES)?;
        positions(&self.0.table(HISTORY)?, namespace.0, session, range)?
            .into_iter()
            .filter(|(_, position)| only.is_none_or(|only| only == *position))
            .map(|(seq, _)| Ok((seq, MessageRecord::expect(&messages, namespace.0, seq)?)))
            .filter(|read| read.as_ref().map_or(true, |(_, record)| !record.has_expired()))
            .map(|read| read.and_then(|(seq, record)| Ok((seq, record.message()?))))
            .collect()
    }

    /// The messages of a session whose sequence numbers are in `range`, from its end if `is_reversed`, as long as `fits` returns true
    /// for the bytes of the next one.
    pub(crate) fn part(
        &self,
        namespace: NamespaceId,
        session: u32,
        range: Range<u64>,
        is_reversed: bool,
        mut fits: impl FnMut(usize) -> Result<bool>,
    ) -> Result<Vec<PlacedMessage>> {
        let (history, messages) = (self.0.table(HISTORY)?, self.0.table(MESSAGES)?);
        let mut keys = history.range((namespace.0, session, range.start)..(namespace.0, session, range.end))?;
        let mut found = Vec::new();
        while let Some(entry) = if is_reversed { keys.next_back() } else { keys.next() } {
            let (key, position) = entry?;
            let number = key.value().2;
            let record = MessageRecord::expect(&messages, namespace.0, number)?;
            if record.has_expired() {
                continue;
            }
            if !fits(record.bytes())? {
                break;
            }
            let is_buffered = SessionPosition::read(position.value()) == SessionPosition::Buffer;
            found.push(PlacedMessage { number, is_buffered, message: record.message()? });
        }
        Ok(found)
    }

    /// The sequence numbers and positions of a session's messages, in order.
    pub(super) fn positions(&self, namespace: NamespaceId, session: u32) -> Result<Vec<(u64, SessionPosition)>> {
        positions(&self.0.table(HISTORY)?, namespace.0, session, 0..=u64::MAX)
    }

    /// The position of a message in its session, or `None` if it is not in it.
    pub(super) fn position(&self, namespace: NamespaceId, session: u32, seq: u64) -> Result<Option<SessionPosition>> {
        position(&self.0.table(HISTORY)?, namespace.0, session, seq)
    }
}

/// See [`History::positions`].
pub(super) fn positions(
    history: &impl ReadableTable<(u32, u32, u64), u32>,
    namespace: u32,
    session: u32,
    range: RangeInclusive<u64>,
) -> Result<Vec<(u64, SessionPosition)>> {
    if range.is_empty() {
        return Ok(Vec::new());
    }
    let keys = (namespace, session, *range.start())..=(namespace, session, *range.end());
    history
        .range(keys)?
        .map(|entry| {
            let (key, position) = entry?;
            Ok((key.value().2, SessionPosition::read(position.value())))
        })
        .collect()
}

/// See [`History::position`].
pub(super) fn position(
    history: &impl ReadableTable<(u32, u32, u64), u32>,
    namespace: u32,
    session: u32,
    seq: u64,
) -> Result<Option<SessionPosition>> {
    let position = history.get((namespace, session, seq))?;
    Ok(position.map(|position| SessionPosition::read(position.value())))
}

/// The most messages over the budget in which the beginning of the last turn is looked for.
const MAX_OVER: usize = 64;

/// The starts of windows, and the tables of messages.
pub(crate) struct Window<'t, T>(pub(super) &'t T);

/// A message with its sequence number and its cost.
pub(crate) type CostedMessage = (u64, Message, usize);

/// The messages of a session's window that are in long-term memory.
#[derive(Debug, Default)]
pub(crate) struct FlushedWindow {
    /// The system messages with which the session begins, before its window or in it.
    pub(crate) system: Vec<CostedMessage>,
    /// The last messages, oldest first.
    pub(crate) last: Vec<CostedMessage>,
    /// True if the window has older messages, which exceed the budget.
    pub(crate) is_cut: bool,
}

impl<T: Tables> Window<'_, T> {
    /// The first sequence number of a session's window.
    pub(crate) fn start(&self, namespace: NamespaceId, session: u32) -> Result<u64> {
        let table = self.0.table(WINDOWS)?;
        let start = table.get((namespace.0, session))?;
        Ok(start.map_or(0, |start| start.value()))
    }

    /// Reads the messages of a session's window that are in long-term memory: the system messages at its beginning, and
    /// the last ones whose costs add up to at most `budget` together with these. Unless `has_turn`, the last turn is
    /// read even if it costs more. The window is cut before the first message for whose bytes `fits` returns false.
    pub(crate) fn flushed(
        &self,
        namespace: NamespaceId,
        session: u32,
        mut budget: usize,
        has_turn: bool,
        mut fits: impl FnMut(usize) -> Result<bool>,
        mut cost: impl FnMut(u64, &Message) -> usize,
    ) -> Result<FlushedWindow> {
        let mut window = FlushedWindow::default();
        let start = self.start(namespace, session)?;
        let (history, messages) = (self.0.table(HISTORY)?, self.0.table(MESSAGES)?);
        let range = |from| (namespace.0, session, from)..=(namespace.0, session, u64::MAX);
        let is_buffered = |position| SessionPosition::read(position) == SessionPosition::Buffer;
        let live = |seq: u64| -> Result<Option<MessageRecord>> {
            let record = MessageRecord::expect(&messages, namespace.0, seq)?;
            Ok((!record.has_expired()).then_some(record))
        };
        let mut costed = |seq: u64, record: MessageRecord| -> Result<CostedMessage> {
            let message = record.message()?;
            let cost = cost(seq, &message);
            Ok((seq, message, cost))
        };
        let mut first = start;
        for entry in history.range(range(0))? {
            let (key, position) = entry?;
            let seq = key.value().2;
            if is_buffered(position.value()) {
                break;
            }
            let Some(record) = live(seq)? else { continue };
            if !fits(record.bytes())? {
                window.is_cut = true;
                return Ok(window);
            }
            let message = costed(seq, record)?;
            if message.1.role != Role::System {
                break;
            }
            budget = budget.saturating_sub(message.2);
            first = first.max(seq + 1);
            window.system.push(message);
        }
        let (mut has_turn, mut over) = (has_turn, 0);
        for entry in history.range(range(first))?.rev() {
            let (key, position) = entry?;
            if is_buffered(position.value()) {
                continue;
            }
            let Some(record) = live(key.value().2)? else { continue };
            if !fits(record.bytes())? {
                window.is_cut = true;
                break;
            }
            let message = costed(key.value().2, record)?;
            window.is_cut |= message.2 > budget;
            over += usize::from(window.is_cut);
            if window.is_cut && (has_turn || over > MAX_OVER) {
                break;
            }
            budget = budget.saturating_sub(message.2);
            has_turn |= message.1.role == Role::User;
            window.last.push(message);
        }
        window.last.reverse();
        Ok(window)
    }
}

impl Window<'_, WriteTransaction> {
    /// Begins a session's window at this sequence number.
    pub(super) fn set_start(&self, namespace: NamespaceId, session: u32, start: u64) -> Result<()> {
        let mut table = self.0.table(WINDOWS)?;
        let key = (namespace.0, session);
        match start {
            0 => table.remove(key)?,
            start => table.insert(key, start)?,
        };
        Ok(())
    }
}

/// The messages that one flush moved to long-term memory.
#[derive(Clone, Debug)]
pub(crate) struct StoredBatch {
    pub(crate) number: u32,
    pub(crate) messages: Vec<Message>,
}

/// The table of batches.
pub(crate) struct Batches<'t, T>(pub(super) &'t T);

impl<T: Tables> Batches<'_, T> {
    /// A batch of a session, or `None` if the session has no batch of this number yet. It holds fewer messages than
    /// were flushed if some were deleted since.
    pub(crate) fn get(&self, namespace: NamespaceId, session: u32, number: u32) -> Result<Option<StoredBatch>> {
        let Some(ends) = self.ends(namespace, session, number)? else { return Ok(None) };
        let position = SessionPosition::LongTerm(Some(number));
        let messages = History(self.0).messages_in(namespace, session, ends.0..=ends.1, Some(position))?;
        let messages = messages.into_iter().map(|(_, message)| message).collect();
        Ok(Some(StoredBatch { number, messages }))
    }

    /// The number that the next batch of a session will have.
    pub(crate) fn next_number(&self, namespace: NamespaceId, session: u32) -> Result<u32> {
        let all = (namespace.0, session, 0)..=(namespace.0, session, u32::MAX);
        let table = self.0.table(BATCHES)?;
        let last = table.range(all)?.next_back().transpose()?;
        Ok(last.map_or(0, |(key, _)| key.value().2 + 1))
    }

    /// The messages that were flushed together with a message; none if it was not flushed.
    pub(crate) fn of_message(&self, namespace: NamespaceId, id: &str) -> Result<Vec<Message>> {
        let Some((seq, session)) = Messages(self.0).locate(namespace, id)? else { return Ok(Vec::new()) };
        let position = History(self.0).position(namespace, session, seq)?;
        let Some(SessionPosition::LongTerm(Some(batch))) = position else { return Ok(Vec::new()) };
        Ok(self.get(namespace, session, batch)?.map_or(Vec::new(), |batch| batch.messages))
    }

    /// The number of the batch that a message was flushed in, or `None` if it was not flushed.
    pub(crate) fn number_of(&self, namespace: NamespaceId, session: &str, seq: u64) -> Result<Option<u32>> {
        let Some(session) = Sessions(self.0).number(namespace, session)? else { return Ok(None) };
        Ok(match History(self.0).position(namespace, session, seq)? {
            Some(SessionPosition::LongTerm(batch)) => batch,
            _ => None,
        })
    }

    /// The first and the last sequence number of a batch.
    pub(super) fn ends(&self, namespace: NamespaceId, session: u32, number: u32) -> Result<Option<(u64, u64)>> {
        let table = self.0.table(BATCHES)?;
        Ok(table.get((namespace.0, session, number))?.map(|ends| ends.value()))
    }
}

impl Batches<'_, WriteTransaction> {
    /// Stores the first and the last sequence number of a batch.
    pub(super) fn put(&self, namespace: NamespaceId, session: u32, number: u32, ends: (u64, u64)) -> Result<()> {
        self.0.table(BATCHES)?.insert((namespace.0, session, number), ends)?;
        Ok(())
    }

    /// Deletes a session's batches from this number on.
    pub(super) fn remove_from(&self, namespace: NamespaceId, session: u32, first: u32) -> Result<()> {
        let later = (namespace.0, session, first)..=(namespace.0, session, u32::MAX);
        self.0.table(BATCHES)?.remove_range(later)
    }
}

/// A session by name, and the time at which it is idle.
pub(crate) type IdleSession = (Namespace, String, Timestamp);

/// The table of the times at which sessions are idle.
pub(crate) struct Idle<'t, T>(pub(super) &'t T);

impl<T: Tables> Idle<'_, T> {
    /// The time at which a session is idle, or `None` if it was not put to since it was last idle.
    pub(crate) fn get(&self, namespace: &Namespace, session: &str) -> Result<Option<Timestamp>> {
        let table = self.0.table(IDLE)?;
        let time = table.get((namespace.as_str(), session))?;
        time.map(|time| timestamp(time.value())).transpose()
    }

    /// All sessions that have such a time.
    pub(crate) fn all(&self) -> Result<Vec<IdleSession>> {
        let table = self.0.table(IDLE)?;
        let entries = table.iter()?;
        entries
            .map(|entry| {
                let (key, time) = entry?;
                let (namespace, session) = key.value();
                Ok((Namespace::new(namespace)?, session.to_owned(), timestamp(time.value())?))
            })
            .collect()
    }
}

impl Idle<'_, WriteTransaction> {
    /// Sets the time at which a session is idle; with `None` it never is.
    pub(crate) fn set(&self, namespace: &Namespace, session: &str, time: Option<Timestamp>) -> Result<()> {
        let mut table = self.0.table(IDLE)?;
        let key = (namespace.as_str(), session);
        match time {
            Some(time) => table.insert(key, time.as_micros())?,
            None => table.remove(key)?,
        };
        Ok(())
    }
}

fn timestamp(micros: i64) -> Result<Timestamp> {
    Timestamp::from_micros(micros)
        .ok_or_else(|| Error::corrupted("the time at which a session is idle is out of range"))
}

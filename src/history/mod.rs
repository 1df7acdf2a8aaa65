//! Chat histories: stores that keep the messages of sessions complete and in order.
//!
//! This module owns the contract of history stores ([`HistoryStore`]), its conformance test (`conformance`), and two
//! stores: in memory, and in a folder (`file_history`, with the format of a file in `session_file`). It does not embed,
//! search or trim messages.
//!
//! Invariants: a store contains only messages that [`Message::check`] accepts; a session's name is never used as a path.

mod conformance;
mod file_history;
mod session_file;

use std::collections::{BTreeMap, HashMap};

use parking_lot::RwLock;

use crate::{
    error::{Result, impl_debug},
    ids::check_id,
    message::Message,
};
pub use conformance::check_history_store;
pub use file_history::FileHistory;

/// A store for the messages of sessions.
///
/// | store | location | durable |
/// | --- | --- | --- |
/// | [`InMemoryHistory`](crate::InMemoryHistory) | this process | no |
/// | [`FileHistory`](crate::FileHistory) | a folder with one JSON Lines file per session | yes |
/// | [`EngineHistory`](crate::EngineHistory) | an engine's database, where the messages can also be recalled | yes |
///
/// A history store only keeps complete sessions. A [`Memory`](crate::Memory) does not use one: it keeps its messages in
/// the engine's file. A memory that is opened on a session of an [`EngineHistory`](crate::EngineHistory) begins with the
/// session's last turns. To continue a session of another store, put its messages into a memory.
///
/// Test your own implementation with [`check_history_store`](crate::check_history_store).
///
/// Methods block, and may be called from several threads at once. A message is returned as it was stored, except for
/// its [`session`](Message::session), which becomes the session that the message was stored in. Every method with a
/// session parameter fails with [`Error::InvalidMessage`](crate::Error::InvalidMessage) if the name is empty or longer
/// than [`MAX_ID_BYTES`](crate::MAX_ID_BYTES).
///
/// ```
/// use mnemon::{HistoryStore, InMemoryHistory, Message};
/// let history = InMemoryHistory::new();
/// history.append("monday", &[Message::user("hello").with_id("1"), Message::assistant("hi").with_id("2")])?;
/// history.append("monday", &[Message::user("good morning").with_id("1")])?;
/// let texts: Vec<String> = history.messages("monday")?.iter().map(Message::text).collect();
/// assert_eq!(texts, ["good morning", "hi"]);
/// # Ok::<(), mnemon::Error>(())
/// ```
pub trait HistoryStore: Send + Sync {
    /// Returns the names of the sessions that have messages, sorted.
    ///
    /// # Errors
    /// The store's own errors.
    fn sessions(&self) -> Result<Vec<String>>;

    /// Returns the messages of a session, in order. Empty for an unknown session.
    ///
    /// # Errors
    /// The store's own errors.
    fn messages(&self, session: &str) -> Result<Vec<Message>>;

    /// Appends messages to a session, with no message of another call between them.
    ///
    /// A message whose id the session already contains replaces the stored message and keeps its position. Of several
    /// messages with the same id in one call, the last one counts. If the store is durable, the messages are durable
    /// when the call returns.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`](crate::Error::InvalidMessage) for a message that [`Message::check`] refuses; then none
    /// of the messages is stored. The store's own errors.
    fn append(&self, session: &str, messages: &[Message]) -> Result<()>;

    /// Replaces all messages of a session atomically: readers see either the old or the new messages, also after a
    /// crash.
    ///
    /// If several messages have the same id, the last one counts, at the position of the first. An empty list deletes
    /// the session.
    ///
    /// # Errors
    /// Same as [`append`](HistoryStore::append). On an error the session is unchanged.
    fn set(&self, session: &str, messages: &[Message]) -> Result<()>;

    /// Deletes a session. Deleting an unknown session is not an error.
    ///
    /// # Errors
    /// The store's own errors.
    fn delete(&self, session: &str) -> Result<()>;
}

/// Returns checked copies of the messages, with `session` as their session.
pub(crate) fn checked_messages(session: &str, messages: &[Message]) -> Result<Vec<Message>> {
    check_id("session", session)?;
    let messages: Vec<Message> = messages.iter().map(|message| message.clone().in_session(session)).collect();
    messages.iter().try_for_each(Message::check)?;
    Ok(messages)
}

/// A history store in memory. Dropping it deletes the histories.
#[derive(Default)]
pub struct InMemoryHistory {
    /// The sessions that have messages.
    sessions: RwLock<BTreeMap<String, Transcript>>,
}

impl_debug!(InMemoryHistory, self { sessions: self.sessions.read().len() });

impl InMemoryHistory {
    /// Creates an empty store.
    pub fn new() -> Self {
        InMemoryHistory::default()
    }
}

impl HistoryStore for InMemoryHistory {
    fn sessions(&self) -> Result<Vec<String>> {
        Ok(self.sessions.read().keys().cloned().collect())
    }

    fn messages(&self, session: &str) -> Result<Vec<Message>> {
        check_id("session", session)?;
        let sessions = self.sessions.read();
        Ok(sessions.get(session).map_or_else(Vec::new, |transcript| transcript.messages().to_vec()))
    }

    fn append(&self, session: &str, messages: &[Message]) -> Result<()> {
        let messages = checked_messages(session, messages)?;
        if !messages.is_empty() {
            self.sessions.write().entry(session.to_owned()).or_default().extend(messages);
        }
        Ok(())
    }

    fn set(&self, session: &str, messages: &[Message]) -> Result<()> {
        let transcript: Transcript = checked_messages(session, messages)?.into_iter().collect();
        let mut sessions = self.sessions.write();
        if transcript.messages().is_empty() {
            sessions.remove(session);
        } else {
            sessions.insert(session.to_owned(), transcript);
        }
        Ok(())
    }

    fn delete(&self, session: &str) -> Result<()> {
        check_id("session", session)?;
        self.sessions.write().remove(session);
        Ok(())
    }
}

/// The messages of a session in order, no two with the same id.
#[derive(Default)]
struct Transcript {
    messages: Vec<Message>,
    /// The index of each message, by its id.
    positions: HashMap<String, usize>,
}

impl Transcript {
    /// Replaces the message with the same id, which keeps its position, or appends the message.
    fn put(&mut self, message: Message) {
        match self.positions.get(&message.id) {
            Some(&position) => self.messages[position] = message,
            None => {
                self.positions.insert(message.id.clone(), self.messages.len());
                self.messages.push(message);
            }
        }
    }

    fn messages(&self) -> &[Message] {
        &self.messages
    }

    fn into_messages(self) -> Vec<Message> {
        self.messages
    }
}

impl Extend<Message> for Transcript {
    fn extend<I: IntoIterator<Item = Message>>(&mut self, messages: I) {
        messages.into_iter().for_each(|message| self.put(message));
    }
}

impl FromIterator<Message> for Transcript {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        let mut transcript = Transcript::default();
        transcript.extend(messages);
        transcript
    }
}

//! The trait of history stores.

use crate::{error::Result, ids::check_id, message::Message};

/// A store for the messages of sessions.
///
/// | store | location | durable |
/// | --- | --- | --- |
/// | [`InMemoryHistory`](crate::InMemoryHistory) | this process | no |
/// | [`FileHistory`](crate::FileHistory) | a folder with one JSON Lines file per session | yes |
/// | [`EngineHistory`](crate::EngineHistory) | an engine's database, where the messages can also be recalled | yes |
///
/// A store is for keeping complete sessions only: a [`Memory`](crate::Memory) keeps its messages in the engine's file.
/// A memory that is opened on a session of an [`EngineHistory`](crate::EngineHistory) begins with its last turns. To
/// continue a session of another store, put its messages into a memory.
///
/// An implementation of your own can be tested with [`check_history_store`](crate::check_history_store).
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

/// Moves copies of the messages to `session` and checks each of them.
pub(crate) fn checked_messages(session: &str, messages: &[Message]) -> Result<Vec<Message>> {
    check_id("session", session)?;
    let messages: Vec<Message> = messages.iter().map(|message| message.clone().in_session(session)).collect();
    messages.iter().try_for_each(Message::check)?;
    Ok(messages)
}

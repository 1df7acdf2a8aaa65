//! Chat histories: the messages of sessions, whole and in order, behind one trait.
//!
//! Owns what every store of histories promises, and the test of it. Does not embed, search or cut: lists of messages are
//! `message`'s. Invariants: a store holds only messages that [`Message::check`] accepts; a session's name is never a path.

mod conformance;
mod file;
mod lines;
mod memory;
mod transcript;

pub use conformance::check_history_store;
pub use file::FileHistory;
pub use memory::InMemoryHistory;

use crate::{error::Result, ids::check_id, message::Message};

/// Keeps the messages of sessions.
///
/// | store | where | durable |
/// | --- | --- | --- |
/// | [`InMemoryHistory`] | this process | no |
/// | [`FileHistory`] | a folder, one JSON Lines file a session | yes |
/// | [`EngineHistory`](crate::EngineHistory) | an engine's database, where it is recalled too | yes |
///
/// For whole sessions alone: a [`Memory`](crate::Memory) keeps its own in the engine's file, and is fed from a store by a put of its
/// messages. For a store of your own, [`check_history_store`] tests all that is promised here.
///
/// Calls may come from several threads at once, and block. A message comes back as it was given, but for its
/// [`session`](Message::session): that becomes the session it is stored in. Every call that names a session fails with
/// [`Error::InvalidMessage`](crate::Error::InvalidMessage) if the name is empty or over [`MAX_ID_BYTES`](crate::MAX_ID_BYTES).
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
    /// Sessions that have messages, sorted by name.
    ///
    /// # Errors
    /// What the store's reading fails with.
    fn sessions(&self) -> Result<Vec<String>>;

    /// The messages of a session, in order; empty for an unknown one.
    ///
    /// # Errors
    /// What the store's reading fails with.
    fn messages(&self, session: &str) -> Result<Vec<Message>>;

    /// Appends, the messages of one call together; a message whose id the session has already replaces it in its place, of
    /// several with one id the last. Durable when it returns, if the store is durable at all.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`](crate::Error::InvalidMessage): a message that [`Message::check`] refuses; then none of
    /// them is stored. What the store's writing fails with.
    fn append(&self, session: &str, messages: &[Message]) -> Result<()>;

    /// Replaces all messages of a session at once: neither a reader nor a crash sees it half done. Of several messages
    /// with one id the last counts, in the place of the first. No messages: deletes the session.
    ///
    /// # Errors
    /// As [`append`](HistoryStore::append); then the session is as it was.
    fn set(&self, session: &str, messages: &[Message]) -> Result<()>;

    /// Deletes a session; an unknown one is no error.
    ///
    /// # Errors
    /// What the store's writing fails with.
    fn delete(&self, session: &str) -> Result<()>;
}

/// The messages as this session is to store them, each checked.
pub(crate) fn checked(session: &str, messages: &[Message]) -> Result<Vec<Message>> {
    check_id("session", session)?;
    let messages: Vec<Message> = messages.iter().map(|message| message.clone().in_session(session)).collect();
    messages.iter().try_for_each(Message::check)?;
    Ok(messages)
}

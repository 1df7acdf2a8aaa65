//! A history store in memory.

use std::collections::BTreeMap;

use parking_lot::RwLock;

use super::{
    store::{HistoryStore, checked_messages},
    transcript::Transcript,
};
use crate::{
    error::{Result, impl_debug},
    ids::check_id,
    message::Message,
};

/// Keeps histories in memory, until it is dropped.
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

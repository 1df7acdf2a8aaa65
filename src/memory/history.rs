//! The sessions of an engine behind the [`HistoryStore`] trait.

use crate::{
    engine::Engine,
    error::{Error, Result},
    history::{HistoryStore, checked_messages},
    ids::{Namespace, check_id},
    message::Message,
    store::restore_id,
};

/// A [`HistoryStore`] of the sessions of a namespace, in the engine's file. Its messages are recalled like all others.
/// Appended messages do not enter a short-term buffer, but the history contains buffered messages too. The prompts of a
/// [`Memory`](crate::Memory) of the session show both.
///
/// Ids are unique in a namespace. A message whose id another session has is stored, and recalled, under a new id; the
/// methods of [`HistoryStore`] return it under the id that was given.
#[derive(Clone, Debug)]
pub struct EngineHistory {
    engine: Engine,
    namespace: Namespace,
}

impl Engine {
    /// Returns the sessions of a namespace as a [`HistoryStore`]. The methods of the store block the calling thread.
    pub fn history_store(&self, namespace: &Namespace) -> EngineHistory {
        EngineHistory { engine: self.clone(), namespace: namespace.clone() }
    }
}

impl EngineHistory {
    fn write(&self, session: &str, messages: &[Message], replace: bool) -> Result<()> {
        let messages = checked_messages(session, messages)?;
        self.engine.put_history(&self.namespace, session, messages, replace)
    }
}

impl HistoryStore for EngineHistory {
    fn sessions(&self) -> Result<Vec<String>> {
        Ok(self.engine.blocking().sessions(&self.namespace)?.into_iter().map(|info| info.session).collect())
    }

    fn messages(&self, session: &str) -> Result<Vec<Message>> {
        check_id("session", session)?;
        let mut messages = self.engine.blocking().history(&self.namespace, session)?;
        messages.iter_mut().for_each(restore_id);
        Ok(messages)
    }

    fn append(&self, session: &str, messages: &[Message]) -> Result<()> {
        self.write(session, messages, false)
    }

    fn set(&self, session: &str, messages: &[Message]) -> Result<()> {
        self.write(session, messages, true)
    }

    fn delete(&self, session: &str) -> Result<()> {
        check_id("session", session)?;
        match self.engine.blocking().delete_session(&self.namespace, session) {
            Err(Error::SessionNotFound { .. }) => Ok(()),
            other => other,
        }
    }
}

//! An engine's sessions as a store of histories.

use crate::{
    engine::Engine,
    error::{Error, Result},
    history::{HistoryStore, checked},
    ids::{Namespace, check_id},
    message::Message,
    store::{Transaction, give_back_id},
};

/// The sessions of a namespace behind [`HistoryStore`]: in the engine's file, and recalled like all it holds. What is appended
/// here is in no short-term buffer; what is in one is part of the history all the same.
///
/// Ids are unique in a namespace: a message whose id another session has is stored, and recalled, under an id of its own, and
/// comes back here under the given one.
#[derive(Clone, Debug)]
pub struct EngineHistory {
    engine: Engine,
    namespace: Namespace,
}

impl Engine {
    /// The sessions of a namespace as a [`HistoryStore`]. Its methods block.
    pub fn history_store(&self, namespace: &Namespace) -> EngineHistory {
        EngineHistory { engine: self.clone(), namespace: namespace.clone() }
    }
}

impl EngineHistory {
    fn write(&self, session: &str, messages: &[Message], instead: bool) -> Result<()> {
        let messages = checked(session, messages)?;
        let (namespace, session) = (self.namespace.clone(), session.to_owned());
        self.engine.core().write_now(move |transaction: &mut Transaction| {
            Ok(((), transaction.put_history(&namespace, &session, &messages, instead)?))
        })
    }
}

impl HistoryStore for EngineHistory {
    fn sessions(&self) -> Result<Vec<String>> {
        Ok(self.engine.blocking().sessions(&self.namespace)?.into_iter().map(|info| info.session).collect())
    }

    fn messages(&self, session: &str) -> Result<Vec<Message>> {
        check_id("session", session)?;
        let mut messages = self.engine.blocking().history(&self.namespace, session)?;
        messages.iter_mut().for_each(give_back_id);
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

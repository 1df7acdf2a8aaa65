//! Whole sessions: listed, read, copied, deleted, gone back on.

use super::{Inner, Memory, MemoryBuilder};
use crate::{
    engine::{Blocking, Core, Engine},
    error::{Error, Result},
    ids::{Namespace, check_id},
    message::Message,
    store::{Checkpoint, SessionInfo, Transaction},
};

impl Inner {
    pub(super) fn history(&self) -> Result<Vec<Message>> {
        history(self.core(), &self.settings.namespace, &self.settings.session)
    }

    pub(super) fn checkpoint(&self, label: &str) -> Result<u32> {
        let (namespace, session) = (self.settings.namespace.clone(), self.settings.session.clone());
        let label = label.to_owned();
        self.core().write_now(move |transaction| {
            Ok((transaction.checkpoint(&namespace, &session, &label)?, Default::default()))
        })
    }

    pub(super) fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        let snapshot = self.core().store().read()?;
        let Some(namespace) = snapshot.namespace(&self.settings.namespace)? else { return Ok(Vec::new()) };
        let session = snapshot.session(namespace, &self.settings.session)?;
        session.map_or(Ok(Vec::new()), |session| snapshot.checkpoints(namespace, session))
    }

    pub(super) fn restore(&self, checkpoint: u32) -> Result<()> {
        let (namespace, session) = (self.settings.namespace.clone(), self.settings.session.clone());
        let restore =
            move |transaction: &mut Transaction| Ok(((), transaction.restore(&namespace, &session, checkpoint)?));
        self.core().write_now(restore)?;
        // The turn that was worked on is of another past.
        *self.live.turn.lock() = Default::default();
        self.work_on_batches();
        Ok(())
    }

    pub(super) fn messages_at(&self, checkpoint: u32) -> Result<Vec<Message>> {
        let (namespace, session) = (&self.settings.namespace, &self.settings.session);
        let snapshot = self.core().store().read()?;
        let unknown = || Error::no_session(namespace, session);
        let id = snapshot.namespace(namespace)?.ok_or_else(unknown)?;
        let session = snapshot.session(id, session)?.ok_or_else(unknown)?;
        snapshot.messages_at(id, session, checkpoint)
    }

    pub(super) fn fork(&self, checkpoint: Option<u32>, to: &str) -> Result<Memory> {
        copy(self.core(), &self.settings.namespace, &self.settings.session, checkpoint, to)?;
        MemoryBuilder { session: to.to_owned(), ..self.settings.clone() }.open()
    }
}

fn history(core: &Core, namespace: &Namespace, session: &str) -> Result<Vec<Message>> {
    let snapshot = core.store().read()?;
    let Some(id) = snapshot.namespace(namespace)? else { return Ok(Vec::new()) };
    let Some(session) = snapshot.session(id, session)? else { return Ok(Vec::new()) };
    Ok(snapshot.history(id, session, None)?.into_iter().map(|(_, message)| message).collect())
}

fn list(core: &Core, namespace: &Namespace) -> Result<Vec<SessionInfo>> {
    let snapshot = core.store().read()?;
    snapshot.namespace(namespace)?.map_or(Ok(Vec::new()), |namespace| snapshot.sessions(namespace))
}

fn copy(core: &Core, namespace: &Namespace, from: &str, at: Option<u32>, to: &str) -> Result<u64> {
    check_id("session", to)?;
    let (namespace, from, to) = (namespace.clone(), from.to_owned(), to.to_owned());
    core.write_now(move |transaction| transaction.copy_session(&namespace, &from, at, &to))
}

fn delete_session(core: &Core, namespace: &Namespace, session: &str) -> Result<()> {
    let (namespace, session) = (namespace.clone(), session.to_owned());
    core.write_now(move |transaction| {
        let (known, effects) = transaction.delete_session(&namespace, &session)?;
        if known.is_some() { Ok(((), effects)) } else { Err(Error::no_session(&namespace, &session)) }
    })
}

fn delete(core: &Core, namespace: &Namespace, ids: Vec<String>) -> Result<u64> {
    if core.store().read()?.namespace(namespace)?.is_none() {
        return Ok(0);
    }
    let namespace = namespace.clone();
    core.write_now(move |transaction| transaction.delete(&namespace, &ids))
}

fn delete_namespace(core: &Core, namespace: &Namespace) -> Result<u64> {
    let Some(id) = core.store().read()?.namespace(namespace)? else { return Ok(0) };
    let namespace = namespace.clone();
    core.write_now(move |transaction| {
        let deleted = transaction.delete_all(&namespace)?;
        transaction.forget_shared_blocks(id)?;
        Ok(deleted)
    })
}

/// The same methods are on [`Engine::blocking`].
impl Engine {
    /// The sessions of a namespace that have messages, by id.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn sessions(&self, namespace: &Namespace) -> Result<Vec<SessionInfo>> {
        let namespace = namespace.clone();
        self.off_thread(move |core| list(core, &namespace)).await
    }

    /// All messages of a session in order, those in its buffer too; none of an unknown one.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn history(&self, namespace: &Namespace, session: &str) -> Result<Vec<Message>> {
        let (namespace, session) = (namespace.clone(), session.to_owned());
        self.off_thread(move |core| history(core, &namespace, &session)).await
    }

    /// Copies a session to a new one of the namespace: its messages under new ids, its buffer, its batches, and what its own
    /// blocks have made of them. Checkpoints are not copied. The copies are embedded and recalled like any message.
    /// Returns how many messages there are. One commit.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`]; [`Error::SessionExists`]: `to`.
    pub async fn copy_session(&self, namespace: &Namespace, from: &str, to: &str) -> Result<u64> {
        let (namespace, from, to) = (namespace.clone(), from.to_owned(), to.to_owned());
        self.off_thread(move |core| copy(core, &namespace, &from, None, &to)).await
    }

    /// Deletes a session with its messages, vectors, checkpoints, and what its own blocks have made, in one commit. What
    /// blocks made that all sessions of the namespace share stays.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`].
    pub async fn delete_session(&self, namespace: &Namespace, session: &str) -> Result<()> {
        let (namespace, session) = (namespace.clone(), session.to_owned());
        self.off_thread(move |core| delete_session(core, &namespace, &session)).await
    }

    /// Deletes the messages with these ids, and their vectors; unknown ids are passed over. Returns how many there were.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn delete(&self, namespace: &Namespace, ids: Vec<String>) -> Result<u64> {
        let namespace = namespace.clone();
        self.off_thread(move |core| delete(core, &namespace, ids)).await
    }

    /// Deletes all that a namespace holds, in one commit. Returns how many messages there were.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub async fn delete_namespace(&self, namespace: &Namespace) -> Result<u64> {
        let namespace = namespace.clone();
        self.off_thread(move |core| delete_namespace(core, &namespace)).await
    }
}

impl Blocking<'_> {
    /// As [`Engine::sessions`].
    ///
    /// # Errors
    /// As there.
    pub fn sessions(&self, namespace: &Namespace) -> Result<Vec<SessionInfo>> {
        list(self.0, namespace)
    }

    /// As [`Engine::history`].
    ///
    /// # Errors
    /// As there.
    pub fn history(&self, namespace: &Namespace, session: &str) -> Result<Vec<Message>> {
        history(self.0, namespace, session)
    }

    /// As [`Engine::copy_session`].
    ///
    /// # Errors
    /// As there.
    pub fn copy_session(&self, namespace: &Namespace, from: &str, to: &str) -> Result<u64> {
        copy(self.0, namespace, from, None, to)
    }

    /// As [`Engine::delete_session`].
    ///
    /// # Errors
    /// As there.
    pub fn delete_session(&self, namespace: &Namespace, session: &str) -> Result<()> {
        delete_session(self.0, namespace, session)
    }

    /// As [`Engine::delete`].
    ///
    /// # Errors
    /// As there.
    pub fn delete(&self, namespace: &Namespace, ids: Vec<String>) -> Result<u64> {
        delete(self.0, namespace, ids)
    }

    /// As [`Engine::delete_namespace`].
    ///
    /// # Errors
    /// As there.
    pub fn delete_namespace(&self, namespace: &Namespace) -> Result<u64> {
        delete_namespace(self.0, namespace)
    }
}

//! Methods of [`Engine`] on whole sessions.

use super::{core::Core, executor::Lane, handle::Engine};
use crate::{
    error::{Error, Result},
    ids::{Namespace, check_id},
    message::{Message, Timestamp},
    store::{SessionInfo, StoredBlock, Transaction},
};

impl Engine {
    /// Returns the sessions of a namespace that have messages, ordered by id.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn sessions(&self, namespace: &Namespace) -> Result<Vec<SessionInfo>> {
        self.core().refresh(namespace, None).await?;
        let namespace = namespace.clone();
        self.core().run(Lane::Store, move |core| core.reads().sessions(&namespace)).await
    }

    /// Returns what the memory blocks of a namespace's sessions have made, for looking into it: session by session, and
    /// then what all sessions share. A block that keeps nothing, such as a [`StaticBlock`](crate::StaticBlock), is not
    /// among them.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn blocks(&self, namespace: &Namespace) -> Result<Vec<StoredBlock>> {
        self.core().refresh(namespace, None).await?;
        let namespace = namespace.clone();
        self.core().run(Lane::Store, move |core| core.reads().blocks(&namespace)).await
    }

    /// Returns all messages of a session in order, buffered ones too. An unknown session has none.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn history(&self, namespace: &Namespace, session: &str) -> Result<Vec<Message>> {
        self.core().refresh(namespace, None).await?;
        let (namespace, session) = (namespace.clone(), session.to_owned());
        self.core().run(Lane::Store, move |core| core.reads().history(&namespace, &session)).await
    }

    /// Same as [`Engine::history`], with the number of each message in the namespace. The messages of a session are in the
    /// order of their numbers, and no other message gets the number of a deleted one: a program that lists a session in
    /// parts goes on after a number.
    ///
    /// # Errors
    /// Those of [`Engine::history`].
    #[doc(hidden)]
    pub async fn numbered_history(&self, namespace: &Namespace, session: &str) -> Result<Vec<(u64, Message)>> {
        self.core().refresh(namespace, None).await?;
        let (namespace, session) = (namespace.clone(), session.to_owned());
        self.core().run(Lane::Store, move |core| core.reads().session_messages(&namespace, &session, None)).await
    }

    /// Copies a session to a new one of the namespace, in one commit: its messages under new ids, its buffer, its
    /// batches, and the states of its own blocks. Checkpoints are not copied. The copies are embedded and recalled like
    /// any message. Returns the number of messages copied.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`]; [`Error::SessionExists`]: `to`.
    pub async fn copy_session(&self, namespace: &Namespace, from: &str, to: &str) -> Result<u64> {
        copy_session(self.core(), namespace, from, None, to, None).await
    }

    /// Deletes a session with its messages, vectors, checkpoints and the states of its own blocks, in one commit. The
    /// states of blocks that all sessions of the namespace share stay. If nothing else is in the namespace, its name is
    /// removed.
    ///
    /// # Errors
    /// [`Error::SessionNotFound`], [`Error::LegalHold`].
    pub async fn delete_session(&self, namespace: &Namespace, session: &str) -> Result<()> {
        let id = self.namespace_id(namespace).await?;
        let (namespace, session) = (namespace.clone(), session.to_owned());
        let delete = move |transaction: &mut Transaction| {
            let (known, effects) = transaction.edit_sessions().delete(&namespace, &session)?;
            if known.is_some() { Ok(((), effects)) } else { Err(Error::no_session(&namespace, &session)) }
        };
        self.core().write(delete).await?;
        // The namespace may be removed with its last session.
        for (generation, id) in self.core().shared.generations.all().iter().zip(id.iter().cycle()) {
            generation.unload_if_empty(*id);
        }
        Ok(())
    }
}

/// Copies a session to a new one, as it was at a checkpoint or as it is now. The copy is idle at `idle`, or else when
/// the session is.
pub(super) async fn copy_session(
    core: &Core,
    namespace: &Namespace,
    from: &str,
    at: Option<u32>,
    to: &str,
    idle: Option<Timestamp>,
) -> Result<u64> {
    check_id("session", to)?;
    let (namespace, from, to) = (namespace.clone(), from.to_owned(), to.to_owned());
    core.write(move |transaction: &mut Transaction| transaction.edit_sessions().copy(&namespace, &from, at, &to, idle))
        .await
}

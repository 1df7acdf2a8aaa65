//! Reads of stored messages, sessions and blocks. Each call reads one snapshot.

use crate::{
    error::Result,
    ids::{GenerationId, Namespace, NamespaceId},
    message::{Message, Timestamp},
    store::{
        self, BlockKey, BlockState, IdleSession, NamespaceCursor, NamespacePage, NamespaceTotals, SessionInfo,
        SessionPosition, Snapshot, Store, StoredBatch, StoredBlock,
    },
};

/// Reads of an engine's store. A namespace or session that the file does not have is empty.
pub(super) struct StoreReads<'a>(pub(super) &'a Store);

impl StoreReads<'_> {
    /// Reads one snapshot.
    fn read<T>(&self, read: impl FnOnce(&Snapshot) -> Result<T>) -> Result<T> {
        self.0.read().and_then(|snapshot| read(&snapshot)).map_err(|error| self.0.explain(error))
    }

    /// Reads one snapshot of a namespace. Damage is reported with its name.
    fn within<T: Default>(
        &self,
        namespace: &Namespace,
        read: impl FnOnce(&Snapshot, NamespaceId) -> Result<T>,
    ) -> Result<T> {
        self.read(|snapshot| match snapshot.namespaces().id(namespace)? {
            Some(id) => read(snapshot, id).map_err(|error| error.within(|| format!("namespace {namespace}"))),
            None => Ok(T::default()),
        })
    }

    /// Reads one snapshot of a session. Damage is reported with its namespace and its name.
    pub(super) fn within_session<T: Default>(
        &self,
        namespace: &Namespace,
        session: &str,
        read: impl FnOnce(&Snapshot, NamespaceId, u32) -> Result<T>,
    ) -> Result<T> {
        self.within(namespace, |snapshot, id| match snapshot.sessions().number(id, session)? {
            Some(number) => read(snapshot, id, number).map_err(|error| error.within(|| format!("session {session:?}"))),
            None => Ok(T::default()),
        })
    }

    /// Returns the key that seals the memory in prompts. `None` if the file has none yet.
    pub(super) fn seal_key(&self) -> Result<Option<[u8; 32]>> {
        self.read(|snapshot| snapshot.seal_key())
    }

    /// Returns entries of the journal of a namespace with their numbers, the newest first.
    pub(super) fn journal(
        &self,
        namespace: &Namespace,
        limit: usize,
        before: Option<u64>,
    ) -> Result<Vec<(u64, String)>> {
        self.within(namespace, |snapshot, id| snapshot.journal().page(id, limit, before))
    }

    /// Returns the number of a namespace, or `None` if the file does not have it.
    pub(super) fn namespace_id(&self, namespace: &Namespace) -> Result<Option<NamespaceId>> {
        self.read(|snapshot| snapshot.namespaces().id(namespace))
    }

    /// Returns a page of the namespaces that have messages or documents, see
    /// [`Engine::namespaces`](super::Engine::namespaces).
    pub(super) fn namespaces(
        &self,
        prefix: Option<&Namespace>,
        after: Option<&NamespaceCursor>,
        limit: usize,
    ) -> Result<NamespacePage> {
        self.read(|snapshot| snapshot.namespaces().page(prefix, after, limit))
    }

    /// Returns the totals of the namespaces under a prefix, or of all.
    pub(super) fn namespace_totals(&self, prefix: Option<&Namespace>) -> Result<NamespaceTotals> {
        self.read(|snapshot| snapshot.namespaces().totals(prefix))
    }

    /// Returns the namespaces under a prefix that the next commit of its deletion deletes.
    pub(super) fn namespaces_to_delete(
        &self,
        prefix: &Namespace,
        after: Option<&Namespace>,
    ) -> Result<Vec<(Namespace, NamespaceId)>> {
        self.read(|snapshot| snapshot.namespaces().next_to_delete(prefix, after))
    }

    /// Returns the message with this id, pending or not.
    pub(super) fn message(&self, namespace: &Namespace, id: &str) -> Result<Option<Message>> {
        self.within(namespace, |snapshot, namespace| snapshot.messages().by_id(namespace, id))
    }

    /// Returns the number of messages that are pending in a generation.
    pub(super) fn pending(&self, generation: GenerationId) -> Result<u64> {
        self.read(|snapshot| snapshot.pending().count(generation))
    }

    /// Returns the sessions of a namespace that have messages, ordered by id.
    pub(super) fn sessions(&self, namespace: &Namespace) -> Result<Vec<SessionInfo>> {
        self.within(namespace, store::session_infos)
    }

    /// Returns the blocks of a namespace.
    pub(super) fn blocks(&self, namespace: &Namespace) -> Result<Vec<StoredBlock>> {
        self.within(namespace, |snapshot, id| snapshot.blocks().all(id))
    }

    /// Returns all messages of a session in order.
    pub(super) fn history(&self, namespace: &Namespace, session: &str) -> Result<Vec<Message>> {
        let messages = self.session_messages(namespace, session, None)?;
        Ok(messages.into_iter().map(|(_, message)| message).collect())
    }

    /// Returns the messages of a session at this position, or all, with their sequence numbers.
    pub(super) fn session_messages(
        &self,
        namespace: &Namespace,
        session: &str,
        position: Option<SessionPosition>,
    ) -> Result<Vec<(u64, Message)>> {
        self.within_session(namespace, session, |snapshot, namespace, session| {
            snapshot.history().messages(namespace, session, position)
        })
    }

    /// Returns the time at which a session is idle.
    pub(super) fn idle_at(&self, namespace: &Namespace, session: &str) -> Result<Option<Timestamp>> {
        self.read(|snapshot| snapshot.idle().get(namespace, session))
    }

    /// Returns all sessions that are to become idle, with the times.
    pub(super) fn idle_sessions(&self) -> Result<Vec<IdleSession>> {
        self.read(|snapshot| snapshot.idle().all())
    }

    /// Returns the messages of the batch in which a message was flushed.
    pub(super) fn batch_of(&self, namespace: &Namespace, id: &str) -> Result<Vec<Message>> {
        self.within(namespace, |snapshot, namespace| snapshot.batches().of_message(namespace, id))
    }

    /// Returns a batch of the session of a block.
    pub(super) fn batch(&self, key: &BlockKey, number: u32) -> Result<Option<StoredBatch>> {
        self.within_session(&key.namespace, &key.session, |snapshot, namespace, session| {
            snapshot.batches().get(namespace, session, number)
        })
    }

    /// Returns the states of several blocks as of one commit.
    pub(super) fn block_states(&self, keys: &[BlockKey]) -> Result<Vec<BlockState>> {
        self.read(|snapshot| keys.iter().map(|key| snapshot.blocks().get(key)).collect())
    }

    /// Returns the state of a block.
    pub(super) fn block_state(&self, key: &BlockKey) -> Result<BlockState> {
        self.read(|snapshot| snapshot.blocks().get(key))
    }
}

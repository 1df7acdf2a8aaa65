//! Reads of stored messages, sessions and blocks. Each call reads one snapshot.

use crate::{
    error::{Error, Result},
    ids::{GenerationId, Namespace, NamespaceId},
    message::{Message, Timestamp},
    store::{
        self, BlockKey, BlockState, Checkpoint, FlushedWindow, IdleSession, NamespaceCursor, NamespacePage,
        NamespaceTotals, SessionInfo, SessionPosition, Store, StoredBatch,
    },
};

/// Reads of an engine's store. A namespace or session that the file does not have is empty.
pub(super) struct StoreReads<'a>(pub(super) &'a Store);

impl StoreReads<'_> {
    /// Returns the key that seals the memory in prompts. `None` if the file has none yet.
    pub(super) fn seal_key(&self) -> Result<Option<[u8; 32]>> {
        self.0.read()?.seal_key()
    }

    /// Returns the number of a namespace, or `None` if the file does not have it.
    pub(super) fn namespace_id(&self, namespace: &Namespace) -> Result<Option<NamespaceId>> {
        self.0.read()?.namespaces().id(namespace)
    }

    /// Returns a page of the namespaces that have messages or documents, see
    /// [`Engine::namespaces`](super::Engine::namespaces).
    pub(super) fn namespaces(
        &self,
        prefix: Option<&Namespace>,
        after: Option<&NamespaceCursor>,
        limit: usize,
    ) -> Result<NamespacePage> {
        self.0.read()?.namespaces().page(prefix, after, limit)
    }

    /// Returns the totals of the namespaces under a prefix, or of all.
    pub(super) fn namespace_totals(&self, prefix: Option<&Namespace>) -> Result<NamespaceTotals> {
        self.0.read()?.namespaces().totals(prefix)
    }

    /// Returns the namespaces under a prefix that the next commit of its deletion deletes.
    pub(super) fn namespaces_to_delete(
        &self,
        prefix: &Namespace,
        after: Option<&Namespace>,
    ) -> Result<Vec<(Namespace, NamespaceId)>> {
        self.0.read()?.namespaces().next_to_delete(prefix, after)
    }

    /// Returns the message with this id, pending or not.
    pub(super) fn message(&self, namespace: &Namespace, id: &str) -> Result<Option<Message>> {
        let snapshot = self.0.read()?;
        snapshot.namespaces().id(namespace)?.map_or(Ok(None), |namespace| snapshot.messages().by_id(namespace, id))
    }

    /// Returns the number of messages that are pending in a generation.
    pub(super) fn pending(&self, generation: GenerationId) -> Result<u64> {
        self.0.read()?.pending().count(generation)
    }

    /// Returns the sessions of a namespace that have messages, ordered by id.
    pub(super) fn sessions(&self, namespace: &Namespace) -> Result<Vec<SessionInfo>> {
        let snapshot = self.0.read()?;
        snapshot
            .namespaces()
            .id(namespace)?
            .map_or(Ok(Vec::new()), |namespace| store::session_infos(&snapshot, namespace))
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
        let snapshot = self.0.read()?;
        let Some(id) = snapshot.namespaces().id(namespace)? else { return Ok(Vec::new()) };
        let Some(session) = snapshot.sessions().number(id, session)? else { return Ok(Vec::new()) };
        snapshot.history().messages(id, session, position)
    }

    /// Returns the messages of a session's window that are in long-term memory, the last ones whose costs fit into
    /// `budget`. Unless `has_turn`, the last turn is among them even if it does not fit.
    pub(super) fn flushed_window(
        &self,
        namespace: &Namespace,
        session: &str,
        budget: usize,
        has_turn: bool,
        cost: impl FnMut(u64, &Message) -> usize,
    ) -> Result<FlushedWindow> {
        let snapshot = self.0.read()?;
        let Some(id) = snapshot.namespaces().id(namespace)? else { return Ok(FlushedWindow::default()) };
        let Some(session) = snapshot.sessions().number(id, session)? else { return Ok(FlushedWindow::default()) };
        snapshot.window().flushed(id, session, budget, has_turn, cost)
    }

    /// Returns the time at which a session is idle.
    pub(super) fn idle_at(&self, namespace: &Namespace, session: &str) -> Result<Option<Timestamp>> {
        self.0.read()?.idle().get(namespace, session)
    }

    /// Returns all sessions that are to become idle, with the times.
    pub(super) fn idle_sessions(&self) -> Result<Vec<IdleSession>> {
        self.0.read()?.idle().all()
    }

    /// Returns true if this session has a message with this id.
    pub(super) fn has_message(&self, namespace: &Namespace, session: &str, id: &str) -> Result<bool> {
        let snapshot = self.0.read()?;
        let Some(namespace) = snapshot.namespaces().id(namespace)? else { return Ok(false) };
        let own = snapshot.sessions().number(namespace, session)?;
        Ok(snapshot.messages().locate(namespace, id)?.is_some_and(|(_, session)| Some(session) == own))
    }

    /// Returns the messages of the batch in which a message was flushed.
    pub(super) fn batch_of(&self, namespace: &Namespace, id: &str) -> Result<Vec<Message>> {
        let snapshot = self.0.read()?;
        let Some(namespace) = snapshot.namespaces().id(namespace)? else { return Ok(Vec::new()) };
        snapshot.batches().of_message(namespace, id)
    }

    /// Returns the number of batches of a session.
    pub(super) fn batches(&self, namespace: &Namespace, session: &str) -> Result<u32> {
        let snapshot = self.0.read()?;
        let Some(namespace) = snapshot.namespaces().id(namespace)? else { return Ok(0) };
        let Some(session) = snapshot.sessions().number(namespace, session)? else { return Ok(0) };
        snapshot.batches().next_number(namespace, session)
    }

    /// Returns a batch of the session of a block.
    pub(super) fn batch(&self, key: &BlockKey, number: u32) -> Result<Option<StoredBatch>> {
        let snapshot = self.0.read()?;
        let Some(namespace) = snapshot.namespaces().id(&key.namespace)? else { return Ok(None) };
        let Some(session) = snapshot.sessions().number(namespace, &key.session)? else { return Ok(None) };
        snapshot.batches().get(namespace, session, number)
    }

    /// Returns the states of several blocks as of one commit.
    pub(super) fn block_states(&self, keys: &[BlockKey]) -> Result<Vec<BlockState>> {
        let snapshot = self.0.read()?;
        keys.iter().map(|key| snapshot.blocks().get(key)).collect()
    }

    /// Returns the state of a block.
    pub(super) fn block_state(&self, key: &BlockKey) -> Result<BlockState> {
        self.0.read()?.blocks().get(key)
    }

    /// Returns the checkpoints of a session, oldest first.
    pub(super) fn checkpoints(&self, namespace: &Namespace, session: &str) -> Result<Vec<Checkpoint>> {
        let snapshot = self.0.read()?;
        let Some(namespace) = snapshot.namespaces().id(namespace)? else { return Ok(Vec::new()) };
        let session = snapshot.sessions().number(namespace, session)?;
        session.map_or(Ok(Vec::new()), |session| snapshot.checkpoints().list(namespace, session))
    }

    /// Returns the messages of a session as they were at a checkpoint.
    pub(super) fn messages_at(&self, namespace: &Namespace, session: &str, checkpoint: u32) -> Result<Vec<Message>> {
        let snapshot = self.0.read()?;
        let unknown = || Error::no_session(namespace, session);
        let id = snapshot.namespaces().id(namespace)?.ok_or_else(unknown)?;
        let session = snapshot.sessions().number(id, session)?.ok_or_else(unknown)?;
        snapshot.checkpoints().messages_at(id, session, checkpoint)
    }
}

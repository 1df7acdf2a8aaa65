//! A stored session, for the memory that works on it.

use std::{sync::Arc, time::Duration};

use super::{
    core::Core, executor::Executor, extension::Extension, handle::Engine, sessions::copy_session, weak::WeakEngine,
};
use crate::{
    error::Result,
    ids::Namespace,
    message::{Message, Timestamp},
    recall::{Hits, Query},
    span::{call_span, timed},
    store::{
        BlockKey, BlockState, Checkpoint, Effects, FlushedWindow, PutResult, SessionChange, SessionPosition,
        Transaction,
    },
};

/// A session in the file of an open engine. Its methods that are not async may wait: call them on a lane of the
/// [`Executor`].
///
/// It is not a handle: its owner also holds an [`Engine`], or is an operation in flight.
pub(crate) struct StoredSession {
    core: Arc<Core>,
    pub(crate) namespace: Namespace,
    pub(crate) session: String,
    /// Time after a put after which the session is idle; `None` for never.
    idle_time: Option<Duration>,
}

impl Engine {
    /// Returns the key that seals the memory in prompts.
    pub(crate) fn seal_key(&self) -> Result<Option<[u8; 32]>> {
        self.core().reads().seal_key()
    }
}

impl StoredSession {
    pub(crate) fn new(engine: &Engine, namespace: Namespace, session: String, idle_time: Option<Duration>) -> Self {
        StoredSession { core: Arc::clone(engine.core()), namespace, session, idle_time }
    }

    /// Returns the time at which the session is idle if nothing is put from now on; never, if the engine is open for
    /// reading.
    pub(crate) fn idle_from_now(&self) -> Option<Timestamp> {
        if self.core.shared.store.is_read_only() {
            return None;
        }
        let micros = i64::try_from(self.idle_time?.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(Timestamp::now().as_micros().saturating_add(micros))
    }

    /// Returns the stored time at which the session is idle; never, if the engine is open for reading.
    pub(crate) fn idle_at(&self) -> Result<Option<Timestamp>> {
        if self.core.shared.store.is_read_only() {
            return Ok(None);
        }
        self.core.reads().idle_at(&self.namespace, &self.session)
    }

    pub(crate) fn executor(&self) -> &Arc<Executor> {
        self.core.executor()
    }

    pub(crate) fn weak_engine(&self) -> WeakEngine {
        WeakEngine::new(&self.core)
    }

    /// Same as [`Core::extension`].
    pub(crate) fn extension<E: Extension>(&self, make: impl FnOnce() -> E) -> Arc<E> {
        self.core.extension(make)
    }

    /// Returns the time before a failed block is first tried again.
    pub(crate) fn block_retry(&self) -> Duration {
        self.core.shared.config.block_retry
    }

    /// Returns how many blocks may take batches at the same time.
    pub(crate) fn block_threads(&self) -> usize {
        self.core.shared.config.block_threads
    }

    /// Makes the session as fresh as the engine was opened for, if the file is a copy of a shared database.
    pub(crate) async fn refresh(&self) -> Result<()> {
        self.core.refresh(&self.namespace, None).await
    }

    /// Returns the messages in the short-term buffer with their sequence numbers.
    pub(crate) fn buffered(&self) -> Result<Vec<(u64, Message)>> {
        self.core.reads().session_messages(&self.namespace, &self.session, Some(SessionPosition::Buffer))
    }

    /// Returns the messages of the window that are in long-term memory, the last ones whose costs fit into `budget`.
    /// Unless `has_turn`, the last turn is among them even if it does not fit.
    pub(crate) fn flushed_window(
        &self,
        budget: usize,
        has_turn: bool,
        cost: impl FnMut(u64, &Message) -> usize,
    ) -> Result<FlushedWindow> {
        self.core.reads().flushed_window(&self.namespace, &self.session, budget, has_turn, cost)
    }

    pub(crate) fn history(&self) -> Result<Vec<Message>> {
        self.core.reads().history(&self.namespace, &self.session)
    }

    /// Returns the session's message with this id.
    pub(crate) fn message(&self, id: &str) -> Result<Option<Message>> {
        let message = self.core.reads().message(&self.namespace, id)?;
        Ok(message.filter(|message| message.session == self.session))
    }

    /// Returns true if the session has a message with this id.
    pub(crate) fn has_message(&self, id: &str) -> Result<bool> {
        self.core.reads().has_message(&self.namespace, &self.session, id)
    }

    /// Returns true if another session of the namespace has a message with this id and the same hash of its content.
    pub(crate) fn is_message_elsewhere(&self, message: &Message, hash: impl Fn(&Message) -> u64) -> Result<bool> {
        let stored = self.core.reads().message(&self.namespace, &message.id)?;
        Ok(stored.is_some_and(|stored| stored.session != self.session && hash(&stored) == hash(message)))
    }

    /// Puts and removes messages in one commit. With `with_checkpoint`, the commit also makes a checkpoint if something
    /// changed.
    pub(crate) async fn update(&self, change: SessionChange, with_checkpoint: bool) -> Result<PutResult> {
        let (namespace, session, idle) = (self.namespace.clone(), self.session.clone(), self.idle_from_now());
        let span = call_span!(INFO "put", messages = change.put.len());
        let apply = move |transaction: &mut Transaction| {
            let mut put = transaction.edit_messages().update(&namespace, &session, &change)?;
            let effects = std::mem::take(&mut put.effects);
            if !change.put.is_empty() {
                transaction.idle().set(&namespace, &session, idle)?;
            }
            if with_checkpoint && put.new + put.replaced + put.removed > 0 {
                transaction.checkpoints().create(&namespace, &session, "")?;
            }
            Ok((put, effects))
        };
        timed(span, self.core.write(apply)).await
    }

    /// Moves buffered messages to long-term memory, as batches, in one commit. With `window`, prompts show messages
    /// from this sequence number on.
    pub(crate) fn flush(&self, batches: Vec<Vec<u64>>, window: Option<u64>) -> Result<u64> {
        let (namespace, session) = (self.namespace.clone(), self.session.clone());
        self.core.write_now(move |transaction: &mut Transaction| -> Result<(u64, Effects)> {
            transaction.edit_sessions().flush(&namespace, &session, &batches, window)
        })
    }

    /// Returns the number of the session's batches.
    pub(crate) fn batches(&self) -> Result<u32> {
        self.core.reads().batches(&self.namespace, &self.session)
    }

    /// Returns the state of a block.
    pub(crate) fn block_state(&self, key: &BlockKey) -> Result<BlockState> {
        self.core.reads().block_state(key)
    }

    /// Returns the states of several blocks as of one commit.
    pub(crate) fn block_states(&self, keys: &[BlockKey]) -> Result<Vec<BlockState>> {
        self.core.reads().block_states(keys)
    }

    pub(crate) async fn checkpoint(&self, label: String) -> Result<u32> {
        let (namespace, session) = (self.namespace.clone(), self.session.clone());
        let apply = move |transaction: &mut Transaction| {
            Ok((transaction.checkpoints().create(&namespace, &session, &label)?, Effects::default()))
        };
        self.core.write(apply).await
    }

    pub(crate) fn checkpoints(&self) -> Result<Vec<Checkpoint>> {
        self.core.reads().checkpoints(&self.namespace, &self.session)
    }

    /// Returns the messages as they were at a checkpoint.
    pub(crate) fn messages_at(&self, checkpoint: u32) -> Result<Vec<Message>> {
        self.core.reads().messages_at(&self.namespace, &self.session, checkpoint)
    }

    pub(crate) fn restore(&self, checkpoint: u32) -> Result<()> {
        let (namespace, session, idle) = (self.namespace.clone(), self.session.clone(), self.idle_from_now());
        self.core.write_now(move |transaction: &mut Transaction| {
            Ok(((), transaction.edit_sessions().restore(&namespace, &session, checkpoint, idle)?))
        })
    }

    /// Copies the session to a new one, as it was at a checkpoint or as it is now.
    pub(crate) async fn copy(&self, checkpoint: Option<u32>, to: &str) -> Result<u64> {
        copy_session(&self.core, &self.namespace, &self.session, checkpoint, to, self.idle_from_now()).await
    }

    /// Deletes the session, if it exists.
    pub(crate) async fn delete(&self) -> Result<()> {
        let (namespace, session) = (self.namespace.clone(), self.session.clone());
        let delete =
            move |transaction: &mut Transaction| Ok(((), transaction.edit_sessions().delete(&namespace, &session)?.1));
        self.core.write(delete).await
    }

    /// Recalls messages of the session.
    pub(crate) async fn recall(&self, query: Query) -> Result<Hits> {
        self.core.recall(&self.namespace, query.session(&self.session)).await
    }
}

impl Engine {
    /// Appends messages to the history of a session, or replaces it.
    pub(crate) fn put_history(
        &self,
        namespace: &Namespace,
        session: &str,
        messages: Vec<Message>,
        replace: bool,
    ) -> Result<()> {
        let (namespace, session) = (namespace.clone(), session.to_owned());
        self.core().write_now(move |transaction: &mut Transaction| {
            Ok(((), transaction.edit_messages().put_history(&namespace, &session, &messages, replace)?))
        })
    }
}

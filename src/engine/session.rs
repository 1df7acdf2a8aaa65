//! A stored session, for the memory that works on it, and methods of [`Engine`] on whole sessions.
//!
//! Reads go to the tables through one snapshot ([`StoredSession::read`]); changes are one commit each. Every change
//! that puts messages also sets the time at which the session is idle, and schedules the timer.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{
    core::Core,
    executor::{Executor, JobQueue, Lane},
    handle::Engine,
    live_sessions::LiveSession,
    weak::WeakEngine,
    writer::Commit,
};
use crate::{
    calls::{call_span, timed},
    error::{Error, Result},
    ids::{Namespace, NamespaceId, check_id},
    message::{Message, Timestamp},
    read_budget::{ReadBudget, page},
    recall::{Hits, Query},
    store::{
        self, BlockKey, BlockState, FailedBatch, KeptCheckpoints, PlacedMessage, PutResult, SessionChange, SessionInfo,
        Snapshot, StoredBlock, Transaction,
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
    /// The bytes that prompts may read.
    pub(crate) read_budget: Option<ReadBudget>,
}

impl Engine {
    /// Returns the key that seals the memory in prompts.
    pub(crate) fn seal_key(&self) -> Result<Option<[u8; 32]>> {
        self.core().store().view(|snapshot| snapshot.seal_key())
    }
}

impl StoredSession {
    pub(crate) fn new(engine: &Engine, namespace: Namespace, session: String, idle_time: Option<Duration>) -> Self {
        let (core, read_budget) = (Arc::clone(engine.core()), engine.read_budget().cloned());
        StoredSession { core, namespace, session, idle_time, read_budget }
    }

    /// Returns the state that the memories of the session share.
    pub(crate) fn live(&self) -> Arc<LiveSession> {
        self.core.shared.sessions.get(&self.namespace, &self.session)
    }

    /// Returns the queue of the jobs that hand batches to blocks.
    pub(crate) fn jobs(&self) -> &Arc<JobQueue<BlockKey>> {
        &self.core.shared.sessions.jobs
    }

    /// Has the session flushed when it is idle. The first call of an engine begins this for all sessions of the file:
    /// those that became idle while the engine was closed are flushed at once, in the background.
    pub(crate) fn flush_when_idle(&self) -> Result<()> {
        if self.core.shared.store.is_read_only() {
            return Ok(());
        }
        let idle = &self.core.shared.sessions.idle;
        if !idle.is_started() {
            let stored = self.core.store().view(|snapshot| snapshot.idle().all()).unwrap_or_else(|error| {
                tracing::error!(%error, "idle sessions were not read; they are flushed after the next opening");
                Vec::new()
            });
            let engine = self.weak_engine();
            let keys = stored.into_iter().map(|(namespace, session, at)| ((namespace, session), at));
            idle.start(keys, move |due| engine.flush_idle(due));
        }
        // The timer knows the session already, unless it was copied from another one.
        if let Some(at) = self.core.store().view(|snapshot| snapshot.idle().get(&self.namespace, &self.session))? {
            idle.schedule((self.namespace.clone(), self.session.clone()), at);
        }
        Ok(())
    }

    /// Has the session flushed when nothing was put from now on for the time after which it is idle.
    fn schedule_idle(&self) {
        if let Some(at) = self.idle_from_now() {
            self.core.shared.sessions.idle.schedule((self.namespace.clone(), self.session.clone()), at);
        }
    }

    /// Returns the time at which the session is idle if nothing is put from now on; never, if the engine is open for
    /// reading.
    fn idle_from_now(&self) -> Option<Timestamp> {
        if self.core.shared.store.is_read_only() {
            return None;
        }
        let micros = i64::try_from(self.idle_time?.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(Timestamp::now().as_micros().saturating_add(micros))
    }

    fn message_of_any_session(&self, id: &str) -> Result<Option<Message>> {
        self.core
            .store()
            .in_namespace(&self.namespace, |snapshot, namespace| snapshot.messages().by_id(namespace, id, |_| Ok(())))
    }

    pub(crate) fn executor(&self) -> &Arc<Executor> {
        self.core.executor()
    }

    pub(crate) fn weak_engine(&self) -> WeakEngine {
        WeakEngine::new(&self.core)
    }

    /// Returns the time before a failed block is first tried again.
    pub(crate) fn block_retry(&self) -> Duration {
        self.core.shared.config.block_retry
    }

    /// Brings the session's namespace up to the staleness that the engine was opened with, if the file is a replica.
    pub(crate) async fn refresh(&self) -> Result<()> {
        self.core.refresh(&self.namespace, None).await
    }

    /// Reads one snapshot of the session. A session that the file does not have is empty.
    pub(crate) fn read<T: Default>(&self, read: impl FnOnce(&Snapshot, NamespaceId, u32) -> Result<T>) -> Result<T> {
        self.core.store().in_session(&self.namespace, &self.session, read)
    }

    pub(crate) fn history(&self) -> Result<Vec<Message>> {
        let history =
            self.read(|snapshot, namespace, session| snapshot.history().messages(namespace, session, None))?;
        Ok(history.into_iter().map(|(_, message)| message).collect())
    }

    pub(crate) fn message(&self, id: &str) -> Result<Option<Message>> {
        let message = self.message_of_any_session(id)?;
        Ok(message.filter(|message| message.session == self.session))
    }

    pub(crate) fn has_message(&self, id: &str) -> Result<bool> {
        self.read(|snapshot, namespace, session| {
            Ok(snapshot.messages().locate(namespace, id)?.is_some_and(|(_, of)| of == session))
        })
    }

    /// Returns true if another session of the namespace has a message with this id and the same hash of its content.
    pub(crate) fn is_message_elsewhere(&self, message: &Message, hash: impl Fn(&Message) -> u64) -> Result<bool> {
        let stored = self.message_of_any_session(&message.id)?;
        Ok(stored.is_some_and(|stored| stored.session != self.session && hash(&stored) == hash(message)))
    }

    /// Puts and removes messages in one commit. With `checkpoint`, the commit also makes a checkpoint if something changed.
    pub(crate) async fn update(&self, change: SessionChange, checkpoint: Option<KeptCheckpoints>) -> Result<PutResult> {
        if !change.put.is_empty() {
            self.schedule_idle();
        }
        let (namespace, session, idle) = (self.namespace.clone(), self.session.clone(), self.idle_from_now());
        let span = call_span!(INFO "put", messages = change.put.len());
        let apply = move |transaction: &Transaction| {
            let put = transaction.edit_messages().update(&namespace, &session, &change)?;
            if !change.put.is_empty() {
                transaction.idle().set(&namespace, &session, idle)?;
            }
            if let Some(keep) = checkpoint
                && put.new + put.replaced + put.removed > 0
            {
                transaction.checkpoints().create(&namespace, &session, "", keep)?;
            }
            Ok(put)
        };
        timed(span, self.core.writer.commit(Commit::Grouped, apply)).await
    }

    /// Moves buffered messages to long-term memory, as batches, in one commit. With `window`, prompts show messages
    /// from this sequence number on.
    pub(crate) fn flush(&self, batches: Vec<Vec<u64>>, window: Option<u64>) -> Result<u64> {
        let (namespace, session) = (self.namespace.clone(), self.session.clone());
        let flush =
            move |transaction: &Transaction| transaction.edit_sessions().flush(&namespace, &session, &batches, window);
        self.core.writer.commit(Commit::Grouped, flush).wait()
    }

    pub(crate) fn block_state(&self, key: &BlockKey) -> Result<BlockState> {
        self.core.store().view(|snapshot| snapshot.blocks().get(key))
    }

    /// Returns the states of several blocks as of one commit.
    pub(crate) fn block_states(&self, keys: &[BlockKey]) -> Result<Vec<BlockState>> {
        self.core.store().view(|snapshot| keys.iter().map(|key| snapshot.blocks().get(key)).collect())
    }

    pub(crate) async fn checkpoint(&self, label: String, keep: KeptCheckpoints) -> Result<u32> {
        let (namespace, session) = (self.namespace.clone(), self.session.clone());
        let create =
            move |transaction: &Transaction| transaction.checkpoints().create(&namespace, &session, &label, keep);
        self.core.writer.commit(Commit::Grouped, create).await
    }

    pub(crate) fn restore(&self, checkpoint: u32) -> Result<()> {
        self.schedule_idle();
        let (namespace, session, idle) = (self.namespace.clone(), self.session.clone(), self.idle_from_now());
        let restore = move |transaction: &Transaction| {
            transaction.edit_sessions().restore(&namespace, &session, checkpoint, idle)
        };
        self.core.writer.commit(Commit::Grouped, restore).wait()
    }

    /// Copies the session to a new one, as it was at a checkpoint or as it is now.
    pub(crate) async fn copy(&self, checkpoint: Option<u32>, to: &str) -> Result<u64> {
        copy_session(&self.core, &self.namespace, &self.session, checkpoint, to, self.idle_from_now()).await
    }

    /// Deletes the session, if it exists.
    pub(crate) async fn delete(&self) -> Result<()> {
        let (namespace, session) = (self.namespace.clone(), self.session.clone());
        let delete =
            move |transaction: &Transaction| transaction.edit_sessions().delete(&namespace, &session).map(drop);
        self.core.writer.commit(Commit::Grouped, delete).await
    }

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
        let put = move |transaction: &Transaction| {
            transaction.edit_messages().put_history(&namespace, &session, &messages, replace)
        };
        self.core().writer.commit(Commit::Grouped, put).wait()
    }
}

impl Engine {
    /// Returns the sessions of a namespace that have messages, ordered by id.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn sessions(&self, namespace: &Namespace) -> Result<Vec<SessionInfo>> {
        self.session_page(namespace, None, usize::MAX).await
    }

    /// Same as [`Engine::sessions`], for up to `limit` sessions whose ids come after this one. Cost: a pass over the names of the
    /// sessions that follow, and over the keys of the messages of those that are returned.
    ///
    /// # Errors
    /// Those of [`Engine::sessions`].
    pub async fn session_page(
        &self,
        namespace: &Namespace,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<SessionInfo>> {
        self.core().refresh(namespace, None).await?;
        let (namespace, after) = (namespace.clone(), after.map(str::to_owned));
        let sessions = move |core: &Core| {
            core.store()
                .in_namespace(&namespace, |snapshot, id| store::session_infos(snapshot, id, after.as_deref(), limit))
        };
        self.core().run(Lane::Store, sessions).await
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
        let blocks = move |core: &Core| core.store().in_namespace(&namespace, |snapshot, id| snapshot.blocks().all(id));
        self.core().run(Lane::Store, blocks).await
    }

    /// Returns the session and the name of each of the blocks that [`Engine::blocks`] returns.
    ///
    /// # Errors
    /// Those of [`Engine::blocks`].
    #[doc(hidden)]
    pub async fn block_names(&self, namespace: &Namespace) -> Result<Vec<(Option<String>, String)>> {
        self.core().refresh(namespace, None).await?;
        let namespace = namespace.clone();
        let names =
            move |core: &Core| core.store().in_namespace(&namespace, |snapshot, id| snapshot.blocks().names(id));
        self.core().run(Lane::Store, names).await
    }

    /// Returns one of the blocks that [`Engine::blocks`] returns.
    ///
    /// # Errors
    /// Those of [`Engine::blocks`].
    #[doc(hidden)]
    pub async fn block(&self, namespace: &Namespace, session: Option<&str>, name: &str) -> Result<Option<StoredBlock>> {
        self.core().refresh(namespace, None).await?;
        let (namespace, session, name) = (namespace.clone(), session.map(str::to_owned), name.to_owned());
        let block = move |core: &Core| {
            core.store().in_namespace(&namespace, |snapshot, id| snapshot.blocks().one(id, session, &name))
        };
        self.core().run(Lane::Store, block).await
    }

    /// Returns the batches that memory blocks gave up, in all namespaces or in those under a prefix, itself included. Cost: a
    /// pass over the positions of all blocks there.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn failed_batches(&self, prefix: Option<&Namespace>) -> Result<Vec<FailedBatch>> {
        self.core().refresh_under(prefix, None).await?;
        let prefix = prefix.cloned();
        let failed = move |core: &Core| {
            core.store().view(|snapshot| {
                let namespaces = snapshot.namespaces().all_under(prefix.as_ref())?;
                let failed = namespaces.iter().map(|(name, _)| snapshot.blocks().failed(name));
                Ok(failed.collect::<Result<Vec<_>>>()?.concat())
            })
        };
        self.core().run(Lane::Long, failed).await
    }

    /// Has memory blocks handed all batches again that they gave up, in all namespaces or in those under a prefix: each block
    /// gets its own when the memory of their session is next opened, or the session flushes. Returns these batches.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`], [`Error::ReadOnly`].
    pub async fn retry_failed_batches(&self, prefix: Option<&Namespace>) -> Result<Vec<FailedBatch>> {
        let failed = self.failed_batches(prefix).await?;
        let namespaces: BTreeSet<Namespace> = failed.iter().map(|batch| batch.namespace.clone()).collect();
        for namespace in namespaces {
            let hand_over = move |transaction: &Transaction| transaction.blocks().hand_over_failed(&namespace);
            self.core().writer.commit(Commit::Grouped, hand_over).await?;
        }
        Ok(failed)
    }

    /// Returns all messages of a session in order, buffered ones too. An unknown session has none.
    ///
    /// # Errors
    /// [`Error::Corrupted`], [`Error::Storage`].
    pub async fn history(&self, namespace: &Namespace, session: &str) -> Result<Vec<Message>> {
        let all = self.history_after(namespace, session, None, usize::MAX, usize::MAX).await?;
        Ok(all.into_iter().map(|placed| placed.message).collect())
    }

    /// Returns the last messages of a session in order, up to `limit`: all of its messages, or those that come before the
    /// message with the id `before`, which continues a list from its end. Cost: the reading of `limit` messages, however
    /// long the session is.
    ///
    /// # Errors
    /// [`Error::InvalidQuery`]: no message of the session has the id `before`. [`Error::Corrupted`], [`Error::Storage`].
    pub async fn history_page(
        &self,
        namespace: &Namespace,
        session: &str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Message>> {
        let page = self.history_before(namespace, session, before, limit, usize::MAX).await?;
        match (page, before) {
            (None, Some(before)) => Err(no_message_before(session, before)),
            (page, _) => Ok(page.unwrap_or_default().into_iter().map(|placed| placed.message).collect()),
        }
    }

    /// Same as [`Engine::history_page`], for about so many bytes, and at least one message. `None`: there is no such session.
    ///
    /// # Errors
    /// Those of [`Engine::history_page`].
    #[doc(hidden)]
    pub async fn history_before(
        &self,
        namespace: &Namespace,
        session: &str,
        before: Option<&str>,
        limit: usize,
        bytes: usize,
    ) -> Result<Option<Vec<PlacedMessage>>> {
        self.core().refresh(namespace, None).await?;
        let (namespace, session, before) = (namespace.clone(), session.to_owned(), before.map(str::to_owned));
        let budget = self.read_budget().cloned();
        let messages = move |core: &Core| {
            core.store().in_session(&namespace, &session, |snapshot, id, number| {
                let end = match &before {
                    None => u64::MAX,
                    Some(before) => match snapshot.messages().locate(id, before)? {
                        Some((seq, of)) if of == number => seq,
                        _ => return Err(no_message_before(&session, before)),
                    },
                };
                let mut last = snapshot.history().part(id, number, 0..end, true, page(limit, bytes, budget))?;
                last.reverse();
                Ok(Some(last))
            })
        };
        self.core().run(Lane::Store, messages).await
    }

    /// Returns the messages of a session whose numbers are above one, in order: up to `limit` of them and about so many bytes, and at
    /// least one. A program that lists a session in parts goes on after the number of the last one.
    ///
    /// # Errors
    /// Those of [`Engine::history`].
    #[doc(hidden)]
    pub async fn history_after(
        &self,
        namespace: &Namespace,
        session: &str,
        after: Option<u64>,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<PlacedMessage>> {
        self.core().refresh(namespace, None).await?;
        let (namespace, session, budget) = (namespace.clone(), session.to_owned(), self.read_budget().cloned());
        let first = after.map_or(0, |after| after.saturating_add(1));
        let messages = move |core: &Core| {
            core.store().in_session(&namespace, &session, |snapshot, id, session| {
                snapshot.history().part(id, session, first..u64::MAX, false, page(limit, bytes, budget))
            })
        };
        self.core().run(Lane::Store, messages).await
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
        let id = self.core().known_namespace(namespace).await?;
        let (namespace, session) = (namespace.clone(), session.to_owned());
        let delete = move |transaction: &Transaction| {
            let known = transaction.edit_sessions().delete(&namespace, &session)?;
            known.map(drop).ok_or_else(|| Error::no_session(&namespace, &session))
        };
        self.core().writer.commit(Commit::Grouped, delete).await?;
        self.core().unload_if_empty(id.as_slice());
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
    let copy = move |transaction: &Transaction| transaction.edit_sessions().copy(&namespace, &from, at, &to, idle);
    core.writer.commit(Commit::Grouped, copy).await
}

fn no_message_before(session: &str, before: &str) -> Error {
    Error::query(format!("session {session:?} has no message {before:?}; begin at its end, without `before`"))
}

//! A reference to an engine that does not keep it open, for code that may run longer than the engine.

use std::sync::{Arc, Weak};

use super::{
    core::Core,
    document_batch::DocumentBatch,
    executor::Executor,
    live_sessions::SessionKey,
    replica::{LEASE, Replica},
    writer::Commit,
};
use crate::{
    calls::block_on,
    documents::DocumentOutcome,
    error::{Error, Result},
    ids::Namespace,
    message::{Message, Timestamp},
    read_budget::page,
    recall::{Hits, Query},
    shared::Lease,
    store::{BlockKey, BlockState, IdleFlush, StoredBatch, Transaction},
};

/// The most messages and the most documents that have expired and that one commit deletes, so that other writes do not wait for long.
const MAX_EXPIRED: usize = 256;

/// An engine that may be closed meanwhile. Each call is short and is waited for at close; once closing has begun, calls
/// return [`Error::Closed`].
#[derive(Clone)]
pub(crate) struct WeakEngine {
    core: Weak<Core>,
    // Holds threads, not the file.
    executor: Arc<Executor>,
}

impl WeakEngine {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        WeakEngine { core: Arc::downgrade(core), executor: Arc::clone(core.executor()) }
    }

    pub(crate) fn recall(&self, namespace: &Namespace, query: &Query) -> Result<Hits> {
        self.visit(|core| {
            let seen = block_on(core.refresh_for(namespace, query))?;
            core.recall_here(namespace, query, seen)
        })
    }

    /// Returns the messages of the batch in which a message was flushed.
    pub(crate) fn batch_of(&self, namespace: &Namespace, id: &str) -> Result<Vec<Message>> {
        self.visit(|core| {
            core.store().in_namespace(namespace, |snapshot, namespace| snapshot.batches().of_message(namespace, id))
        })
    }

    /// Returns the state of a block.
    pub(crate) fn block_state(&self, key: &BlockKey) -> Result<BlockState> {
        self.visit(|core| {
            block_on(core.refresh(&key.namespace, None))?;
            core.store().view(|snapshot| snapshot.blocks().get(key))
        })
    }

    /// Takes the batches of a block for this machine, until the lease is dropped or ends. Returns `None` if another
    /// machine has them.
    pub(crate) fn lease(&self, key: &BlockKey) -> Result<Option<BlockLease>> {
        self.visit(|core| BlockLease::take(core.shared.replica.as_ref(), key))
    }

    /// Returns a batch of the session of a block. An engine that is open for reading has none: a block's state could
    /// not be stored.
    pub(crate) fn batch(&self, key: &BlockKey, number: u32) -> Result<Option<StoredBatch>> {
        self.visit(|core| match core.store().is_read_only() {
            true => Ok(None),
            false => core.store().in_session(&key.namespace, &key.session, |snapshot, namespace, session| {
                snapshot.batches().get(namespace, session, number)
            }),
        })
    }

    /// Returns the last messages of the session of a block, oldest first.
    pub(crate) fn last_messages(&self, key: &BlockKey, limit: usize) -> Result<Vec<Message>> {
        self.visit(|core| {
            let last = core.store().in_session(&key.namespace, &key.session, |snapshot, namespace, session| {
                snapshot.history().part(namespace, session, 0..u64::MAX, true, page(limit, usize::MAX, None))
            })?;
            Ok(last.into_iter().rev().map(|placed| placed.message).collect())
        })
    }

    /// Stores the state that a block made of some messages. Does nothing if its state, the session or one of the messages
    /// changed since they were read. Returns true if it was stored.
    pub(crate) fn put_block_state(
        &self,
        key: &BlockKey,
        read: BlockState,
        new: BlockState,
        made_of: Vec<Message>,
    ) -> Result<bool> {
        let key = key.clone();
        let put = move |transaction: &Transaction| transaction.blocks().put(&key, &read, &new, &made_of);
        self.visit(|core| core.writer.commit(Commit::Grouped, put).wait())
    }

    /// Flushes the buffers of those sessions that are idle, in one commit, and hands the batches to the blocks of open
    /// memories. Returns the other sessions with the times at which they are idle.
    pub(super) fn flush_idle(&self, sessions: &[SessionKey]) -> Result<Vec<(SessionKey, Timestamp)>> {
        let sessions = sessions.to_vec();
        self.visit(|core| {
            let now = Timestamp::now();
            let times = core.store().view(|snapshot| {
                let idle = snapshot.idle();
                sessions.iter().map(|(namespace, session)| idle.get(namespace, session)).collect::<Result<Vec<_>>>()
            })?;
            // A session in use costs no commit.
            if times.iter().all(|time| time.is_none_or(|time| time > now)) {
                return Ok(sessions.into_iter().zip(times).filter_map(|(key, time)| Some((key, time?))).collect());
            }
            let keys = sessions.clone();
            let flush = move |transaction: &Transaction| {
                let edit = transaction.edit_sessions();
                keys.iter()
                    .map(|(namespace, session)| edit.flush_idle(namespace, session, now))
                    .collect::<Result<Vec<_>>>()
            };
            let outcomes = core.writer.commit(Commit::Grouped, flush).wait()?;
            let mut later = Vec::new();
            for (session, outcome) in sessions.into_iter().zip(outcomes) {
                match outcome {
                    IdleFlush::Later(at) => later.push((session, at)),
                    IdleFlush::Flushed(0) => {}
                    IdleFlush::Flushed(_) => core.shared.sessions.flushed(&session),
                }
            }
            Ok(later)
        })
    }

    /// Deletes messages and documents that have expired, up to [`MAX_EXPIRED`] of each. Returns when the next one expires.
    pub(super) fn delete_expired(&self) -> Result<Option<Timestamp>> {
        self.visit(|core| {
            let next = || core.shared.store.read()?.expiry().next();
            let now = Timestamp::now();
            if next()?.is_none_or(|next| next > now) {
                return next();
            }
            let delete = move |transaction: &Transaction| transaction.expiry().delete_due(now, MAX_EXPIRED);
            core.writer.commit(Commit::Grouped, delete).wait()?;
            next()
        })
    }

    /// Runs a batch of operations on documents.
    pub(super) async fn document_batch(&self, batch: DocumentBatch) -> Result<Vec<DocumentOutcome>> {
        // In the order of `visit`.
        let _operation = self.executor.begin_operation().ok_or(Error::Closed)?;
        let core = self.core.upgrade().ok_or(Error::Closed)?;
        batch.run(&core, None).await.map_err(|error| core.store().explain(error))
    }

    pub(super) fn visit<T>(&self, work: impl FnOnce(&Core) -> Result<T>) -> Result<T> {
        // Declared first, so dropped last: closing waits until the core is let go.
        let _operation = self.executor.begin_operation().ok_or(Error::Closed)?;
        let core = self.core.upgrade().ok_or(Error::Closed)?;
        core.run_here(work)
    }
}

/// Held while a block works on a batch. The thread that pulls renews it.
pub(crate) struct BlockLease(Option<(Arc<Replica>, Vec<Lease>)>);

impl BlockLease {
    /// Takes the lease. Always succeeds in an engine with a file of its own. Returns `None` if another machine has it.
    pub(super) fn take(replica: Option<&Arc<Replica>>, key: &BlockKey) -> Result<Option<Self>> {
        let Some(replica) = replica else { return Ok(Some(BlockLease(None))) };
        let BlockKey { namespace, session, name, .. } = key;
        let work = format!("block {name} of {session}");
        let leases = replica.record_answer(replica.upstream.lease(&work, &[namespace.to_string()], LEASE))?;
        replica.keep(&leases);
        Ok((!leases.is_empty()).then(|| BlockLease(Some((Arc::clone(replica), leases)))))
    }
}

impl Drop for BlockLease {
    fn drop(&mut self) {
        if let Some((replica, leases)) = &self.0 {
            replica.stop_renewing(leases);
            if let Err(error) = replica.record_answer(replica.upstream.release(leases)) {
                tracing::debug!(%error, "a lease ends by itself");
            }
        }
    }
}

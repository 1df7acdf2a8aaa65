//! State that the memories of one engine share: the sessions in use, the jobs of their blocks, and the timer of idle
//! sessions.

use std::sync::Arc;

use super::{idle_timer::IdleTimer, job_queue::JobQueue, live_session::LiveSessions};
use crate::{
    engine::{Extension, StoredSession},
    ids::Namespace,
    store::{BlockKey, BufferChange, HistoryChange},
};

pub(super) struct Registry {
    pub(super) sessions: Arc<LiveSessions>,
    /// The sessions that are to become idle.
    pub(super) idle: Arc<IdleTimer>,
    /// Blocks that take batches.
    pub(super) jobs: Arc<JobQueue<BlockKey>>,
}

impl Registry {
    /// The registry of the engine that a session is of.
    pub(super) fn of(stored: &StoredSession) -> Arc<Self> {
        stored.extension(|| {
            let sessions = Arc::new(LiveSessions::default());
            Registry {
                idle: IdleTimer::start(Arc::clone(stored.executor()), stored.weak_engine(), Arc::clone(&sessions)),
                jobs: JobQueue::new(Arc::clone(stored.executor()), stored.block_threads()),
                sessions,
            }
        })
    }
}

impl Extension for Registry {
    fn publish(&self, buffers: Vec<BufferChange>, histories: Vec<HistoryChange>) {
        self.sessions.publish(buffers, histories);
    }

    fn flushed(&self, namespace: Namespace, session: String) {
        self.sessions.flushed(namespace, session);
    }

    fn reset(&self) {
        self.sessions.reset();
    }

    fn close(&self) {
        self.idle.close();
        self.jobs.close();
    }
}

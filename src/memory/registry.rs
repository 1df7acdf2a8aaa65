//! State that the memories of one engine share: the sessions in use and the jobs of their blocks.

use std::sync::Arc;

use super::{job_queue::JobQueue, live_session::LiveSessions};
use crate::{
    engine::{Extension, StoredSession},
    store::{BlockKey, BufferChange},
};

pub(super) struct Registry {
    pub(super) sessions: LiveSessions,
    /// Blocks that take batches.
    pub(super) jobs: Arc<JobQueue<BlockKey>>,
}

impl Registry {
    /// The registry of the engine that a session is of.
    pub(super) fn of(stored: &StoredSession) -> Arc<Self> {
        stored.extension(|| Registry {
            sessions: LiveSessions::default(),
            jobs: JobQueue::new(Arc::clone(stored.executor()), stored.block_threads()),
        })
    }
}

impl Extension for Registry {
    fn publish(&self, changes: Vec<BufferChange>) {
        self.sessions.publish(changes);
    }

    fn close(&self) {
        self.jobs.close();
    }
}

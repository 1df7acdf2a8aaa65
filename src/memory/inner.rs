//! State of an open memory, shared by its handles and its operations in flight.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicUsize},
};

use parking_lot::Mutex;

use super::{live_session::LiveSession, registry::Registry, settings::Settings, window::FlushedRecent};
use crate::{
    block::{BlockScope, MemoryBlock},
    engine::{Lane, StoredSession},
    error::{Error, Result},
    message::Message,
    store::BlockKey,
};

/// Messages and their token counts, by sequence number.
pub(super) type Counted = BTreeMap<u64, (Arc<Message>, usize)>;

/// It holds no handle on the engine: an operation in flight must not keep the file open after the last handle is
/// dropped.
pub(super) struct Inner {
    pub(super) settings: Settings,
    pub(super) stored: StoredSession,
    pub(super) registry: Arc<Registry>,
    pub(super) live: Arc<LiveSession>,
    pub(super) blocks: Vec<PromptBlock>,
    /// Calls past their deadline of the block that recalls messages for a prompt.
    pub(super) recall_late: Arc<AtomicUsize>,
    /// Token counts of buffered messages, as far as they were counted.
    pub(super) tokens: Mutex<Counted>,
    /// Messages of the window that are in long-term memory, as of the last read.
    pub(super) flushed_recent: Mutex<Arc<FlushedRecent>>,
}

/// A block, with the number of its calls that missed their prompt's deadline and still run.
#[derive(Clone)]
pub(super) struct PromptBlock {
    pub(super) block: Arc<dyn MemoryBlock>,
    pub(super) late: Arc<AtomicUsize>,
}

impl Inner {
    pub(super) fn new(settings: Settings, stored: StoredSession) -> Self {
        let registry = Registry::of(&stored);
        let live = registry.sessions.get(&stored.namespace, &stored.session);
        let prompt_block =
            |block: &Arc<dyn MemoryBlock>| PromptBlock { block: Arc::clone(block), late: Arc::default() };
        let blocks = settings.blocks.iter().map(prompt_block).collect();
        Inner {
            settings,
            stored,
            registry,
            live,
            blocks,
            recall_late: Arc::default(),
            tokens: Mutex::default(),
            flushed_recent: Mutex::default(),
        }
    }

    /// Runs `work` on a lane of the engine; see [`Executor::run`](crate::engine::Executor::run).
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        lane: Lane,
        work: impl FnOnce(&Inner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // Not while locks are held that the writer needs.
        self.stored.refresh().await?;
        let inner = Arc::clone(self);
        self.stored.executor().run(lane, move || work(&inner)).await
    }

    /// Has the session looked at when it will be idle if nothing is put from now on.
    pub(super) fn schedule_idle(&self) {
        if let Some(at) = self.stored.idle_from_now() {
            self.registry.idle.schedule((self.stored.namespace.clone(), self.stored.session.clone()), at);
        }
    }

    /// Returns the block with this name.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`].
    pub(super) fn block(&self, name: &str) -> Result<&Arc<dyn MemoryBlock>> {
        let found = self.settings.blocks.iter().find(|block| block.name() == name);
        found.ok_or_else(|| Error::InvalidConfig { reason: format!("this memory has no block {name:?}") })
    }

    /// Returns the key of a block's state in the store.
    pub(super) fn key(&self, block: &dyn MemoryBlock) -> BlockKey {
        BlockKey {
            namespace: self.stored.namespace.clone(),
            session: self.stored.session.clone(),
            name: block.name().to_owned(),
            shared: block.scope() == BlockScope::Namespace,
        }
    }
}

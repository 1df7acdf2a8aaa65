//! Opening a memory.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::{Asked, Inner, Memory};
use crate::{
    block::{MemoryBlock, check_names},
    buffer::BufferLimits,
    compose::{Composer, InsertMethod, Renderer},
    engine::Engine,
    error::{Result, impl_debug},
    ids::{Namespace, check_id},
    message::{MessageCounter, MessageTokens},
    tokens::TokenCounter,
};

/// How to open a [`Memory`].
#[derive(Clone)]
pub struct MemoryBuilder {
    pub(super) engine: Engine,
    pub(super) namespace: Namespace,
    pub(super) session: String,
    pub(super) limits: BufferLimits,
    pub(super) composer: Composer,
    pub(super) blocks: Vec<Arc<dyn MemoryBlock>>,
    pub(super) block_deadline: Duration,
    pub(super) checkpoint_each_put: bool,
}

impl_debug!(
    MemoryBuilder,
    self {
        namespace: self.namespace,
        session: self.session,
        limits: self.limits,
        composer: self.composer,
        blocks: self.blocks.iter().map(|block| block.name()).collect::<Vec<_>>(),
        block_deadline: self.block_deadline,
        checkpoint_each_put: self.checkpoint_each_put,
    }
);

impl MemoryBuilder {
    /// The token budget. Default: [`BufferLimits::default`].
    pub fn limits(mut self, limits: BufferLimits) -> Self {
        self.limits = limits;
        self
    }

    /// How text is counted, such as by [`Tiktoken`](crate::Tiktoken); other parts at the rates of [`MessageTokens`]. Default:
    /// [`ApproximateTokens`](crate::ApproximateTokens), which is far too low for most other scripts than Latin.
    pub fn token_counter(self, tokens: impl TokenCounter + 'static) -> Self {
        self.message_counter(MessageTokens::new(tokens))
    }

    /// How whole messages are counted.
    pub fn message_counter(mut self, tokens: impl MessageCounter + 'static) -> Self {
        self.composer.tokens = Arc::new(tokens);
        self
    }

    /// Where memory goes in a prompt. Default: [`InsertMethod::System`].
    pub fn insert_method(mut self, insert: InsertMethod) -> Self {
        self.composer.insert = insert;
        self
    }

    /// How memory is written. Default: [`Xml`](crate::Xml).
    pub fn renderer(mut self, renderer: impl Renderer + 'static) -> Self {
        self.composer.renderer = Arc::new(renderer);
        self
    }

    /// Adds a block, or an `Arc` of one that others hold too. They speak in the order added.
    pub fn block(mut self, block: impl MemoryBlock + 'static) -> Self {
        self.blocks.push(Arc::new(block));
        self
    }

    /// How long a prompt waits for blocks; all are asked at the same time. Default: 2 seconds.
    pub fn block_deadline(mut self, deadline: Duration) -> Self {
        self.block_deadline = deadline;
        self
    }

    /// Whether each put makes a [checkpoint](Memory::checkpoint). Default: false.
    pub fn checkpoint_each_put(mut self, yes: bool) -> Self {
        self.checkpoint_each_put = yes;
        self
    }

    /// Opens the session's memory with the buffer as it was left, or as new. Blocks go on, in the background, with batches
    /// that they have not taken yet. Blocks for a read of the buffer.
    ///
    /// # Errors
    /// [`InvalidMessage`](crate::Error::InvalidMessage): a session id that is empty or over 512 bytes.
    /// [`InvalidConfig`](crate::Error::InvalidConfig): a block's name that is used twice or can be no element, limits that do not
    /// fit each other. [`Corrupted`](crate::Error::Corrupted), [`Storage`](crate::Error::Storage).
    pub fn open(self) -> Result<Memory> {
        check_id("session", &self.session)?;
        check_names(self.blocks.iter().map(|block| &**block))?;
        let BufferLimits { token_limit, chat_history_token_ratio, token_flush_size } = self.limits;
        let limits = BufferLimits::new(token_limit, chat_history_token_ratio, token_flush_size)?;
        let live = self.engine.core().session(&self.namespace, &self.session);
        let asked = |block: &Arc<dyn MemoryBlock>| Asked { block: Arc::clone(block), late: Arc::default() };
        let blocks = self.blocks.iter().map(asked).collect();
        let composer = Composer { token_limit, ..self.composer };
        let settings = MemoryBuilder { limits, composer, ..self };
        let inner = Inner { settings, live, blocks, recalled_late: Arc::default(), tokens: Mutex::default() };
        inner.buffer()?;
        inner.work_on_batches();
        Ok(Memory { inner: Arc::new(inner) })
    }
}

impl Engine {
    /// The memory of a session: how to open it. A session is there from its first message on.
    pub fn memory(&self, namespace: &Namespace, session: impl Into<String>) -> MemoryBuilder {
        MemoryBuilder {
            engine: self.clone(),
            namespace: namespace.clone(),
            session: session.into(),
            limits: BufferLimits::default(),
            composer: Composer::default(),
            blocks: Vec::new(),
            block_deadline: Duration::from_secs(2),
            checkpoint_each_put: false,
        }
    }
}

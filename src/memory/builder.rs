//! The builder of a memory: its settings, their checks, and opening it.

use std::{sync::Arc, time::Duration};

use super::{handle::Memory, open_memory::Settings};
use crate::{
    block::{MemoryBlock, check_names},
    buffer::BufferLimits,
    compose::{Composer, InsertMethod, Renderer},
    engine::Engine,
    error::{Result, impl_debug},
    ids::{Namespace, check_id},
    message::{MessageTokenCounter, PerPartTokenCounter},
    store::KeptCheckpoints,
    tokens::TokenCounter,
};

/// Builder of a [`Memory`]. Made by [`Engine::memory`].
#[derive(Clone)]
pub struct MemoryBuilder {
    engine: Engine,
    namespace: Namespace,
    session: String,
    settings: Settings,
}

impl_debug!(
    MemoryBuilder,
    self {
        namespace: self.namespace,
        session: self.session,
        limits: self.settings.limits,
        composer: self.settings.composer,
        blocks: self.settings.blocks.iter().map(|block| block.name()).collect::<Vec<_>>(),
        block_deadline: self.settings.block_deadline,
        checkpoint_each_put: self.settings.checkpoint_each_put,
        kept_checkpoints: self.settings.kept_checkpoints,
        flush_on_drop: self.settings.flush_on_drop,
    }
);

impl MemoryBuilder {
    /// Sets the token budget. Default: [`BufferLimits::default`].
    pub fn limits(mut self, limits: BufferLimits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Sets the counter of the tokens of text, such as [`Tiktoken`](crate::Tiktoken). Other parts are counted at the
    /// rates of [`PerPartTokenCounter`]. Default: [`ApproximateTokenCounter`](crate::ApproximateTokenCounter), whose
    /// counts are far too low for most scripts other than Latin.
    pub fn token_counter(self, tokens: impl TokenCounter + 'static) -> Self {
        self.message_counter(PerPartTokenCounter::new(tokens))
    }

    /// Sets the counter of the tokens of whole messages.
    pub fn message_counter(mut self, tokens: impl MessageTokenCounter + 'static) -> Self {
        self.settings.composer.tokens = Arc::new(tokens);
        self
    }

    /// Sets where memory is inserted into a prompt. Default: [`InsertMethod::System`].
    pub fn insert_method(mut self, insert: InsertMethod) -> Self {
        self.settings.composer.insert = insert;
        self
    }

    /// Sets the format of memory in a prompt. Default: [`XmlRenderer`](crate::XmlRenderer).
    pub fn renderer(mut self, renderer: impl Renderer + 'static) -> Self {
        self.settings.composer.renderer = Arc::new(renderer);
        self
    }

    /// Adds a block, or an `Arc` of a block that others hold too. Prompts contain blocks in the order in which they
    /// were added.
    pub fn block(mut self, block: impl MemoryBlock + 'static) -> Self {
        self.settings.blocks.push(Arc::new(block));
        self
    }

    /// Sets how long a prompt waits for the content of its blocks, which are called at the same time. Default: 2
    /// seconds.
    pub fn block_deadline(mut self, deadline: Duration) -> Self {
        self.settings.block_deadline = deadline;
        self
    }

    /// Makes a [checkpoint](Memory::checkpoint) at each put that changes something. Default: false.
    pub fn checkpoint_each_put(mut self, yes: bool) -> Self {
        self.settings.checkpoint_each_put = yes;
        self
    }

    /// Keeps so many of the session's newest checkpoints, at least 1, when this memory makes one: the commit that makes it
    /// deletes older ones, up to 100. With [`keep_checkpoints_within`](Self::keep_checkpoints_within), one stays if either
    /// keeps it. Default: all are kept.
    pub fn keep_checkpoints(mut self, last: usize) -> Self {
        self.settings.kept_checkpoints.last = Some(last);
        self
    }

    /// Keeps the session's checkpoints that are not older than this, and the newest: see
    /// [`keep_checkpoints`](Self::keep_checkpoints).
    pub fn keep_checkpoints_within(mut self, time: Duration) -> Self {
        self.settings.kept_checkpoints.within = Some(time);
        self
    }

    /// Flushes the buffer, as [`Memory::flush`] does, when the last handle on the session is dropped, for programs that
    /// know when a conversation is over. The flush runs in the background; closing the engine waits for it. It is
    /// enough if one of the session's memories has this set. Default: false.
    pub fn flush_on_drop(mut self, yes: bool) -> Self {
        self.settings.flush_on_drop = yes;
        self
    }

    /// Opens the memory of the session, with the buffer as it was left. Its blocks go on, in the background, with
    /// batches that they have not taken yet. Blocks the calling thread for a read of the recent messages.
    ///
    /// A session whose last messages are in long-term memory, because they were flushed before their time, or put by
    /// [`Engine::put`](crate::Engine::put) or [`Engine::history_store`](crate::Engine::history_store), begins with them
    /// all the same: its prompts show its last turns, as many as the budget takes, and the system messages with which
    /// it begins. They stay in long-term memory, so nothing is embedded again, and are not recalled into the prompts
    /// that show them. Turns that the budget pushed out of the prompts do not come back.
    ///
    /// The first memory that an engine opens begins the timer of idle sessions: see [`BufferLimits::idle_time`].
    ///
    /// # Errors
    /// [`InvalidMessage`](crate::Error::InvalidMessage): the session id is empty or longer than 512 bytes.
    /// [`InvalidConfig`](crate::Error::InvalidConfig): two blocks have one name, a block's name cannot be the name of
    /// an element, or the limits do not fit each other. [`Corrupted`](crate::Error::Corrupted),
    /// [`Storage`](crate::Error::Storage).
    pub fn open(self) -> Result<Memory> {
        check_id("session", &self.session)?;
        let MemoryBuilder { engine, namespace, session, mut settings } = self;
        check_names(settings.blocks.iter().map(|block| &**block))?;
        settings.limits.check()?;
        settings.composer.token_limit = settings.limits.token_limit;
        Memory::open(engine, namespace, session, settings)
    }
}

impl Engine {
    /// Returns a builder of the memory of a session. A session exists from its first message on.
    pub fn memory(&self, namespace: &Namespace, session: impl Into<String>) -> MemoryBuilder {
        MemoryBuilder {
            engine: self.clone(),
            namespace: namespace.clone(),
            session: session.into(),
            settings: Settings {
                limits: BufferLimits::default(),
                composer: Composer::default(),
                blocks: Vec::new(),
                block_deadline: Duration::from_secs(2),
                checkpoint_each_put: false,
                kept_checkpoints: KeptCheckpoints::default(),
                flush_on_drop: false,
            },
        }
    }
}

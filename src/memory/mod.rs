//! The memory of one session: recent messages under a token budget, flushed to long-term memory, and prompts made of
//! both.
//!
//! Joins buffer, blocks and compose on the engine. It uses [`Engine`](crate::Engine) and, of the engine's internals, a
//! [`StoredSession`](crate::engine::StoredSession), a [`WeakEngine`](crate::engine::WeakEngine) and the lanes of the
//! [`Executor`](crate::engine::Executor).
//!
//! Invariants: messages that a put acknowledged are in the file; a flush is one commit; the rest of the buffer begins
//! with a user message, after the system prompt; a block takes each batch once.

mod align;
mod batch_jobs;
mod block_state;
mod blocking;
mod buffer;
mod builder;
mod call_blocks;
mod echo;
mod flush_right;
mod handle;
mod history;
mod idle_timer;
mod inner;
mod job_queue;
mod live_session;
mod open_memory;
mod prompt;
mod put;
mod recent;
mod registry;
mod reports;
mod resent;
mod settings;
mod sync;
mod turn;
mod whole;
mod window;

pub use self::{
    blocking::BlockingMemory,
    builder::MemoryBuilder,
    handle::Memory,
    history::EngineHistory,
    prompt::AssembleRequest,
    reports::{BlockStatus, MemoryReport},
};

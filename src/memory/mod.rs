//! The memory of one session: recent messages under a token budget, flushed to long-term memory, and prompts made of
//! both.
//!
//! A program holds a [`Memory`] (`handle`), which leads to one `OpenMemory`: its settings, its blocks, and the session
//! in the store. From there:
//!
//! - A put (`put`) drops what earlier prompts contained (`echo`) and becomes one commit. `sync` makes the same kind of
//!   change from a client's whole chat. When the messages that prompts show (`open_memory`) are over the budget, whole
//!   turns are flushed, in one more commit.
//! - A flushed batch is handed to each block by a job in the background (`batch_jobs`).
//! - A prompt (`prompt`) joins the recent messages with the content of blocks, which are all called at the same time
//!   (`call_blocks`), and is composed under the token budget.
//!
//! This module joins `buffer`, `block` and `compose` on the engine. Of the engine's internals it uses a `StoredSession`
//! with its `LiveSession`, a `WeakEngine` for blocks, and the lanes of the `Executor`. It knows neither tables nor
//! transactions. Sessions that are idle are flushed by the engine's timer.
//!
//! Invariants: messages that a put acknowledged are in the file; a flush is one commit; the rest of the buffer begins
//! with a user message, after the system prompt; a block takes each batch once.

mod batch_jobs;
mod builder;
mod call_blocks;
mod echo;
mod handle;
mod history;
mod open_memory;
mod prompt;
mod put;
mod sync;

#[doc(inline)]
pub use crate::{
    block::{
        AfterForget, BlockContent, BlockQuery, BlockScope, ContentChange, FactBlock, FlushedBatch, HitProcessor,
        InstructionBlock, InstructionVersion, MemoryBlock, RetrievalUnit, Retriever, StaticBlock, SummaryBlock,
        TokenExcess, VectorBlock,
    },
    buffer::BufferLimits,
    compose::{
        BlockFailure, BlockOutput, Composer, InsertMethod, MarkdownRenderer, Prompt, PromptOverflow, PromptSeal,
        PromptSection, PromptSectionReport, RecalledMessage, Renderer, SealKey, XmlRenderer,
    },
    store::{Checkpoint, FailedBatch, MessageVersion, SessionInfo, StoredBlock},
};

pub use self::{
    batch_jobs::BlockStatus,
    builder::MemoryBuilder,
    handle::{BlockingMemory, Memory},
    history::EngineHistory,
    prompt::AssembleRequest,
    put::MemoryReport,
};

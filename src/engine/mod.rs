//! The engine: puts, flushes and recalls over one database file.
//!
//! Joins store, embedder and indexes, which do not know each other. `executor` owns the threads: one commits
//! (`writer`), one embeds pending messages (`drain`), one improves indexes, and others run operations. `handle` closes
//! the engine when the last handle is dropped. `session`, `live_sessions` and `weak` are the parts that memory uses.
//!
//! Invariants: messages that `put` acknowledged are in the file; an index contains nothing that is not committed.

mod backup;
mod blocking;
mod builder;
mod core;
mod document_batch;
mod documents;
mod drain;
mod example_selector;
mod executor;
#[cfg(feature = "formats")]
mod file_import;
mod follow;
mod forget;
mod handle;
mod journal;
mod languages;
mod link;
mod live_sessions;
mod loaded_generation;
mod messages;
mod namespace_slot;
mod namespaces;
mod notes;
mod pulls;
mod questions;
mod recall;
mod recent_queries;
pub(crate) mod reindex;
mod replica;
mod reports;
mod segments;
mod session;
mod shared;
mod shared_vectors;
mod stored_graph;
mod text_windows;
mod timer;
mod transfer;
mod vector_batch;
mod weak;
mod writer;

#[cfg(feature = "formats")]
pub use self::file_import::{BadMessage, FileImport, ImportReport, ImportTarget};
pub use self::{
    blocking::BlockingEngine,
    builder::EngineBuilder,
    documents::{BlockingDocuments, Documents},
    example_selector::EngineExampleSelector,
    executor::block_on,
    handle::Engine,
    namespace_slot::EngineStats,
    reports::{FlushReport, IndexStats, LinkReport, PutReport},
};
pub(crate) use self::{
    blocking::blocking_methods,
    core::Opening,
    executor::{Executor, JobOutcome, Lane},
    live_sessions::{GivenMessage, LiveSession, OpenMemories, Origin, TurnPrompt},
    session::StoredSession,
    weak::WeakEngine,
};

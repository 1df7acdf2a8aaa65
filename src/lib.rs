//! mnemon: a long-term memory engine for LLM agents, linked into the program that uses it.
//!
//! Chat messages go in, are embedded on this machine by an ONNX model, indexed by meaning and by words, and kept in one file;
//! the messages that answer a question come out. No server, no network, no LLM on the write path.
//!
//! Start with [`Engine`], [`Message`] and [`Query`]; for an agent's sessions, with [`Memory`]. The README has first programs, the
//! command and the figures.
//!
//! # The map
//!
//! ```text
//! write   put ─> one commit: text is durable, pending ─> flush ─> embed, analyse ─> one commit: vectors, terms ─> publish to the indexes
//! read    query ─> embed, analyse ─> the nearest, those with its terms, their neighbours ─> fuse ─> choose ─> messages
//!
//! memory  put ─> one commit: text is durable, buffered ─(over budget)─> one commit: whole turns pending, a batch
//!         batch ─> each block, in the background ─> one commit: its state and its place in the batches
//!         get, assemble ─> buffer + what blocks say + recalled ─> one token budget ─> messages for the model
//! ```
//!
//! The store is the truth, the index is derived: it is published to after the commit, and read from the store when a
//! namespace is first asked. A graph's links are in the store too: a change of them is planned, committed, with the vectors
//! where those are few, and then made. Terms are in numbered segments, each stored as a whole. Text is durable the moment
//! `put` returns; if embedding fails or the process dies, the message stays pending, and the next flush or opening goes on
//! with it.
//!
//! | layer | modules | imports |
//! | --- | --- | --- |
//! | 0 | `error`, `ids`, `config` | crates only |
//! | 1 | `tokens`, `message`, `http`, `embed`, `index`, `lexical`, `chat` | 0; `message` also `tokens`; `chat` also both; `chat` and `embed` also `http` |
//! | 2 | `store`, the only place that knows redb | 0, `message` |
//! | 2 | `cache`: unchanged text is not embedded twice | 0, `embed` |
//! | 3 | `recall`: the question, the times it says, the scores of candidates, the choice of hits; `buffer`: what is flushed when | 0 to 2 |
//! | 3 | `block`: what prompts are told beside messages; `compose`: prompts under a budget, of both | 0 to 2, `recall`; `compose` also `block` |
//! | 3 | `history`: sessions kept whole; `fewshot`: the choice of examples | 0 and 1 |
//! | 4 | `engine` joins store, embedder and both indexes; `memory` joins sessions, blocks and prompts on it; `reindex`, `maintenance` | 0 to 3; `memory` and `reindex` also `engine` |
//! | 5 | the `mnemon` command, benches, tests, examples | the public API |
//!
//! Invariants:
//! - A namespace is a wall: every key of the store begins with its number, every index holds one.
//! - A transaction is in the file as a whole or not at all.
//! - A message with text has either vectors or a pending entry, in every generation that takes writes; or it is in its
//!   session's short-term buffer, and has neither.
//! - A block takes each flushed batch once; a flush is one commit.
//! - Exactly one generation serves; a switch is one commit, and only to one that has all that is found then. A recall keeps to the
//!   generation that served when it began.
//! - Every vector of a namespace is in its graph or is scanned: what is committed is found, whatever is still to be linked.
//! - A row is given to another message only when nothing leads to it any more.
//! - A row's terms are those in its newest segment; a commit that gives a row stores its terms. A lexical index that is not
//!   whole in the store is made anew from the texts before it is loaded.
//! - The same text gives the same vector, whatever it was embedded with.
//! - What is published of a vector is what a load would read.
//! - What is deleted or replaced is never returned again, once the call has returned.

/// Compiles the README's examples.
#[cfg(all(doctest, feature = "openai"))]
#[doc = include_str!("../README.md")]
struct Readme;

mod block;
mod buffer;
mod cache;
mod chat;
mod compose;
mod config;
mod embed;
mod engine;
mod error;
mod fewshot;
mod history;
#[cfg(any(feature = "openai", feature = "pull"))]
mod http;
mod ids;
mod index;
mod lexical;
mod maintenance;
mod memory;
mod message;
mod recall;
mod reindex;
mod store;
mod tokens;

pub use block::{
    Batch, BlockContent, BlockQuery, BlockScope, Excess, FactBlock, HitProcessor, InstructionBlock, InstructionVersion,
    MemoryBlock, Recall, RetrievalUnit, StaticBlock, SummaryBlock, VectorBlock,
};
pub use buffer::BufferLimits;
pub use cache::{CacheFileStats, CacheStats, CachedEmbedder, CachedEmbedderBuilder, cache_file_stats};
#[cfg(feature = "openai")]
pub use chat::OpenAiChat;
pub use chat::{ChatModel, ChatRequest};
pub use compose::{
    BlockFailure, BlockOutput, Composer, InsertMethod, Markdown, Overflow, Prompt, Renderer, Seal, Section, Xml,
};
pub use config::{Config, Device, IndexKind, Precision, VectorsIn};
#[cfg(feature = "pull")]
pub use embed::CatalogueEntry;
#[cfg(feature = "openai")]
pub use embed::OpenAiEmbedder;
pub use embed::{
    CrossEncoder, Embedder, Embedding, ImportOptions, Model, ModelFile, ModelInfo, OnnxEmbedder, OnnxOptions, Passage,
    Pooling, Quantization, Reranker, RerankerInfo,
};
pub use engine::{Blocking, Builder, Engine, FlushReport, IndexStats, PutReport};
pub use error::{BoxError, Error, Result};
pub use fewshot::{
    ByLength, ByMarginalRelevance, ByNgramOverlap, BySimilarity, Example, ExampleFormat, ExampleSelector,
};
pub use history::{FileHistory, HistoryStore, InMemoryHistory, check_history_store};
pub use ids::{MAX_ID_BYTES, ModelIdentity, Namespace};
pub use index::{Bitmap, ExactIndex, Found, HnswIndex, HnswOptions, HnswRsIndex, Neighbor, Search, VectorIndex};
pub use lexical::Language;
pub use maintenance::{GenerationState, GenerationStats, NamespaceStats, Stats, VerifyReport, stats, verify};
pub use memory::{Assembly, BlockStatus, BlockingMemory, EngineHistory, Memory, MemoryBuilder, MemoryReport};
pub use message::{
    DEFAULT_SESSION, MAX_MESSAGE_BYTES, Message, MessageCounter, MessageLine, MessageSelector, MessageTokens,
    MessageUpdate, MessageWindow, Part, Reference, Role, Splitter, Timestamp, TokenWindow, Trim, TrimStrategy,
    add_messages, escape_xml, from_openai, to_openai, to_openai_lossless, trim_messages,
};
pub use recall::{
    Hit, Hits, MAX_K, Parts, Query, Strategy, TimeExpression, TimeSpan, TimeUse, time_expressions,
    time_expressions_at_offset,
};
pub use reindex::{
    GateReport, ReindexOptions, ReindexPhase, ReindexProgress, ReindexReport, drop_previous, reindex, rollback,
};
pub use store::{Checkpoint, SessionInfo, Sizes};
#[cfg(feature = "tiktoken")]
pub use tokens::Tiktoken;
pub use tokens::{ApproximateTokens, TokenCounter, TokenizerFile};

//! mnemon: long-term memory for LLM agents, linked into the program that uses it.
//!
//! Chat messages are stored in one file, embedded on this machine by an ONNX model, and indexed by meaning and by
//! words. A recall returns the messages that answer a query. There is no network and no LLM on the write
//! path.
//!
//! Start with [`Engine`], [`Message`] and [`Query`], and with [`Memory`] for an agent's sessions. The README has
//! complete programs, the command and measurements. In the sources, `docs/design.md` gives the reasons for the design
//! and the alternatives that were rejected.
//!
//! # How it works
//!
//! ```text
//! write   put ─> commit: the text is durable and pending ─> flush ─> embed, analyse words ─> commit: vectors, terms, links ─> publish to the indexes
//! recall  query ─> embed, analyse words ─> candidates: nearest vectors, matching words, their neighbors, unindexed messages with
//!         matching words ─> rank ─> choose ─> hits
//!
//! memory  put ─> commit: the text is durable and buffered ─(over budget)─> commit: whole turns become pending, as one batch
//!         batch ─> each block, in the background ─> commit: the block's new state and its position in the batches
//!         get, assemble ─> buffer + blocks + recalled messages ─> within one token budget ─> messages for the model
//! ```
//!
//! The store is the truth, and indexes are derived from it. A commit is published to the indexes of a loaded namespace;
//! an unloaded namespace is read from the store by its first query. The links of a vector graph are stored too: a
//! change of the graph is planned, committed, for small changes together with the vectors, and then applied. Terms are
//! stored in numbered segments, each as a whole.
//!
//! A text is durable when `put` returns. If embedding fails or the process dies, the message stays pending, and the
//! next flush or the next opening of the file embeds it.
//!
//! # Modules
//!
//! A module imports only from its own layer and the layers below, and no files import each other in a circle. The test
//! in `tests/it/layers` lists every import between modules.
//!
//! | layer | module | contents |
//! | --- | --- | --- |
//! | 0 | `error`, `ids`, `config`, `lock`, `new_file` | the error type, identifiers, settings, file locks, files that get their name when they are complete |
//! | 0 | `encryption` | keys and the cipher |
//! | 0 | `calls` | spans of calls, waiting for a future |
//! | 1 | `tokens`, `message` | token counting; messages, lists of messages, the formats of OpenAI, Anthropic and Gemini |
//! | 1 | `filter` | filters on messages, their metadata, and the values of documents |
//! | 1 | `forget` | requests to forget, receipts, the check of their chain, legal holds |
//! | 1 | `chat` | the [`ChatModel`] trait |
//! | 1 | `embed` | the [`Embedder`] and [`Reranker`] traits, chunks of long texts, batching, scheduling |
//! | 1 | `index`, `lexical` | nearest vectors: the crate `mnemon-index` in `crates/index`, exact and HNSW; words: analysis, segments, BM25 |
//! | 1 | `models` | model folders: manifest, hashes, search by name, the model that is compiled in; the user's data folder |
//! | 1 | `onnx` | running models: token tables; ONNX Runtime's sessions and tensors; tokenizers; cross-encoders |
//! | 1 | `client` | clients of servers, for chat and for embeddings, with one policy for time limits and retries |
//! | 1 | `import` | new model folders: import of other layouts, catalogue, download |
//! | 2 | `default_embedder` | the embedder of an engine that was opened without one |
//! | 2 | `store` | the database file: pages with checksums, tables, records, transactions, copies; the only module that uses redb |
//! | 2 | `cache` | embeddings of texts that were embedded before, in memory and in a file |
//! | 3 | `shared` | the primary of several machines: what a replica asks of it, and Postgres, the only module that uses its client |
//! | 3 | `recall` | a loaded namespace; a query's candidates, their ranking and the choice of hits |
//! | 3 | `journal` | recalls of the past, and their comparison with what the same question finds today |
//! | 3 | `buffer`, `block`, `compose` | what a session flushes when; memory blocks; prompts under a token budget |
//! | 3 | `documents` | JSON values under keys: their options, the paths to their texts, the rules for what may be stored |
//! | 3 | `history`, `fewshot` | histories of whole sessions; selection of examples for prompts |
//! | 4 | `engine` | joins store, embedder and indexes; owns the threads |
//! | 4 | `memory` | sessions, blocks and prompts on top of the engine |
//! | 4 | `knowledge` | profiles and collections that a language model keeps up to date, on documents |
//! | 4 | `admin` | a closed database: statistics, verification, copies, conversion to another model, moving it to a shared database |
//! | 4 | `fuzzing` | readers of bytes for the fuzz targets, with `--cfg fuzzing` alone |
//! | 5 | the server in `crates/server`, the command in `crates/cli`, the Python package, benches, tests, examples | use the public API only |
//!
//! # Where to read
//!
//! Each path goes down through these files of `src`:
//!
//! - **put**: `engine/messages` hands the change to `engine/writer`, which commits it together with others;
//!   `store/edit_messages` and `store/edit` change the tables of `store/schema`; `engine/shared` publishes the effects of
//!   the commit.
//! - **flush**: `engine/shared` runs the thread that embeds, `engine/drain` embeds the pending messages in batches,
//!   `engine/vector_batch` stores their vectors and terms, `engine/stored_graph` plans the links, `recall/changes`
//!   applies the commit to a loaded namespace.
//! - **recall**: `engine/recall`, `recall/prepare` embeds the query, `recall/find` searches wider until enough candidates
//!   become hits, `recall/search` searches one namespace, `recall/candidates` gathers the evidence from
//!   `recall/namespace`, `recall/rank` scores it. `recall/multi_namespace` searches several namespaces.
//!   `engine/journal` notes the recall, if it is to be noted, and asks it again.
//! - **documents**: `engine/documents` has the handle, `engine/document_batch` runs reads and searches and then one
//!   commit, `documents/prepare` checks a value and finds its texts, `store/edit_documents` changes the tables,
//!   `engine/timer` waits until something expires.
//! - **collection update**: `knowledge/collection` finds the items to show and asks the model,
//!   `knowledge/collection_changes` checks its answer, and `engine/document_batch` commits the changes.
//! - **forget**: `forget/mod` has the request, `engine/forget` divides it into commits, `store/forget` removes it,
//!   `engine/segments` rewrites the terms, `store/audit` appends the receipt, and caches forget the texts.
//! - **several machines**: `engine/writer` hands a group of changes to `engine/replica`, `store/primary/capture` reads what
//!   they changed, `shared/postgres/push` stores it in the primary; `engine/pulls` asks whether a namespace changed, once
//!   for all who wait (`engine/questions`), `shared/postgres/pull` reads its rows, `store/primary/apply` applies them,
//!   `engine/shared_vectors` fetches vectors.
//! - **memory put to block**: `memory/put`, `memory/echo` drops what an earlier prompt contained, `engine/session`
//!   commits the put and the flush, `memory/batch_jobs` hands the batch to the blocks on the threads of
//!   `engine/executor/job_queue`, `engine/weak` commits their states.
//! - **memory to prompt**: `memory/prompt` takes the recent messages of `memory/open_memory`, calls the blocks
//!   (`memory/call_blocks`), and has `compose/composer` fit all of it into the token budget.
//!
//! # Invariants
//!
//! - A query reaches only the namespaces that the call names: each key of the store begins with a namespace's number,
//!   and each index holds one namespace.
//! - A transaction is stored completely or not at all.
//! - A message with text is in one of two states. It has vectors or a pending entry in each generation that accepts
//!   writes; or it is in its session's short-term buffer and has neither.
//! - A block receives each flushed batch once, and a flush is one commit.
//! - Exactly one generation serves. A switch is one commit, to a generation that contains everything that can be found
//!   at that time. A recall uses the generation that served when it began.
//! - A stored message is indexed, or is compared by its words with each query: what `put` acknowledged is found.
//! - Each vector of a namespace is in its graph or is scanned, so committed messages are found while links are still
//!   being built.
//! - A row is reused for another message only when no link leads to it any more.
//! - The terms of a row are those in its newest segment, and the commit that assigns a row stores its terms. A lexical
//!   index that is incomplete in the store is rebuilt from the texts before it is loaded.
//! - The same text has the same vector, whichever texts were embedded with it.
//! - A document, its place in the order, its expiry and its indexed texts change in one commit. An expired document is
//!   never returned.
//! - A replica of a shared database holds what the primary held at the version that the replica records.
//! - An index holds exactly what a load from the store would give.
//! - A deleted or replaced message is never returned after the call that deleted or replaced it has returned.
//! - No live record has anything of a forgotten message, and no number of a removed namespace is used again.

// Links are checked in the documentation with all features. With fewer, some lead to types that are left out.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(all(feature = "onnx", feature = "hnsw_rs", feature = "openai", feature = "pull", feature = "tiktoken")),
    allow(rustdoc::broken_intra_doc_links)
)]

/// Compiles the examples of the README.
#[cfg(all(doctest, feature = "openai", feature = "bundled-model", feature = "tiktoken"))]
#[doc = include_str!("../README.md")]
struct Readme;

// The helpers that unit tests share with the integration tests name this crate so.
#[cfg(test)]
extern crate self as mnemon;

mod admin;
mod block;
mod buffer;
mod cache;
mod calls;
#[cfg(all(test, feature = "encryption", feature = "onnx", feature = "postgres"))]
mod campaign;
mod chat;
#[cfg(any(feature = "openai", feature = "pull"))]
mod client;
mod compose;
mod config;
mod default_embedder;
mod documents;
mod embed;
mod encryption;
mod engine;
mod error;
mod fewshot;
mod filter;
mod forget;
#[cfg(test)]
mod forget_proof;
#[cfg(all(fuzzing, feature = "onnx"))]
#[doc(hidden)]
pub mod fuzzing;
mod history;
mod ids;
#[cfg(feature = "onnx")]
mod import;
mod journal;
mod knowledge;
mod lexical;
mod lock;
mod memory;
mod message;
#[cfg(feature = "onnx")]
mod models;
mod new_file;
#[cfg(feature = "onnx")]
mod onnx;
mod recall;
// Without the feature nothing opens a shared database.
#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
mod shared;
mod store;
mod tokens;

pub use admin::{DatabaseFile, GenerationStats, NamespaceStats, Stats};
#[cfg(feature = "postgres")]
pub use admin::{ShareReport, Unshared, unshare};
// Until the next release: methods of `DatabaseFile`.
#[cfg(feature = "encryption")]
#[doc(hidden)]
pub use admin::backup_with_key;
#[cfg(feature = "postgres")]
#[doc(hidden)]
pub use admin::share;
#[doc(hidden)]
pub use admin::{
    audit, backup, drop_previous, namespaces, purge, reindex, rollback, salvage, serving_model, stats, verify,
};
pub use block::{
    AfterForget, BlockContent, BlockQuery, BlockScope, FactBlock, FlushedBatch, HitProcessor, InstructionBlock,
    InstructionVersion, MemoryBlock, RetrievalUnit, Retriever, StaticBlock, SummaryBlock, TokenExcess, VectorBlock,
};
pub use buffer::BufferLimits;
pub use cache::{CacheFileStats, CacheStats, CachedEmbedder, CachedEmbedderBuilder, cache_file_stats};
pub use chat::{ChatAnswer, ChatFuture, ChatModel, ChatRequest, Usage};
#[cfg(feature = "openai")]
pub use client::{OpenAiChat, OpenAiEmbedder};
pub use compose::{
    BlockFailure, BlockOutput, Composer, InsertMethod, MarkdownRenderer, Prompt, PromptOverflow, PromptSeal,
    PromptSection, PromptSectionReport, RecalledMessage, Renderer, SealKey, XmlRenderer,
};
pub use config::{Config, Device, Freshness, IndexKind, Precision, VectorStorage};
pub use documents::{
    Document, DocumentNamespaces, DocumentOperation, DocumentOptions, DocumentOutcome, DocumentSearch,
};
pub use embed::{Embedder, Passage, Reranker};
#[cfg(feature = "encryption")]
pub use encryption::EncryptionKey;
pub use engine::reindex::{GateReport, ReindexOptions, ReindexPhase, ReindexProgress, ReindexReport};
pub use engine::{
    BlockingDocuments, BlockingEngine, Documents, Engine, EngineBuilder, EngineExampleSelector, EngineStats,
    FlushReport, IndexStats, PutReport,
};
// For the Python package, whose calls wait in two ways.
#[doc(hidden)]
pub use engine::block_on;
pub use error::{BoxError, Error, Result};
pub use fewshot::{
    Bm25ExampleSelector, ExampleFormatter, ExampleSelector, FewShotExample, LengthBasedExampleSelector,
    MaxMarginalRelevanceExampleSelector, NgramOverlapExampleSelector, SemanticSimilarityExampleSelector,
};
pub use filter::MetadataFilter;
pub use forget::{Audit, AuditEvent, Forget, ForgetTarget, Forgotten, Hold, Receipt};
// The name in 0.2.
#[doc(hidden)]
pub use forget::ForgetTarget as Requested;
pub use history::{FileHistory, HistoryStore, InMemoryHistory, check_history_store};
pub use ids::{MAX_ID_BYTES, ModelIdentity, Namespace};
#[cfg(feature = "pull")]
pub use import::CatalogueEntry;
#[cfg(feature = "onnx")]
pub use import::ImportOptions;
pub use journal::{HitChange, JournalEntry, JournalHit, Replay, ReplayedHit, Standing, TermChange};
pub use knowledge::{
    BlockingCollection, BlockingProfile, Collection, CollectionBlock, CollectionReport, Profile, ProfileBlock,
};
pub use lexical::Language;
pub use memory::{AssembleRequest, BlockStatus, BlockingMemory, EngineHistory, Memory, MemoryBuilder, MemoryReport};
pub use message::{
    CalibratedTokenCounter, ContentPart, DEFAULT_SESSION, MAX_MESSAGE_BYTES, MAX_METADATA_BYTES, MediaReference,
    Message, MessageLine, MessageSelector, MessageTokenCounter, MessageUpdate, MessageWindow, PerPartTokenCounter,
    Role, TextSplitter, Timestamp, TokenWindow, TrimOptions, TrimStrategy, add_messages, escape_xml, from_anthropic,
    from_chatgpt, from_gemini, from_langchain, from_llamaindex, from_mem0, from_openai, to_anthropic,
    to_anthropic_lossless, to_gemini, to_gemini_lossless, to_openai, to_openai_lossless, trim_messages,
};
#[cfg(feature = "hnsw_rs")]
pub use mnemon_index::HnswRsIndex;
pub use mnemon_index::{
    Bitmap, ExactIndex, HnswIndex, HnswOptions, Neighbor, SearchOptions, SearchResult, VectorIndex,
};
#[cfg(feature = "onnx")]
pub use models::{Model, ModelFile, ModelInfo, Pooling, Quantization, RerankerInfo};
#[cfg(feature = "onnx")]
pub use onnx::{CrossEncoder, EmbeddingJob, OnnxEmbedder, OnnxOptions, Runtime};
pub use recall::{
    Hit, Hits, MAX_K, MAX_QUERY_BYTES, Query, QueryOptions, RankingStrategy, Scope, ScoreBreakdown, TimeExpression,
    TimeSpan, TimeUse, Unit, time_expressions, time_expressions_at_offset,
};
pub use store::{
    Checkpoint, GenerationState, NamespaceCursor, NamespaceInfo, NamespacePage, NamespaceTotals, PurgeReport,
    SalvageReport, SessionInfo, StorageSizes, StoredBlock, TransferReport, VerifyReport,
};
#[cfg(feature = "onnx")]
pub use tokens::HuggingFaceTokenizer;
#[cfg(feature = "tiktoken")]
pub use tokens::Tiktoken;
pub use tokens::{ApproximateTokenCounter, TokenCounter};

//! mnemon: long-term memory for LLM agents, linked into the program that uses it.
//!
//! Chat messages are stored in one file, embedded on this machine by an ONNX model, and indexed by meaning and by
//! words. A recall returns the messages that answer a query. There is no network and no LLM on the write
//! path.
//!
//! Start with [`Engine`], [`Message`] and [`Query`], and with [`Memory`] for an agent's sessions. The README has
//! complete programs, the command and measurements.
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
//! The names that most programs use are at the root. The others are in modules: [`message`] with the [formats](mod@format) of other
//! programs, [`recall`], [`memory`] with its blocks and prompts, [`document`] and [`knowledge`], [`models`],
//! [`chat_model`], [`tokenizer`], [`index`], [`admin`] for databases that are closed, [`audit`], [`journal`], and
//! [`compat`].
//!
//! In the sources, `docs/architecture.md` is a walk through the modules with their invariants, `docs/design.md` gives the
//! reasons for the design, and `docs/file-format.md` the bytes of a database.

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

pub mod admin;
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
#[cfg(feature = "formats")]
mod formats;
#[cfg(all(fuzzing, feature = "onnx"))]
#[doc(hidden)]
pub mod fuzzing;
mod history;
mod ids;
#[cfg(feature = "onnx")]
mod import;
pub mod journal;
pub mod knowledge;
mod lexical;
mod lock;
pub mod memory;
pub mod message;
#[cfg(feature = "onnx")]
mod model_folders;
mod new_file;
#[cfg(feature = "onnx")]
mod onnx;
mod read_budget;
pub mod recall;
// Without the feature nothing opens a shared database.
#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
mod shared;
mod store;
mod tokens;

// For the command, which removes what it was writing when a signal ends it.
#[doc(hidden)]
pub use new_file::{TemporaryName, remove_temporary_files};

/// The sample conversations, for the benches of the command: the package of the command has only its own files.
#[doc(hidden)]
pub mod sample {
    pub const MESSAGES: &str = include_str!("../datasets/sample/messages.jsonl");
    pub const QUERIES: &str = include_str!("../datasets/sample/queries.jsonl");
}

/// Documents: JSON values under keys, as in LangGraph's `BaseStore`. [`Engine::documents`] leads to them.
pub mod document {
    #[doc(inline)]
    pub use crate::{
        documents::{
            Document, DocumentNamespaces, DocumentOperation, DocumentOptions, DocumentOutcome, DocumentSearch,
        },
        engine::{BlockingDocuments, Documents},
    };
}

/// Models that embed texts, and rerankers: model folders, clients of servers, caches, and what runs them.
pub mod models {
    #[cfg(feature = "openai")]
    #[doc(inline)]
    pub use crate::client::OpenAiEmbedder;
    #[cfg(feature = "pull")]
    #[doc(inline)]
    pub use crate::import::CatalogueEntry;
    #[doc(inline)]
    pub use crate::{
        cache::{CacheFileStats, CacheStats, CachedEmbedder, CachedEmbedderBuilder, cache_file_stats},
        embed::{Embedder, GivenVectors, Passage, Reranker},
        ids::ModelIdentity,
    };
    #[cfg(feature = "onnx")]
    #[doc(inline)]
    pub use crate::{
        import::ImportOptions,
        model_folders::{Model, ModelFile, ModelInfo, Pooling, Quantization, RerankerInfo},
        onnx::{CrossEncoder, EmbeddingJob, OnnxEmbedder, OnnxOptions, Runtime},
    };
}

/// Language models that a program brings along, for facts, summaries, profiles and collections.
pub mod chat_model {
    #[doc(inline)]
    pub use crate::chat::{ChatAnswer, ChatFuture, ChatModel, ChatRequest, Usage};
    #[cfg(feature = "openai")]
    #[doc(inline)]
    pub use crate::client::OpenAiChat;
}

/// Counts the tokens of texts, as models do.
pub mod tokenizer {
    #[cfg(feature = "onnx")]
    #[doc(inline)]
    pub use crate::tokens::HuggingFaceTokenizer;
    #[cfg(feature = "tiktoken")]
    #[doc(inline)]
    pub use crate::tokens::Tiktoken;
    #[doc(inline)]
    pub use crate::tokens::{ApproximateTokenCounter, TokenCounter};
}

/// Chats in the formats of other programs: lists of messages in memory, and the files that programs write.
///
/// [`FORMATS`](format::FORMATS) is the table of all formats. A [`Source`](format::Source) has the files, and a
/// [`FileReader`](format::FileReader) reads each in the format that it is found to have. A
/// [`FileImport`](format::FileImport) stores what they hold.
pub mod format {
    #[doc(inline)]
    pub use crate::message::format::*;
    #[cfg(feature = "formats")]
    #[doc(inline)]
    pub use crate::{
        engine::{BadMessage, FileImport, ImportReport, ImportTarget},
        formats::{
            FORMATS, FRAME, FileReader, Format, Found, MessageEdit, ReadOptions, Source, SourceFile, decompressed,
            namespace_of,
        },
    };
}

/// Vector indexes without an engine: exact search and HNSW. They are those of the crate `mnemon-index`.
pub mod index {
    #[cfg(feature = "hnsw_rs")]
    #[doc(inline)]
    pub use mnemon_index::HnswRsIndex;
    #[doc(inline)]
    pub use mnemon_index::{
        Bitmap, ExactIndex, HnswIndex, HnswOptions, Neighbor, SearchOptions, SearchResult, VectorIndex,
    };
}

/// Forgetting, legal holds, and the audit of both.
pub mod audit {
    #[doc(inline)]
    pub use crate::forget::{Audit, AuditEvent, Forget, ForgetTarget, Forgotten, Hold, Receipt};
}

/// What eases the way from other libraries: histories of whole sessions and selectors of examples, as LangChain has them.
pub mod compat {
    #[doc(inline)]
    pub use crate::{
        engine::EngineExampleSelector,
        fewshot::{
            Bm25ExampleSelector, ExampleFormatter, ExampleSelector, FewShotExample, LengthBasedExampleSelector,
            MaxMarginalRelevanceExampleSelector, NgramOverlapExampleSelector, SemanticSimilarityExampleSelector,
        },
        history::{FileHistory, HistoryStore, InMemoryHistory, check_history_store},
        memory::EngineHistory,
    };
}

#[doc(inline)]
pub use admin::DatabaseFile;
#[doc(inline)]
pub use block::{FactBlock, MemoryBlock, StaticBlock, SummaryBlock, VectorBlock};
#[doc(inline)]
pub use chat::ChatModel;
#[cfg(feature = "openai")]
#[doc(inline)]
pub use client::{OpenAiChat, OpenAiEmbedder};
#[doc(inline)]
pub use compose::Prompt;
pub use config::{Config, Device, Durability, Freshness, IndexKind, Precision, VectorStorage};
#[doc(inline)]
pub use documents::Document;
#[doc(inline)]
pub use embed::{Embedder, Reranker};
#[cfg(feature = "encryption")]
pub use encryption::EncryptionKey;
pub use engine::{
    BlockingEngine, Documents, Engine, EngineBuilder, EngineStats, FlushReport, IndexStats, LinkReport, PutReport,
};
pub use error::{BoxError, Error, Result};
pub use filter::MetadataFilter;
#[doc(inline)]
pub use forget::{Forget, Receipt};
pub use ids::{Anchor, Namespace};
#[doc(inline)]
pub use knowledge::{Collection, Profile};
pub use lexical::Language;
#[doc(inline)]
pub use memory::{AssembleRequest, BlockingMemory, Memory, MemoryBuilder};
#[doc(inline)]
pub use message::{ContentPart, Message, Role, Timestamp};
#[cfg(feature = "onnx")]
#[doc(inline)]
pub use model_folders::Model;
#[cfg(feature = "onnx")]
#[doc(inline)]
pub use onnx::{OnnxEmbedder, OnnxOptions};
// For the server, which bounds the bytes of its answers.
#[doc(inline)]
pub use recall::{Hit, Hits, Query, Scope};
#[cfg(feature = "tiktoken")]
#[doc(inline)]
pub use tokens::Tiktoken;
#[doc(inline)]
pub use tokens::TokenCounter;
#[doc(hidden)]
pub use {read_budget::ReadBudget, store::PlacedMessage};

// For the Python package, whose calls wait in two ways.
#[doc(hidden)]
pub use engine::block_on;

// Names of 0.2 at the root, for one release: today they are in the modules above, or methods of `DatabaseFile`.
#[cfg(feature = "encryption")]
#[doc(hidden)]
pub use admin::backup_with_key;
#[cfg(feature = "postgres")]
#[doc(hidden)]
pub use admin::{ShareReport, Unshared, share, unshare};
#[cfg(feature = "pull")]
#[doc(hidden)]
pub use import::CatalogueEntry;
#[cfg(feature = "hnsw_rs")]
#[doc(hidden)]
pub use mnemon_index::HnswRsIndex;
#[doc(hidden)]
pub use {
    admin::{
        GateReport, GenerationState, GenerationStats, NamespaceStats, PurgeReport, ReindexOptions, ReindexPhase,
        ReindexProgress, ReindexReport, SalvageReport, Stats, StorageSizes, TransferReport, VerifyReport, audit,
        backup, drop_previous, namespaces, purge, reindex, rollback, salvage, serving_model, stats, verify,
    },
    block::{
        AfterForget, BlockContent, BlockQuery, BlockScope, ContentChange, FlushedBatch, HitProcessor, InstructionBlock,
        InstructionVersion, RetrievalUnit, Retriever, TokenExcess,
    },
    buffer::BufferLimits,
    cache::{CacheFileStats, CacheStats, CachedEmbedder, CachedEmbedderBuilder, cache_file_stats},
    chat::{ChatAnswer, ChatFuture, ChatRequest, Usage},
    compose::{
        BlockFailure, BlockOutput, Composer, InsertMethod, MarkdownRenderer, PromptOverflow, PromptSeal, PromptSection,
        PromptSectionReport, RecalledMessage, Renderer, SealKey, XmlRenderer,
    },
    documents::{DocumentNamespaces, DocumentOperation, DocumentOptions, DocumentOutcome, DocumentSearch},
    embed::Passage,
    engine::{BlockingDocuments, EngineExampleSelector},
    fewshot::{
        Bm25ExampleSelector, ExampleFormatter, ExampleSelector, FewShotExample, LengthBasedExampleSelector,
        MaxMarginalRelevanceExampleSelector, NgramOverlapExampleSelector, SemanticSimilarityExampleSelector,
    },
    forget::{Audit, AuditEvent, ForgetTarget, ForgetTarget as Requested, Forgotten, Hold},
    history::{FileHistory, HistoryStore, InMemoryHistory, check_history_store},
    ids::{MAX_ID_BYTES, ModelIdentity},
    journal::{HitChange, JournalEntry, JournalHit, Replay, ReplayedHit, Standing, TermChange},
    knowledge::{BlockingCollection, BlockingProfile, CollectionBlock, CollectionReport, ProfileBlock},
    memory::{BlockStatus, EngineHistory, MemoryReport},
    message::{
        CalibratedTokenCounter, DEFAULT_SESSION, MAX_MESSAGE_BYTES, MAX_METADATA_BYTES, MediaReference, MessageLine,
        MessageSelector, MessageTokenCounter, MessageUpdate, MessageWindow, PerPartTokenCounter, TextSplitter,
        TokenWindow, TrimOptions, TrimStrategy, add_messages, escape_xml,
        format::{
            from_anthropic, from_chatgpt, from_gemini, from_langchain, from_llamaindex, from_mem0, from_openai,
            to_anthropic, to_anthropic_lossless, to_gemini, to_gemini_lossless, to_openai, to_openai_lossless,
        },
        trim_messages,
    },
    mnemon_index::{Bitmap, ExactIndex, HnswIndex, HnswOptions, Neighbor, SearchOptions, SearchResult, VectorIndex},
    recall::{
        MAX_K, MAX_QUERY_BYTES, QueryOptions, RankingStrategy, ScoreBreakdown, TimeExpression, TimeSpan, TimeUse, Unit,
        time_expressions, time_expressions_in,
    },
    store::{
        Checkpoint, MessageVersion, NamespaceCursor, NamespaceInfo, NamespacePage, NamespaceTotals, SessionInfo,
        StoredBlock,
    },
    tokens::ApproximateTokenCounter,
};
#[cfg(feature = "onnx")]
#[doc(hidden)]
pub use {
    import::ImportOptions,
    model_folders::{ModelFile, ModelInfo, Pooling, Quantization, RerankerInfo},
    onnx::{CrossEncoder, EmbeddingJob, Runtime},
    tokens::HuggingFaceTokenizer,
};

//! The database file. This is the only module that uses redb.
//!
//! A [`Store`] opens a [`Snapshot`] to read or a [`Transaction`] to write. Both give access to the same small types,
//! one for each group of tables: `snapshot.messages().by_id(..)`, `transaction.graphs().put_pages(..)`. Their reading
//! methods are written once, for both kinds of transaction (see [`tables`]). Changes of messages and sessions go
//! through `edit`, the only file that knows all consequences of such a change.
//!
//! This module owns the schema, the transactions and the verification of stored data. It does not embed, and it knows
//! no index.
//!
//! Invariants:
//! - A transaction is in the file as a whole or not at all.
//! - A message with text has either vectors or a pending entry in every live generation, unless it is in the short-term
//!   buffer of its session.
//! - Exactly one generation serves, and at most one is the previous one.
//! - The texts of documents are messages of companion namespaces, which no list of namespaces shows.
//! - A free row is dead, and no link of a graph leads to it.

// In layers: a file imports only from files above it, but that the registry, `schema`, is made of parts of `primary`.
mod codec;
mod effects;
mod records;
mod tables;

mod schema;

mod message_record;
mod message_versions;
mod precision;
mod row_layout;

mod namespaces;
mod sessions;

mod anchor;
mod audit;
mod journal;
mod lost_rows;
mod put_times;
mod superseded;

mod documents;
mod filter_fields;

mod checkpoints;

mod blocks;

mod pending;

mod generations;
mod rows;

mod graphs;
mod segments;

mod vectors;

mod removal;

mod consequences;
mod edit;
mod lifetimes;

mod edit_documents;
mod edit_messages;
mod edit_sessions;

mod expiry;

mod export_line;
mod namespace_list;

mod forget;

mod export;
mod import;

// Without the feature nothing reads the columns of rows.
#[cfg_attr(not(feature = "postgres"), allow(dead_code))]
mod primary;

mod overlay;
mod pages;
mod transaction;

mod seal_key;
mod stats;
mod upgrade;
mod verify;

mod copy;

#[cfg(test)]
pub(crate) mod faulty;

mod open;

mod handle;

mod database;
#[cfg(all(fuzzing, feature = "onnx"))]
mod fuzzing;

mod backup;
mod salvage;

#[cfg(test)]
mod dump;
#[cfg(test)]
mod tests;

pub use backup::PurgeReport;
pub(crate) use blocks::{BlockKey, BlockState, HANDED_OVER};
pub use blocks::{FailedBatch, StoredBlock};
pub use checkpoints::Checkpoint;
pub(crate) use checkpoints::KeptCheckpoints;
pub(crate) use database::{Outcome, Store, Target};
pub(crate) use documents::{DocumentText, StoredDocument};
#[cfg(test)]
pub(crate) use dump::{dump, vector_bytes};
pub(crate) use edit_documents::{DocumentAction, DocumentChange};
pub(crate) use edit_messages::{Clear, PutResult, SessionChange, restore_id};
pub(crate) use edit_sessions::IdleFlush;
pub(crate) use effects::{BufferChange, Effects, HistoryChange, IndexNeed, Removed, UnindexedChange};
pub use export_line::TransferReport;
pub(crate) use export_line::{DocumentLine, ExportHeader, ExportLine, NamespaceLine};
pub(crate) use forget::{ForgetPiece, ForgetResult};
#[cfg(all(fuzzing, feature = "onnx"))]
pub(crate) use fuzzing::decode_records;
pub(crate) use generations::Generation;
pub use message_versions::MessageVersion;
pub use namespace_list::{NamespaceCursor, NamespaceInfo, NamespacePage, NamespaceTotals};
pub(crate) use open::guarded;
pub(crate) use pending::{HISTORY_START, PendingCursor, PendingMessage};
pub(crate) use primary::{COMMON, Change, History, Names, Sharing, Version};
#[cfg(feature = "postgres")]
pub(crate) use primary::{Cell, Column, DocumentHead, Head, Kind, Parted, Row, Table, hidden_name};
pub use records::GenerationState;
pub(crate) use records::SessionPosition;
pub(crate) use row_layout::RowMeta;
pub use salvage::SalvageReport;
pub(crate) use salvage::salvage;
pub(crate) use segments::SegmentInfo;
pub use sessions::PlacedMessage;
pub(crate) use sessions::{CostedMessage, FlushedWindow, MessageReader, SizedMessage, StoredBatch};
pub use stats::{SessionInfo, StorageSizes};
pub(crate) use stats::{namespace_counts, session_infos, sizes};
pub(crate) use transaction::{Snapshot, Transaction};
pub(crate) use vectors::{Embedded, NewRows};
pub use verify::VerifyReport;

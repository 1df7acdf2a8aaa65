//! The tables, their keys, and the records that are stored in them.
//!
//! Every key of user data begins with the id of its namespace, and every key of derived data with a generation and a
//! namespace. So a namespace is one range of each table.

use bincode::{Decode, Encode};
use redb::{Key, TableDefinition, Value};
use serde::Serialize;

use crate::{
    config::Precision,
    error::{Error, Result},
    ids::ModelIdentity,
    message::Role,
};

pub(super) type Bytes = &'static [u8];

/// `schema` → version, u32 little endian. `next_namespace` → the [`NamespaceRecord`] of the next new namespace, see
/// `namespaces`. `audit` → the [`AuditHead`]. `seal_key` → 32 random bytes, see `seal_key`.
/// `journal_cleared` → a count, see `journal`. `origin` → the identity of the shared database that the file is a copy of, see `truth`.
pub(super) const META: TableDefinition<&str, Bytes> = TableDefinition::new("meta");
/// Namespace → [`NamespaceRecord`].
pub(super) const NAMESPACES: TableDefinition<&str, Bytes> = TableDefinition::new("namespaces");
/// (namespace, session) → the session's number in its namespace.
pub(super) const SESSIONS: TableDefinition<(u32, &str), u32> = TableDefinition::new("sessions");
/// (namespace, sequence number) → `MessageRecord`.
pub(super) const MESSAGES: TableDefinition<(u32, u64), Bytes> = TableDefinition::new("messages");
/// (namespace, message id) → sequence number.
pub(super) const IDS: TableDefinition<(u32, &str), u64> = TableDefinition::new("ids");
/// (namespace, session, sequence number) → [`SessionPosition`]: the messages of a session in order, and which are in
/// its buffer.
pub(super) const HISTORY: TableDefinition<(u32, u32, u64), u32> = TableDefinition::new("history");
/// (namespace, session), both by name → the time, in microseconds, at which the session is idle and its buffer is
/// flushed. Only sessions that were put to since they were last idle have an entry, so the table is small. By name, so
/// that the sessions that are due are found without a pass over all namespaces.
pub(super) const IDLE: TableDefinition<(&str, &str), i64> = TableDefinition::new("idle");
/// (namespace, session) → the first sequence number of the session's window, if it is not 0, see `window`.
pub(super) const WINDOWS: TableDefinition<(u32, u32), u64> = TableDefinition::new("windows");
/// (namespace, session, batch) → (first, last) sequence number of the messages that one flush moved to long-term
/// memory.
pub(super) const BATCHES: TableDefinition<(u32, u32, u32), (u64, u64)> = TableDefinition::new("batches");
/// (namespace, session or [`SHARED`], block) → [`BlockRecord`].
pub(super) const BLOCKS: TableDefinition<(u32, u32, &str), Bytes> = TableDefinition::new("blocks");
/// (namespace, session, block) → [`CursorRecord`]. Under the block name [`RESTORES`], its `next` is the number of times
/// the session was restored.
pub(super) const CURSORS: TableDefinition<(u32, u32, &str), Bytes> = TableDefinition::new("cursors");
/// (namespace, session, checkpoint) → [`CheckpointRecord`].
pub(super) const CHECKPOINTS: TableDefinition<(u32, u32, u32), Bytes> = TableDefinition::new("checkpoints");
/// (namespace, session, sequence number, checkpoint) → `OldMessage`: the message at that checkpoint, if it has changed
/// since.
pub(super) const OLD_MESSAGES: TableDefinition<(u32, u32, u64, u32), Bytes> = TableDefinition::new("old_messages");
/// (namespace, session, block, checkpoint) → [`OldBlock`]: the block at that checkpoint, if it has changed since.
pub(super) const OLD_BLOCKS: TableDefinition<(u32, u32, &str, u32), Bytes> = TableDefinition::new("old_blocks");
/// Generation → [`GenerationRecord`].
pub(super) const GENERATIONS: TableDefinition<u32, Bytes> = TableDefinition::new("generations");
/// (generation, namespace, sequence number) → the revision of the message that waits to be embedded.
pub(super) const PENDING: TableDefinition<(u32, u32, u64), u64> = TableDefinition::new("pending");
/// (generation, namespace, sequence number) → (first row, number of rows) of the message's vectors.
pub(super) const VECTOR_ROWS: TableDefinition<(u32, u32, u64), (u32, u32)> = TableDefinition::new("places");
/// (generation, namespace) → (number of rows, number of live rows).
pub(super) const COUNTS: TableDefinition<(u32, u32), (u32, u32)> = TableDefinition::new("counts");
/// (generation, namespace, block) → a block of rows, see `row_layout`.
pub(super) const VECTORS: TableDefinition<(u32, u32, u32), Bytes> = TableDefinition::new("vectors");

/// (generation, namespace, row): rows that may be reused, see `rows`.
pub(super) const FREE_ROWS: TableDefinition<(u32, u32, u32), ()> = TableDefinition::new("free_rows");
/// (generation, namespace) → [`GraphRecord`], if the namespace has a graph.
pub(super) const GRAPHS: TableDefinition<(u32, u32), Bytes> = TableDefinition::new("graphs");
/// (generation, namespace, page) → a part of the graph, see `graphs`.
pub(super) const GRAPH_PAGES: TableDefinition<(u32, u32, u32), Bytes> = TableDefinition::new("graph_pages");
/// (generation, namespace, number) → a change of the graph that its pages do not contain yet, see `graphs`.
pub(super) const GRAPH_DELTAS: TableDefinition<(u32, u32, u32), Bytes> = TableDefinition::new("graph_deltas");

/// (generation, namespace, number) → (number of rows, number of parts) of a segment of a lexical index, see `segments`.
pub(super) const SEGMENTS: TableDefinition<(u32, u32, u32), (u32, u32)> = TableDefinition::new("segments");
/// (generation, namespace, number, part) → a part of a segment's bytes.
pub(super) const SEGMENT_PARTS: TableDefinition<(u32, u32, u32, u32), Bytes> = TableDefinition::new("segment_parts");
/// Namespace → the language of its text analysis, if one was set.
pub(super) const LANGUAGES: TableDefinition<u32, &str> = TableDefinition::new("languages");

/// (namespace, key) → [`DocumentRecord`].
pub(super) const DOCUMENTS: TableDefinition<(u32, &str), Bytes> = TableDefinition::new("documents");
/// (namespace, number of a change) → the key of the document that was last put by this change: the documents of a
/// namespace in the order of their changes.
pub(super) const DOCUMENT_ORDER: TableDefinition<(u32, u64), &str> = TableDefinition::new("document_order");
/// (time in microseconds, namespace by name, key): when documents expire. By name, so that the documents that are due
/// are found without a pass over all namespaces.
pub(super) const DOCUMENT_EXPIRY: TableDefinition<(i64, &str, &str), ()> = TableDefinition::new("document_expiry");
/// Namespace → [`DocumentNamespaceRecord`], for the namespaces that ever had a document. Companions are not in
/// [`NAMESPACES`]: nothing that lists namespaces meets them.
pub(super) const DOCUMENT_NAMESPACES: TableDefinition<&str, Bytes> = TableDefinition::new("document_namespaces");

/// (namespace, session, block): blocks whose states were dropped, because messages that they were made of were
/// forgotten, and which have not decided yet whether to make them again.
pub(super) const DROPPED_BLOCKS: TableDefinition<(u32, u32, &str), ()> = TableDefinition::new("dropped_blocks");
/// Namespace → [`HoldRecord`]: the legal holds, which also cover the namespaces under it.
pub(super) const HOLDS: TableDefinition<&str, Bytes> = TableDefinition::new("holds");
/// Sequence number → [`AuditRecord`], see `audit`.
pub(super) const AUDIT: TableDefinition<u64, Bytes> = TableDefinition::new("audit");
/// The name of what belongs to no namespace: legal holds and the audit.
pub(crate) const COMMON: &str = "";

/// Namespace, or [`COMMON`] → [`VersionRecord`], in a file that is a copy of a shared
/// database, see `truth`.
pub(super) const VERSIONS: TableDefinition<&str, Bytes> = TableDefinition::new("versions");

/// (namespace, sequence number) → the time, in microseconds, of the commit that put the messages from this number on,
/// see `put_times`.
pub(super) const PUT_TIMES: TableDefinition<(u32, u64), i64> = TableDefinition::new("put_times");
/// (namespace, number) → an entry of the journal of recalls, in JSON, see `journal`.
pub(super) const JOURNAL: TableDefinition<(u32, u64), Bytes> = TableDefinition::new("journal");
/// Number → the namespace of the entry, which may be gone: the entries of all namespaces, the oldest first.
pub(super) const JOURNAL_ORDER: TableDefinition<u64, u32> = TableDefinition::new("journal_order");

/// Does something with each table.
pub(super) trait TableVisitor {
    fn visit<K: Key + 'static, V: Value + 'static>(&mut self, table: TableDefinition<'_, K, V>) -> Result<()>;
}

/// Visits all tables.
pub(super) fn visit_tables(visitor: &mut impl TableVisitor) -> Result<()> {
    visitor.visit(META)?;
    visitor.visit(NAMESPACES)?;
    visitor.visit(SESSIONS)?;
    visitor.visit(MESSAGES)?;
    visitor.visit(IDS)?;
    visitor.visit(HISTORY)?;
    visitor.visit(IDLE)?;
    visitor.visit(WINDOWS)?;
    visitor.visit(BATCHES)?;
    visitor.visit(BLOCKS)?;
    visitor.visit(CURSORS)?;
    visitor.visit(CHECKPOINTS)?;
    visitor.visit(OLD_MESSAGES)?;
    visitor.visit(OLD_BLOCKS)?;
    visitor.visit(GENERATIONS)?;
    visitor.visit(PENDING)?;
    visitor.visit(VECTOR_ROWS)?;
    visitor.visit(COUNTS)?;
    visitor.visit(VECTORS)?;
    visitor.visit(FREE_ROWS)?;
    visitor.visit(GRAPHS)?;
    visitor.visit(GRAPH_PAGES)?;
    visitor.visit(GRAPH_DELTAS)?;
    visitor.visit(SEGMENTS)?;
    visitor.visit(SEGMENT_PARTS)?;
    visitor.visit(LANGUAGES)?;
    visitor.visit(DOCUMENTS)?;
    visitor.visit(DOCUMENT_ORDER)?;
    visitor.visit(DOCUMENT_EXPIRY)?;
    visitor.visit(DOCUMENT_NAMESPACES)?;
    visitor.visit(DROPPED_BLOCKS)?;
    visitor.visit(HOLDS)?;
    visitor.visit(AUDIT)?;
    visitor.visit(VERSIONS)?;
    visitor.visit(PUT_TIMES)?;
    visitor.visit(JOURNAL)?;
    visitor.visit(JOURNAL_ORDER)?;
    Ok(())
}

/// The session number in the key of a block that all sessions of the namespace share.
pub(super) const SHARED: u32 = u32::MAX;

/// The block name under which the restores of a session are counted. No block has this name.
pub(super) const RESTORES: &str = "";

/// The state of a block whose state was dropped. The record stays, so that its revision never repeats: a block that is
/// at work on the state before does not store what it makes of it.
pub(super) const DROPPED_STATE: &str = "null";

/// The position of a message: in the short-term buffer of its session, or in long-term memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionPosition {
    /// In the short-term buffer of its session: neither embedded nor pending.
    Buffer,
    /// Embedded or pending, with the number of the batch that it was flushed in, if it was flushed.
    LongTerm(Option<u32>),
}

impl SessionPosition {
    pub(super) fn read(number: u32) -> Self {
        match number {
            0 => SessionPosition::LongTerm(None),
            1 => SessionPosition::Buffer,
            batch => SessionPosition::LongTerm(Some(batch - 2)),
        }
    }

    pub(super) fn number(self) -> u32 {
        match self {
            SessionPosition::LongTerm(None) => 0,
            SessionPosition::Buffer => 1,
            SessionPosition::LongTerm(Some(batch)) => batch.saturating_add(2),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct NamespaceRecord {
    pub(super) id: u32,
    pub(super) next_seq: u64,
    pub(super) next_session: u32,
    pub(super) messages: u64,
}

#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct GenerationRecord {
    pub(super) name: String,
    pub(super) dimension: u32,
    pub(super) hash: String,
    pub(super) state: GenerationState,
    /// See [`precision_number`].
    pub(super) precision: u8,
}

/// The record of a generation in a database of schema 3 or older.
#[derive(Decode)]
pub(super) struct OldGenerationRecord {
    name: String,
    dimension: u32,
    hash: String,
    state: GenerationState,
}

impl From<OldGenerationRecord> for GenerationRecord {
    fn from(old: OldGenerationRecord) -> Self {
        let OldGenerationRecord { name, dimension, hash, state } = old;
        GenerationRecord { name, dimension, hash, state, precision: precision_number(Precision::F32) }
    }
}

/// The state of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GenerationState {
    /// Being built beside the serving generation. Takes writes.
    Building,
    /// Answers recalls and takes writes. Exactly one generation serves.
    Serving,
    /// Replaced. Its rows are being deleted.
    Retired,
    /// Served before the last switch and is kept for a rollback. Takes writes; new messages stay pending in it. At most
    /// one generation.
    Previous,
    /// About to be built, but its pending entries are not all written yet. Takes writes.
    Begun,
}

impl GenerationRecord {
    pub(super) fn new(identity: &ModelIdentity, precision: Precision, state: GenerationState) -> Self {
        let ModelIdentity { name, dimension, hash } = identity.clone();
        GenerationRecord { name, dimension: dimension as u32, hash, state, precision: precision_number(precision) }
    }

    pub(super) fn precision(&self) -> Result<Precision> {
        match self.precision {
            0 => Ok(Precision::F32),
            1 => Ok(Precision::I8),
            2 => Ok(Precision::F16),
            other => Err(Error::corrupted(format!("a generation has the unknown precision {other}"))),
        }
    }

    pub(super) fn identity(&self) -> ModelIdentity {
        ModelIdentity { name: self.name.clone(), dimension: self.dimension as usize, hash: self.hash.clone() }
    }
}

/// The state that a block has built from its batches.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct BlockRecord {
    /// JSON.
    pub(super) state: String,
    /// Number of changes so far.
    pub(super) revision: u64,
}

/// The position of a block in the batches of a session.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub(super) struct CursorRecord {
    /// The next batch.
    pub(super) next: u32,
    /// The batches that the block gave up on, and why.
    pub(super) failed: Vec<(u32, String)>,
    /// Whether the state is shared by all sessions of the namespace.
    pub(super) shared: bool,
}

/// The numbers of the deltas of a graph that are stored, without gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Encode, Decode)]
pub(super) struct GraphRecord {
    pub(super) first_delta: u32,
    pub(super) next_delta: u32,
}

/// A block as it was before a change.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct OldBlock {
    pub(super) block: Option<BlockRecord>,
    pub(super) cursor: CursorRecord,
}

/// The state of a session at one moment. Messages and blocks that changed since are in the tables of old versions.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct CheckpointRecord {
    pub(super) label: String,
    pub(super) created_at: i64,
    /// Messages with this sequence number or a higher one came later.
    pub(super) next_seq: u64,
    /// The runs of messages that were in the buffer: first and last sequence number of each.
    pub(super) buffered: Vec<(u64, u64)>,
    /// Batches with this number or a higher one came later.
    pub(super) next_batch: u32,
    pub(super) messages: u64,
}

/// The stored form of a document. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct DocumentRecord {
    /// JSON.
    pub(super) value: String,
    pub(super) created_at: i64,
    pub(super) updated_at: i64,
    /// The number of the change that put the document, see [`DOCUMENT_ORDER`].
    pub(super) change: u64,
    /// The time to live.
    pub(super) ttl: Option<i64>,
    pub(super) expires_at: Option<i64>,
}

/// The documents of a namespace.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct DocumentNamespaceRecord {
    pub(super) counts: DocumentCounts,
    /// The record of the companion, which has the indexed texts.
    pub(super) texts: NamespaceRecord,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Encode, Decode)]
pub(super) struct DocumentCounts {
    pub(super) documents: u64,
    /// Number of the documents that expire.
    pub(super) expiring: u64,
    /// The number of the last change, see [`DOCUMENT_ORDER`].
    pub(super) last_change: u64,
}

/// A legal hold.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct HoldRecord {
    /// A random number, by which the audit refers to the hold.
    pub(super) id: String,
    pub(super) reason: String,
    /// The time since when, in microseconds.
    pub(super) since: i64,
}

/// An entry of the audit.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct AuditRecord {
    /// JSON; the hash is of these bytes.
    pub(super) entry: String,
    pub(super) hash: String,
}

/// The end of the chain of audit entries.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub(super) struct AuditHead {
    /// Number of entries.
    pub(super) entries: u64,
    /// The hash of the last one.
    pub(super) hash: String,
}

/// The version of a namespace in a file that is a copy of a shared database.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub(super) struct VersionRecord {
    pub(super) version: u64,
    /// The number of the namespace in this file, unless it was removed.
    pub(super) id: Option<u32>,
    /// The least numbers of a new namespace of the same name.
    pub(super) next_seq: u64,
    pub(super) next_session: u32,
}

fn precision_number(precision: Precision) -> u8 {
    match precision {
        Precision::F32 => 0,
        Precision::I8 => 1,
        Precision::F16 => 2,
    }
}

pub(super) fn role_number(role: Role) -> u8 {
    Role::ALL.iter().position(|&other| other == role).expect("Role::ALL lists every role") as u8
}

pub(super) fn role(number: u8) -> Result<Role> {
    Role::ALL
        .get(usize::from(number))
        .copied()
        .ok_or_else(|| Error::corrupted(format!("a message has the unknown role {number}")))
}

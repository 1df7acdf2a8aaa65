//! The records that tables hold, and the numbers and names in them that have a meaning.

use bincode::{Decode, Encode};
use serde::Serialize;

use crate::{
    config::Precision,
    error::{Error, Result},
    ids::ModelIdentity,
    message::Role,
};

pub(super) type Bytes = &'static [u8];

/// The name of what belongs to no namespace: legal holds and the audit.
pub(crate) const COMMON: &str = "";

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
    /// See [`precision_number`]; [`SMALL_BLOCKS`] is added.
    pub(super) layout: u8,
}

/// This is added to the layout of a generation whose first blocks of vectors are small. Generations that schema 9 and
/// earlier ones made do not have it.
const SMALL_BLOCKS: u8 = 16;

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
        GenerationRecord { name, dimension, hash, state, layout: precision_number(Precision::F32) }
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
        let layout = precision_number(precision) + SMALL_BLOCKS;
        GenerationRecord { name, dimension: dimension as u32, hash, state, layout }
    }

    pub(super) fn precision(&self) -> Result<Precision> {
        match self.layout & !SMALL_BLOCKS {
            0 => Ok(Precision::F32),
            1 => Ok(Precision::I8),
            2 => Ok(Precision::F16),
            _ => Err(Error::corrupted(format!("a generation has the unknown layout {}", self.layout))),
        }
    }

    pub(super) fn has_small_blocks(&self) -> bool {
        self.layout & SMALL_BLOCKS != 0
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
    /// The number of the change that put the document, see [`DOCUMENT_ORDER`](super::schema::DOCUMENT_ORDER).
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
    /// The number of the last change, see [`DOCUMENT_ORDER`](super::schema::DOCUMENT_ORDER).
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
    /// The number and the stamp of the version, and of some before it: see `primary::History`.
    pub(super) history: Vec<(u64, i64)>,
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

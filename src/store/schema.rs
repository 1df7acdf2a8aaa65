//! Tables, keys and records.
//!
//! Every key of user data begins with the namespace's id (after the generation's, for derived data), so a namespace
//! is one range of each table.

use bincode::{Decode, Encode};
use redb::TableDefinition;
use serde::Serialize;
use serde_json::Value;

use super::rows::Layout;
use crate::{
    config::Precision,
    error::{Error, Result},
    ids::ModelIdentity,
    message::{Message, Part, Role, Timestamp},
};

type Bytes = &'static [u8];

/// `schema` → version, u32 little endian.
pub(super) const META: TableDefinition<&str, Bytes> = TableDefinition::new("meta");
/// Namespace → [`NamespaceRecord`].
pub(super) const NAMESPACES: TableDefinition<&str, Bytes> = TableDefinition::new("namespaces");
/// (namespace, session) → the session's number in its namespace.
pub(super) const SESSIONS: TableDefinition<(u32, &str), u32> = TableDefinition::new("sessions");
/// (namespace, sequence number) → [`MessageRecord`].
pub(super) const MESSAGES: TableDefinition<(u32, u64), Bytes> = TableDefinition::new("messages");
/// (namespace, message id) → sequence number.
pub(super) const IDS: TableDefinition<(u32, &str), u64> = TableDefinition::new("ids");
/// (namespace, session, sequence number) → [`Place`]: a session's messages in order, and which are in its buffer.
pub(super) const HISTORY: TableDefinition<(u32, u32, u64), u32> = TableDefinition::new("history");
/// (namespace, session, batch) → (first, last) sequence number: what one flush moved to long-term memory.
pub(super) const BATCHES: TableDefinition<(u32, u32, u32), (u64, u64)> = TableDefinition::new("batches");
/// (namespace, session or [`SHARED`], block) → [`BlockRecord`].
pub(super) const BLOCKS: TableDefinition<(u32, u32, &str), Bytes> = TableDefinition::new("blocks");
/// (namespace, session, block) → [`CursorRecord`]; for the block [`RESTORES`], how often the session was gone back on.
pub(super) const CURSORS: TableDefinition<(u32, u32, &str), Bytes> = TableDefinition::new("cursors");
/// (namespace, session, checkpoint) → [`CheckpointRecord`].
pub(super) const CHECKPOINTS: TableDefinition<(u32, u32, u32), Bytes> = TableDefinition::new("checkpoints");
/// (namespace, session, sequence number, checkpoint) → [`OldMessage`] as it was at that checkpoint, if it has changed since.
pub(super) const OLD_MESSAGES: TableDefinition<(u32, u32, u64, u32), Bytes> = TableDefinition::new("old_messages");
/// (namespace, session, block, checkpoint) → [`OldBlock`] as it was at that checkpoint, if it has changed since.
pub(super) const OLD_BLOCKS: TableDefinition<(u32, u32, &str, u32), Bytes> = TableDefinition::new("old_blocks");
/// Generation → [`GenerationRecord`].
pub(super) const GENERATIONS: TableDefinition<u32, Bytes> = TableDefinition::new("generations");
/// (generation, namespace, sequence number) → the revision of the message that waits to be embedded.
pub(super) const PENDING: TableDefinition<(u32, u32, u64), u64> = TableDefinition::new("pending");
/// (generation, namespace, sequence number) → (first row, number of rows): the message's vectors.
pub(super) const PLACES: TableDefinition<(u32, u32, u64), (u32, u32)> = TableDefinition::new("places");
/// (generation, namespace) → (number of the next row, rows that are alive).
pub(super) const COUNTS: TableDefinition<(u32, u32), (u32, u32)> = TableDefinition::new("counts");
/// (generation, namespace, block) → rows: see `rows`.
pub(super) const VECTORS: TableDefinition<(u32, u32, u32), Bytes> = TableDefinition::new("vectors");

/// (generation, namespace, row): rows that may be given again, see `free`.
pub(super) const FREE_ROWS: TableDefinition<(u32, u32, u32), ()> = TableDefinition::new("free_rows");
/// (generation, namespace) → [`GraphRecord`]: there is a graph.
pub(super) const GRAPHS: TableDefinition<(u32, u32), Bytes> = TableDefinition::new("graphs");
/// (generation, namespace, page) → a part of the graph: see `graph`.
pub(super) const GRAPH_PAGES: TableDefinition<(u32, u32, u32), Bytes> = TableDefinition::new("graph_pages");
/// (generation, namespace, number) → a change of the graph that its pages do not have yet: see `graph`.
pub(super) const GRAPH_DELTAS: TableDefinition<(u32, u32, u32), Bytes> = TableDefinition::new("graph_deltas");

/// (generation, namespace, number) → (rows, parts): the segments of a lexical index, see `lexical`.
pub(super) const SEGMENTS: TableDefinition<(u32, u32, u32), (u32, u32)> = TableDefinition::new("segments");
/// (generation, namespace, number, part) → a part of a segment's bytes.
pub(super) const SEGMENT_PARTS: TableDefinition<(u32, u32, u32, u32), Bytes> = TableDefinition::new("segment_parts");
/// Namespace → the language that its text is analysed by, if one was set.
pub(super) const LANGUAGES: TableDefinition<u32, &str> = TableDefinition::new("languages");

/// Stands for a session in the key of a block that all sessions of the namespace share.
pub(super) const SHARED: u32 = u32::MAX;

/// No block has this name.
pub(super) const RESTORES: &str = "";

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the short-term buffer of its session: neither embedded nor pending.
    Buffer,
    /// Embedded, or pending; and the batch that it was flushed in, if it was.
    LongTerm(Option<u32>),
}

impl Place {
    pub(super) fn read(number: u32) -> Self {
        match number {
            0 => Place::LongTerm(None),
            1 => Place::Buffer,
            batch => Place::LongTerm(Some(batch - 2)),
        }
    }

    pub(super) fn number(self) -> u32 {
        match self {
            Place::LongTerm(None) => 0,
            Place::Buffer => 1,
            Place::LongTerm(Some(batch)) => batch.saturating_add(2),
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

/// A generation in a database of schema 3 or older.
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

/// What a generation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GenerationState {
    /// Being made beside the serving one; takes writes.
    Building,
    /// Answers recalls and takes writes. Exactly one.
    Serving,
    /// Replaced; its rows are being deleted.
    Retired,
    /// Served before the last switch, and is kept for a rollback. Takes writes; what is put waits in it. One at most.
    Previous,
    /// To be built, but what waits in it is not all written down yet; takes writes.
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
            other => Err(Error::corrupted(format!("precision {other}"))),
        }
    }

    /// How its rows are stored.
    pub(super) fn layout(&self) -> Result<Layout> {
        Ok(Layout::new(self.dimension as usize, self.precision()?))
    }

    pub(super) fn identity(&self) -> ModelIdentity {
        ModelIdentity { name: self.name.clone(), dimension: self.dimension as usize, hash: self.hash.clone() }
    }
}

#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct MessageRecord {
    pub(super) id: String,
    pub(super) session: String,
    pub(super) role: u8,
    pub(super) name: Option<String>,
    /// The text, if the content is one text part; else the parts as JSON.
    pub(super) content: String,
    pub(super) is_json: bool,
    pub(super) created_at: Option<i64>,
    /// A JSON object, if there is one.
    pub(super) metadata: Option<String>,
    /// Changes whenever its vectors must: a vector made from an older one is not stored.
    pub(super) revision: u64,
}

impl MessageRecord {
    pub(super) fn new(message: &Message, revision: u64) -> Self {
        let (content, is_json) = match message.content.as_slice() {
            [Part::Text { text }] => (text.clone(), false),
            parts => (serde_json::to_string(parts).expect("parts have string keys"), true),
        };
        MessageRecord {
            id: message.id.clone(),
            session: message.session.clone(),
            role: role_number(message.role),
            name: message.name.clone(),
            content,
            is_json,
            created_at: message.created_at.map(Timestamp::as_micros),
            metadata: (!message.metadata.is_empty())
                .then(|| serde_json::to_string(&message.metadata).expect("maps have string keys")),
            revision,
        }
    }

    pub(super) fn message(self) -> Result<Message> {
        let json = |error: serde_json::Error| Error::corrupted(format!("a message holds bad JSON: {error}"));
        let content = match self.is_json {
            false => vec![Part::Text { text: self.content }],
            true => serde_json::from_str(&self.content).map_err(json)?,
        };
        let metadata = match self.metadata {
            None => serde_json::Map::new(),
            Some(text) => match serde_json::from_str(&text).map_err(json)? {
                Value::Object(map) => map,
                _ => return Err(Error::corrupted("metadata is no JSON object")),
            },
        };
        let created_at = self
            .created_at
            .map(|micros| Timestamp::from_micros(micros).ok_or_else(|| Error::corrupted("a time is out of range")))
            .transpose()?;
        Ok(Message {
            id: self.id,
            session: self.session,
            role: role(self.role)?,
            name: self.name,
            content,
            created_at,
            metadata,
        })
    }

    /// Whether both say the same, wherever and whenever.
    pub(super) fn says_the_same(&self, other: &MessageRecord) -> bool {
        (self.content == other.content && self.is_json == other.is_json)
            && self.name == other.name
            && self.role == other.role
    }

    /// Whether a vector made from `self` also stands for `other`.
    pub(super) fn same_vectors(&self, other: &MessageRecord) -> bool {
        self.says_the_same(other) && self.session == other.session && self.created_at == other.created_at
    }
}

/// What a block has made of its batches.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct BlockRecord {
    /// JSON.
    pub(super) state: String,
    /// Counts the changes.
    pub(super) revision: u64,
}

/// How far a block is with the batches of a session.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub(super) struct CursorRecord {
    /// The next batch.
    pub(super) next: u32,
    /// Batches that were given up, and why.
    pub(super) failed: Vec<(u32, String)>,
    /// The state is not the session's own.
    pub(super) shared: bool,
}

/// The deltas of a graph that are stored: these numbers, none left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Encode, Decode)]
pub(super) struct GraphRecord {
    pub(super) first_delta: u32,
    pub(super) next_delta: u32,
}

/// A message before a change.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct OldMessage {
    pub(super) record: MessageRecord,
    /// As in [`HISTORY`].
    pub(super) place: u32,
}

/// A block before a change.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct OldBlock {
    pub(super) block: Option<BlockRecord>,
    pub(super) cursor: CursorRecord,
}

/// A session at one moment; what has changed since is in the tables of what is old.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct CheckpointRecord {
    pub(super) label: String,
    pub(super) created_at: i64,
    /// Messages from this number on came later.
    pub(super) next_seq: u64,
    /// Sequence numbers, first and last, of the session's messages that were in the buffer, as runs.
    pub(super) buffered: Vec<(u64, u64)>,
    /// Batches from this number on came later.
    pub(super) next_batch: u32,
    pub(super) messages: u64,
}

fn precision_number(precision: Precision) -> u8 {
    match precision {
        Precision::F32 => 0,
        Precision::I8 => 1,
    }
}

pub(super) fn role_number(role: Role) -> u8 {
    Role::ALL.iter().position(|&other| other == role).expect("ALL has all") as u8
}

pub(super) fn role(number: u8) -> Result<Role> {
    Role::ALL.get(usize::from(number)).copied().ok_or_else(|| Error::corrupted(format!("role {number}")))
}

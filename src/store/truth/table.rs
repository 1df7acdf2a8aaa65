//! The tables of the truth: everything of a namespace that is not derived, and the columns in which it is shared.

use sha2::{Digest, Sha256};

use super::cell::{Cell, Kind};
use crate::ids::hex;

/// A table. Its rows belong to namespaces, or to none: see [`Table::is_common`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Table {
    Sessions,
    Messages,
    DocumentTexts,
    Windows,
    IdleTimes,
    Batches,
    Blocks,
    BlockPositions,
    DroppedBlocks,
    Checkpoints,
    OldMessages,
    OldBlocks,
    Documents,
    Holds,
    Audit,
}

/// A column's name and the kind of its values.
pub(crate) type Column = (&'static str, Kind);

/// What is stored under a key, `None` if nothing is any more.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) table: Table,
    pub(crate) key: Vec<Cell>,
    pub(crate) value: Option<Vec<Cell>>,
}

macro_rules! columns {
    ($($name:literal $kind:ident),*) => { &[$(($name, Kind::$kind)),*] };
}

const MESSAGE: &[Column] = columns![
    "id" Text, "session" Text, "role" Text, "name" Text, "content" Text, "parts" Json, "created_at" Time, "metadata" Json,
    "revision" Int, "buffered" Bool, "batch" Int
];

impl Table {
    /// In the order in which a pull applies them: what refers to something comes after it.
    pub(crate) const ALL: [Table; 15] = [
        Table::Sessions,
        Table::Messages,
        Table::DocumentTexts,
        Table::Windows,
        Table::IdleTimes,
        Table::Batches,
        Table::Blocks,
        Table::BlockPositions,
        Table::DroppedBlocks,
        Table::Checkpoints,
        Table::OldMessages,
        Table::OldBlocks,
        Table::Documents,
        Table::Holds,
        Table::Audit,
    ];

    /// Returns true if the rows belong to no namespace, but to all.
    pub(crate) fn is_common(self) -> bool {
        matches!(self, Table::Holds | Table::Audit)
    }

    /// Returns true if the key is a name that users chose. A deleted row must not keep it: its key is
    /// [`hidden_name`](super::hidden_name).
    pub(crate) fn has_chosen_key(self) -> bool {
        matches!(self, Table::Sessions | Table::IdleTimes | Table::Documents)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Table::Sessions => "sessions",
            Table::Messages => "messages",
            Table::DocumentTexts => "document_texts",
            Table::Windows => "windows",
            Table::IdleTimes => "idle_times",
            Table::Batches => "batches",
            Table::Blocks => "blocks",
            Table::BlockPositions => "block_positions",
            Table::DroppedBlocks => "dropped_blocks",
            Table::Checkpoints => "checkpoints",
            Table::OldMessages => "old_messages",
            Table::OldBlocks => "old_blocks",
            Table::Documents => "documents",
            Table::Holds => "holds",
            Table::Audit => "audit",
        }
    }

    /// The columns that, after the namespace, name a row. A session is named by its number where one is not text; -1 is
    /// all sessions of the namespace.
    pub(crate) fn key(self) -> &'static [Column] {
        match self {
            Table::Sessions => columns!["name" Text],
            Table::Messages | Table::DocumentTexts => columns!["seq" Int],
            Table::Windows => columns!["session" Int],
            Table::IdleTimes => columns!["session" Text],
            Table::Batches => columns!["session" Int, "batch" Int],
            Table::Blocks | Table::BlockPositions | Table::DroppedBlocks => columns!["session" Int, "block" Text],
            Table::Checkpoints => columns!["session" Int, "checkpoint" Int],
            Table::OldMessages => columns!["session_number" Int, "seq" Int, "checkpoint" Int],
            Table::OldBlocks => columns!["session" Int, "block" Text, "checkpoint" Int],
            Table::Documents => columns!["key" Text],
            Table::Holds => columns!["held" Text],
            Table::Audit => columns!["number" Int],
        }
    }

    /// The other columns.
    pub(crate) fn value(self) -> &'static [Column] {
        match self {
            Table::Sessions => columns!["number" Int],
            Table::Messages | Table::DocumentTexts | Table::OldMessages => MESSAGE,
            Table::Windows => columns!["start" Int],
            Table::IdleTimes => columns!["idle_at" Time],
            Table::Batches => columns!["first_seq" Int, "last_seq" Int],
            Table::Blocks => columns!["state" Json, "revision" Int],
            Table::BlockPositions => columns!["next_batch" Int, "failed" Json, "shared" Bool],
            Table::DroppedBlocks => &[],
            Table::Checkpoints => columns![
                "label" Text, "created_at" Time, "next_seq" Int, "buffered" Json, "next_batch" Int, "messages" Int
            ],
            Table::OldBlocks => columns![
                "state" Json, "revision" Int, "next_batch" Int, "failed" Json, "shared" Bool
            ],
            Table::Documents => columns![
                "value" Json, "created_at" Time, "updated_at" Time, "change" Int, "ttl_micros" Int, "expires_at" Time
            ],
            Table::Holds => columns!["id" Text, "reason" Text, "since" Time],
            Table::Audit => columns!["entry" Json, "hash" Text],
        }
    }
}

/// What the key of a hidden name begins with. No name begins so as it is stored, because U+0001 is escaped there.
pub(crate) const HIDDEN: &str = "\u{1}x";

/// The key of a deleted row in a table whose keys are names that users chose: a hash under the key that all machines have.
/// A machine that has the row finds the name by it, and nobody else reads it.
pub(crate) fn hidden_name(key: &[u8; 32], table: &str, namespace: &str, name: &str) -> String {
    let hashed = format!("{table}/{}/{namespace}{name}", namespace.chars().count());
    let hash: [u8; 32] = Sha256::new().chain_update(key).chain_update(hashed).finalize().into();
    format!("{HIDDEN}{}", &hex(&hash)[..32])
}

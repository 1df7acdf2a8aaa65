//! [`Receipt`]: an entry of the audit, chained by its hash to the one before.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{ids::hex, message::Timestamp};

/// An entry of the audit of a database: something was forgotten, a legal hold was set or released, or the file was
/// purged.
///
/// It has no content, no id and no name: not even a hash of one, because names and ids can be guessed, and a hash would
/// confirm the guess. To know later what a receipt was for, keep its [`hash`](field@Self::hash) with the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Receipt {
    /// The number of the entry in its database, from 0.
    pub sequence: u64,
    /// The time of the commit.
    pub at: Timestamp,
    /// What happened.
    pub event: AuditEvent,
    /// The hash of the entry before; 64 zeros for the first.
    pub previous: String,
    /// SHA-256 of the entry as JSON with the fields above, in their order; hexadecimal.
    pub hash: String,
    /// The time of the first purge of the file after the entry. [`Engine::audit`](crate::Engine::audit) sets it for
    /// entries of what was forgotten: until then, bytes of it may be in unused pages of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purged_at: Option<Timestamp>,
}

/// What an entry of the audit is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AuditEvent {
    /// Something was forgotten: gone from every answer since then.
    Forget {
        /// What was asked for.
        requested: Requested,
        /// How much was removed by the call until then, all its commits together.
        forgotten: Forgotten,
        /// False if the call went on after this commit. If no complete entry of it follows, the call was interrupted.
        complete: bool,
    },
    /// A legal hold was set, or its reason was changed.
    Hold {
        /// The random number of the hold, see [`Hold::id`](field@crate::Hold::id).
        hold: String,
    },
    /// A legal hold was released.
    Release {
        /// The random number of the hold.
        hold: String,
    },
    /// The file was purged.
    Purge {
        /// Number of the entries that the audit had when the purge began: no byte of what they say was forgotten is in
        /// the file since.
        covers: u64,
    },
}

/// The kind of what was to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Requested {
    /// Messages by their ids.
    Messages {
        /// Number of ids.
        ids: u64,
    },
    /// Documents by their keys.
    Documents {
        /// Number of keys.
        keys: u64,
    },
    /// A session.
    Session,
    /// The messages that match a filter.
    Matching,
    /// A namespace.
    Namespace,
    /// All namespaces under a prefix.
    Prefix,
}

/// How many of each kind of thing were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Forgotten {
    /// Messages.
    pub messages: u64,
    /// Earlier versions of messages, which were kept for checkpoints.
    pub old_messages: u64,
    /// Documents.
    pub documents: u64,
    /// Indexed texts of documents.
    pub document_texts: u64,
    /// Vectors, in all generations.
    pub vectors: u64,
    /// Segments of lexical indexes that were written again without the terms, or removed. Those of namespaces that were
    /// removed are not counted.
    pub segments: u64,
    /// States of blocks that were made of forgotten messages, and were dropped.
    pub block_states: u64,
    /// Entries of embedding caches, in memory and in the file.
    pub cached: u64,
    /// Names of sessions.
    pub sessions: u64,
    /// Names of namespaces.
    pub namespaces: u64,
}

impl Forgotten {
    /// Adds the counts of another commit.
    pub(crate) fn add(&mut self, other: Forgotten) {
        self.messages += other.messages;
        self.old_messages += other.old_messages;
        self.documents += other.documents;
        self.document_texts += other.document_texts;
        self.vectors += other.vectors;
        self.segments += other.segments;
        self.block_states += other.block_states;
        self.cached += other.cached;
        self.sessions += other.sessions;
        self.namespaces += other.namespaces;
    }
}

/// The fields of an entry that its hash is of.
#[derive(Serialize)]
struct Hashed<'a> {
    sequence: u64,
    at: Timestamp,
    event: &'a AuditEvent,
    previous: &'a str,
}

impl Receipt {
    /// Makes the entry that follows the one with the hash `previous`.
    pub(crate) fn new(sequence: u64, at: Timestamp, event: AuditEvent, previous: String) -> Self {
        let mut receipt = Receipt { sequence, at, event, previous, hash: String::new(), purged_at: None };
        receipt.hash = hash(&receipt.hashed());
        receipt
    }

    /// The JSON that the hash is of.
    pub(crate) fn hashed(&self) -> String {
        let Receipt { sequence, at, event, previous, .. } = self;
        let hashed = Hashed { sequence: *sequence, at: *at, event, previous };
        serde_json::to_string(&hashed).expect("numbers and strings are valid JSON")
    }

    /// Returns the counts of what was removed; all are 0 unless the entry is of something that was forgotten.
    pub fn forgotten(&self) -> Forgotten {
        match self.event {
            AuditEvent::Forget { forgotten, .. } => forgotten,
            _ => Forgotten::default(),
        }
    }
}

/// Returns the hash that stands before the first entry.
pub(crate) fn no_hash() -> String {
    "0".repeat(64)
}

pub(super) fn hash(entry: &str) -> String {
    hex(&Sha256::digest(entry))
}

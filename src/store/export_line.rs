//! The lines of an export: JSON objects, whose field `kind` says what they are.
//!
//! A header comes first and an end last. Between them is each namespace: its line, the blocks that its sessions share,
//! and then each session: its line, its batches, its blocks, its checkpoints, the blocks and messages that are kept for
//! checkpoints, and its messages in order, each followed by its earlier versions. The documents of the namespace follow its sessions. What else a namespace
//! comes to have follows as lines of a kind of its own.
//!
//! An export contains no derived data: no vectors but those that were given, no terms or graphs, and no numbers of namespaces and sessions.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use super::schema::SessionPosition;
use crate::message::{Message, Timestamp};

/// The version of the format that this release writes. It reads this and all lower ones. A kind or a field that older
/// releases need not know does not change it: they refuse the line, and name the version that wrote it.
const FORMAT: u32 = 1;

/// Counts of an export or an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TransferReport {
    /// Number of namespaces.
    pub namespaces: u64,
    /// Number of sessions.
    pub sessions: u64,
    /// Number of messages, including those in short-term buffers.
    pub messages: u64,
    /// Number of documents.
    pub documents: u64,
}

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum ExportLine {
    Header(ExportHeader),
    Namespace(NamespaceLine),
    SharedBlock(SharedBlockLine),
    Session(SessionLine),
    Batch(BatchLine),
    Block(BlockLine),
    Checkpoint(CheckpointLine),
    Message(Box<MessageLine>),
    Document(Box<DocumentLine>),
    End(End),
}

/// The first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExportHeader {
    format: u32,
    /// The version of mnemon that wrote the export.
    mnemon: String,
}

/// The last line. An export without it was cut off.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct End {
    /// Number of messages in the export, including those that are kept for checkpoints, and earlier versions.
    pub(super) messages: u64,
    /// Number of documents.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) documents: u64,
}

/// A namespace, which the lines that follow belong to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamespaceLine {
    pub(super) namespace: String,
    /// Higher than all sequence numbers in the namespace.
    pub(super) next_seq: u64,
    /// The language, if one was set. A guess is derived from the messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) language: Option<String>,
    /// The time to live of its messages, if one was set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ttl_micros: Option<i64>,
}

/// The state of a block that all sessions of the namespace share.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SharedBlockLine {
    pub(super) name: String,
    /// JSON. As text, so that no nesting is too deep for the line.
    pub(super) state: String,
    pub(super) revision: u64,
}

/// A session, which the lines that follow belong to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SessionLine {
    pub(super) session: String,
    /// The first sequence number of the session's window, if it is not 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) window: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) idle_at: Option<Timestamp>,
    /// Number of times the session was restored to a checkpoint.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) restores: u64,
}

/// The messages that one flush moved to long-term memory. Those that are still there name it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BatchLine {
    pub(super) batch: u32,
    pub(super) first: u64,
    pub(super) last: u64,
}

/// A block of a session: its position in the batches, and its state if the session has its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlockLine {
    pub(super) name: String,
    /// The checkpoint for which this is kept. Without one, it is the block as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) checkpoint: Option<u32>,
    pub(super) next_batch: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) failed: Vec<(u32, String)>,
    pub(super) shared: bool,
    /// JSON, as in [`SharedBlockLine`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) state: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) revision: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckpointLine {
    pub(super) checkpoint: u32,
    pub(super) label: String,
    pub(super) created_at: Timestamp,
    pub(super) next_seq: u64,
    /// The first and last sequence number of each run of messages that were in the buffer.
    pub(super) buffered: Vec<(u64, u64)>,
    pub(super) next_batch: u32,
    pub(super) messages: u64,
}

/// A document. Those of a namespace come in the order of their last changes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DocumentLine {
    pub(crate) key: String,
    pub(crate) value: Value,
    /// The texts that are indexed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) texts: Vec<String>,
    /// The vectors of the texts, if they were given. Other vectors are derived from the texts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) vectors: Vec<Vec<f32>>,
    pub(super) created_at: Timestamp,
    pub(super) updated_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expiry: Option<Expiry>,
}

/// The time at which a document expires, and its time to live in microseconds, from its last change or refresh on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expiry {
    pub(super) at: Timestamp,
    pub(crate) ttl_micros: i64,
}

/// A message with its place in the namespace.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MessageLine {
    #[serde(flatten)]
    pub(super) place: Place,
    #[serde(flatten)]
    pub(super) message: Message,
}

/// The place of a message: in the short-term buffer, or in long-term memory with the batch in which it was flushed, if
/// it was flushed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Place {
    pub(super) seq: u64,
    /// The checkpoint for which this message is kept as it was. Without one, it is a message as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) checkpoint: Option<u32>,
    #[serde(default, skip_serializing_if = "is_false")]
    buffered: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch: Option<u32>,
    /// The time until which the message was so. Without one, it is a message as it is now, or was at the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) until: Option<Timestamp>,
}

impl ExportHeader {
    pub(super) fn new() -> Self {
        ExportHeader { format: FORMAT, mnemon: env!("CARGO_PKG_VERSION").to_owned() }
    }

    /// Refuses a format that is newer than this release.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.format > FORMAT {
            return Err(format!(
                "it has format {}, {}; this one reads formats up to {FORMAT}",
                self.format,
                self.written_by()
            ));
        }
        Ok(())
    }

    fn written_by(&self) -> String {
        match (self.mnemon.as_str(), env!("CARGO_PKG_VERSION")) {
            (own, this) if own == this => format!("written by this version, mnemon {own}"),
            (other, this) => format!("written by mnemon {other}, and this is mnemon {this}"),
        }
    }
}

impl Place {
    pub(super) fn new(seq: u64, position: SessionPosition, checkpoint: Option<u32>) -> Self {
        let (buffered, batch) = match position {
            SessionPosition::Buffer => (true, None),
            SessionPosition::LongTerm(batch) => (false, batch),
        };
        Place { seq, checkpoint, buffered, batch, until: None }
    }

    /// The place of a version of a message.
    pub(super) fn until(seq: u64, until: Timestamp) -> Self {
        Place { until: Some(until), ..Place::new(seq, SessionPosition::LongTerm(None), None) }
    }

    pub(super) fn position(&self) -> Result<SessionPosition, String> {
        match (self.buffered, self.batch) {
            (true, Some(batch)) => Err(format!("the message is in the buffer, and in batch {batch}")),
            (true, None) => Ok(SessionPosition::Buffer),
            (false, batch) => Ok(SessionPosition::LongTerm(batch)),
        }
    }
}

impl ExportLine {
    /// Parses a line. The first line has no `header` to be read by.
    pub(crate) fn parse(text: &str, header: Option<&ExportHeader>) -> Result<Self, String> {
        let mut object: Map<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let kind = match object.remove("kind") {
            Some(Value::String(kind)) => kind,
            _ => {
                let reason =
                    "it has no kind, so it is not a line of an export; `mnemon ingest` stores lines of messages";
                return Err(reason.to_owned());
            }
        };
        let parsed = match (kind.as_str(), header) {
            ("header", _) => fields(object).map(ExportLine::Header),
            (_, None) => return Err("an export begins with a line of the kind \"header\"".to_owned()),
            ("namespace", _) => fields(object).map(ExportLine::Namespace),
            ("shared_block", _) => fields(object).map(ExportLine::SharedBlock),
            ("session", _) => fields(object).map(ExportLine::Session),
            ("batch", _) => fields(object).map(ExportLine::Batch),
            ("block", _) => fields(object).map(ExportLine::Block),
            ("checkpoint", _) => fields(object).map(ExportLine::Checkpoint),
            ("message", _) => message(object).map(|line| ExportLine::Message(Box::new(line))),
            ("document", _) => fields(object).map(|line| ExportLine::Document(Box::new(line))),
            ("end", _) => fields(object).map(ExportLine::End),
            (kind, _) => Err(format!("unknown kind {kind:?}")),
        };
        parsed.map_err(|reason| match header {
            Some(header) => format!("{reason} (the export was {})", header.written_by()),
            None => reason,
        })
    }
}

fn fields<T: DeserializeOwned>(object: Map<String, Value>) -> Result<T, String> {
    T::deserialize(Value::Object(object)).map_err(|error| error.to_string())
}

/// The fields of a message in JSON.
const MESSAGE_FIELDS: [&str; 8] = ["id", "session", "role", "name", "content", "created_at", "expires_at", "metadata"];

fn message(mut object: Map<String, Value>) -> Result<MessageLine, String> {
    let names = ["seq", "checkpoint", "buffered", "batch", "until"];
    let place = names.into_iter().filter_map(|name| object.remove_entry(name)).collect();
    // A newer release may export a field that this one would take for one of another program's answer.
    if let Some(unknown) = object.keys().find(|field| !MESSAGE_FIELDS.contains(&field.as_str())) {
        return Err(format!("unknown field `{unknown}`"));
    }
    Ok(MessageLine { place: fields(place)?, message: fields(object)? })
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(value: &bool) -> bool {
    !value
}

//! The stored form of a message.

use bincode::{
    Decode, Encode,
    de::Decoder,
    enc::Encoder,
    error::{DecodeError, EncodeError},
};
use serde_json::{Map, Value};

use super::{codec, records::*, tables::ReadableTable};
use crate::{
    error::{Error, Result},
    message::{ContentPart, Message, Timestamp},
    read_budget::json_bytes,
};

/// The stored form of a message. Its fields are stored in this order, `is_json` as a byte of flags. A message that does not
/// expire takes no byte for it, and is stored as schema 10 and earlier ones did.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MessageRecord {
    pub(super) id: String,
    pub(super) session: String,
    pub(super) role: u8,
    pub(super) name: Option<String>,
    /// The text if the content is a single text part, else the parts as JSON.
    pub(super) content: String,
    pub(super) is_json: bool,
    pub(super) created_at: Option<i64>,
    /// The metadata as a JSON object, or `None` if it is empty.
    pub(super) metadata: Option<String>,
    /// Changes whenever the vectors must change. A vector made from an older revision is not stored.
    pub(super) revision: u64,
    /// The time from which on no read returns it, in microseconds.
    pub(super) expires_at: Option<i64>,
}

/// The flag of content that is JSON.
const JSON: u8 = 1;
/// The flag of a message that expires.
const EXPIRES: u8 = 2;

impl Encode for MessageRecord {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        let MessageRecord { id, session, role, name, content, is_json, created_at, metadata, revision, expires_at } =
            self;
        let flags = u8::from(*is_json) * JSON + u8::from(expires_at.is_some()) * EXPIRES;
        (id, session, role, name, content, flags, created_at, metadata, revision).encode(encoder)?;
        expires_at.map_or(Ok(()), |expires_at| expires_at.encode(encoder))
    }
}

impl<C> Decode<C> for MessageRecord {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let (id, session, role, name, content) = Decode::decode(decoder)?;
        let (flags, created_at, metadata, revision): (u8, _, _, _) = Decode::decode(decoder)?;
        if flags > JSON + EXPIRES {
            return Err(DecodeError::Other("a message has unknown flags"));
        }
        let expires_at = if flags & EXPIRES != 0 { Some(Decode::decode(decoder)?) } else { None };
        let is_json = flags & JSON != 0;
        Ok(MessageRecord { id, session, role, name, content, is_json, created_at, metadata, revision, expires_at })
    }
}

bincode::impl_borrow_decode!(MessageRecord);

impl MessageRecord {
    /// Reads the message with this sequence number.
    pub(super) fn read(
        messages: &impl ReadableTable<(u32, u64), Bytes>,
        namespace: u32,
        seq: u64,
    ) -> Result<Option<Self>> {
        read(messages, namespace, seq, codec::decode)
    }

    /// Reads the message with this sequence number for a caller of the library, to whom one that has expired does not exist.
    pub(super) fn read_live(
        messages: &impl ReadableTable<(u32, u64), Bytes>,
        namespace: u32,
        seq: u64,
    ) -> Result<Option<Self>> {
        Ok(Self::read(messages, namespace, seq)?.filter(|record| !record.has_expired()))
    }

    /// Returns true if the message has expired. It may be stored yet: until it is deleted in the background, and as long as
    /// a legal hold keeps it.
    pub(super) fn has_expired(&self) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= Timestamp::now().as_micros())
    }

    /// Reads the id of the message with this sequence number, which is the first field.
    pub(super) fn read_id(
        messages: &impl ReadableTable<(u32, u64), Bytes>,
        namespace: u32,
        seq: u64,
    ) -> Result<Option<String>> {
        read(messages, namespace, seq, |bytes| codec::decode_first(bytes).map(|(id, _)| id))
    }

    /// Reads a message that another table refers to.
    ///
    /// # Errors
    /// [`Error::Corrupted`] if there is no such message.
    pub(super) fn expect(messages: &impl ReadableTable<(u32, u64), Bytes>, namespace: u32, seq: u64) -> Result<Self> {
        Self::read(messages, namespace, seq)?.ok_or_else(|| Error::corrupted(format!("message {seq} is missing")))
    }

    /// The record of a message.
    pub(super) fn new(message: &Message, revision: u64) -> Self {
        let (content, is_json) = match message.content.as_slice() {
            [ContentPart::Text { text }] => (text.clone(), false),
            parts => (serde_json::to_string(parts).expect("message parts always serialize"), true),
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
                .then(|| serde_json::to_string(&message.metadata).expect("a JSON map always serializes")),
            revision,
            expires_at: message.expires_at.map(Timestamp::as_micros),
        }
    }

    /// Returns about how many bytes the content takes in memory and in an answer.
    pub(super) fn content_bytes(&self) -> usize {
        let content = if self.is_json { json_bytes(&self.content) } else { self.content.len() };
        size_of::<Message>() + self.id.len() + self.session.len() + content
    }

    /// Same as [`MessageRecord::content_bytes`], for the metadata.
    pub(super) fn metadata_bytes(&self) -> usize {
        self.metadata.as_deref().map_or(0, json_bytes)
    }

    /// Same as [`MessageRecord::content_bytes`], for the whole message.
    pub(super) fn bytes(&self) -> usize {
        self.content_bytes() + self.metadata_bytes()
    }

    /// Converts the record to a message.
    ///
    /// # Errors
    /// [`Error::Corrupted`]: bad JSON, or a role or time out of range.
    pub(super) fn message(self) -> Result<Message> {
        let metadata = self.metadata()?;
        let content = match self.is_json {
            false => vec![ContentPart::Text { text: self.content }],
            true => serde_json::from_str(&self.content).map_err(bad_json)?,
        };
        let time = |micros: Option<i64>| {
            let out_of_range = || Error::corrupted("the time of a message is out of range");
            micros.map(|micros| Timestamp::from_micros(micros).ok_or_else(out_of_range)).transpose()
        };
        Ok(Message {
            id: self.id,
            session: self.session,
            role: role(self.role)?,
            name: self.name,
            content,
            created_at: time(self.created_at)?,
            expires_at: time(self.expires_at)?,
            metadata,
        })
    }

    /// Returns the metadata.
    ///
    /// # Errors
    /// [`Error::Corrupted`]: bad JSON.
    pub(super) fn metadata(&self) -> Result<Map<String, Value>> {
        match &self.metadata {
            None => Ok(Map::new()),
            Some(text) => match serde_json::from_str(text).map_err(bad_json)? {
                Value::Object(map) => Ok(map),
                _ => Err(Error::corrupted("the metadata of a message is not a JSON object")),
            },
        }
    }

    /// Returns true if the message has text to embed. Cost: the parts are parsed if they are stored as JSON.
    pub(super) fn has_text(&self) -> Result<bool> {
        if !self.is_json {
            return Ok(!self.content.trim().is_empty());
        }
        let parts: Vec<ContentPart> = serde_json::from_str(&self.content).map_err(bad_json)?;
        Ok(parts.iter().any(|part| match part {
            ContentPart::Text { text } => !text.trim().is_empty(),
            ContentPart::ToolResult { content, .. } => !content.trim().is_empty(),
            _ => false,
        }))
    }

    /// Returns true if content, name and role are equal; session and times may differ.
    pub(super) fn same_content(&self, other: &MessageRecord) -> bool {
        (self.content == other.content && self.is_json == other.is_json)
            && self.name == other.name
            && self.role == other.role
    }

    /// Returns true if the rows stored for `self` are also right for `other`.
    pub(super) fn same_vectors(&self, other: &MessageRecord) -> bool {
        self.same_content(other) && self.session == other.session && self.created_at == other.created_at
    }
}

fn read<T>(
    messages: &impl ReadableTable<(u32, u64), Bytes>,
    namespace: u32,
    seq: u64,
    decode: impl Fn(&[u8]) -> Result<T>,
) -> Result<Option<T>> {
    let value = messages.get((namespace, seq));
    let read = value.and_then(|value| value.map(|value| decode(value.value())).transpose());
    read.map_err(|error| error.within(|| format!("message {seq}")))
}

fn bad_json(error: serde_json::Error) -> Error {
    Error::corrupted(format!("a message holds bad JSON: {error}"))
}

/// A message with its sequence number, the number of its session and its position there.
pub(super) struct StoredMessage {
    pub(super) seq: u64,
    pub(super) session: u32,
    pub(super) position: SessionPosition,
    pub(super) record: MessageRecord,
}

/// A message as it was before a change.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct OldMessage {
    pub(super) record: MessageRecord,
    /// The position, as a number like in [`HISTORY`].
    pub(super) position: u32,
}

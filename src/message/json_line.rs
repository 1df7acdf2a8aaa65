//! The JSON form of a message: one object, which is one line of a JSON Lines file.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{
    chat_message::{DEFAULT_SESSION, Message, new_id},
    content::{ContentPart, deserialize_content},
    role::Role,
    timestamp::Timestamp,
};
use crate::{
    error::{Error, Result},
    ids::Namespace,
};

/// A parsed and checked line of a messages file: a message, and its namespace if the line names one.
///
/// The fields of a line are `{"id"?, "namespace"?, "session"?, "role", "name"?, "content": text or parts,
/// "created_at"?: RFC 3339, "metadata"?: object}`. Any other field is an error, so that nothing is dropped silently.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageLine {
    /// The namespace, if the line names one.
    pub namespace: Option<Namespace>,
    /// The message. A missing session becomes `default`; a missing id becomes a new one.
    pub message: Message,
    /// Whether the line contains an id. If not, every parse gives [`Message::id`] a new value.
    pub has_id: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineFields {
    id: Option<String>,
    namespace: Option<Namespace>,
    session: Option<String>,
    role: String,
    name: Option<String>,
    #[serde(deserialize_with = "deserialize_content")]
    content: Vec<ContentPart>,
    created_at: Option<Timestamp>,
    metadata: Option<Map<String, Value>>,
}

impl MessageLine {
    /// Parses and checks one line.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`] if the line is not a JSON object, if a field is unknown or has the wrong type, if the
    /// namespace is invalid (the reason then contains [`Error::InvalidNamespace`]), and for everything that
    /// [`Message::check`] refuses.
    pub fn parse(line: &str) -> Result<Self> {
        // serde would accept an array of the fields too.
        if !line.trim_start().starts_with('{') {
            return Err(Error::message("expected a JSON object"));
        }
        let fields: LineFields = serde_json::from_str(line).map_err(|error| Error::message(error.to_string()))?;
        let (has_id, namespace) = (fields.id.is_some(), fields.namespace.clone());
        let message = fields.try_into()?;
        Ok(MessageLine { namespace, message, has_id })
    }
}

impl TryFrom<LineFields> for Message {
    type Error = Error;

    fn try_from(fields: LineFields) -> Result<Self> {
        let message = Message {
            id: fields.id.unwrap_or_else(new_id),
            session: fields.session.unwrap_or_else(|| DEFAULT_SESSION.to_owned()),
            role: fields.role.parse::<Role>()?,
            name: fields.name,
            content: fields.content,
            created_at: fields.created_at,
            metadata: fields.metadata.unwrap_or_default(),
        };
        message.check()?;
        Ok(message)
    }
}

impl<'de> Deserialize<'de> for Message {
    /// Reads and checks the object of a [`MessageLine`] that has no namespace.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = LineFields::deserialize(deserializer)?;
        match fields.namespace {
            Some(_) => Err(serde::de::Error::custom("a message has no field \"namespace\"")),
            None => fields.try_into().map_err(serde::de::Error::custom),
        }
    }
}

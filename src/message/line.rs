//! The JSON form of a message: one object, one line of a JSON Lines file.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{DEFAULT_SESSION, Message, Part, Role, Timestamp, new_id};
use crate::{
    error::{Error, Result},
    ids::Namespace,
};

/// A line of a messages file, checked: a message, and the namespace if the line names one.
///
/// `{"id"?, "namespace"?, "session"?, "role", "name"?, "content": text or parts, "created_at"?: RFC 3339,
/// "metadata"?: object}`. Other fields are an error, so that nothing is dropped silently.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageLine {
    /// The namespace, if the line names one.
    pub namespace: Option<Namespace>,
    /// The message; a missing session is `default`, a missing id is new.
    pub message: Message,
    /// Whether the line gave an id. If not, [`Message::id`] is new on every parse.
    pub has_id: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: Option<String>,
    namespace: Option<Namespace>,
    session: Option<String>,
    role: String,
    name: Option<String>,
    #[serde(deserialize_with = "deserialize_content")]
    content: Vec<Part>,
    created_at: Option<Timestamp>,
    metadata: Option<Map<String, Value>>,
}

impl MessageLine {
    /// Parses and checks one line.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`], [`Error::InvalidNamespace`] within its reason: no JSON object, a field of the wrong
    /// type or an unknown one, and all that [`Message::check`] refuses.
    pub fn parse(line: &str) -> Result<Self> {
        // serde would take an array of the fields too.
        if !line.trim_start().starts_with('{') {
            return Err(Error::message("expected a JSON object"));
        }
        let line: Line = serde_json::from_str(line).map_err(|error| Error::message(error.to_string()))?;
        let (has_id, namespace) = (line.id.is_some(), line.namespace.clone());
        let message = line.try_into()?;
        Ok(MessageLine { namespace, message, has_id })
    }
}

impl TryFrom<Line> for Message {
    type Error = Error;

    fn try_from(line: Line) -> Result<Self> {
        let message = Message {
            id: line.id.unwrap_or_else(new_id),
            session: line.session.unwrap_or_else(|| DEFAULT_SESSION.to_owned()),
            role: line.role.parse::<Role>()?,
            name: line.name,
            content: line.content,
            created_at: line.created_at,
            metadata: line.metadata.unwrap_or_default(),
        };
        message.check()?;
        Ok(message)
    }
}

impl<'de> Deserialize<'de> for Message {
    /// As [`MessageLine::parse`], without a namespace.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let line = Line::deserialize(deserializer)?;
        match line.namespace {
            Some(_) => Err(serde::de::Error::custom("a message has no namespace of its own")),
            None => line.try_into().map_err(serde::de::Error::custom),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "content is a string or an array of parts, each with a known type")]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

pub(super) fn deserialize_content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Part>, D::Error> {
    Ok(match Content::deserialize(deserializer)? {
        Content::Text(text) => vec![Part::Text { text }],
        Content::Parts(parts) => parts,
    })
}

pub(super) fn serialize_content<S: Serializer>(content: &[Part], serializer: S) -> Result<S::Ok, S::Error> {
    match content {
        [Part::Text { text }] => serializer.serialize_str(text),
        parts => parts.serialize(serializer),
    }
}

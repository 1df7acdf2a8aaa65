//! The field `mnemon` of a provider's object: the fields of a message that the provider's format does not have.
//!
//! A message becomes one or more objects. The first has the fields, and each further object names the message that it
//! continues. This module does not know the provider's format: callers pass a function that reads one object.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    chat_message::{ContentPart, DEFAULT_SESSION, Message, Role, deserialize_content, new_id},
    fields::{Object, Result},
    timestamp::Timestamp,
};

pub(super) const EXTENSION: &str = "mnemon";

/// Creates the message of an object without the field `mnemon`, with a new id, the session `default` and no time.
pub(crate) fn imported(role: Role, name: Option<String>, content: Vec<ContentPart>) -> Message {
    let session = DEFAULT_SESSION.to_owned();
    Message { id: new_id(), session, role, name, content, created_at: None, expires_at: None, metadata: Map::new() }
}

/// Adds the field `mnemon` to the objects that a message was encoded as.
///
/// `import` reads one object. If encoding the messages that it returns would give another object, it keeps the object in
/// their metadata under `source_key`.
pub(super) fn with_extension(
    message: &Message,
    source_key: &str,
    mut objects: Vec<Object>,
    import: impl Fn(&Object) -> Result<Vec<Message>>,
) -> Vec<Object> {
    let mut metadata = message.metadata.clone();
    let mut fields = json!({"id": message.id, "session": message.session});
    let imported = match objects.as_slice() {
        [object] => import(object).ok(),
        _ => None,
    };
    match imported.as_deref() {
        Some([imported])
            if (imported.role, &imported.name, &imported.content)
                == (message.role, &message.name, &message.content)
                && imported.metadata.get(source_key) == metadata.get(source_key) =>
        {
            metadata.remove(source_key);
        }
        _ => fields["exact"] = json!({"role": message.role, "name": message.name, "content": message.content}),
    }
    for (name, time) in [("created_at", message.created_at), ("expires_at", message.expires_at)] {
        let Some(time) = time else { continue };
        let text = time.to_string();
        let is_readable = text.parse::<Timestamp>().is_ok();
        fields[name] = if is_readable { text.into() } else { time.as_micros().into() };
    }
    if !metadata.is_empty() {
        fields["metadata"] = metadata.into();
    }
    for (index, object) in objects.iter_mut().enumerate() {
        let extension = if index == 0 { fields.take() } else { json!({"of": message.id}) };
        object.insert(EXTENSION.to_owned(), extension);
    }
    objects
}

/// Reads a list of objects, with or without the field `mnemon`.
#[derive(Default)]
pub(super) struct ExactReader {
    /// The id of the last message, if further objects of that message may follow.
    continuable: Option<String>,
}

pub(super) enum NextObject {
    /// The message that the object was encoded from. There are several if content of other messages was added to the
    /// object.
    Restored(Vec<Message>),
    /// The object is a further part of the previous message.
    Continued,
    /// The object was not encoded from a message. It is returned without the field `mnemon`.
    Foreign(Object),
}

impl ExactReader {
    pub(super) fn next(
        &mut self,
        object: &Object,
        import: impl Fn(&Object) -> Result<Vec<Message>>,
    ) -> Result<NextObject> {
        let extension = object.get(EXTENSION).map(Extension::deserialize).transpose();
        match extension.map_err(|error| format!("{EXTENSION}: {error}"))? {
            Some(Extension::Continuation(next)) if self.continuable.as_ref() == Some(&next.of) => {
                Ok(NextObject::Continued)
            }
            Some(Extension::Message(fields)) => {
                self.continuable = Some(fields.id.clone());
                Ok(NextObject::Restored(fields.restore(object, import)?))
            }
            Some(Extension::Continuation(_)) | None => {
                self.continuable = None;
                Ok(NextObject::Foreign(without_extension(object)))
            }
        }
    }
}

/// The value of the field `mnemon`.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected {\"id\", \"session\", \"created_at\"?, \"expires_at\"?, \"metadata\"?, \"exact\"?} or {\"of\"}"
)]
enum Extension {
    Message(Box<MessageFields>),
    Continuation(Continuation),
}

/// Marks a further object of the previous message. Its content is not read, because the first object is enough to
/// restore the message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Continuation {
    /// The message's id.
    of: String,
}

/// The fields of a message that an object does not have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageFields {
    id: String,
    session: String,
    created_at: Option<JsonTime>,
    expires_at: Option<JsonTime>,
    #[serde(default)]
    metadata: Map<String, Value>,
    exact: Option<ExactFields>,
}

/// The role, name and content of a message that decoding the object would not restore.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExactFields {
    role: Role,
    name: Option<String>,
    #[serde(deserialize_with = "deserialize_content")]
    content: Vec<ContentPart>,
}

/// A time in RFC 3339, or in microseconds for years before 0, which RFC 3339 cannot express.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a time is RFC 3339 or microseconds since 1970")]
enum JsonTime {
    Text(Timestamp),
    Micros(i64),
}

impl JsonTime {
    fn read(self, field: &str) -> Result<Timestamp> {
        match self {
            JsonTime::Text(time) => Ok(time),
            JsonTime::Micros(micros) => {
                Timestamp::from_micros(micros).ok_or_else(|| format!("{field} is out of range"))
            }
        }
    }
}

impl MessageFields {
    /// Restores the message that `object` was made from.
    fn restore(self, object: &Object, import: impl Fn(&Object) -> Result<Vec<Message>>) -> Result<Vec<Message>> {
        let MessageFields { id, session, created_at, expires_at, metadata, exact } = self;
        let created_at = created_at.map(|time| time.read("created_at")).transpose()?;
        let expires_at = expires_at.map(|time| time.read("expires_at")).transpose()?;
        let mut messages = match exact {
            Some(ExactFields { role, name, content }) => vec![imported(role, name, content)],
            None => import(&without_extension(object))?,
        };
        if let Some(first) = messages.first_mut() {
            let source = std::mem::take(&mut first.metadata);
            let metadata = metadata.into_iter().chain(source).collect();
            let Message { role, name, content, .. } = first.clone();
            *first = Message { id, session, role, name, content, created_at, expires_at, metadata };
        }
        Ok(messages)
    }
}

fn without_extension(object: &Object) -> Object {
    let mut object = object.clone();
    object.remove(EXTENSION);
    object
}

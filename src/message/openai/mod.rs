//! Conversion between messages and the objects of OpenAI's chat completions, lossless in both directions.
//!
//! Neither form can express everything in the other. Fields of a foreign object that a [`Message`] does not have are
//! kept in `metadata["openai"]`. Fields of a message that an object does not have go into its field `mnemon`, on
//! request.

mod decode;
mod encode;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    chat_message::{DEFAULT_SESSION, Message, new_id},
    content::{ContentPart, deserialize_content},
    role::Role,
    timestamp::Timestamp,
};
use crate::error::{Error, Result};
use decode::{CommonFields, decode};
use encode::encode;

/// The key in [`Message::metadata`] of the object that the message was read from. Present if encoding the message would
/// give a different object.
const SOURCE_OBJECT: &str = "openai";

/// The field of an object with the message fields that the format does not have.
const EXTENSION: &str = "mnemon";

/// Converts messages to objects for a server with OpenAI's chat completions API, with the fields of that API only.
///
/// A message that was read by [`from_openai`] becomes the original object again, unless its role, name or content was
/// changed. Every other message is encoded:
///
/// - Each tool result becomes an object of its own, in order with the objects of the other parts.
/// - Other text of a [`Role::Tool`] message becomes an object of the user.
/// - Media that the format cannot refer to (a video, an image that is neither on the web nor a `data:` URI) become text
///   such as `[video: URI]`.
/// - Characters of a name that the protocol forbids become `_`.
///
/// ```
/// use mnemon::{Message, to_openai};
/// let objects = to_openai(&[Message::user("Where is Ada?")]);
/// assert_eq!(objects, [serde_json::json!({"role": "user", "content": "Where is Ada?"})]);
/// ```
pub fn to_openai(messages: &[Message]) -> Vec<Value> {
    messages.iter().flat_map(plain_objects).map(Value::Object).collect()
}

/// Converts messages to the objects of [`to_openai`] with an additional field `mnemon`, from which [`from_openai`]
/// restores the same messages.
///
/// The field is meant for files and for programs that pass messages on. Servers may reject it.
pub fn to_openai_lossless(messages: &[Message]) -> Vec<Value> {
    messages.iter().flat_map(lossless_objects).map(Value::Object).collect()
}

/// Reads messages from the objects of [`to_openai`], [`to_openai_lossless`] or a foreign source.
///
/// An object with the field `mnemon` becomes the message that it was made from. Every other object becomes a new
/// message with a new id, the session `default` and no time:
///
/// - The role `developer` becomes [`Role::System`].
/// - A refusal and the transcript of audio become text.
/// - The call and the result of a function, the older form of tools, have the function's name as their id.
/// - Arguments that are not JSON become a JSON string.
/// - If an object has more information than the message, the object is kept in `metadata["openai"]`.
///
/// A message that is read here may still be refused by [`put`](crate::Engine::put): if it is too large, or if its
/// object has no content that a message can hold.
///
/// # Errors
/// [`Error::InvalidMessage`] with the index, for a value that is not an object, an unknown role, or a field of the
/// wrong type.
///
/// ```
/// use mnemon::{Role, from_openai, to_openai};
/// let objects = [serde_json::json!({"role": "developer", "content": "Be brief."})];
/// let messages = from_openai(&objects)?;
/// assert_eq!((messages[0].role, messages[0].text().as_str()), (Role::System, "Be brief."));
/// assert_eq!(to_openai(&messages), objects);
/// # Ok::<(), mnemon::Error>(())
/// ```
pub fn from_openai(values: &[Value]) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    // The id of the last message, if further objects of that message may follow.
    let mut continuable: Option<String> = None;
    for (index, value) in values.iter().enumerate() {
        let invalid = |reason| Error::message(format!("messages[{index}]: {reason}"));
        let object = value.as_object().ok_or_else(|| invalid("expected a JSON object".to_owned()))?;
        let extension = object.get(EXTENSION).map(Extension::deserialize).transpose();
        let extension = extension.map_err(|error| invalid(format!("{EXTENSION}: {error}")))?;
        match extension {
            Some(Extension::Continuation(next)) if continuable.as_ref() == Some(&next.of) => {}
            Some(Extension::Message(fields)) => {
                let message = fields.restore(object).map_err(invalid)?;
                continuable = Some(message.id.clone());
                messages.push(message);
            }
            Some(Extension::Continuation(_)) | None => {
                continuable = None;
                messages.push(import(&without_extension(object)).map_err(invalid)?);
            }
        }
    }
    Ok(messages)
}

/// The value of the field `mnemon`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected {\"id\", \"session\", \"created_at\"?, \"metadata\"?, \"exact\"?} or {\"of\"}")]
enum Extension {
    Message(Box<MessageFields>),
    Continuation(Continuation),
}

/// Marks a further object of the message before. The message's first object is enough to restore the message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Continuation {
    /// The id of the message.
    of: String,
}

/// The fields of a message that an object does not have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MessageFields {
    id: String,
    session: String,
    created_at: Option<JsonTime>,
    #[serde(default)]
    metadata: Map<String, Value>,
    exact: Option<ExactFields>,
}

/// The role, name and content of the message, where decoding the object would give others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExactFields {
    role: Role,
    name: Option<String>,
    #[serde(deserialize_with = "deserialize_content")]
    content: Vec<ContentPart>,
}

/// A time as RFC 3339, or in microseconds: RFC 3339 has no years before 0.
#[derive(Deserialize)]
#[serde(untagged)]
enum JsonTime {
    Text(Timestamp),
    Micros(i64),
}

impl MessageFields {
    /// Restores the message that `object` was made from.
    fn restore(self, object: &Map<String, Value>) -> Result<Message, String> {
        let MessageFields { id, session, created_at, mut metadata, exact } = self;
        let created_at = match created_at {
            Some(JsonTime::Text(time)) => Some(time),
            Some(JsonTime::Micros(micros)) => Some(Timestamp::from_micros(micros).ok_or("created_at is out of range")?),
            None => None,
        };
        let (role, name, content) = match exact {
            Some(ExactFields { role, name, content }) => (role, name, content),
            None => {
                let imported = import(&without_extension(object))?;
                metadata.extend(imported.metadata);
                (imported.role, imported.name, imported.content)
            }
        };
        Ok(Message { id, session, role, name, content, created_at, metadata })
    }
}

/// Converts a message to one or more objects without the field `mnemon`.
fn plain_objects(message: &Message) -> Vec<Map<String, Value>> {
    match message.metadata.get(SOURCE_OBJECT).and_then(Value::as_object) {
        Some(source)
            if !source.contains_key(EXTENSION) && decode(source).is_ok_and(|fields| fields.agree_with(message)) =>
        {
            vec![source.clone()]
        }
        _ => encode(message.role, message.name.as_deref(), &message.content),
    }
}

/// Converts a message to one or more objects with the field `mnemon`.
fn lossless_objects(message: &Message) -> Vec<Map<String, Value>> {
    let mut objects = plain_objects(message);
    let mut metadata = message.metadata.clone();
    let mut fields = json!({"id": message.id, "session": message.session});
    let imported = match objects.as_slice() {
        [object] => import(object).ok(),
        _ => None,
    };
    match imported {
        Some(imported)
            if have_same_content(&imported, message)
                && imported.metadata.get(SOURCE_OBJECT) == metadata.get(SOURCE_OBJECT) =>
        {
            metadata.remove(SOURCE_OBJECT);
        }
        _ => fields["exact"] = json!({"role": message.role, "name": message.name, "content": message.content}),
    }
    if let Some(time) = message.created_at {
        let text = time.to_string();
        let is_readable = text.parse::<Timestamp>().is_ok();
        fields["created_at"] = if is_readable { text.into() } else { time.as_micros().into() };
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

fn have_same_content(one: &Message, other: &Message) -> bool {
    one.role == other.role && one.name == other.name && one.content == other.content
}

/// Makes a new message of an object without the field `mnemon`.
fn import(object: &Map<String, Value>) -> Result<Message, String> {
    let CommonFields { role, name, content } = decode(object)?;
    let mut metadata = Map::new();
    if !matches!(encode(role, name.as_deref(), &content).as_slice(), [encoded] if encoded == object) {
        metadata.insert(SOURCE_OBJECT.to_owned(), Value::Object(object.clone()));
    }
    let session = DEFAULT_SESSION.to_owned();
    Ok(Message { id: new_id(), session, role, name, content, created_at: None, metadata })
}

fn without_extension(object: &Map<String, Value>) -> Map<String, Value> {
    let mut object = object.clone();
    object.remove(EXTENSION);
    object
}

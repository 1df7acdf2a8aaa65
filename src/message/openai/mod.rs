//! Messages as OpenAI's chat completions take and give them, lossless both ways.
//!
//! The two forms say different things. What a foreign object says beyond a [`Message`] is kept in
//! `metadata["openai"]`; what a message says beyond an object goes in the field `mnemon`, where asked for.

mod decode;
mod encode;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{DEFAULT_SESSION, Message, Part, Role, Timestamp, line::deserialize_content, new_id};
use crate::error::{Error, Result};
use decode::{Said, decode};
use encode::encode;

/// The entry of [`Message::metadata`] with the object that a message was read from, if encoding it afresh would give
/// another.
const RAW: &str = "openai";

/// The field of an object with what the format cannot say.
const OURS: &str = "mnemon";

/// Messages as objects for a server that speaks OpenAI's chat completions: its fields and no others.
///
/// A message read by [`from_openai`] gives the object it was read from, as long as its role, name and content are as
/// they were read. Any other is encoded afresh: each tool result is an object of its own, in order with those of the
/// other parts, and text that a [`Role::Tool`] message has besides is the user's. Media that the format cannot refer to
/// (a video, an image that is neither on the web nor a `data:` URI) becomes a text such as `[video: URI]`, and a name
/// gets `_` for characters that the protocol refuses.
///
/// ```
/// use mnemon::{Message, to_openai};
/// let objects = to_openai(&[Message::user("Where is Ada?")]);
/// assert_eq!(objects, [serde_json::json!({"role": "user", "content": "Where is Ada?"})]);
/// ```
pub fn to_openai(messages: &[Message]) -> Vec<Value> {
    messages.iter().flat_map(objects).map(Value::Object).collect()
}

/// The objects of [`to_openai`], with a field `mnemon` that makes [`from_openai`] give back the very same messages. For
/// files and programs that pass messages on; servers may refuse the field.
pub fn to_openai_lossless(messages: &[Message]) -> Vec<Value> {
    messages.iter().flat_map(lossless).map(Value::Object).collect()
}

/// Reads objects of either form.
///
/// An object with the field `mnemon` gives back the message that it was made of. Any other gives a new message: a new
/// id, the session `default`, no time. There `developer` is [`Role::System`]; a refusal and the transcript of a sound are
/// text; the call and the result of a function (the older form of tools) have its name for an id; and arguments that are
/// not JSON are a string. An object that says more than a message can is kept in `metadata["openai"]`.
///
/// A message may be more than [`put`](crate::Engine::put) takes: with no content that it knows, or too large.
///
/// # Errors
/// [`Error::InvalidMessage`], naming the index: not an object, an unknown role, a field of the wrong type.
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
    // The message whose further objects may follow.
    let mut open: Option<String> = None;
    for (index, value) in values.iter().enumerate() {
        let invalid = |reason| Error::message(format!("messages[{index}]: {reason}"));
        let object = value.as_object().ok_or_else(|| invalid("expected a JSON object".to_owned()))?;
        let ours = object.get(OURS).map(Ours::deserialize).transpose();
        let ours = ours.map_err(|error| invalid(format!("{OURS}: {error}")))?;
        match ours {
            Some(Ours::Rest(rest)) if open.as_ref() == Some(&rest.of) => {}
            Some(Ours::Message(kept)) => {
                let message = kept.message(object).map_err(invalid)?;
                open = Some(message.id.clone());
                messages.push(message);
            }
            Some(Ours::Rest(_)) | None => {
                open = None;
                messages.push(foreign(&plain(object)).map_err(invalid)?);
            }
        }
    }
    Ok(messages)
}

/// The field `mnemon`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected {\"id\", \"session\", \"created_at\"?, \"metadata\"?, \"exact\"?} or {\"of\"}")]
enum Ours {
    Message(Box<Kept>),
    Rest(Rest),
}

/// Marks a further object of the message before, which its first object gives back alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rest {
    of: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    id: String,
    session: String,
    created_at: Option<Time>,
    #[serde(default)]
    metadata: Map<String, Value>,
    exact: Option<Exact>,
}

/// What is said, where decoding the object does not give it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exact {
    role: Role,
    name: Option<String>,
    #[serde(deserialize_with = "deserialize_content")]
    content: Vec<Part>,
}

/// RFC 3339 knows no year before 0: such a time is in microseconds.
#[derive(Deserialize)]
#[serde(untagged)]
enum Time {
    Text(Timestamp),
    Micros(i64),
}

impl Kept {
    fn message(self, object: &Map<String, Value>) -> Result<Message, String> {
        let Kept { id, session, created_at, mut metadata, exact } = self;
        let created_at = match created_at {
            Some(Time::Text(time)) => Some(time),
            Some(Time::Micros(micros)) => Some(Timestamp::from_micros(micros).ok_or("created_at is out of range")?),
            None => None,
        };
        let Said { role, name, content } = match exact {
            Some(Exact { role, name, content }) => Said { role, name, content },
            None => {
                let read = foreign(&plain(object))?;
                metadata.extend(read.metadata);
                Said { role: read.role, name: read.name, content: read.content }
            }
        };
        Ok(Message { id, session, role, name, content, created_at, metadata })
    }
}

/// The objects of one message: at least one.
fn objects(message: &Message) -> Vec<Map<String, Value>> {
    match message.metadata.get(RAW).and_then(Value::as_object) {
        Some(raw) if !raw.contains_key(OURS) && decode(raw).is_ok_and(|said| said.is_of(message)) => vec![raw.clone()],
        _ => encode(message.role, message.name.as_deref(), &message.content),
    }
}

fn lossless(message: &Message) -> Vec<Map<String, Value>> {
    let mut objects = objects(message);
    let mut metadata = message.metadata.clone();
    let mut ours = json!({"id": message.id, "session": message.session});
    let read = match objects.as_slice() {
        [object] => foreign(object).ok(),
        _ => None,
    };
    match read {
        Some(read) if says_the_same(&read, message) && read.metadata.get(RAW) == metadata.get(RAW) => {
            metadata.remove(RAW);
        }
        _ => ours["exact"] = json!({"role": message.role, "name": message.name, "content": message.content}),
    }
    if let Some(time) = message.created_at {
        let text = time.to_string();
        let readable = text.parse::<Timestamp>().is_ok();
        ours["created_at"] = if readable { text.into() } else { time.as_micros().into() };
    }
    if !metadata.is_empty() {
        ours["metadata"] = metadata.into();
    }
    for (index, object) in objects.iter_mut().enumerate() {
        let ours = if index == 0 { ours.take() } else { json!({"of": message.id}) };
        object.insert(OURS.to_owned(), ours);
    }
    objects
}

fn says_the_same(one: &Message, other: &Message) -> bool {
    one.role == other.role && one.name == other.name && one.content == other.content
}

/// A new message of an object without our field.
fn foreign(object: &Map<String, Value>) -> Result<Message, String> {
    let Said { role, name, content } = decode(object)?;
    let mut metadata = Map::new();
    if !matches!(encode(role, name.as_deref(), &content).as_slice(), [afresh] if afresh == object) {
        metadata.insert(RAW.to_owned(), Value::Object(object.clone()));
    }
    let session = DEFAULT_SESSION.to_owned();
    Ok(Message { id: new_id(), session, role, name, content, created_at: None, metadata })
}

fn plain(object: &Map<String, Value>) -> Map<String, Value> {
    let mut object = object.clone();
    object.remove(OURS);
    object
}

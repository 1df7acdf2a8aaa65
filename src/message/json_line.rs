//! The JSON form of a message: one object, which is one line of a JSON Lines file.
//!
//! The reader also accepts objects of OpenAI's format. A line in a mixture of both formats is an error.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};
use serde_json::{Map, Value, json};

use super::{
    chat_message::{ContentPart, DEFAULT_SESSION, Message, Role, new_id},
    fields::{Object, required, unread},
    openai,
    provenance::{Source, SupersededIds, set_superseded},
    timestamp::Timestamp,
};
use crate::{
    error::{Error, Result},
    ids::Namespace,
};

/// Fields of whole answers of Anthropic's and Gemini's APIs, whose content is in another form.
const FOREIGN_FIELDS: [&str; 3] = ["stop_reason", "parts", "candidates"];
/// The types of [`ContentPart`] that OpenAI's format does not have. Both formats have `text` and `file`.
const OWN_PARTS: [&str; 5] = ["tool_call", "tool_result", "image", "audio", "video"];
/// The types of content parts of OpenAI's format, and of servers that extend it.
const OPENAI_PARTS: [&str; 5] = ["image_url", "input_audio", "refusal", "audio_url", "video_url"];

/// A parsed and checked line of a messages file: a message, and its namespace if the line names one.
///
/// The fields of a line are `{"id"?, "namespace"?, "session"?, "role", "name"?, "content": text or parts,
/// "created_at"?: RFC 3339, "expires_at"?: RFC 3339, "metadata"?: object, "source"?: user, assistant, tool, web or import,
/// "supersedes"?: id or ids}`; the last two are kept in the metadata. Any other field is an error, so that nothing is dropped silently.
///
/// A line may also be a message of OpenAI's chat format, with or without `id`, `namespace`, `session`, `created_at`,
/// `expires_at` and `metadata` beside its own fields. A line is in that format if it has the role `developer`, `tool_calls`,
/// `tool_call_id`, a `content` that is null, parts such as `image_url`, or another field of requests and answers that
/// mnemon's format does not have. It is read as by [`from_openai`](crate::from_openai). Servers and client libraries add
/// fields of their own to a model's answers (`reasoning_details`, `thinking_blocks`, `parsed`): all fields of a message of the
/// assistant are kept, unless they are those of an answer of Anthropic's or Gemini's API.
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
struct LineFields {
    id: Option<String>,
    namespace: Option<Namespace>,
    session: Option<String>,
    role: String,
    name: Option<String>,
    #[serde(default)]
    content: LineContent,
    created_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    metadata: Option<Map<String, Value>>,
    source: Option<Source>,
    supersedes: Option<SupersededIds>,
    // Fields of OpenAI's format, and of servers that return a model's reasoning.
    tool_calls: Option<Value>,
    tool_call_id: Option<Value>,
    function_call: Option<Value>,
    refusal: Option<Value>,
    audio: Option<Value>,
    annotations: Option<Value>,
    reasoning: Option<Value>,
    reasoning_content: Option<Value>,
    /// Fields that only messages of the assistant may have.
    #[serde(flatten)]
    others: Object,
}

#[derive(Default)]
enum LineContent {
    #[default]
    Missing,
    Null,
    Text(String),
    Parts(Vec<Value>),
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

    fn try_from(mut fields: LineFields) -> Result<Self> {
        let (id, session) = (fields.id.take(), fields.session.take());
        let (created_at, expires_at) = (fields.created_at, fields.expires_at);
        let metadata = fields.metadata.take().unwrap_or_default();
        let (source, supersedes) = (fields.source, fields.supersedes.take());
        let mut message = fields.message()?;
        message.id = id.unwrap_or_else(new_id);
        message.session = session.unwrap_or_else(|| DEFAULT_SESSION.to_owned());
        message.created_at = created_at;
        message.expires_at = expires_at;
        message.metadata.extend(metadata);
        if let Some(source) = source {
            message = message.from_source(source);
        }
        if let Some(ids) = supersedes {
            set_superseded(&mut message.metadata, ids.into_list());
        }
        message.check()?;
        Ok(message)
    }
}

impl LineFields {
    /// Converts the fields that both formats have, and those of OpenAI's. If the line has any field, role or part that
    /// only OpenAI's format has, the whole line is read in that format.
    fn message(self) -> Result<Message> {
        let is_answer = self.role == Role::Assistant.as_str();
        let is_refused = |field: &&String| !is_answer || FOREIGN_FIELDS.contains(&field.as_str());
        if let Some(other) = self.others.keys().find(is_refused) {
            return Err(Error::message(format!("unknown field `{other}`: keep data of your own in `metadata`")));
        }
        let openai: Object = [
            ("tool_calls", self.tool_calls),
            ("tool_call_id", self.tool_call_id),
            ("function_call", self.function_call),
            ("refusal", self.refusal.filter(|refusal| refusal != "")),
            ("audio", self.audio),
            ("annotations", self.annotations),
            ("reasoning", self.reasoning),
            ("reasoning_content", self.reasoning_content),
        ]
        .into_iter()
        // Client libraries write all fields, and most of them are null or empty.
        .filter_map(|(field, value)| Some((field.to_owned(), value.filter(|value| *value != json!([]))?)))
        .chain(unread(&self.others, &[]))
        .collect();
        let has_openai_part = |parts: &[Value]| parts.iter().any(|part| part_format(part) == PartFormat::OpenAi);
        let is_openai = !openai.is_empty()
            || ["developer", "function"].contains(&&*self.role)
            || match &self.content {
                LineContent::Null => true,
                LineContent::Parts(parts) => has_openai_part(parts),
                LineContent::Missing | LineContent::Text(_) => false,
            };
        if is_openai {
            return openai_message(self.role, self.name, self.content, openai);
        }
        let content = match self.content {
            LineContent::Parts(parts) => parts.into_iter().enumerate().map(own_part).collect::<Result<_>>()?,
            LineContent::Text(text) => vec![ContentPart::Text { text }],
            LineContent::Missing | LineContent::Null => return Err(Error::message("missing field `content`")),
        };
        Ok(Message { name: self.name, created_at: None, ..Message::from_parts(self.role.parse::<Role>()?, content) })
    }
}

fn own_part((index, part): (usize, Value)) -> Result<ContentPart> {
    let error = match part_format(&part) {
        PartFormat::Unknown(reason) => reason,
        _ => match serde_json::from_value(part) {
            Ok(part) => return Ok(part),
            Err(error) => error.to_string(),
        },
    };
    Err(Error::message(format!("content[{index}]: {error}")))
}

fn openai_message(role: String, name: Option<String>, content: LineContent, fields: Object) -> Result<Message> {
    let content = match content {
        LineContent::Text(text) => text.into(),
        LineContent::Missing | LineContent::Null => Value::Null,
        LineContent::Parts(parts) => {
            for (index, part) in parts.iter().enumerate() {
                let reason = match part_format(part) {
                    PartFormat::Own => "the part is not of OpenAI's format, and other fields or parts are".to_owned(),
                    PartFormat::Unknown(reason) => reason,
                    PartFormat::OpenAi | PartFormat::Either => continue,
                };
                return Err(Error::message(format!("content[{index}]: {reason}")));
            }
            parts.into()
        }
    };
    let mut object = fields;
    object.insert("role".to_owned(), role.into());
    object.insert("content".to_owned(), content);
    object.extend(name.map(|name| ("name".to_owned(), name.into())));
    openai::import(&object).map_err(Error::message)
}

#[derive(PartialEq)]
enum PartFormat {
    Own,
    OpenAi,
    Either,
    /// Neither format has such a part. The text is the reason.
    Unknown(String),
}

fn part_format(part: &Value) -> PartFormat {
    let Some(part) = part.as_object() else { return PartFormat::Unknown("expected a JSON object".to_owned()) };
    match required(part, "type") {
        Ok("text") => PartFormat::Either,
        Ok("file") if part.contains_key("file") => PartFormat::OpenAi,
        Ok("file") => PartFormat::Own,
        // A content block of Anthropic's format has the same type.
        Ok("tool_result") if part.contains_key("tool_use_id") => PartFormat::Unknown(
            "it is a part of Anthropic's format; a tool_result has \"id\" and \"content\"".to_owned(),
        ),
        Ok(kind) if OWN_PARTS.contains(&kind) => PartFormat::Own,
        Ok(kind) if OPENAI_PARTS.contains(&kind) => PartFormat::OpenAi,
        Ok(kind) => PartFormat::Unknown(format!(
            "type {kind:?} is not one of text, file, {}, nor one of OpenAI's {}",
            OWN_PARTS.join(", "),
            OPENAI_PARTS.join(", ")
        )),
        Err(reason) => PartFormat::Unknown(reason),
    }
}

impl<'de> Deserialize<'de> for LineContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ContentVisitor;

        impl<'de> Visitor<'de> for ContentVisitor {
            type Value = LineContent;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an array of parts as content")
            }

            fn visit_unit<E>(self) -> Result<LineContent, E> {
                Ok(LineContent::Null)
            }

            fn visit_str<E>(self, text: &str) -> Result<LineContent, E> {
                Ok(LineContent::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<LineContent, E> {
                Ok(LineContent::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<LineContent, A::Error> {
                let mut parts = Vec::new();
                while let Some(part) = values.next_element()? {
                    parts.push(part);
                }
                Ok(LineContent::Parts(parts))
            }
        }

        deserializer.deserialize_any(ContentVisitor)
    }
}

impl<'de> Deserialize<'de> for Message {
    /// Reads and checks the object of a [`MessageLine`] that has no namespace.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = LineFields::deserialize(deserializer)?;
        match fields.namespace {
            Some(_) => Err(de::Error::custom("a message has no field \"namespace\"")),
            None => fields.try_into().map_err(de::Error::custom),
        }
    }
}

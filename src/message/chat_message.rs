//! The chat message with its roles and content parts, the text of it that is indexed, and the rules for what may be
//! stored.

use std::{borrow::Cow, ops::Deref, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::timestamp::Timestamp;
use crate::{
    error::{Error, Result},
    ids::check_id,
    read_budget::{object_bytes, value_bytes},
};

/// The maximum size of a message's content in bytes. Content other than a single text part counts as JSON.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// The maximum size of a message's metadata in bytes of JSON. It is several times [`MAX_MESSAGE_BYTES`], because
/// converters keep the original object of a message in its metadata, with its escapes.
pub const MAX_METADATA_BYTES: usize = 16 << 20;

/// The session of messages that name none.
pub const DEFAULT_SESSION: &str = "default";

/// Separates the author's name from the text in [`Message::searchable`].
const AUTHOR_END: &str = ": ";

/// A chat message.
///
/// In JSON, content that is a single text part is a string; other content is an array of parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Message {
    /// The id, unique in the namespace, 1 to 512 bytes. Putting a message with a known id replaces the stored message
    /// and keeps its position.
    pub id: String,
    /// The conversation that the message belongs to, 1 to 512 bytes.
    pub session: String,
    /// The role of the author.
    pub role: Role,
    /// The name of the author, if known, 1 to 512 bytes.
    pub name: Option<String>,
    /// The content, in parts.
    #[serde(serialize_with = "serialize_content")]
    #[cfg_attr(feature = "schemars", schemars(with = "JsonContent"))]
    pub content: Vec<ContentPart>,
    /// The time at which the message was written. `None` is stored as unknown and matches no time filter.
    pub created_at: Option<Timestamp>,
    /// The time from which on no read returns the message, and it is deleted in the background. `None`: the namespace's
    /// [time to live](crate::Engine::set_ttl) decides, and without one the message never expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Application data: any JSON object.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl Message {
    /// Creates a text message with a new id (UUIDv7), the current time and the session `default`.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Message::from_parts(role, vec![ContentPart::Text { text: text.into() }])
    }

    /// Same as [`Message::new`] with [`Role::User`].
    pub fn user(text: impl Into<String>) -> Self {
        Message::new(Role::User, text)
    }

    /// Same as [`Message::new`] with [`Role::Assistant`].
    pub fn assistant(text: impl Into<String>) -> Self {
        Message::new(Role::Assistant, text)
    }

    /// Same as [`Message::new`] with [`Role::System`].
    pub fn system(text: impl Into<String>) -> Self {
        Message::new(Role::System, text)
    }

    /// Same as [`Message::new`], with any content, such as the tool calls of an assistant.
    pub fn from_parts(role: Role, content: Vec<ContentPart>) -> Self {
        Message {
            id: new_id(),
            session: DEFAULT_SESSION.to_owned(),
            role,
            name: None,
            content,
            created_at: Some(Timestamp::now()),
            expires_at: None,
            metadata: Map::new(),
        }
    }

    /// Creates a message with the result of a tool call. `id` is the id of the call.
    pub fn tool_result(id: impl Into<String>, content: impl Into<String>) -> Self {
        Message::from_parts(Role::Tool, vec![ContentPart::ToolResult { id: id.into(), content: content.into() }])
    }

    /// Sets the id.
    pub fn with_id(self, id: impl Into<String>) -> Self {
        Message { id: id.into(), ..self }
    }

    /// Sets the session.
    pub fn in_session(self, session: impl Into<String>) -> Self {
        Message { session: session.into(), ..self }
    }

    /// Sets the author's name.
    pub fn by(self, name: impl Into<String>) -> Self {
        Message { name: Some(name.into()), ..self }
    }

    /// Sets the time at which the message was written.
    pub fn at(self, created_at: Timestamp) -> Self {
        Message { created_at: Some(created_at), ..self }
    }

    /// Sets the time from which on no read returns the message.
    pub fn expiring_at(self, expires_at: Timestamp) -> Self {
        Message { expires_at: Some(expires_at), ..self }
    }

    /// Returns true if the message has expired, by the system's clock.
    pub(crate) fn has_expired(&self) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= Timestamp::now())
    }

    /// Returns the texts and tool results of the content, joined by line feeds. Empty if there are none.
    pub fn text(&self) -> String {
        self.borrowed_text().into_owned()
    }

    /// Same as [`Message::text`], borrowed if there is one part at most.
    pub(crate) fn borrowed_text(&self) -> Cow<'_, str> {
        let mut parts = self.content.iter().filter_map(ContentPart::text);
        let mut text = Cow::Borrowed(parts.next().unwrap_or_default());
        for part in parts {
            *text.to_mut() += "\n";
            *text.to_mut() += part;
        }
        text
    }

    /// Returns the text that is embedded and indexed: [`Message::text`], preceded by the author's name if there is one
    /// (`Ada: ...`), because queries ask for what somebody said. Empty if there is no text.
    pub fn searchable(&self) -> String {
        let text = self.borrowed_text();
        match self.author_of(&text) {
            Some(name) => format!("{name}{AUTHOR_END}{text}"),
            None => text.into_owned(),
        }
    }

    /// Returns the number of bytes before `text`, the message's own, in [`Message::searchable`].
    pub(crate) fn bytes_before_text(&self, text: &str) -> usize {
        self.author_of(text).map_or(0, |name| name.len() + AUTHOR_END.len())
    }

    fn author_of(&self, text: &str) -> Option<&str> {
        self.name.as_deref().filter(|_| !text.trim().is_empty())
    }

    /// Returns true if the content has no parts, or only blank texts. The engine stores and lists such a message but
    /// never recalls it, and prompts leave it out.
    pub(crate) fn is_blank(&self) -> bool {
        self.content.iter().all(|part| matches!(part, ContentPart::Text { text } if text.trim().is_empty()))
    }

    /// Returns the bytes of memory that the texts, the arguments of calls, the references and the metadata take.
    pub(crate) fn memory_bytes(&self) -> usize {
        let content = self.content.iter().map(|part| match part {
            ContentPart::ToolCall { arguments, .. } => value_bytes(arguments),
            part => part.text().or(part.media().map(|(_, media)| &*media.uri)).map_or(0, str::len),
        });
        content.sum::<usize>() + object_bytes(&self.metadata)
    }

    /// Checks that [`put`](crate::Engine::put) accepts the message. Empty content is accepted.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`] for an id, session or name that is empty or longer than 512 bytes; content of more than
    /// [`MAX_MESSAGE_BYTES`], or metadata of more than [`MAX_METADATA_BYTES`]; JSON that is nested too deeply to be
    /// parsed (128 levels).
    pub fn check(&self) -> Result<()> {
        check_id("id", &self.id)?;
        check_id("session", &self.session)?;
        if let Some(name) = &self.name {
            check_id("name", name)?;
        }
        // The store keeps a single text as it is and everything else as JSON. The parser must accept that JSON inside the
        // object of a JSON line, which is one level deeper.
        let unreadable = |error| Error::message(format!("the content or metadata cannot be stored as JSON: {error}"));
        let content = match self.content.as_slice() {
            [ContentPart::Text { text }] => text.len(),
            parts => {
                let json = serde_json::to_string(parts).map_err(unreadable)?;
                serde_json::from_str::<[Vec<ContentPart>; 1]>(&format!("[{json}]")).map_err(unreadable)?;
                json.len()
            }
        };
        let metadata = match self.metadata.is_empty() {
            true => 0,
            false => {
                let json = serde_json::to_string(&self.metadata).map_err(unreadable)?;
                serde_json::from_str::<Value>(&format!("[{json}]")).map_err(unreadable)?;
                json.len()
            }
        };
        if content > MAX_MESSAGE_BYTES {
            return Err(Error::message(format!(
                "the content has {content} bytes, the maximum is {MAX_MESSAGE_BYTES}; split the message, or store a reference"
            )));
        }
        if metadata > MAX_METADATA_BYTES {
            return Err(Error::message(format!(
                "the metadata has {metadata} bytes, the maximum is {MAX_METADATA_BYTES}; store a reference"
            )));
        }
        Ok(())
    }
}

/// Returns a new UUIDv7. Such ids sort by the time of their creation.
pub(crate) fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

/// The role of a message's author, as chat models distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions to the model.
    System,
    /// The person or program that the agent serves.
    User,
    /// The model.
    Assistant,
    /// A tool that returns a result.
    Tool,
}

impl Role {
    /// All roles, in the order of their stored numbers.
    pub const ALL: [Role; 4] = [Role::System, Role::User, Role::Assistant, Role::Tool];

    /// Returns the name that the role has in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

impl FromStr for Role {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Role::ALL
            .into_iter()
            .find(|role| role.as_str() == name)
            .ok_or_else(|| Error::message(format!("role {name:?} is not one of system, user, assistant, tool")))
    }
}

/// One part of a message's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ContentPart {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// A request of the model to run a tool.
    ToolCall {
        /// Identifies the call. The result of the call carries the same id.
        id: String,
        /// The name of the tool.
        name: String,
        /// The arguments, any JSON value.
        #[serde(default)]
        arguments: Value,
    },
    /// The result of a tool call.
    ToolResult {
        /// The id of the call.
        id: String,
        /// The result as text.
        content: String,
    },
    /// A reference to an image.
    Image(MediaReference),
    /// A reference to an audio recording.
    Audio(MediaReference),
    /// A reference to a video.
    Video(MediaReference),
    /// A reference to any other file.
    File(MediaReference),
}

impl ContentPart {
    /// Returns the text of a text part or of a tool result.
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            ContentPart::Text { text } => Some(text),
            ContentPart::ToolResult { content, .. } => Some(content),
            _ => None,
        }
    }

    /// Returns the reference of a media or file part, with the part's type in JSON.
    pub(crate) fn media(&self) -> Option<(&'static str, &MediaReference)> {
        match self {
            ContentPart::Image(reference) => Some(("image", reference)),
            ContentPart::Audio(reference) => Some(("audio", reference)),
            ContentPart::Video(reference) => Some(("video", reference)),
            ContentPart::File(reference) => Some(("file", reference)),
            _ => None,
        }
    }
}

/// A reference to media by URI. mnemon stores the reference, not the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MediaReference {
    /// The URI.
    pub uri: String,
    /// The MIME type, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

impl MediaReference {
    /// Splits a `data:` URI into its media type and its base64 data.
    pub(super) fn data(&self) -> Option<(&str, &str)> {
        self.uri.strip_prefix("data:")?.split_once(";base64,")
    }

    /// Returns true if the URI begins with one of `schemes`, such as `https://`.
    pub(super) fn has_scheme(&self, schemes: &[&str]) -> bool {
        schemes.iter().any(|scheme| self.uri.starts_with(scheme))
    }

    /// Formats the reference as text, `[kind: URI]`. The bytes of a `data:` URI are left out.
    pub(super) fn describe(&self, kind: &str) -> String {
        match self.has_scheme(&["data:"]) {
            true => format!("[{kind}]"),
            false => format!("[{kind}: {}]", self.uri),
        }
    }
}

/// The content of a message: a text, or parts.
#[derive(Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(rename = "Content"))]
#[serde(untagged, expecting = "content is a string or an array of parts, each with a known type")]
enum JsonContent {
    Text(String),
    Parts(Vec<ContentPart>),
}

/// Reads content from a string or an array of parts.
pub(super) fn deserialize_content<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ContentPart>, D::Error> {
    Ok(match JsonContent::deserialize(deserializer)? {
        JsonContent::Text(text) => vec![ContentPart::Text { text }],
        JsonContent::Parts(parts) => parts,
    })
}

/// Writes content that is a single text part as a string, other content as an array of parts.
pub(super) fn serialize_content<S: Serializer>(content: &[ContentPart], serializer: S) -> Result<S::Ok, S::Error> {
    match content {
        [ContentPart::Text { text }] => serializer.serialize_str(text),
        parts => parts.serialize(serializer),
    }
}

/// The [searchable](Message::searchable) text of a message. Dereferences to the whole text, and knows how much of it is
/// the author's name.
#[derive(Clone, Debug)]
pub(crate) struct IndexedText {
    text: String,
    name_bytes: usize,
}

impl IndexedText {
    pub(crate) fn of(message: &Message) -> Self {
        let text = message.searchable();
        let name_bytes = message.author_of(&text).map_or(0, str::len);
        IndexedText { text, name_bytes }
    }

    pub(crate) fn name(&self) -> Option<&str> {
        Some(&self.text[..self.name_bytes]).filter(|name| !name.is_empty())
    }
}

impl Deref for IndexedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

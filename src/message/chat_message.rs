//! The chat message, and the rules for what may be stored.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{
    content::{ContentPart, serialize_content},
    role::Role,
    timestamp::Timestamp,
};
use crate::{
    error::{Error, Result},
    ids::check_id,
};

/// The maximum size of a message's content in bytes. Content other than a single text part counts as JSON.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// The maximum size of a message's metadata, as JSON, in bytes: enough for the message itself in the form of another
/// system, with its escapes.
pub const MAX_METADATA_BYTES: usize = 4 << 20;

/// The session of a message that does not name one.
pub const DEFAULT_SESSION: &str = "default";

/// The text between the author's name and the text of a message, in [`Message::searchable`].
const AUTHOR_END: &str = ": ";

/// A chat message.
///
/// In JSON, content that is a single text part is a string; other content is an array of parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    pub content: Vec<ContentPart>,
    /// The time at which the message was written. `None` is stored as unknown and matches no time filter.
    pub created_at: Option<Timestamp>,
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

    /// Creates a message with these parts, such as tool calls of [`Role::Assistant`], with a new id (UUIDv7), the
    /// current time and the session `default`.
    pub fn from_parts(role: Role, content: Vec<ContentPart>) -> Self {
        Message {
            id: new_id(),
            session: DEFAULT_SESSION.to_owned(),
            role,
            name: None,
            content,
            created_at: Some(Timestamp::now()),
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

    pub(super) fn author_of(&self, text: &str) -> Option<&str> {
        self.name.as_deref().filter(|_| !text.trim().is_empty())
    }

    /// Returns true if the content has nothing that a model could read: no parts, or blank texts alone. Such a message
    /// is stored and listed, but not recalled, and prompts leave it out.
    pub(crate) fn is_blank(&self) -> bool {
        self.content.iter().all(|part| matches!(part, ContentPart::Text { text } if text.trim().is_empty()))
    }

    /// Checks everything that [`put`](crate::Engine::put) requires of a message. Its content may be empty.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`] for an id, session or name that is empty or longer than 512 bytes; content of more than
    /// [`MAX_MESSAGE_BYTES`], or metadata of more than [`MAX_METADATA_BYTES`]; JSON that is nested too deeply to be read
    /// again (128 levels).
    pub fn check(&self) -> Result<()> {
        check_id("id", &self.id)?;
        check_id("session", &self.session)?;
        if let Some(name) = &self.name {
            check_id("name", name)?;
        }
        // The store keeps a single text as it is and everything else as JSON. That JSON must be readable again, also
        // one level deeper, inside the object of a JSON line.
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

/// Returns a new id: a UUIDv7, so ids sort by the time of their creation.
pub(crate) fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

//! What is remembered: a chat message, its role, parts and time; and lists of them, counted, changed, cut and chosen from.
//!
//! Owns the JSON form and OpenAI's, lossless both ways, and the rules of what may be stored. Knows nothing of
//! namespaces' contents, vectors or the store.

mod calls;
mod count;
mod line;
mod openai;
mod reduce;
mod select;
mod timestamp;
mod trim;
pub(crate) mod xml;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use calls::{answers, broken_calls};
pub use count::{MessageCounter, MessageTokens};
pub use line::MessageLine;
pub use openai::{from_openai, to_openai, to_openai_lossless};
pub use reduce::{MessageUpdate, add_messages};
pub use select::{MessageSelector, MessageWindow, TokenWindow};
pub use timestamp::Timestamp;
pub use trim::{Splitter, Trim, TrimStrategy, trim_messages};
pub use xml::escape_xml;

use crate::{
    error::{Error, Result},
    ids::check_id,
};

/// The largest message, in bytes of content and metadata together; content other than one text counts as JSON.
pub const MAX_MESSAGE_BYTES: usize = 1 << 20;

/// The session of a message that names none.
pub const DEFAULT_SESSION: &str = "default";

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Instructions to the model.
    System,
    /// The person, or whoever the agent serves.
    User,
    /// The model.
    Assistant,
    /// The result of a tool.
    Tool,
}

impl Role {
    /// All roles, in the order of their stored numbers.
    pub const ALL: [Role; 4] = [Role::System, Role::User, Role::Assistant, Role::Tool];

    /// The name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

impl std::str::FromStr for Role {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Role::ALL
            .into_iter()
            .find(|role| role.as_str() == name)
            .ok_or_else(|| Error::message(format!("role {name:?} is not one of system, user, assistant, tool")))
    }
}

/// One piece of a message's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Part {
    /// Plain text.
    Text {
        /// The text.
        text: String,
    },
    /// The model asks for a tool.
    ToolCall {
        /// Names the call; its result carries the same.
        id: String,
        /// The tool.
        name: String,
        /// Its arguments, any JSON.
        #[serde(default)]
        arguments: Value,
    },
    /// What a tool gave back.
    ToolResult {
        /// The id of the call.
        id: String,
        /// The result as text.
        content: String,
    },
    /// A picture, by reference.
    Image(Reference),
    /// A sound, by reference.
    Audio(Reference),
    /// A video, by reference.
    Video(Reference),
    /// Any other file, by reference.
    File(Reference),
}

/// Where the bytes of a part are. mnemon stores the reference, not the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// A URI.
    pub uri: String,
    /// The MIME type, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
}

/// A chat message.
///
/// In JSON, content that is one text part is a string, other content an array of parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Message {
    /// Unique in its namespace, 1 to 512 bytes. Putting an id again replaces the message in its place.
    pub id: String,
    /// The conversation it belongs to, 1 to 512 bytes.
    pub session: String,
    /// Who speaks.
    pub role: Role,
    /// The speaker's name.
    pub name: Option<String>,
    /// What is said.
    #[serde(serialize_with = "line::serialize_content")]
    pub content: Vec<Part>,
    /// When it was said; `None` is kept as unknown and matches no time filter.
    pub created_at: Option<Timestamp>,
    /// Any JSON object of the user's.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

impl Message {
    /// A text message of now, with a new id (UUIDv7), in the session `default`.
    pub fn new(role: Role, text: impl Into<String>) -> Self {
        Message {
            id: new_id(),
            session: DEFAULT_SESSION.to_owned(),
            role,
            name: None,
            content: vec![Part::Text { text: text.into() }],
            created_at: Some(Timestamp::now()),
            metadata: Map::new(),
        }
    }

    /// [`Message::new`] with [`Role::User`].
    pub fn user(text: impl Into<String>) -> Self {
        Message::new(Role::User, text)
    }

    /// [`Message::new`] with [`Role::Assistant`].
    pub fn assistant(text: impl Into<String>) -> Self {
        Message::new(Role::Assistant, text)
    }

    /// [`Message::new`] with [`Role::System`].
    pub fn system(text: impl Into<String>) -> Self {
        Message::new(Role::System, text)
    }

    /// A message of now with these parts, a new id and the session `default`; such as calls of tools, by [`Role::Assistant`].
    pub fn of_parts(role: Role, content: Vec<Part>) -> Self {
        Message { content, ..Message::new(role, "") }
    }

    /// The result of a tool: `id` is that of the call.
    pub fn tool_result(id: impl Into<String>, content: impl Into<String>) -> Self {
        Message::of_parts(Role::Tool, vec![Part::ToolResult { id: id.into(), content: content.into() }])
    }

    /// The same message with this id.
    pub fn with_id(self, id: impl Into<String>) -> Self {
        Message { id: id.into(), ..self }
    }

    /// The same message in this session.
    pub fn in_session(self, session: impl Into<String>) -> Self {
        Message { session: session.into(), ..self }
    }

    /// The same message by this speaker.
    pub fn by(self, name: impl Into<String>) -> Self {
        Message { name: Some(name.into()), ..self }
    }

    /// The same message at this time.
    pub fn at(self, created_at: Timestamp) -> Self {
        Message { created_at: Some(created_at), ..self }
    }

    /// Texts and tool results, a line each. Empty if there is none.
    pub fn text(&self) -> String {
        let texts: Vec<&str> = self
            .content
            .iter()
            .filter_map(|part| match part {
                Part::Text { text } => Some(text.as_str()),
                Part::ToolResult { content, .. } => Some(content.as_str()),
                _ => None,
            })
            .collect();
        texts.join("\n")
    }

    /// Whether its [text](Message::text) is this one.
    pub(crate) fn says(&self, text: &str) -> bool {
        match self.content.as_slice() {
            [Part::Text { text: own }] => own == text,
            _ => self.text() == text,
        }
    }

    /// What is embedded: [`Message::text`], after the speaker's name if there is one (`Ada: ...`), since questions ask
    /// for what somebody said. Empty if there is no text.
    pub fn searchable(&self) -> String {
        let text = self.text();
        match &self.name {
            Some(name) if !text.trim().is_empty() => format!("{name}: {text}"),
            _ => text,
        }
    }

    /// Checks all that [`put`](crate::Engine::put) requires of a message.
    ///
    /// # Errors
    /// [`Error::InvalidMessage`]: an id, session or name that is empty or over 512 bytes; content that is empty or
    /// only white space; more than [`MAX_MESSAGE_BYTES`]; JSON nested too deeply to be read again (128 levels).
    pub fn check(&self) -> Result<()> {
        check_id("id", &self.id)?;
        check_id("session", &self.session)?;
        if let Some(name) = &self.name {
            check_id("name", name)?;
        }
        let blank = |part: &Part| matches!(part, Part::Text { text } if text.trim().is_empty());
        if self.content.iter().all(blank) {
            return Err(Error::message("the content is empty"));
        }
        // As it is stored: one text as it is, all else as JSON, which must be readable again, also inside of a line's object.
        let unreadable = |error| Error::message(format!("the content or metadata cannot be stored: {error}"));
        let content = match self.content.as_slice() {
            [Part::Text { text }] => text.len(),
            parts => {
                let json = serde_json::to_string(parts).map_err(unreadable)?;
                serde_json::from_str::<[Vec<Part>; 1]>(&format!("[{json}]")).map_err(unreadable)?;
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
        let bytes = content + metadata;
        if bytes > MAX_MESSAGE_BYTES {
            return Err(Error::message(format!(
                "{bytes} bytes of content and metadata, more than {MAX_MESSAGE_BYTES}; split it, or store a reference"
            )));
        }
        Ok(())
    }
}

/// A new id: UUIDv7, so ids sort by the time they were made.
pub(crate) fn new_id() -> String {
    uuid::Uuid::now_v7().to_string()
}

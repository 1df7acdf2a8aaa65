//! Whose words a message is, and which messages it supersedes. Both are kept in its metadata, so that filters, exports and
//! replicas have them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::chat_message::{Message, Role};
use crate::error::{Error, Result};

/// The key of the source in [`Message::metadata`].
const SOURCE: &str = "source";
/// The key of the ids that the message supersedes: a text, or a list of texts.
const SUPERSEDES: &str = "supersedes";

/// Whose words the text of a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The person whom the agent serves wrote it.
    User,
    /// The model wrote it.
    Assistant,
    /// A tool returned it.
    Tool,
    /// It is from the web.
    Web,
    /// It is from a file or another program, and others may have written it.
    Import,
}

impl Source {
    /// All sources.
    pub const ALL: [Source; 5] = [Source::User, Source::Assistant, Source::Tool, Source::Web, Source::Import];

    /// Returns the name that the source has in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Source::User => "user",
            Source::Assistant => "assistant",
            Source::Tool => "tool",
            Source::Web => "web",
            Source::Import => "import",
        }
    }

    /// Returns the source of a message with this metadata and role.
    pub(crate) fn of(metadata: &Map<String, Value>, role: Role) -> Option<Source> {
        Source::stated(metadata).or(match role {
            Role::System => None,
            Role::User => Some(Source::User),
            Role::Assistant => Some(Source::Assistant),
            Role::Tool => Some(Source::Tool),
        })
    }

    /// Returns the source that the metadata state. Any other value under the key is the application's.
    fn stated(metadata: &Map<String, Value>) -> Option<Source> {
        metadata.get(SOURCE)?.as_str()?.parse().ok()
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Source {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let known = Source::ALL.into_iter().find(|source| source.as_str() == name);
        known.ok_or_else(|| Error::message(format!("source {name:?} is not one of user, assistant, tool, web, import")))
    }
}

impl Message {
    /// Says whose words the text is. It is kept in the metadata, under `source`. Filters see it as `$source`, and prompts show
    /// it where the role does not say it.
    pub fn from_source(mut self, source: Source) -> Self {
        self.metadata.insert(SOURCE.to_owned(), source.as_str().into());
        self
    }

    /// Returns whose words the text is: what [`from_source`](Self::from_source) said, or else what the role says. `None` for a
    /// system message.
    pub fn source(&self) -> Option<Source> {
        Source::of(&self.metadata, self.role)
    }

    /// Returns the source if the role says another one.
    pub(crate) fn unusual_source(&self) -> Option<Source> {
        self.source().filter(|&source| Some(source) != Source::of(&Map::new(), self.role))
    }

    /// Says that the message takes the place of an earlier one of its namespace, by its id: a recall no longer finds that one,
    /// unless it [asks for it](crate::Query::include_superseded), or is [as of](crate::Query::as_of) a time before this
    /// message. The earlier one is valid again when this message is deleted. The ids are kept in the metadata, under
    /// `supersedes`. Of two messages that supersede each other, the one that was put later counts.
    ///
    /// ```
    /// use mnemon::Message;
    /// let corrected = Message::user("The dose for the cat is 10 mg.").supersedes("dose-1");
    /// assert_eq!(corrected.superseded_ids(), ["dose-1"]);
    /// ```
    pub fn supersedes(mut self, id: impl Into<String>) -> Self {
        let mut ids: Vec<String> = self.superseded_ids().into_iter().map(str::to_owned).collect();
        ids.push(id.into());
        set_superseded(&mut self.metadata, ids);
        self
    }

    /// Returns the ids of the messages that this one supersedes.
    pub fn superseded_ids(&self) -> Vec<&str> {
        superseded_ids(&self.metadata)
    }
}

/// Keeps the ids of the messages that a message supersedes in its metadata.
pub(super) fn set_superseded(metadata: &mut Map<String, Value>, ids: Vec<String>) {
    metadata.insert(SUPERSEDES.to_owned(), ids.into());
}

/// Returns the ids that the metadata of a message say it supersedes. Anything else under the key is the application's.
fn superseded_ids(metadata: &Map<String, Value>) -> Vec<&str> {
    match metadata.get(SUPERSEDES) {
        Some(Value::String(id)) => vec![id],
        Some(Value::Array(ids)) => ids.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Same as [`Message::superseded_ids`], of metadata as JSON.
pub(crate) fn superseded_in_json(metadata: &str) -> Vec<String> {
    if !metadata.contains("\"supersedes\"") {
        return Vec::new();
    }
    let metadata: Map<String, Value> = serde_json::from_str(metadata).unwrap_or_default();
    superseded_ids(&metadata).into_iter().map(str::to_owned).collect()
}

/// The ids of superseded messages, as a line has them: one, or a list.
#[derive(Deserialize)]
#[serde(untagged, expecting = "supersedes is the id of a message, or a list of ids")]
pub(super) enum SupersededIds {
    One(String),
    Several(Vec<String>),
}

impl SupersededIds {
    pub(super) fn into_list(self) -> Vec<String> {
        match self {
            SupersededIds::One(id) => vec![id],
            SupersededIds::Several(ids) => ids,
        }
    }
}

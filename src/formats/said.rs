//! A message of a chat, before it is one of ours: who said what, when, and where.

use serde_json::Value;

use super::reader::ReadOptions;
use crate::message::{ContentPart, DEFAULT_SESSION, MediaReference, Message, MessageLine, Role, Source, Timestamp};

/// The key in [`Message::metadata`] that marks what the person said whose name is [`ReadOptions::me`].
const ME: &str = "me";

/// What somebody said.
pub(super) struct Said {
    pub(super) role: Role,
    /// The name of the speaker.
    pub(super) name: Option<String>,
    pub(super) parts: Vec<ContentPart>,
    pub(super) time: Option<Timestamp>,
    pub(super) session: String,
    /// The id that the file has, unique in its session.
    pub(super) id: Option<String>,
}

impl Said {
    /// Creates a message of the user.
    pub(super) fn by_user(session: impl Into<String>, text: impl Into<String>) -> Self {
        Said {
            role: Role::User,
            name: None,
            parts: vec![text_part(text)],
            time: None,
            session: session.into(),
            id: None,
        }
    }

    /// Makes a message of it, or `None` if it says nothing.
    pub(super) fn into_line(mut self, options: &ReadOptions) -> Option<MessageLine> {
        self.parts.retain(|part| part.text().is_none_or(|text| !text.trim().is_empty()));
        if self.parts.is_empty() {
            return None;
        }
        let mut message = Message::from_parts(self.role, self.parts);
        message.session = if self.session.is_empty() { DEFAULT_SESSION.to_owned() } else { self.session };
        // Several exports, and copies of a conversation, may repeat the ids.
        let has_id = self.id.is_some();
        if let Some(id) = self.id {
            message.id = format!("{}/{id}", message.session);
        }
        message.created_at = self.time;
        message.name = self.name.filter(|name| !name.trim().is_empty());
        if options.me.is_some() && message.name == options.me {
            message.metadata.insert(ME.to_owned(), true.into());
        } else if options.me.is_some() && message.name.is_some() && message.role == Role::User {
            message = message.from_source(Source::Import);
        }
        Some(MessageLine { namespace: None, message, has_id })
    }
}

pub(super) fn text_part(text: impl Into<String>) -> ContentPart {
    ContentPart::Text { text: text.into() }
}

/// Creates a part for a file of which an export has the name alone.
pub(super) fn file_part(name: &str) -> ContentPart {
    ContentPart::File(MediaReference { uri: name.to_owned(), media_type: None })
}

/// Returns a text that is not blank.
pub(super) fn filled(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.trim().is_empty())
}

/// Returns the moment of a time as text in RFC 3339.
pub(super) fn moment(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Returns the moment of a number of units since 1970, as a number or as text.
pub(super) fn since_1970(value: &Value, units_per_second: f64) -> Option<Timestamp> {
    let units = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
    // Lossless for whole seconds and milliseconds, and exact to a microsecond for Slack's texts.
    Timestamp::from_micros((units / units_per_second * 1e6).round() as i64)
}

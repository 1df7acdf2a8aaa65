//! Reads the memories of mem0.

use serde_json::Value;

#[cfg(doc)]
use super::chat_message::Message;
use super::{
    exact::imported,
    fields::{Object, Result, read_each, role, text, text_part, unread},
    json_line::MessageLine,
    role::Role,
    timestamp::Timestamp,
};
use crate::error::Error;

/// The key in [`Message::metadata`] of the fields that a message has no place for.
const SOURCE: &str = "mem0";

/// Reads memories as mem0's `get_all` and its exports list them: `{"id", "memory", "created_at", "user_id", ...}`.
///
/// A memory becomes a message with its text, id and time. The role is the memory's, if it has one, or else
/// [`Role::User`], because memories are about the user. The session is `run_id`, or else `mem0`. All other fields are
/// kept in `metadata["mem0"]` unless they are empty.
///
/// Each memory is read by itself, as the messages by [`from_langchain`](crate::from_langchain).
///
/// # Errors
/// [`Error::InvalidMessage`] with the index, for a value of another form.
pub fn from_mem0(memories: &[Value]) -> impl Iterator<Item = crate::error::Result<MessageLine>> {
    read_each(memories, "memories", read_memory)
}

fn read_memory(object: &Object) -> Result<MessageLine> {
    let Some(memory) = text(object, "memory")? else {
        return Err("memory is missing".to_owned());
    };
    let role = match text(object, "role")? {
        None => Role::User,
        Some(name) => role(name)?,
    };
    let id = text(object, "id")?;
    let mut message = imported(role, None, vec![text_part(memory)]);
    message.id = id.map_or(message.id, str::to_owned);
    message.session = text(object, "run_id")?.unwrap_or("mem0").to_owned();
    message.created_at = text(object, "created_at")?.map(time).transpose()?;
    let unread = unread(object, &["memory", "role", "id", "run_id", "created_at"]);
    if !unread.is_empty() {
        message.metadata.insert(SOURCE.to_owned(), unread.into());
    }
    Ok(MessageLine { namespace: None, message, has_id: id.is_some() })
}

/// Reads a time in ISO 8601, which is in UTC unless it says otherwise, or a date.
fn time(text: &str) -> Result<Timestamp> {
    let text = text.replacen(' ', "T", 1);
    let time = text.parse().or_else(|_| format!("{text}Z").parse());
    time.map_err(|_: Error| format!("created_at {text:?} is not a time such as \"2024-05-01T09:30:00Z\""))
}

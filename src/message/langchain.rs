//! Reads the messages of LangChain's `messages_to_dict`.

use serde_json::{Value, json};

#[cfg(doc)]
use super::chat_message::Message;
use super::{
    exact::imported,
    fields::{Object, Result, inner, read_each, required, text, unread},
    json_line::MessageLine,
    openai,
};
#[cfg(doc)]
use crate::error::Error;

/// The key in [`Message::metadata`] of the fields that a message has no place for.
const SOURCE: &str = "langchain";

/// The fields that are read, or that say nothing more than those.
const READ: [&str; 8] = ["content", "type", "name", "id", "tool_calls", "tool_call_id", "role", "example"];

/// Reads messages as LangChain's `messages_to_dict` writes them: `{"type": "human", "data": {"content", ...}}`. Chat
/// histories of LangChain are stored in this form.
///
/// The session is `default`. Fields without a counterpart, such as `response_metadata`, are kept in
/// `metadata["langchain"]` unless they are empty. Each message is read by itself, so a program chooses whether one that
/// cannot be read is skipped; `collect::<Result<Vec<_>>>()` stops at the first.
///
/// # Errors
/// [`Error::InvalidMessage`] with the index, for a value of another form or an unknown type.
pub fn from_langchain(messages: &[Value]) -> impl Iterator<Item = crate::error::Result<MessageLine>> {
    read_each(messages, "messages", read_message)
}

fn read_message(object: &Object) -> Result<MessageLine> {
    let data = inner(object, "data")?;
    let kind = required(object, "type")?;
    let role = match kind.strip_suffix("MessageChunk").unwrap_or(kind) {
        "human" | "Human" => "user",
        "ai" | "AI" => "assistant",
        "system" | "System" => "system",
        "tool" | "Tool" => "tool",
        "function" | "Function" => "function",
        "chat" | "Chat" => required(data, "role")?,
        other => {
            return Err(format!("type {other:?} is not one of human, ai, system, tool, function, chat"));
        }
    };
    // Content and calls of tools have almost the form of OpenAI.
    let mut equivalent = Object::new();
    equivalent.insert("role".to_owned(), role.into());
    equivalent.insert("content".to_owned(), data.get("content").map_or(Value::Null, content));
    for field in ["name", "tool_call_id"] {
        equivalent.insert(field.to_owned(), data.get(field).cloned().unwrap_or_default());
    }
    equivalent.insert("tool_calls".to_owned(), tool_calls(data));
    let fields = openai::decode(&equivalent)?;
    let id = text(data, "id")?.filter(|id| !id.is_empty());
    let mut message = imported(fields.role, fields.name, fields.content);
    message.id = id.map_or(message.id, str::to_owned);
    let unread = unread(data, &READ);
    if !unread.is_empty() {
        message.metadata.insert(SOURCE.to_owned(), unread.into());
    }
    Ok(MessageLine { namespace: None, message, has_id: id.is_some() })
}

/// Returns the content without the forms that OpenAI's does not have: parts that are strings, images that are URLs, and
/// calls of tools, which the field `tool_calls` has as well.
fn content(content: &Value) -> Value {
    let Value::Array(parts) = content else { return content.clone() };
    let part = |part: &Value| match (part, part.get("type").and_then(Value::as_str)) {
        (Value::String(text), _) => Some(json!({"type": "text", "text": text})),
        (_, Some("tool_use")) => None,
        (_, Some("image_url")) if part["image_url"].is_string() => {
            Some(json!({"type": "image_url", "image_url": {"url": part["image_url"]}}))
        }
        _ => Some(part.clone()),
    };
    parts.iter().filter_map(part).collect()
}

/// Returns the calls of tools in OpenAI's form, in which `additional_kwargs` has them already.
fn tool_calls(data: &Object) -> Value {
    match data.get("tool_calls").and_then(Value::as_array) {
        Some(calls) if !calls.is_empty() => {
            let call =
                |call: &Value| json!({"id": call["id"], "function": {"name": call["name"], "arguments": call["args"]}});
            calls.iter().map(call).collect()
        }
        _ => data.get("additional_kwargs").and_then(|more| more.get("tool_calls")).cloned().unwrap_or_default(),
    }
}

//! Readers for the messages that LangChain, LlamaIndex and mem0 store.
//!
//! Each reader returns an iterator with one result per message, so that a program can skip a message that cannot be read. Fields that a message does not have are kept in its metadata under the name of the framework.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{
    chat_message::{ContentPart, MediaReference, Message, Role},
    extension::imported,
    fields::{Object, Result, as_object, inner, read_each, required, role, text, text_part, tool_result, unread},
    json_line::MessageLine,
    openai,
    timestamp::Timestamp,
};
use crate::error::Error;

/// The id of a `RemoveMessage` that removes all messages before it.
const REMOVE_ALL: &str = "__remove_all__";
/// The roles of OpenAI's format.
const CHAT_ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];
/// The fields of LangChain's messages that are read, or that only repeat others.
const LANGCHAIN_FIELDS: [&str; 8] = ["content", "type", "name", "id", "tool_calls", "tool_call_id", "role", "example"];

/// Reads messages as LangChain's `messages_to_dict` writes them: `{"type": "human", "data": {"content", ...}}`. Chat
/// histories of LangChain are stored in this form. Objects of `dumps`, with `lc` and `kwargs`, and flat ones of `model_dump` and of
/// LangGraph's API are read, too. A `RemoveMessage` removes a message before it. A `ChatMessage` whose role is none of
/// OpenAI's is a message of the user, with the role as its speaker's name.
///
/// The session is `default`. Fields without a counterpart, such as `response_metadata`, are kept in
/// `metadata["langchain"]` unless they are empty. Each message is read separately, so that a program can skip a message
/// that cannot be read; `collect::<Result<Vec<_>>>()` stops at the first such message.
///
/// # Errors
/// [`Error::InvalidMessage`] with the index, for a value of another form or an unknown type.
pub fn from_langchain(messages: &[Value]) -> impl Iterator<Item = crate::error::Result<MessageLine>> {
    let removed = removed_by_langchain(messages);
    let read = read_each(messages, "messages", read_langchain);
    read.enumerate().filter(move |(at, _)| !removed.contains(at)).map(|(_, message)| message)
}

/// Returns the places of messages that a later one removes, and of those that remove.
fn removed_by_langchain(messages: &[Value]) -> HashSet<usize> {
    let mut removed = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        let Some(("remove", data)) = message.as_object().and_then(|message| langchain_parts(message).ok()) else {
            continue;
        };
        let is_removed = |before: &Value| {
            let id =
                before.as_object().and_then(|before| langchain_parts(before).ok()).and_then(|(_, data)| data.get("id"));
            data.get("id").is_some_and(|removed| removed == REMOVE_ALL || Some(removed) == id)
        };
        removed.extend((0..at).filter(|before| is_removed(&messages[*before])));
        removed.insert(at);
    }
    removed
}

/// Returns the type of a message and the object with its fields, in each of LangChain's three forms.
fn langchain_parts(object: &Object) -> Result<(&str, &Object)> {
    if object.contains_key("lc") {
        let class = object.get("id").and_then(Value::as_array).and_then(|path| path.last()?.as_str());
        let class = class.ok_or("\"id\" does not end with the name of a class")?;
        let kind = class.strip_suffix("MessageChunk").or_else(|| class.strip_suffix("Message")).unwrap_or(class);
        return Ok((if kind == "Remove" { "remove" } else { kind }, inner(object, "kwargs")?));
    }
    let kind = required(object, "type")?;
    let is_flat = !object.contains_key("data") && (object.contains_key("content") || kind == "remove");
    Ok((kind, if is_flat { object } else { inner(object, "data")? }))
}

fn read_langchain(object: &Object) -> Result<MessageLine> {
    let (kind, data) = langchain_parts(object)?;
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
    // A role that is the program's own, such as that of a character, is the name of who speaks.
    let (role, speaker) = if CHAT_ROLES.contains(&role) { (role, None) } else { ("user", Some(role.to_owned())) };
    // Content and tool calls have almost the form of OpenAI's format.
    let mut equivalent = Object::new();
    equivalent.insert("role".to_owned(), role.into());
    equivalent.insert("content".to_owned(), data.get("content").map_or(Value::Null, openai_content));
    for field in ["name", "tool_call_id"] {
        equivalent.insert(field.to_owned(), data.get(field).cloned().unwrap_or_default());
    }
    equivalent.insert("tool_calls".to_owned(), openai_calls(data));
    let fields = openai::decode(&equivalent)?;
    let id = text(data, "id")?.filter(|id| !id.is_empty());
    let mut message = imported(fields.role, fields.name.or(speaker), fields.content);
    message.id = id.map_or(message.id, str::to_owned);
    keep(&mut message, "langchain", unread(data, &LANGCHAIN_FIELDS));
    Ok(MessageLine { namespace: None, message, has_id: id.is_some() })
}

/// Converts content to OpenAI's form: a part that is a string becomes a text part, an image's URL becomes an object, and
/// tool calls are left out, because the field `tool_calls` has them too.
fn openai_content(content: &Value) -> Value {
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

/// Returns the tool calls in OpenAI's form. Those in `additional_kwargs` have that form already.
fn openai_calls(data: &Object) -> Value {
    match data.get("tool_calls").and_then(Value::as_array) {
        Some(calls) if !calls.is_empty() => {
            let call =
                |call: &Value| json!({"id": call["id"], "function": {"name": call["name"], "arguments": call["args"]}});
            calls.iter().map(call).collect()
        }
        _ => data.get("additional_kwargs").and_then(|more| more.get("tool_calls")).cloned().unwrap_or_default(),
    }
}

/// Reads messages as LlamaIndex writes its `ChatMessage` as JSON: `{"role", "blocks", "additional_kwargs"}`, or with
/// `content` in place of `blocks`, as versions before 0.12 did. Chat stores of LlamaIndex are stored in this form.
///
/// The messages get new ids and the session `default`. Tool calls are read from the blocks and from
/// `additional_kwargs`. Blocks and fields without a counterpart are kept in `metadata["llamaindex"]`. Each message is
/// read separately, as by [`from_langchain`](crate::from_langchain).
///
/// # Errors
/// [`Error::InvalidMessage`] with the index, for a value of another form or an unknown role.
pub fn from_llamaindex(messages: &[Value]) -> impl Iterator<Item = crate::error::Result<MessageLine>> {
    read_each(messages, "messages", read_llamaindex)
}

fn read_llamaindex(object: &Object) -> Result<MessageLine> {
    let role = match required(object, "role")? {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" | "chatbot" | "model" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        other => {
            return Err(format!(
                "role {other:?} is not one of system, developer, user, assistant, chatbot, model, tool, function"
            ));
        }
    };
    let mut kept = unread(object, &["role", "content", "blocks", "additional_kwargs"]);
    let mut content = Vec::new();
    match (object.get("blocks"), object.get("content")) {
        (Some(Value::Array(blocks)), _) => {
            let mut unknown = Vec::new();
            for (index, block) in blocks.iter().enumerate() {
                let part =
                    as_object(block).and_then(read_block).map_err(|reason| format!("blocks[{index}]: {reason}"))?;
                match part {
                    Some(part) => content.push(part),
                    None => unknown.push(block.clone()),
                }
            }
            if !unknown.is_empty() {
                kept.insert("blocks".to_owned(), unknown.into());
            }
        }
        (None | Some(Value::Null), Some(Value::String(text))) => content.push(text_part(text)),
        (None | Some(Value::Null), None | Some(Value::Null)) => {}
        _ => return Err("blocks is not an array, or content is not a string".to_owned()),
    }
    let nothing = Object::new();
    let more = match object.get("additional_kwargs") {
        None | Some(Value::Null) => &nothing,
        Some(more) => as_object(more).map_err(|_| "additional_kwargs is not an object")?,
    };
    let has_calls = content.iter().any(|part| matches!(part, ContentPart::ToolCall { .. }));
    if let Some(calls) = more.get("tool_calls").filter(|_| !has_calls) {
        let mut equivalent = Object::new();
        equivalent.insert("role".to_owned(), "assistant".into());
        equivalent.insert("tool_calls".to_owned(), calls.clone());
        content.extend(openai::decode(&equivalent)?.content);
    }
    let name = text(more, "name")?.filter(|name| !name.is_empty());
    if role == Role::Tool
        && let Some(id) = text(more, "tool_call_id")?
    {
        content = tool_result(id, content);
    }
    let more = unread(more, &["tool_calls", "tool_call_id", "name"]);
    if !more.is_empty() {
        kept.insert("additional_kwargs".to_owned(), more.into());
    }
    let mut message = imported(role, name.map(str::to_owned), content);
    keep(&mut message, "llamaindex", kept);
    Ok(MessageLine { namespace: None, message, has_id: false })
}

/// Reads a content block. Returns `None` if a message has no such part.
fn read_block(block: &Object) -> Result<Option<ContentPart>> {
    let media = |data: &str, media_type: &str| media(block, data, media_type);
    Ok(match required(block, "block_type")? {
        "text" => Some(text_part(required(block, "text")?)),
        "image" => media("image", "image_mimetype")?.map(ContentPart::Image),
        "audio" => media("audio", "format")?.map(ContentPart::Audio),
        "video" => media("video", "video_mimetype")?.map(ContentPart::Video),
        "document" => media("data", "document_mimetype")?.map(ContentPart::File),
        "tool_call" => Some(ContentPart::ToolCall {
            id: text(block, "tool_call_id")?.unwrap_or_default().to_owned(),
            name: required(block, "tool_name")?.to_owned(),
            arguments: block.get("tool_kwargs").cloned().unwrap_or_default(),
        }),
        _ => None,
    })
}

/// Reads a reference to media: its URL, its path, or its data in base64.
fn media(block: &Object, data: &str, media_type: &str) -> Result<Option<MediaReference>> {
    let media_type = text(block, media_type)?.map(str::to_owned);
    let uri = match (text(block, "url")?, text(block, "path")?, text(block, data)?) {
        (Some(uri), ..) | (None, Some(uri), _) => uri.to_owned(),
        (None, None, Some(data)) if data.starts_with("data:") => data.to_owned(),
        (None, None, Some(data)) => {
            format!("data:{};base64,{data}", media_type.as_deref().unwrap_or("application/octet-stream"))
        }
        (None, None, None) => return Ok(None),
    };
    Ok(Some(MediaReference { uri, media_type }))
}

/// Reads memories as mem0's `get_all` and its exports list them: `{"id", "memory", "created_at", "user_id", ...}`.
///
/// A memory becomes a message with its text, id and time. The role is the memory's, if it has one, or else
/// [`Role::User`], because memories are about the user. The session is `run_id`, or else `mem0`. All other fields are
/// kept in `metadata["mem0"]` unless they are empty. Each memory is read separately, as by
/// [`from_langchain`](crate::from_langchain).
///
/// # Errors
/// [`Error::InvalidMessage`] with the index, for a value of another form.
pub fn from_mem0(memories: &[Value]) -> impl Iterator<Item = crate::error::Result<MessageLine>> {
    read_each(memories, "memories", read_mem0)
}

fn read_mem0(object: &Object) -> Result<MessageLine> {
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
    message.created_at = text(object, "created_at")?.map(parse_time).transpose()?;
    keep(&mut message, "mem0", unread(object, &["memory", "role", "id", "run_id", "created_at"]));
    Ok(MessageLine { namespace: None, message, has_id: id.is_some() })
}

/// Parses a date, or a time in ISO 8601, which is in UTC if it states no offset.
fn parse_time(text: &str) -> Result<Timestamp> {
    let text = text.replacen(' ', "T", 1);
    let time = text.parse().or_else(|_| format!("{text}Z").parse());
    time.map_err(|_: Error| format!("created_at {text:?} is not a time such as \"2024-05-01T09:30:00Z\""))
}

/// Keeps the fields that a message cannot express in its metadata, under the name of the framework.
fn keep(message: &mut Message, framework: &str, fields: Object) {
    if !fields.is_empty() {
        message.metadata.insert(framework.to_owned(), fields.into());
    }
}

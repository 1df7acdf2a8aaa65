//! Reads LlamaIndex's `ChatMessage` as JSON.

use serde_json::Value;

use super::{
    chat_message::Message,
    content::{ContentPart, MediaReference},
    exact::imported,
    fields::{Object, Result, as_object, read_each, required, text, text_part, tool_result, unread},
    json_line::MessageLine,
    openai,
    role::Role,
};
#[cfg(doc)]
use crate::error::Error;

/// The key in [`Message::metadata`] of what a message has no place for.
const SOURCE: &str = "llamaindex";

/// Reads messages as LlamaIndex writes its `ChatMessage` as JSON: `{"role", "blocks", "additional_kwargs"}`, or with
/// `content` in place of `blocks`, as versions before 0.12 did. Chat stores of LlamaIndex are stored in this form.
///
/// The messages get new ids and the session `default`. Calls of tools are read from the blocks and from
/// `additional_kwargs`. Blocks and fields without a counterpart are kept in `metadata["llamaindex"]`.
///
/// Each message is read by itself, as by [`from_langchain`](crate::from_langchain).
///
/// # Errors
/// [`Error::InvalidMessage`] with the index, for a value of another form or an unknown role.
pub fn from_llamaindex(messages: &[Value]) -> impl Iterator<Item = crate::error::Result<MessageLine>> {
    read_each(messages, "messages", read_message)
}

fn read_message(object: &Object) -> Result<MessageLine> {
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
    let mut message: Message = imported(role, name.map(str::to_owned), content);
    if !kept.is_empty() {
        message.metadata.insert(SOURCE.to_owned(), kept.into());
    }
    Ok(MessageLine { namespace: None, message, has_id: false })
}

/// Reads a block; `None` if it has no counterpart.
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

/// Reads a reference to media, by its URL, its path, or its data in base64.
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

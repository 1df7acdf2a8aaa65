//! Decoding of a message of Anthropic's format. Fields and blocks without a counterpart in a message are skipped.

use serde_json::Value;

use crate::message::{
    content::{ContentPart, MediaReference},
    fields::{Object, Result, as_object, inner, reference, required, text, text_part, tool_result},
    turns::{Author, Draft},
};

/// Decodes a message.
pub(super) fn turn(message: &Object) -> Result<Vec<Draft>> {
    let author = match required(message, "role")? {
        // In the lossless form, the system's messages are in the list.
        "system" => Author::System,
        "user" => Author::User,
        "assistant" => Author::Model,
        other => return Err(format!("role {other:?} is not one of user, assistant, system")),
    };
    // Without an error, the calls would be lost.
    if message.contains_key("tool_calls") {
        return Err("tool_calls is a field of OpenAI's format; read the conversation with from_openai".to_owned());
    }
    let content = message.get("content").ok_or("content is missing")?;
    Ok(Draft::split(author, blocks(content)?))
}

/// Decodes content, a text or an array of blocks. Each block becomes no, one or several parts.
pub(super) fn blocks(content: &Value) -> Result<Vec<Vec<ContentPart>>> {
    match content {
        Value::String(text) => Ok(vec![vec![text_part(text)]]),
        Value::Array(blocks) => {
            let block = |(index, value)| {
                as_object(value).and_then(block).map_err(|reason| format!("content[{index}]: {reason}"))
            };
            blocks.iter().enumerate().map(block).collect()
        }
        _ => Err("content is not a string or an array of blocks".to_owned()),
    }
}

fn block(block: &Object) -> Result<Vec<ContentPart>> {
    let id = |field| required(block, field).map(str::to_owned);
    Ok(match required(block, "type")? {
        "text" => vec![text_part(required(block, "text")?)],
        "image" => media(inner(block, "source")?)?.map(ContentPart::Image).into_iter().collect(),
        "document" => document(inner(block, "source")?)?,
        "tool_use" => {
            let arguments = block.get("input").cloned().unwrap_or_default();
            vec![ContentPart::ToolCall { id: id("id")?, name: id("name")?, arguments }]
        }
        "tool_result" => {
            let content = block.get("content").filter(|content| !content.is_null());
            let content = content.map(blocks).transpose()?.unwrap_or_default();
            tool_result(&id("tool_use_id")?, content.concat())
        }
        _ => Vec::new(),
    })
}

/// Decodes the source of a document: its text, or a reference to it.
fn document(source: &Object) -> Result<Vec<ContentPart>> {
    Ok(match required(source, "type")? {
        "text" => vec![text_part(required(source, "data")?)],
        "content" => blocks(source.get("content").unwrap_or(&Value::Null))?.concat(),
        _ => media(source)?.map(ContentPart::File).into_iter().collect(),
    })
}

/// Decodes the source of an image or a document. `None` for an unknown type.
fn media(source: &Object) -> Result<Option<MediaReference>> {
    Ok(match required(source, "type")? {
        "base64" => {
            let media_type = text(source, "media_type")?.unwrap_or_default();
            Some(reference(format!("data:{media_type};base64,{}", required(source, "data")?)))
        }
        "url" => Some(reference(required(source, "url")?)),
        "file" => Some(reference(required(source, "file_id")?)),
        _ => None,
    })
}

//! Decoding of an OpenAI message object. Fields and content parts without a counterpart in a message are skipped.

use serde_json::Value;

use crate::message::{
    chat_message::Message,
    content::ContentPart,
    fields::{Object, Result, as_object, inner, reference, required, text, text_part, tool_result},
    role::Role,
};

/// The fields that a message and an OpenAI object have in common.
pub(in crate::message) struct CommonFields {
    pub(in crate::message) role: Role,
    pub(in crate::message) name: Option<String>,
    pub(in crate::message) content: Vec<ContentPart>,
}

impl CommonFields {
    /// Returns true if the message has these values.
    pub(super) fn agree_with(&self, message: &Message) -> bool {
        self.role == message.role && self.name == message.name && self.content == message.content
    }
}

/// Decodes an object. The error is the reason alone, without the object's index.
pub(in crate::message) fn decode(object: &Object) -> Result<CommonFields> {
    let role = match required(object, "role")? {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        other => {
            return Err(format!("role {other:?} is not one of system, developer, user, assistant, tool, function"));
        }
    };
    if object.contains_key("parts") && !object.contains_key("content") {
        return Err("parts is a field of Gemini's format; read the conversation with from_gemini".to_owned());
    }
    let name = text(object, "name")?.filter(|name| !name.is_empty());
    let mut content = decode_content(object)?;
    content.extend(text(object, "refusal")?.map(text_part));
    let transcript = object.get("audio").and_then(|audio| audio.get("transcript")).and_then(Value::as_str);
    content.extend(transcript.map(text_part));
    content.extend(decode_calls(object)?);
    let call_id = match (role, object.get("role")) {
        (Role::Tool, Some(Value::String(role_name))) if role_name == "function" => name,
        (Role::Tool, _) => text(object, "tool_call_id")?,
        _ => None,
    };
    if let Some(id) = call_id {
        content = tool_result(id, content);
    }
    Ok(CommonFields { role, name: name.map(str::to_owned), content })
}

fn decode_content(object: &Object) -> Result<Vec<ContentPart>> {
    match object.get("content") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text_part(text)]),
        Some(Value::Array(parts)) => {
            let part = |(index, part)| {
                let part = as_object(part).and_then(decode_part);
                part.map_err(|reason| format!("content[{index}]: {reason}")).transpose()
            };
            parts.iter().enumerate().filter_map(part).collect()
        }
        Some(_) => Err("content is not a string, an array of parts or null".to_owned()),
    }
}

/// Decodes a content part. `None` for an unknown type.
fn decode_part(part: &Object) -> Result<Option<ContentPart>> {
    Ok(match required(part, "type")? {
        "text" => Some(text_part(required(part, "text")?)),
        "refusal" => Some(text_part(required(part, "refusal")?)),
        "image_url" => Some(ContentPart::Image(reference(required(inner(part, "image_url")?, "url")?))),
        // OpenAI has no such types, but other servers that implement its protocol do.
        "video_url" => Some(ContentPart::Video(reference(required(inner(part, "video_url")?, "url")?))),
        "audio_url" => Some(ContentPart::Audio(reference(required(inner(part, "audio_url")?, "url")?))),
        "input_audio" => {
            let audio = inner(part, "input_audio")?;
            let (format, data) = (required(audio, "format")?, required(audio, "data")?);
            Some(ContentPart::Audio(reference(format!("data:audio/{format};base64,{data}"))))
        }
        "file" => {
            let file = inner(part, "file")?;
            let uri = text(file, "file_data")?.or(text(file, "file_id")?);
            uri.map(|uri| ContentPart::File(reference(uri)))
        }
        // Without an error, a call of a tool would be lost.
        kind @ ("tool_use" | "tool_result") => {
            return Err(format!("{kind} is a block of Anthropic's format; read the conversation with from_anthropic"));
        }
        _ => None,
    })
}

fn decode_calls(object: &Object) -> Result<Vec<ContentPart>> {
    let mut calls = Vec::new();
    match object.get("tool_calls") {
        None | Some(Value::Null) => {}
        Some(Value::Array(values)) => {
            for (index, value) in values.iter().enumerate() {
                let call = as_object(value).and_then(decode_call);
                calls.extend(call.map_err(|reason| format!("tool_calls[{index}]: {reason}"))?);
            }
        }
        Some(_) => return Err("tool_calls is not an array".to_owned()),
    }
    // The older form of a tool call: a single call without an id.
    if let Some(function) = object.get("function_call").filter(|function| !function.is_null()) {
        let function = as_object(function).map_err(|_| "function_call is not an object")?;
        calls.push(function_call(required(function, "name")?, function)?);
    }
    Ok(calls)
}

/// Decodes a tool call. `None` for an unknown type.
fn decode_call(call: &Object) -> Result<Option<ContentPart>> {
    let id = text(call, "id")?.unwrap_or_default();
    if let Some(function) = call.get("function") {
        return function_call(id, as_object(function).map_err(|_| "function is not an object")?).map(Some);
    }
    let Some(custom) = call.get("custom") else { return Ok(None) };
    let custom = as_object(custom).map_err(|_| "custom is not an object")?;
    let (name, input) = (required(custom, "name")?.to_owned(), required(custom, "input")?);
    Ok(Some(ContentPart::ToolCall { id: id.to_owned(), name, arguments: input.into() }))
}

fn function_call(id: &str, function: &Object) -> Result<ContentPart> {
    let arguments = match function.get("arguments") {
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
        // Some servers send the arguments as JSON instead of a string of JSON.
        Some(other) => other.clone(),
        None => Value::Null,
    };
    Ok(ContentPart::ToolCall { id: id.to_owned(), name: required(function, "name")?.to_owned(), arguments })
}

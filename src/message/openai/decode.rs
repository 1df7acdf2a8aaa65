//! What an object of the format says to a message. Fields and parts that say nothing to it are passed over.

use serde_json::{Map, Value};

use super::super::{Message, Part, Reference, Role};

/// What a message and an object can both say.
pub(super) struct Said {
    pub(super) role: Role,
    pub(super) name: Option<String>,
    pub(super) content: Vec<Part>,
}

impl Said {
    pub(super) fn is_of(&self, message: &Message) -> bool {
        self.role == message.role && self.name == message.name && self.content == message.content
    }
}

type Object = Map<String, Value>;
type Result<T> = std::result::Result<T, String>;

/// The error is the reason alone.
pub(super) fn decode(object: &Object) -> Result<Said> {
    let role = match required(object, "role")? {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        other => {
            return Err(format!("role {other:?} is not one of system, developer, user, assistant, tool, function"));
        }
    };
    let name = text(object, "name")?.filter(|name| !name.is_empty());
    let mut content = decode_content(object)?;
    content.extend(text(object, "refusal")?.map(text_part));
    let transcript = object.get("audio").and_then(|audio| audio.get("transcript")).and_then(Value::as_str);
    content.extend(transcript.map(text_part));
    content.extend(decode_calls(object)?);
    let call = match (role, object.get("role")) {
        (Role::Tool, Some(Value::String(speaker))) if speaker == "function" => name,
        (Role::Tool, _) => text(object, "tool_call_id")?,
        _ => None,
    };
    if let Some(id) = call {
        content = decode_result(id, content);
    }
    Ok(Said { role, name: name.map(str::to_owned), content })
}

fn decode_content(object: &Object) -> Result<Vec<Part>> {
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

/// `None` for a part of a kind unknown here.
fn decode_part(part: &Object) -> Result<Option<Part>> {
    let reference = |uri: &str| Reference { uri: uri.to_owned(), media_type: None };
    let inner =
        |kind: &str| as_object(part.get(kind).unwrap_or(&Value::Null)).map_err(|_| format!("{kind} is not an object"));
    Ok(match required(part, "type")? {
        "text" => Some(text_part(required(part, "text")?)),
        "refusal" => Some(text_part(required(part, "refusal")?)),
        "image_url" => Some(Part::Image(reference(required(inner("image_url")?, "url")?))),
        // Not OpenAI's own, but of servers that speak its protocol.
        "video_url" => Some(Part::Video(reference(required(inner("video_url")?, "url")?))),
        "audio_url" => Some(Part::Audio(reference(required(inner("audio_url")?, "url")?))),
        "input_audio" => {
            let audio = inner("input_audio")?;
            let (format, data) = (required(audio, "format")?, required(audio, "data")?);
            Some(Part::Audio(reference(&format!("data:audio/{format};base64,{data}"))))
        }
        "file" => {
            let file = inner("file")?;
            let uri = text(file, "file_data")?.or(text(file, "file_id")?);
            uri.map(|uri| Part::File(reference(uri)))
        }
        _ => None,
    })
}

fn decode_calls(object: &Object) -> Result<Vec<Part>> {
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
    // The older form, one call that has no id.
    if let Some(function) = object.get("function_call").filter(|function| !function.is_null()) {
        let function = as_object(function).map_err(|_| "function_call is not an object")?;
        calls.push(function_call(required(function, "name")?, function)?);
    }
    Ok(calls)
}

/// `None` for a call of a kind unknown here.
fn decode_call(call: &Object) -> Result<Option<Part>> {
    let id = text(call, "id")?.unwrap_or_default();
    if let Some(function) = call.get("function") {
        return function_call(id, as_object(function).map_err(|_| "function is not an object")?).map(Some);
    }
    let Some(custom) = call.get("custom") else { return Ok(None) };
    let custom = as_object(custom).map_err(|_| "custom is not an object")?;
    let (name, input) = (required(custom, "name")?.to_owned(), required(custom, "input")?);
    Ok(Some(Part::ToolCall { id: id.to_owned(), name, arguments: input.into() }))
}

fn function_call(id: &str, function: &Object) -> Result<Part> {
    let arguments = match function.get("arguments") {
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
        // Some servers give the arguments themselves.
        Some(other) => other.clone(),
        None => Value::Null,
    };
    Ok(Part::ToolCall { id: id.to_owned(), name: required(function, "name")?.to_owned(), arguments })
}

/// The texts are the result; what else there is stays beside it.
fn decode_result(id: &str, content: Vec<Part>) -> Vec<Part> {
    let mut texts = Vec::new();
    let mut others = Vec::new();
    for part in content {
        match part {
            Part::Text { text } => texts.push(text),
            other => others.push(other),
        }
    }
    let result = Part::ToolResult { id: id.to_owned(), content: texts.join("\n") };
    std::iter::once(result).chain(others).collect()
}

fn text_part(text: &str) -> Part {
    Part::Text { text: text.to_owned() }
}

fn as_object(value: &Value) -> Result<&Object> {
    value.as_object().ok_or_else(|| "expected a JSON object".to_owned())
}

fn required<'o>(object: &'o Object, field: &str) -> Result<&'o str> {
    text(object, field)?.ok_or_else(|| format!("{field} is missing"))
}

fn text<'o>(object: &'o Object, field: &str) -> Result<Option<&'o str>> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("{field} is not a string")),
    }
}

//! What a message says as new objects of the format, each with the fields that its role has there.

use serde_json::{Map, Value, json};

use super::super::{Part, Reference, Role};

/// The longest name that the protocol takes, in characters.
const MAX_NAME_CHARS: usize = 64;

/// At least one object.
pub(super) fn encode(role: Role, name: Option<&str>, content: &[Part]) -> Vec<Map<String, Value>> {
    // The format's tool messages are results; a text beside them is what the model is told.
    let speaker = if role == Role::Tool { Role::User } else { role };
    let mut turns: Vec<Turn> = Vec::new();
    for part in content {
        match part {
            Part::ToolResult { id, content } => turns.push(Turn::Result(id, content)),
            Part::ToolCall { id, name, arguments } => {
                let function = json!({"name": name, "arguments": encode_arguments(arguments)});
                let call = json!({"id": id, "type": "function", "function": function});
                spoken(&mut turns, Role::Assistant).calls.push(call);
            }
            other => spoken(&mut turns, speaker).content.push(encode_part(speaker, other)),
        }
    }
    if turns.is_empty() {
        spoken(&mut turns, speaker);
    }
    let name = name.map(encode_name).filter(|name| !name.is_empty());
    turns
        .into_iter()
        .map(|turn| match turn {
            Turn::Result(id, content) => object([
                ("role", Role::Tool.as_str().into()),
                ("tool_call_id", id.as_str().into()),
                ("content", content.as_str().into()),
            ]),
            Turn::Spoken(spoken) => spoken.object(name.as_deref().filter(|_| spoken.role == speaker)),
        })
        .collect()
}

/// One object to be.
enum Turn<'m> {
    /// A tool result: the id of its call, and its text.
    Result(&'m String, &'m String),
    Spoken(Spoken),
}

struct Spoken {
    role: Role,
    content: Vec<Value>,
    calls: Vec<Value>,
}

/// The last turn, if it is of this role, or a new one.
fn spoken<'t>(turns: &'t mut Vec<Turn<'_>>, role: Role) -> &'t mut Spoken {
    if !matches!(turns.last(), Some(Turn::Spoken(spoken)) if spoken.role == role) {
        turns.push(Turn::Spoken(Spoken { role, content: Vec::new(), calls: Vec::new() }));
    }
    match turns.last_mut() {
        Some(Turn::Spoken(spoken)) => spoken,
        _ => unreachable!("pushed if it was not there"),
    }
}

impl Spoken {
    fn object(&self, name: Option<&str>) -> Map<String, Value> {
        let content = match self.content.as_slice() {
            [] if self.calls.is_empty() => "".into(),
            [] => Value::Null,
            [part] if part["type"] == "text" => part["text"].clone(),
            parts => parts.into(),
        };
        let mut object = object([("role", self.role.as_str().into()), ("content", content)]);
        if let Some(name) = name {
            object.insert("name".to_owned(), name.into());
        }
        if !self.calls.is_empty() {
            object.insert("tool_calls".to_owned(), self.calls.as_slice().into());
        }
        object
    }
}

fn object<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A part of an object's content. Only the user's objects may have others than text.
fn encode_part(speaker: Role, part: &Part) -> Value {
    let (kind, reference) = match part {
        Part::Text { text } => return json!({"type": "text", "text": text}),
        Part::Image(reference) => ("image", reference),
        Part::Audio(reference) => ("audio", reference),
        Part::Video(reference) => ("video", reference),
        Part::File(reference) => ("file", reference),
        Part::ToolCall { .. } | Part::ToolResult { .. } => unreachable!("not content in this format"),
    };
    let media = if speaker == Role::User { encode_media(part, &reference.uri) } else { None };
    media.unwrap_or_else(|| json!({"type": "text", "text": describe(kind, reference)}))
}

/// `None` for what the format cannot refer to.
fn encode_media(part: &Part, uri: &str) -> Option<Value> {
    let is = |schemes: &[&str]| schemes.iter().any(|scheme| uri.starts_with(scheme));
    match part {
        Part::Image(_) if is(&["https://", "http://", "data:"]) => {
            Some(json!({"type": "image_url", "image_url": {"url": uri}}))
        }
        Part::Audio(_) => {
            let (media_type, data) = uri.strip_prefix("data:audio/")?.split_once(";base64,")?;
            let format = match media_type {
                "mpeg" => "mp3",
                "mp3" | "wav" => media_type,
                _ => return None,
            };
            Some(json!({"type": "input_audio", "input_audio": {"data": data, "format": format}}))
        }
        Part::File(_) if is(&["data:"]) => Some(json!({"type": "file", "file": {"file_data": uri}})),
        Part::File(_) if is(&["file-"]) => Some(json!({"type": "file", "file": {"file_id": uri}})),
        _ => None,
    }
}

fn describe(kind: &str, reference: &Reference) -> String {
    match reference.uri.starts_with("data:") {
        true => format!("[{kind}]"),
        false => format!("[{kind}: {}]", reference.uri),
    }
}

/// The inverse of decoding: a string that is no JSON was not when it was read.
fn encode_arguments(arguments: &Value) -> String {
    match arguments {
        Value::Null => "{}".to_owned(),
        Value::String(text) if serde_json::from_str::<Value>(text).is_err() => text.clone(),
        other => other.to_string(),
    }
}

fn encode_name(name: &str) -> String {
    let refused = |c: char| c.is_whitespace() || matches!(c, '<' | '|' | '\\' | '/' | '>');
    name.chars().take(MAX_NAME_CHARS).map(|c| if refused(c) { '_' } else { c }).collect()
}

//! Encoding of a message as new OpenAI message objects, with the fields that the format allows for each role.

use serde_json::{Map, Value, json};

use crate::message::{content::ContentPart, role::Role};

/// The maximum length of a name in the protocol, in characters.
const MAX_NAME_CHARS: usize = 64;

/// Encodes a message as one or more objects, in the order of its parts, but a user's with the results of tools first. Each
/// tool result becomes an object of its own; tool calls become part of an object of the assistant.
pub(super) fn encode(role: Role, name: Option<&str>, content: &[ContentPart]) -> Vec<Map<String, Value>> {
    // In the format, a tool object is a single result. Other content of a tool message becomes an object of the user.
    let author = if role == Role::Tool { Role::User } else { role };
    let mut drafts: Vec<Draft> = Vec::new();
    for part in content {
        match part {
            ContentPart::ToolResult { id, content } => drafts.push(Draft::Result { call_id: id, content }),
            ContentPart::ToolCall { id, name, arguments } => {
                let function = json!({"name": name, "arguments": encode_arguments(arguments)});
                let call = json!({"id": id, "type": "function", "function": function});
                open_turn(&mut drafts, Role::Assistant).calls.push(call);
            }
            other => open_turn(&mut drafts, author).content.push(encode_part(author, other)),
        }
    }
    if drafts.is_empty() {
        open_turn(&mut drafts, author);
    }
    // Results directly follow their calls.
    if author == Role::User && drafts.iter().all(|draft| !matches!(draft, Draft::Turn(turn) if turn.role != author)) {
        drafts.sort_by_key(|draft| matches!(draft, Draft::Turn(_)));
    }
    let name = name.map(encode_name).filter(|name| !name.is_empty());
    drafts
        .into_iter()
        .map(|draft| match draft {
            Draft::Result { call_id, content } => object([
                ("role", Role::Tool.as_str().into()),
                ("tool_call_id", call_id.into()),
                ("content", content.into()),
            ]),
            Draft::Turn(turn) => turn.to_object(name.as_deref().filter(|_| turn.role == author)),
        })
        .collect()
}

/// An object before it is written.
enum Draft<'m> {
    Result { call_id: &'m str, content: &'m str },
    Turn(Turn),
}

/// The content and the tool calls of one role.
struct Turn {
    role: Role,
    content: Vec<Value>,
    calls: Vec<Value>,
}

/// Returns the last draft if it is a turn of this role, otherwise a new turn.
fn open_turn<'d>(drafts: &'d mut Vec<Draft<'_>>, role: Role) -> &'d mut Turn {
    if !matches!(drafts.last(), Some(Draft::Turn(turn)) if turn.role == role) {
        drafts.push(Draft::Turn(Turn { role, content: Vec::new(), calls: Vec::new() }));
    }
    match drafts.last_mut() {
        Some(Draft::Turn(turn)) => turn,
        _ => unreachable!("a turn was pushed if the last draft was not one"),
    }
}

impl Turn {
    fn to_object(&self, name: Option<&str>) -> Map<String, Value> {
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

/// Encodes a text part or media. Only objects of the user may contain media; elsewhere media become text.
fn encode_part(author: Role, part: &ContentPart) -> Value {
    let text = match part.media() {
        Some((kind, reference)) => {
            if author == Role::User
                && let Some(media) = encode_media(part, &reference.uri)
            {
                return media;
            }
            reference.describe(kind)
        }
        None => part.text().expect("a part that is neither media nor a call has text").to_owned(),
    };
    json!({"type": "text", "text": text})
}

/// Encodes a reference to media. `None` if the format has no such reference.
fn encode_media(part: &ContentPart, uri: &str) -> Option<Value> {
    let has_scheme = |schemes: &[&str]| schemes.iter().any(|scheme| uri.starts_with(scheme));
    match part {
        ContentPart::Image(_) if has_scheme(&["https://", "http://", "data:"]) => {
            Some(json!({"type": "image_url", "image_url": {"url": uri}}))
        }
        ContentPart::Audio(_) => {
            let (media_type, data) = uri.strip_prefix("data:audio/")?.split_once(";base64,")?;
            let format = match media_type {
                "mpeg" => "mp3",
                "mp3" | "wav" => media_type,
                _ => return None,
            };
            Some(json!({"type": "input_audio", "input_audio": {"data": data, "format": format}}))
        }
        ContentPart::File(_) if has_scheme(&["data:"]) => Some(json!({"type": "file", "file": {"file_data": uri}})),
        ContentPart::File(_) if has_scheme(&["file-"]) => Some(json!({"type": "file", "file": {"file_id": uri}})),
        _ => None,
    }
}

/// Encodes arguments as a string of JSON. A string stays as it is: it is that JSON, or what a model wrote in its place.
fn encode_arguments(arguments: &Value) -> String {
    match arguments {
        Value::Null => "{}".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Shortens a name and replaces the characters that the protocol forbids.
fn encode_name(name: &str) -> String {
    let forbidden = |c: char| c.is_whitespace() || matches!(c, '<' | '|' | '\\' | '/' | '>');
    name.chars().take(MAX_NAME_CHARS).map(|c| if forbidden(c) { '_' } else { c }).collect()
}

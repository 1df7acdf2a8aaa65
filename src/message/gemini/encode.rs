//! Encoding of the parts of messages in Gemini's format.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::call_ids::id_of_name;
use crate::message::{
    content::{ContentPart, MediaReference},
    turns::{Author, object_arguments},
};

/// Encodes a part that follows others in the same content. `None` for an empty text. `names` has the names of the calls
/// so far, by id.
pub(super) fn part(
    names: &mut HashMap<String, String>,
    author: Author,
    part: &ContentPart,
    before: &[Value],
) -> Option<Value> {
    match part {
        ContentPart::ToolCall { id, name, arguments } => {
            names.insert(id.clone(), name.clone());
            Some(function("functionCall", id, name, before, ("args", object_arguments(arguments))))
        }
        ContentPart::ToolResult { id, content } => {
            let name = names.get(id).unwrap_or(id);
            Some(function("functionResponse", id, name, before, ("response", response(content))))
        }
        other => {
            let text = match other.media() {
                Some((kind, reference)) => match (author != Author::System).then(|| media(reference)).flatten() {
                    Some(media) => return Some(media),
                    None => reference.describe(kind),
                },
                None => other.text().expect("a part that is neither media nor a call has text").to_owned(),
            };
            (!text.is_empty()).then(|| json!({ "text": text }))
        }
    }
}

/// Encodes a call or a response, without an id that decoding would give it.
fn function(kind: &str, id: &str, name: &str, before: &[Value], (field, value): (&str, Value)) -> Value {
    let number = 1 + before.iter().filter(|part| part[kind]["name"] == name).count();
    let mut function = json!({ "name": name });
    function[field] = value;
    if id != id_of_name(name, number) {
        function["id"] = id.into();
    }
    json!({ kind: function })
}

/// Encodes a result as an object, which the format demands.
fn response(content: &str) -> Value {
    match serde_json::from_str(content) {
        Ok(object @ Value::Object(_)) => object,
        _ => json!({"output": content}),
    }
}

/// Encodes a reference to media. `None` if the format has no such reference.
fn media(reference: &MediaReference) -> Option<Value> {
    if let Some((media_type, data)) = reference.data() {
        return Some(json!({"inlineData": {"mimeType": media_type, "data": data}}));
    }
    if !reference.has_scheme(&["https://", "http://", "gs://"]) {
        return None;
    }
    let mut file = json!({"fileUri": reference.uri});
    if let Some(media_type) = &reference.media_type {
        file["mimeType"] = media_type.as_str().into();
    }
    Some(json!({ "fileData": file }))
}

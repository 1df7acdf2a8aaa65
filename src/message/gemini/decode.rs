//! Decoding of a content of Gemini's format. Fields and parts without a counterpart in a message are skipped.

use std::collections::HashMap;

use serde_json::Value;

use super::call_ids::id_of_name;
use crate::message::{
    content::{ContentPart, MediaReference},
    fields::{Object, Result, as_object, reference, required, text, text_part},
    turns::{Author, Draft},
};

/// Decodes a content.
pub(super) fn turn(content: &Object) -> Result<Vec<Draft>> {
    let author = match text(content, "role")? {
        // In the lossless form, the system's messages are in the list.
        Some("system") => Author::System,
        Some("model") => Author::Model,
        // Without a role, the content is the user's; the older role of responses is `function`.
        Some("user" | "function") | None => Author::User,
        Some(other) => return Err(format!("role {other:?} is not one of user, model, function, system")),
    };
    Ok(Draft::split(author, parts(content)?))
}

/// Decodes a system instruction: a content, or a text.
pub(super) fn system(system: &Value) -> Result<Vec<ContentPart>> {
    match system {
        Value::String(text) => Ok(vec![text_part(text)]),
        content => Ok(parts(as_object(content)?)?.concat()),
    }
}

/// Decodes the parts of a content. Each becomes one part or none.
fn parts(content: &Object) -> Result<Vec<Vec<ContentPart>>> {
    let values = match content.get("parts") {
        Some(Value::Array(values)) => values.as_slice(),
        // A model that has no tokens left answers without parts.
        None | Some(Value::Null) if !content.contains_key("content") => &[],
        // Without an error, the content would be lost.
        None | Some(Value::Null) => return Err("parts is missing; content is a field of other formats".to_owned()),
        Some(_) => return Err("parts is not an array".to_owned()),
    };
    let mut numbers = Numbers::default();
    let part = |(index, value)| {
        let part = as_object(value).and_then(|value| part(value, &mut numbers));
        part.map(|part| part.into_iter().collect()).map_err(|reason| format!("parts[{index}]: {reason}"))
    };
    values.iter().enumerate().map(part).collect()
}

/// The number of calls and of responses of each name so far.
type Numbers = HashMap<(&'static str, String), usize>;

fn part(part: &Object, numbers: &mut Numbers) -> Result<Option<ContentPart>> {
    if part.get("thought").is_some_and(|thought| *thought == true) {
        return Ok(None);
    }
    if let Some(text) = text(part, "text")? {
        return Ok(Some(text_part(text)));
    }
    if let Some(data) = either(part, ["inlineData", "inline_data"])? {
        let (media_type, data) = (media_type(data)?.unwrap_or_default(), required(data, "data")?);
        return Ok(Some(media(media_type, reference(format!("data:{media_type};base64,{data}")))));
    }
    if let Some(file) = either(part, ["fileData", "file_data"])? {
        let uri = text(file, "fileUri")?.or(text(file, "file_uri")?).ok_or("fileUri is missing")?.to_owned();
        let media_type = media_type(file)?;
        let reference = MediaReference { uri, media_type: media_type.map(str::to_owned) };
        return Ok(Some(media(media_type.unwrap_or_default(), reference)));
    }
    if let Some(call) = either(part, ["functionCall", "function_call"])? {
        let (id, name) = id_and_name(call, "call", numbers)?;
        return Ok(Some(ContentPart::ToolCall { id, name, arguments: call.get("args").cloned().unwrap_or_default() }));
    }
    if let Some(result) = either(part, ["functionResponse", "function_response"])? {
        let (id, _) = id_and_name(result, "response", numbers)?;
        return Ok(Some(ContentPart::ToolResult { id, content: response(result.get("response")) }));
    }
    Ok(None)
}

/// Returns the object in the field of one of these names.
fn either<'o>(part: &'o Object, names: [&str; 2]) -> Result<Option<&'o Object>> {
    let Some((name, value)) = names.iter().find_map(|name| Some((*name, part.get(*name)?))) else { return Ok(None) };
    value.as_object().map(Some).ok_or_else(|| format!("{name} is not an object"))
}

fn media_type(data: &Object) -> Result<Option<&str>> {
    Ok(text(data, "mimeType")?.or(text(data, "mime_type")?))
}

fn media(media_type: &str, reference: MediaReference) -> ContentPart {
    match media_type.split('/').next() {
        Some("image") => ContentPart::Image(reference),
        Some("audio") => ContentPart::Audio(reference),
        Some("video") => ContentPart::Video(reference),
        _ => ContentPart::File(reference),
    }
}

fn id_and_name(object: &Object, kind: &'static str, numbers: &mut Numbers) -> Result<(String, String)> {
    let name = required(object, "name")?.to_owned();
    let number = numbers.entry((kind, name.clone())).or_default();
    *number += 1;
    let id = text(object, "id")?.filter(|id| !id.is_empty());
    Ok((id.map_or_else(|| id_of_name(&name, *number), str::to_owned), name))
}

/// Returns a response as text.
fn response(response: Option<&Value>) -> String {
    let Some(response) = response.filter(|response| !response.is_null()) else { return String::new() };
    let fields = response.as_object().into_iter().flatten().collect::<Vec<_>>();
    match fields.as_slice() {
        [(name, Value::String(text))] if ["output", "result"].contains(&name.as_str()) => text.clone(),
        _ => response.to_string(),
    }
}

//! Conversion between messages and the objects of OpenAI's chat completions, lossless in both directions.
//!
//! Neither form can express everything in the other. Fields of a foreign object that a [`Message`] does not have are
//! kept in `metadata["openai"]`. Fields of a message that an object does not have go into its field `mnemon`, on
//! request. Reading skips fields and content parts that have no counterpart in a message; writing uses only the fields
//! that the format allows for each role.

use serde_json::{Value, json};

use super::{
    chat_message::{ContentPart, MediaReference, Message, Role},
    extension::{EXTENSION, ExactReader, NextObject, imported, with_extension},
    fields::{self, Object, as_object, inner, reference, required, text, text_part, tool_result},
};
use crate::error::{Error, Result};

/// The key in [`Message::metadata`] of the object that the message was read from, which is kept if encoding the message
/// would give a different object.
const SOURCE_OBJECT: &str = "openai";
/// Items of the Responses API that are no messages: the model's reasoning, and calls of tools that the server runs.
const ASIDE_ITEMS: [&str; 12] = [
    "reasoning",
    "compaction",
    "item_reference",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_list_tools",
    "mcp_call",
    "mcp_approval_request",
    "mcp_approval_response",
    "computer_call",
];
/// Items of the Responses API that call a tool, and those with a tool's output.
const CALL_ITEMS: [&str; 2] = ["function_call", "custom_tool_call"];
const OUTPUT_ITEMS: [&str; 2] = ["function_call_output", "custom_tool_call_output"];

/// Converts messages to objects for a server with OpenAI's chat completions API, with the fields of that API only.
///
/// A message that was read by [`from_openai`] becomes the original object again, unless its role, name or content was
/// changed. Every other message is encoded:
///
/// - Each tool result becomes a separate object, in order with the objects of the other parts.
/// - Other text of a [`Role::Tool`] message becomes an object of the user. It follows the results of all calls of the
///   assistant's message, because the API demands that these results are consecutive, and is left out at the end as long
///   as one of them is missing.
/// - Media that the format cannot refer to (a video, an image that is neither on the web nor a `data:` URI) become text
///   such as `[video: URI]`.
/// - Characters of a name that the protocol forbids become `_`.
///
/// ```
/// use mnemon::{Message, to_openai};
/// let objects = to_openai(&[Message::user("Where is Ada?")]);
/// assert_eq!(objects, [serde_json::json!({"role": "user", "content": "Where is Ada?"})]);
/// ```
pub fn to_openai(messages: &[Message]) -> Vec<Value> {
    let mut objects: Vec<Value> = Vec::new();
    // Objects of the user that wait for the end of a run of results.
    let mut held = Vec::new();
    for message in messages {
        let is_result = message.content.iter().any(|part| matches!(part, ContentPart::ToolResult { .. }));
        for object in plain_objects(message) {
            match object.get("role").and_then(Value::as_str) {
                Some("tool" | "function") => objects.push(object.into()),
                Some("user") if is_result => held.push(object.into()),
                _ => {
                    objects.append(&mut held);
                    objects.push(object.into());
                }
            }
        }
    }
    if !has_open_call(&objects) {
        objects.append(&mut held);
    }
    objects
}

/// Returns true if fewer results than calls follow the last message of the assistant.
fn has_open_call(objects: &[Value]) -> bool {
    let Some(last) = objects.iter().rposition(|object| object["role"] == "assistant") else { return false };
    let calls = objects[last]["tool_calls"].as_array().map_or(0, Vec::len);
    objects[last + 1..].iter().filter(|object| object["role"] == "tool").count() < calls
}

/// Converts messages to the objects of [`to_openai`] with an additional field `mnemon`, from which [`from_openai`]
/// restores the same messages.
///
/// The field is meant for files and for programs that pass messages on. Servers may reject it.
pub fn to_openai_lossless(messages: &[Message]) -> Vec<Value> {
    let objects = |message| with_extension(message, SOURCE_OBJECT, plain_objects(message), imported_list);
    messages.iter().flat_map(objects).map(Value::Object).collect()
}

/// Reads messages from the objects of [`to_openai`], [`to_openai_lossless`] or a foreign source.
///
/// An object with the field `mnemon` becomes the message that it was encoded from. Every other object becomes a new
/// message with a new id, the session `default` and no time:
///
/// - The role `developer` becomes [`Role::System`].
/// - A refusal and the transcript of audio become text.
/// - The call and the result of a function, an older form of tool calls, get the function's name as their id.
/// - Arguments that are not JSON become a JSON string.
/// - Items of the Responses API (`message`, `function_call`, `function_call_output`) are read, too. [`to_openai`] writes
///   them as objects of chat completions. Reasoning, and tools that the server runs, are no messages.
/// - If an object has more information than the message, the object is kept in `metadata["openai"]`.
///
/// A message that is read here may still be refused by [`put`](crate::Engine::put) if it is too large.
///
/// # Errors
/// [`Error::InvalidMessage`] with the index, for a value that is not an object, an unknown role, a field of the wrong
/// type, or an object of another provider's format.
///
/// ```
/// use mnemon::{Role, from_openai, to_openai};
/// let objects = [serde_json::json!({"role": "developer", "content": "Be brief."})];
/// let messages = from_openai(&objects)?;
/// assert_eq!((messages[0].role, messages[0].text().as_str()), (Role::System, "Be brief."));
/// assert_eq!(to_openai(&messages), objects);
/// # Ok::<(), mnemon::Error>(())
/// ```
pub fn from_openai(values: &[Value]) -> Result<Vec<Message>> {
    let mut messages = Vec::new();
    let mut reader = ExactReader::default();
    for (index, value) in values.iter().enumerate() {
        let read = as_object(value).and_then(|object| match reader.next(object, imported_list)? {
            NextObject::Restored(messages) => Ok(messages),
            NextObject::Continued => Ok(Vec::new()),
            NextObject::Foreign(object) => imported_list(&object),
        });
        messages.extend(read.map_err(|reason| Error::message(format!("messages[{index}]: {reason}")))?);
    }
    Ok(messages)
}

/// Encodes a message as one or more objects without the field `mnemon`.
fn plain_objects(message: &Message) -> Vec<Object> {
    match message.metadata.get(SOURCE_OBJECT).and_then(Value::as_object) {
        Some(source)
            if !source.contains_key(EXTENSION)
                && !is_item(source)
                && decode(source).is_ok_and(|fields| fields.agree_with(message)) =>
        {
            vec![source.clone()]
        }
        _ => encode(message.role, message.name.as_deref(), &message.content),
    }
}

/// Reads an object without the field `mnemon` as a new message.
pub(super) fn import(object: &Object) -> fields::Result<Message> {
    let CommonFields { role, name, content } = decode(object)?;
    let mut message = imported(role, name, content);
    let encoded = encode(role, message.name.as_deref(), &message.content);
    if !matches!(encoded.as_slice(), [encoded] if encoded == object) {
        message.metadata.insert(SOURCE_OBJECT.to_owned(), Value::Object(object.clone()));
    }
    Ok(message)
}

/// Same as [`import`], as a list: an item of the Responses API that is no message has none.
fn imported_list(object: &Object) -> fields::Result<Vec<Message>> {
    let is_aside = text(object, "type")?.is_some_and(|kind| ASIDE_ITEMS.contains(&kind));
    if is_aside { Ok(Vec::new()) } else { Ok(vec![import(object)?]) }
}

/// The fields that a message and an OpenAI object have in common.
pub(super) struct CommonFields {
    pub(super) role: Role,
    pub(super) name: Option<String>,
    pub(super) content: Vec<ContentPart>,
}

impl CommonFields {
    fn agree_with(&self, message: &Message) -> bool {
        self.role == message.role && self.name == message.name && self.content == message.content
    }
}

/// Returns true if an object is an item of the Responses API, which chat completions refuse.
fn is_item(object: &Object) -> bool {
    let is_part = |part: &Value| {
        let kind = part["type"].as_str().unwrap_or_default();
        ["input_text", "output_text", "input_image", "input_file"].contains(&kind)
    };
    let has_part = object.get("content").and_then(Value::as_array).is_some_and(|parts| parts.iter().any(is_part));
    let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
    kind == "message" || CALL_ITEMS.contains(&kind) || OUTPUT_ITEMS.contains(&kind) || has_part
}

/// Decodes an item of the Responses API that is a call or an output. Returns `None` for another object.
fn decode_item(object: &Object) -> fields::Result<Option<CommonFields>> {
    let kind = text(object, "type")?.unwrap_or_default();
    let (role, content) = if CALL_ITEMS.contains(&kind) {
        let call = match object.get("input") {
            Some(input) => {
                let (id, name) = (required(object, "call_id")?.to_owned(), required(object, "name")?.to_owned());
                ContentPart::ToolCall { id, name, arguments: input.clone() }
            }
            None => function_call(required(object, "call_id")?, object)?,
        };
        (Role::Assistant, vec![call])
    } else if OUTPUT_ITEMS.contains(&kind) {
        let output = match object.get("output") {
            Some(Value::String(text)) => vec![text_part(text)],
            Some(Value::Array(parts)) => {
                decode_parts(parts).map_err(|reason| reason.replacen("content", "output", 1))?
            }
            _ => return Err("output is not a string or an array of parts".to_owned()),
        };
        (Role::Tool, tool_result(required(object, "call_id")?, output))
    } else {
        return Ok(None);
    };
    Ok(Some(CommonFields { role, name: None, content }))
}

pub(super) fn decode(object: &Object) -> fields::Result<CommonFields> {
    if let Some(item) = decode_item(object)? {
        return Ok(item);
    }
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

fn decode_content(object: &Object) -> fields::Result<Vec<ContentPart>> {
    match object.get("content") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![text_part(text)]),
        Some(Value::Array(parts)) => decode_parts(parts),
        Some(_) => Err("content is not a string, an array of parts or null".to_owned()),
    }
}

fn decode_parts(parts: &[Value]) -> fields::Result<Vec<ContentPart>> {
    let part = |(index, part)| {
        let part = as_object(part).and_then(decode_part);
        part.map_err(|reason| format!("content[{index}]: {reason}")).transpose()
    };
    parts.iter().enumerate().filter_map(part).collect()
}

/// Decodes a content part. `None` for an unknown type.
fn decode_part(part: &Object) -> fields::Result<Option<ContentPart>> {
    Ok(match required(part, "type")? {
        "text" | "input_text" | "output_text" => Some(text_part(required(part, "text")?)),
        "input_image" => {
            let uri = text(part, "image_url")?.or(text(part, "file_id")?);
            uri.map(|uri| ContentPart::Image(reference(uri)))
        }
        "input_file" => {
            let uri = text(part, "file_url")?.or(text(part, "file_data")?).or(text(part, "file_id")?);
            uri.map(|uri| ContentPart::File(reference(uri)))
        }
        "refusal" => Some(text_part(required(part, "refusal")?)),
        "image_url" => Some(ContentPart::Image(reference(required(inner(part, "image_url")?, "url")?))),
        // These types are not OpenAI's. Other servers with its protocol have them.
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
        // Skipping these types would lose a tool call.
        kind @ ("tool_use" | "tool_result") => {
            return Err(format!("{kind} is a block of Anthropic's format; read the conversation with from_anthropic"));
        }
        _ => None,
    })
}

fn decode_calls(object: &Object) -> fields::Result<Vec<ContentPart>> {
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
    // An older form of a tool call, with a single call and no id.
    if let Some(function) = object.get("function_call").filter(|function| !function.is_null()) {
        let function = as_object(function).map_err(|_| "function_call is not an object")?;
        calls.push(function_call(required(function, "name")?, function)?);
    }
    Ok(calls)
}

/// Decodes a tool call. `None` for an unknown type.
fn decode_call(call: &Object) -> fields::Result<Option<ContentPart>> {
    let id = text(call, "id")?.unwrap_or_default();
    if let Some(function) = call.get("function") {
        return function_call(id, as_object(function).map_err(|_| "function is not an object")?).map(Some);
    }
    let Some(custom) = call.get("custom") else { return Ok(None) };
    let custom = as_object(custom).map_err(|_| "custom is not an object")?;
    let (name, input) = (required(custom, "name")?.to_owned(), required(custom, "input")?);
    Ok(Some(ContentPart::ToolCall { id: id.to_owned(), name, arguments: input.into() }))
}

fn function_call(id: &str, function: &Object) -> fields::Result<ContentPart> {
    let arguments = match function.get("arguments") {
        Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()),
        // Some servers send the arguments as JSON instead of a string of JSON.
        Some(other) => other.clone(),
        None => Value::Null,
    };
    Ok(ContentPart::ToolCall { id: id.to_owned(), name: required(function, "name")?.to_owned(), arguments })
}

/// The maximum length of a name in the protocol, in characters.
const MAX_NAME_CHARS: usize = 64;

/// Encodes a message as one or more objects, in the order of its parts, except that a user's tool results come first.
/// Each tool result becomes a separate object; tool calls become part of an object of the assistant.
fn encode(role: Role, name: Option<&str>, content: &[ContentPart]) -> Vec<Object> {
    // An object with the role `tool` is a single result. Other content of a tool message becomes an object of the user.
    let author = if role == Role::Tool { Role::User } else { role };
    let mut drafts: Vec<DraftObject> = Vec::new();
    for part in content {
        match part {
            ContentPart::ToolResult { id, content } => drafts.push(DraftObject::ToolResult { call_id: id, content }),
            ContentPart::ToolCall { id, name, arguments } => {
                let function = json!({"name": name, "arguments": encode_arguments(arguments)});
                let call = json!({"id": id, "type": "function", "function": function});
                open_message(&mut drafts, Role::Assistant).calls.push(call);
            }
            other => open_message(&mut drafts, author).content.push(encode_part(author, other)),
        }
    }
    if drafts.is_empty() {
        open_message(&mut drafts, author);
    }
    // Results must directly follow their calls.
    let is_other = |draft: &DraftObject<'_>| matches!(draft, DraftObject::Message(message) if message.role != author);
    if author == Role::User && !drafts.iter().any(is_other) {
        drafts.sort_by_key(|draft| matches!(draft, DraftObject::Message(_)));
    }
    let name = name.map(encode_name).filter(|name| !name.is_empty());
    drafts
        .into_iter()
        .map(|draft| match draft {
            DraftObject::ToolResult { call_id, content } => object([
                ("role", Role::Tool.as_str().into()),
                ("tool_call_id", call_id.into()),
                ("content", content.into()),
            ]),
            DraftObject::Message(message) => message.to_object(name.as_deref().filter(|_| message.role == author)),
        })
        .collect()
}

enum DraftObject<'m> {
    ToolResult { call_id: &'m str, content: &'m str },
    Message(DraftMessage),
}

struct DraftMessage {
    role: Role,
    content: Vec<Value>,
    calls: Vec<Value>,
}

/// Returns the last draft if it is a message of this role, otherwise a new draft.
fn open_message<'d>(drafts: &'d mut Vec<DraftObject<'_>>, role: Role) -> &'d mut DraftMessage {
    if !matches!(drafts.last(), Some(DraftObject::Message(message)) if message.role == role) {
        drafts.push(DraftObject::Message(DraftMessage { role, content: Vec::new(), calls: Vec::new() }));
    }
    match drafts.last_mut() {
        Some(DraftObject::Message(message)) => message,
        _ => unreachable!("a message was pushed if the last draft was not one"),
    }
}

impl DraftMessage {
    fn to_object(&self, name: Option<&str>) -> Object {
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

fn object<const N: usize>(fields: [(&str, Value); N]) -> Object {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Encodes a text or media part. Only objects of the user may contain media; elsewhere media become text.
fn encode_part(author: Role, part: &ContentPart) -> Value {
    let text = match part.media() {
        Some((kind, reference)) => {
            if author == Role::User
                && let Some(media) = encode_media(part, reference)
            {
                return media;
            }
            reference.describe(kind)
        }
        None => part.text().expect("a part that is neither media nor a call has text").to_owned(),
    };
    json!({"type": "text", "text": text})
}

/// Encodes a reference to media. Returns `None` if the format has no such reference.
fn encode_media(part: &ContentPart, reference: &MediaReference) -> Option<Value> {
    let uri = &reference.uri;
    match part {
        ContentPart::Image(_) if reference.has_scheme(&["https://", "http://", "data:"]) => {
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
        ContentPart::File(_) if reference.has_scheme(&["data:"]) => {
            Some(json!({"type": "file", "file": {"file_data": uri}}))
        }
        ContentPart::File(_) if reference.has_scheme(&["file-"]) => {
            Some(json!({"type": "file", "file": {"file_id": uri}}))
        }
        _ => None,
    }
}

/// Encodes arguments as a string of JSON. A string is not encoded again: it is that JSON, or text that a model wrote in
/// its place.
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

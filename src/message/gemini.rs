//! Conversion between messages and the conversations of Gemini's `generateContent`, lossless in both directions.
//!
//! Content that a [`Message`] cannot express, such as the signature of a thought, is kept in `metadata["gemini"]`.
//! Reading skips fields and parts without a counterpart in a message.

use std::collections::HashMap;

use serde_json::{Map, Value, json};

#[cfg(doc)]
use super::chat_message::Role;
use super::{
    chat_message::{ContentPart, MediaReference, Message},
    fields::{self, Object, as_object, reference, required, text, text_part},
    turns::{self, Author, DecodedMessage, TurnFormat, object_arguments},
};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;

/// Converts messages to the fields `contents` and `systemInstruction` of a request to Gemini's `generateContent`.
///
/// A conversation that was read by [`from_gemini`] becomes the original one again where its messages are unchanged,
/// without empty texts and contents, which the API refuses. Other messages are converted:
///
/// - [`Role::System`] becomes the field `systemInstruction`, wherever the messages are in the list.
/// - [`Role::Tool`] becomes `functionResponse` parts of the user, with the name of the call of this id. A result that
///   is no JSON object becomes `{"output": result}`.
/// - Consecutive messages of one side become one content.
/// - Arguments of a call that are not an object become the field `input` of one.
/// - Media that the format cannot refer to (a file of this machine) become text such as `[file: URI]`.
/// - Empty texts and the names of authors are left out, because the format cannot express them.
///
/// ```
/// use mnemon::{Message, to_gemini};
/// let request = to_gemini(&[Message::system("Be brief."), Message::user("Where is Ada?")]);
/// assert_eq!(request["systemInstruction"], serde_json::json!({"parts": [{"text": "Be brief."}]}));
/// assert_eq!(request["contents"], serde_json::json!([{"role": "user", "parts": [{"text": "Where is Ada?"}]}]));
/// ```
pub fn to_gemini(messages: &[Message]) -> Value {
    turns::to_value::<Gemini>(messages)
}

/// Converts each message to separate contents with an additional field `mnemon`, from which [`from_gemini`] restores the
/// same messages. System messages stay in the list.
///
/// The form is meant for files and for programs that pass messages on. Gemini's API rejects it.
pub fn to_gemini_lossless(messages: &[Message]) -> Value {
    turns::to_lossless_value::<Gemini>(messages)
}

/// Reads messages from Gemini's format. `conversation` is the body of a request, of which the fields `contents` and
/// `systemInstruction` are read; an array of contents; one content; or a response, of which the content of the first
/// candidate is read. The names of fields may also be in snake case.
///
/// Each content becomes a new message with a new id, the session `default` and no time:
///
/// - The system instruction becomes a message of [`Role::System`], a content of the role `model` one of
///   [`Role::Assistant`].
/// - Each `functionResponse` part becomes a message of [`Role::Tool`], and other parts beside it one of [`Role::User`].
/// - A call without an id gets its name as its id, `NAME-2` for the second call of the name in one content, and so does
///   its response.
/// - A response becomes text: its field `output` or `result` if that is its only field and a string, otherwise its
///   JSON.
/// - Thoughts, code that the server runs, and unknown parts are not part of the message.
/// - If a content has more information than its messages, the content is kept in `metadata["gemini"]` of the first.
///
/// A message that is read here may still be refused by [`put`](crate::Engine::put) if it is too large.
///
/// # Errors
/// [`Error::InvalidMessage`] with the index, for a value that is not an object, an unknown role, a field of the wrong
/// type, a response without content, or a message of another provider's format.
///
/// ```
/// use mnemon::{ContentPart, Role, from_gemini, to_gemini};
/// let body = serde_json::json!({"contents": [
///     {"role": "user", "parts": [{"text": "Where is Ada?"}]},
///     {"role": "model", "parts": [{"functionCall": {"name": "find", "args": {"who": "Ada"}}, "thoughtSignature": "EqQB"}]},
///     {"role": "user", "parts": [{"functionResponse": {"name": "find", "response": {"output": "in Lyon"}}}]},
/// ]});
/// let messages = from_gemini(&body)?;
/// assert!(matches!(messages[1].content[..], [ContentPart::ToolCall { .. }]));
/// assert_eq!((messages[2].role, messages[2].text().as_str()), (Role::Tool, "in Lyon"));
/// assert_eq!(to_gemini(&messages), body);
/// # Ok::<(), mnemon::Error>(())
/// ```
pub fn from_gemini(conversation: &Value) -> Result<Vec<Message>> {
    turns::read::<Gemini>(conversation)
}

#[derive(Default)]
struct Gemini {
    /// The names of the calls that were written so far, by id.
    names: HashMap<String, String>,
}

impl TurnFormat for Gemini {
    const SOURCE: &'static str = "gemini";
    const TURNS: &'static str = "contents";
    const SYSTEM: &'static [&'static str] = &["systemInstruction", "system_instruction"];
    const PARTS: &'static str = "parts";

    fn turn_of_response(object: &Object) -> fields::Result<Option<Object>> {
        let Some(candidates) = object.get("candidates") else { return Ok(None) };
        let content = candidates[0].get("content").and_then(Value::as_object);
        let mut content = content.cloned().ok_or("the response has no content")?;
        content.entry("role").or_insert("model".into());
        Ok(Some(content))
    }

    fn decode_turn(turn: &Object) -> fields::Result<Vec<DecodedMessage>> {
        let author = match text(turn, "role")? {
            // The lossless form has system messages in the list.
            Some("system") => Author::System,
            Some("model") => Author::Model,
            // A content without a role is the user's. `function` is an older role of responses.
            Some("user" | "function") | None => Author::User,
            Some(other) => return Err(format!("role {other:?} is not one of user, model, function, system")),
        };
        Ok(DecodedMessage::split(author, decode_parts(turn)?))
    }

    fn decode_system(system: &Value) -> fields::Result<Vec<ContentPart>> {
        match system {
            Value::String(text) => Ok(vec![text_part(text)]),
            content => Ok(decode_parts(as_object(content)?)?.concat()),
        }
    }

    fn is_refused(part: &Value) -> bool {
        // An empty text may carry the signature of a thought.
        part.as_object().is_some_and(|part| part.iter().all(|(name, value)| name == "text" && value == ""))
    }

    fn system_parts(system: &Value) -> Vec<Value> {
        match system {
            Value::String(text) => vec![json!({ "text": text })],
            content => content["parts"].as_array().cloned().unwrap_or_default(),
        }
    }

    fn encode_part(&mut self, author: Author, part: &ContentPart, turn: &[Value]) -> Option<Value> {
        match part {
            ContentPart::ToolCall { id, name, arguments } => {
                self.names.insert(id.clone(), name.clone());
                Some(encode_function("functionCall", id, name, turn, ("args", object_arguments(arguments))))
            }
            ContentPart::ToolResult { id, content } => {
                let name = self.names.get(id).unwrap_or(id);
                Some(encode_function("functionResponse", id, name, turn, ("response", encode_response(content))))
            }
            other => {
                let text = match other.media() {
                    Some((kind, reference)) => {
                        match (author != Author::System).then(|| encode_media(reference)).flatten() {
                            Some(media) => return Some(media),
                            None => reference.describe(kind),
                        }
                    }
                    None => other.text().expect("a part that is neither media nor a call has text").to_owned(),
                };
                (!text.is_empty()).then(|| json!({ "text": text }))
            }
        }
    }

    fn note(&mut self, part: &ContentPart) {
        if let ContentPart::ToolCall { id, name, .. } = part {
            self.names.insert(id.clone(), name.clone());
        }
    }

    fn encode_turn(author: Author, parts: Vec<Value>) -> Object {
        let role = match author {
            Author::System => "system",
            Author::User => "user",
            Author::Model => "model",
        };
        Map::from_iter([("role".to_owned(), role.into()), ("parts".to_owned(), parts.into())])
    }

    fn encode_system(parts: Vec<Value>) -> Value {
        json!({ "parts": parts })
    }
}

/// Decodes the parts of a content. Each becomes one part or none.
fn decode_parts(content: &Object) -> fields::Result<Vec<Vec<ContentPart>>> {
    let values = match content.get("parts") {
        Some(Value::Array(values)) => values.as_slice(),
        None | Some(Value::Null) => match content.keys().find(|name| !["role", "parts"].contains(&name.as_str())) {
            // A model that used up its tokens answers without parts.
            None => &[],
            // Ignoring the field would lose what it has.
            Some(name) => {
                let remedy = "read other formats with from_openai or from_anthropic";
                return Err(format!("parts is missing, and {name} is no field of a content; {remedy}"));
            }
        },
        Some(_) => return Err("parts is not an array".to_owned()),
    };
    let mut numbers = NameNumbers::default();
    let part = |(index, value)| {
        let part = as_object(value).and_then(|value| decode_part(value, &mut numbers));
        part.map(|part| part.into_iter().collect()).map_err(|reason| format!("parts[{index}]: {reason}"))
    };
    values.iter().enumerate().map(part).collect()
}

/// The numbers of calls and of responses of each name in one content so far.
type NameNumbers = HashMap<(&'static str, String), usize>;

fn decode_part(part: &Object, numbers: &mut NameNumbers) -> fields::Result<Option<ContentPart>> {
    if part.get("thought").is_some_and(|thought| *thought == true) {
        return Ok(None);
    }
    if let Some(text) = text(part, "text")? {
        return Ok(Some(text_part(text)));
    }
    if let Some(data) = either(part, ["inlineData", "inline_data"])? {
        let (media_type, data) = (media_type(data)?.unwrap_or_default(), required(data, "data")?);
        return Ok(Some(media_part(media_type, reference(format!("data:{media_type};base64,{data}")))));
    }
    if let Some(file) = either(part, ["fileData", "file_data"])? {
        let uri = text(file, "fileUri")?.or(text(file, "file_uri")?).ok_or("fileUri is missing")?.to_owned();
        let media_type = media_type(file)?;
        let reference = MediaReference { uri, media_type: media_type.map(str::to_owned) };
        return Ok(Some(media_part(media_type.unwrap_or_default(), reference)));
    }
    if let Some(call) = either(part, ["functionCall", "function_call"])? {
        let (id, name) = id_and_name(call, "call", numbers)?;
        return Ok(Some(ContentPart::ToolCall { id, name, arguments: call.get("args").cloned().unwrap_or_default() }));
    }
    if let Some(result) = either(part, ["functionResponse", "function_response"])? {
        let (id, _) = id_and_name(result, "response", numbers)?;
        return Ok(Some(ContentPart::ToolResult { id, content: response_text(result.get("response")) }));
    }
    Ok(None)
}

/// Returns the object in the first of the fields that is present: one name in camel case, one in snake case.
fn either<'o>(part: &'o Object, names: [&str; 2]) -> fields::Result<Option<&'o Object>> {
    let Some((name, value)) = names.iter().find_map(|name| Some((*name, part.get(*name)?))) else { return Ok(None) };
    value.as_object().map(Some).ok_or_else(|| format!("{name} is not an object"))
}

fn media_type(data: &Object) -> fields::Result<Option<&str>> {
    Ok(text(data, "mimeType")?.or(text(data, "mime_type")?))
}

fn media_part(media_type: &str, reference: MediaReference) -> ContentPart {
    match media_type.split('/').next() {
        Some("image") => ContentPart::Image(reference),
        Some("audio") => ContentPart::Audio(reference),
        Some("video") => ContentPart::Video(reference),
        _ => ContentPart::File(reference),
    }
}

fn id_and_name(object: &Object, kind: &'static str, numbers: &mut NameNumbers) -> fields::Result<(String, String)> {
    let name = required(object, "name")?.to_owned();
    let number = numbers.entry((kind, name.clone())).or_default();
    *number += 1;
    let id = text(object, "id")?.filter(|id| !id.is_empty());
    Ok((id.map_or_else(|| id_of_name(&name, *number), str::to_owned), name))
}

fn response_text(response: Option<&Value>) -> String {
    let Some(response) = response.filter(|response| !response.is_null()) else { return String::new() };
    let fields = response.as_object().into_iter().flatten().collect::<Vec<_>>();
    match fields.as_slice() {
        [(name, Value::String(text))] if ["output", "result"].contains(&name.as_str()) => text.clone(),
        _ => response.to_string(),
    }
}

/// Encodes a call or a response. Its id is left out if decoding would give it the same one.
fn encode_function(kind: &str, id: &str, name: &str, before: &[Value], (field, value): (&str, Value)) -> Value {
    let number = 1 + before.iter().filter(|part| part[kind]["name"] == name).count();
    let mut function = json!({ "name": name });
    function[field] = value;
    if id != id_of_name(name, number) {
        function["id"] = id.into();
    }
    json!({ kind: function })
}

/// Encodes a result as an object, which the format demands.
fn encode_response(content: &str) -> Value {
    match serde_json::from_str(content) {
        Ok(object @ Value::Object(_)) => object,
        _ => json!({"output": content}),
    }
}

/// Encodes a reference to media. Returns `None` if the format has no such reference.
fn encode_media(reference: &MediaReference) -> Option<Value> {
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

/// Returns the id for a call or a response that has none: its name, followed by its number among those of this name in
/// one content. The first has no number.
fn id_of_name(name: &str, number: usize) -> String {
    if number == 1 { name.to_owned() } else { format!("{name}-{number}") }
}

//! Conversion between messages and the conversations of Anthropic's Messages API, lossless in both directions.
//!
//! Content that a [`Message`] cannot express, such as the model's thinking and its signature, is kept in
//! `metadata["anthropic"]`. Reading skips fields and content blocks without a counterpart in a message; writing uses only
//! the blocks that the API allows for each role.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

#[cfg(doc)]
use super::chat_message::Role;
use super::{
    chat_message::{ContentPart, MediaReference, Message},
    fields::{self, Object, as_object, inner, reference, required, text, text_part, tool_result},
    turns::{self, Author, DecodedMessage, TurnFormat, object_arguments},
};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;

/// Converts messages to the fields `messages` and `system` of a request to Anthropic's Messages API.
///
/// A conversation that was read by [`from_anthropic`] becomes the original one again where its messages are unchanged,
/// without blank texts and thinking without a signature (of a stream that was cut), which the API refuses. A turn that the API
/// [paused](https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons) is written as it was, so that the API
/// goes on with it. Other messages are converted:
///
/// - [`Role::System`] becomes the field `system`, wherever the messages are in the list.
/// - [`Role::Tool`] becomes `tool_result` blocks of the user.
/// - Consecutive messages of one side become one message, with its tool results first, as the API demands.
/// - The API refuses ids of calls that contain other characters than `a-z A-Z 0-9 _ -` or were used before. Such an id is
///   replaced, in the call and in its result.
/// - Arguments of a call that are not an object become the field `input` of one.
/// - Media that the format cannot refer to (audio, a video, a file that is neither on the web nor a PDF) become text
///   such as `[video: URI]`.
/// - Blank texts and the names of authors are left out, because the format cannot express them.
///
/// ```
/// use mnemon::{Message, to_anthropic};
/// let mut request = to_anthropic(&[Message::system("Be brief."), Message::user("Where is Ada?")]);
/// assert_eq!(request["system"], "Be brief.");
/// assert_eq!(request["messages"], serde_json::json!([{"role": "user", "content": "Where is Ada?"}]));
/// request["max_tokens"] = 1024.into();
/// ```
pub fn to_anthropic(messages: &[Message]) -> Value {
    turns::to_value::<Anthropic>(messages)
}

/// Converts each message to separate objects with an additional field `mnemon`, from which [`from_anthropic`] restores
/// the same messages. System messages stay in the list.
///
/// The form is meant for files and for programs that pass messages on. Anthropic's API rejects it.
pub fn to_anthropic_lossless(messages: &[Message]) -> Value {
    turns::to_lossless_value::<Anthropic>(messages)
}

/// Reads messages from Anthropic's format. `conversation` is the body of a request, of which the fields `system` and
/// `messages` are read; an array of messages; one message; or a response, of which `role` and `content` are read.
///
/// Each object becomes a new message with a new id, the session `default` and no time:
///
/// - The system prompt becomes a message of [`Role::System`].
/// - Each `tool_result` block becomes a message of [`Role::Tool`], and other blocks beside it one of [`Role::User`].
/// - The text of a document becomes text, and other documents and images become references.
/// - Thinking, tools that the server runs, and unknown blocks are not part of the message. A response that was paused
///   (`stop_reason` is `pause_turn`) is part of prompts although it may have no content.
/// - If an object has more information than its messages, the object is kept in `metadata["anthropic"]` of the first.
///
/// A message that is read here may still be refused by [`put`](crate::Engine::put) if it is too large.
///
/// # Errors
/// [`Error::InvalidMessage`] with the index, for a value that is not an object, an unknown role, a field of the wrong
/// type, or a message of another provider's format.
///
/// ```
/// use mnemon::{ContentPart, Role, from_anthropic, to_anthropic};
/// let body = serde_json::json!({"messages": [
///     {"role": "user", "content": "Where is Ada?"},
///     {"role": "assistant", "content": [
///         {"type": "thinking", "thinking": "I should look.", "signature": "EqQB"},
///         {"type": "tool_use", "id": "toolu_1", "name": "find", "input": {"who": "Ada"}},
///     ]},
///     {"role": "user", "content": [
///         {"type": "tool_result", "tool_use_id": "toolu_1", "content": "in Lyon"},
///         {"type": "text", "text": "And be quick."},
///     ]},
/// ]});
/// let messages = from_anthropic(&body)?;
/// assert!(matches!(messages[1].content[..], [ContentPart::ToolCall { .. }]));
/// assert_eq!((messages[2].role, messages[2].text().as_str()), (Role::Tool, "in Lyon"));
/// assert_eq!((messages[3].role, messages[3].text().as_str()), (Role::User, "And be quick."));
/// assert_eq!(to_anthropic(&messages), body);
/// # Ok::<(), mnemon::Error>(())
/// ```
pub fn from_anthropic(conversation: &Value) -> Result<Vec<Message>> {
    turns::read::<Anthropic>(conversation)
}

/// The field of a response that says why the model stopped. It is kept if the response was paused.
const STOP_REASON: &str = "stop_reason";
const PAUSED: &str = "pause_turn";

/// The turn that a message was read from.
fn source(message: &Message) -> Option<&Value> {
    message.metadata.get(Anthropic::SOURCE)
}

/// Returns true if the message is a response that the API paused, to be sent back as it is.
pub(crate) fn is_paused(message: &Message) -> bool {
    source(message).is_some_and(|turn| turn[STOP_REASON] == PAUSED)
}

/// Returns true if Anthropic's form of the message lacks thinking that has no signature.
pub(crate) fn has_unsigned_thinking(message: &Message) -> bool {
    let blocks = source(message).and_then(|turn| turn["content"].as_array());
    blocks.into_iter().flatten().any(|block| block["type"] == "thinking" && Anthropic::is_refused(block))
}

#[derive(Default)]
struct Anthropic {
    ids: CallIds,
}

impl TurnFormat for Anthropic {
    const SOURCE: &'static str = "anthropic";
    const TURNS: &'static str = "messages";
    const SYSTEM: &'static [&'static str] = &["system"];
    const PARTS: &'static str = "content";
    const OF_RESPONSES: &'static [&'static str] = &[STOP_REASON];

    fn turn_of_response(object: &Object) -> fields::Result<Option<Object>> {
        let is_message_field = |(name, value): &(&String, &Value)| match name.as_str() {
            STOP_REASON => **value == PAUSED,
            name => ["role", "content"].contains(&name),
        };
        let is_response = object.get("type").is_some_and(|kind| kind == "message");
        let copy = |(name, value): (&String, &Value)| (name.clone(), value.clone());
        Ok(is_response.then(|| object.iter().filter(is_message_field).map(copy).collect()))
    }

    fn decode_turn(turn: &Object) -> fields::Result<Vec<DecodedMessage>> {
        let author = match required(turn, "role")? {
            // The lossless form has system messages in the list.
            "system" => Author::System,
            "user" => Author::User,
            "assistant" => Author::Model,
            other => return Err(format!("role {other:?} is not one of user, assistant, system")),
        };
        // Ignoring the field would lose the calls.
        if turn.contains_key("tool_calls") {
            return Err("tool_calls is a field of OpenAI's format; read the conversation with from_openai".to_owned());
        }
        let content = turn.get("content").ok_or("content is missing")?;
        Ok(DecodedMessage::split(author, decode_blocks(content)?))
    }

    fn decode_system(system: &Value) -> fields::Result<Vec<ContentPart>> {
        Ok(decode_blocks(system)?.concat())
    }

    fn is_refused(block: &Value) -> bool {
        let is_blank = |field: &str| block[field].as_str().is_none_or(|text| text.trim().is_empty());
        block["type"] == "text" && block["text"].is_string() && is_blank("text")
            || block["type"] == "thinking" && is_blank("signature")
    }

    fn system_parts(system: &Value) -> Vec<Value> {
        match system {
            Value::Array(blocks) => blocks.clone(),
            text => vec![json!({"type": "text", "text": text})],
        }
    }

    fn encode_part(&mut self, author: Author, part: &ContentPart, _: &[Value]) -> Option<Value> {
        encode_block(&mut self.ids, author, part)
    }

    fn note(&mut self, part: &ContentPart) {
        if let ContentPart::ToolCall { id, .. } = part {
            self.ids.note(id);
        }
    }

    fn encode_turn(author: Author, mut blocks: Vec<Value>) -> Object {
        let (role, content) = match author {
            // The API's responses have arrays of blocks.
            Author::Model => ("assistant", blocks.into()),
            Author::System => ("system", encode_content(blocks)),
            Author::User => {
                blocks.sort_by_key(|block| block["type"] != "tool_result");
                ("user", encode_content(blocks))
            }
        };
        [("role".to_owned(), role.into()), ("content".to_owned(), content)].into_iter().collect()
    }

    fn encode_system(blocks: Vec<Value>) -> Value {
        encode_content(blocks)
    }
}

/// Decodes content: a text, or an array of blocks, each of which becomes any number of parts.
fn decode_blocks(content: &Value) -> fields::Result<Vec<Vec<ContentPart>>> {
    match content {
        Value::String(text) => Ok(vec![vec![text_part(text)]]),
        Value::Array(blocks) => {
            let block = |(index, value)| {
                as_object(value).and_then(decode_block).map_err(|reason| format!("content[{index}]: {reason}"))
            };
            blocks.iter().enumerate().map(block).collect()
        }
        _ => Err("content is not a string or an array of blocks".to_owned()),
    }
}

fn decode_block(block: &Object) -> fields::Result<Vec<ContentPart>> {
    let field = |name| required(block, name).map(str::to_owned);
    Ok(match required(block, "type")? {
        "text" => vec![text_part(required(block, "text")?)],
        "image" => decode_media(inner(block, "source")?)?.map(ContentPart::Image).into_iter().collect(),
        "document" => decode_document(inner(block, "source")?)?,
        "tool_use" => {
            let arguments = block.get("input").cloned().unwrap_or_default();
            vec![ContentPart::ToolCall { id: field("id")?, name: field("name")?, arguments }]
        }
        "tool_result" => {
            let content = block.get("content").filter(|content| !content.is_null());
            let content = content.map(decode_blocks).transpose()?.unwrap_or_default();
            tool_result(&field("tool_use_id")?, content.concat())
        }
        _ => Vec::new(),
    })
}

/// Decodes the source of a document: its text, or a reference to it.
fn decode_document(source: &Object) -> fields::Result<Vec<ContentPart>> {
    Ok(match required(source, "type")? {
        "text" => vec![text_part(required(source, "data")?)],
        "content" => decode_blocks(source.get("content").unwrap_or(&Value::Null))?.concat(),
        _ => decode_media(source)?.map(ContentPart::File).into_iter().collect(),
    })
}

/// Decodes the source of an image or a document. Returns `None` for an unknown type.
fn decode_media(source: &Object) -> fields::Result<Option<MediaReference>> {
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

/// Encodes a part as a block. Returns `None` for a blank text, which the API refuses.
fn encode_block(ids: &mut CallIds, author: Author, part: &ContentPart) -> Option<Value> {
    match part {
        ContentPart::ToolCall { id, name, arguments } => Some(
            json!({"type": "tool_use", "id": ids.for_call(id), "name": name, "input": object_arguments(arguments)}),
        ),
        ContentPart::ToolResult { id, content } => {
            Some(json!({"type": "tool_result", "tool_use_id": ids.for_result(id), "content": content}))
        }
        other => {
            let text = match other.media() {
                // Only the user's messages may contain media; elsewhere media become text.
                Some((kind, reference)) => {
                    match (author == Author::User).then(|| encode_media(other, reference)).flatten() {
                        Some(media) => return Some(media),
                        None => reference.describe(kind),
                    }
                }
                None => other.text().expect("a part that is neither media nor a call has text").to_owned(),
            };
            (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
        }
    }
}

/// Encodes a single text block without other fields as a string, other content as an array of blocks.
fn encode_content(blocks: Vec<Value>) -> Value {
    match blocks.as_slice() {
        [block] if *block == json!({"type": "text", "text": block["text"]}) => block["text"].clone(),
        _ => blocks.into(),
    }
}

/// Encodes a reference to media. Returns `None` if the format has no such reference.
fn encode_media(part: &ContentPart, reference: &MediaReference) -> Option<Value> {
    let kind = match part {
        ContentPart::Image(_) => "image",
        ContentPart::File(_) => "document",
        _ => return None,
    };
    let source = match reference.data() {
        Some((media_type, data))
            if kind == "image" && media_type.starts_with("image/") || media_type == "application/pdf" =>
        {
            json!({"type": "base64", "media_type": media_type, "data": data})
        }
        _ if reference.has_scheme(&["https://", "http://"]) => json!({"type": "url", "url": reference.uri}),
        _ if reference.has_scheme(&["file_"]) => json!({"type": "file", "file_id": reference.uri}),
        _ => return None,
    };
    Some(json!({"type": kind, "source": source}))
}

/// The ids of the calls that were written so far. The API refuses some characters, and ids that were used before.
#[derive(Default)]
struct CallIds {
    /// For each id of a message's call, the id that was written for the last such call.
    written: HashMap<String, String>,
    used: HashSet<String>,
}

impl CallIds {
    /// Records a call that is written with its own id.
    fn note(&mut self, id: &str) {
        self.used.insert(id.to_owned());
        self.written.insert(id.to_owned(), id.to_owned());
    }

    /// Returns the id to write for a new call. It is valid, and no earlier call has it.
    fn for_call(&mut self, id: &str) -> String {
        let valid = valid_id(id);
        // An agent that reuses an id reuses it often, so the first numbers are likely to be taken.
        let numbered = (self.used.len() + 1..).map(|number| format!("{valid}-{number}"));
        let unused = |id: &String| !self.used.contains(id);
        let written = std::iter::once(valid.clone()).chain(numbered).find(unused).expect("there is no last number");
        self.used.insert(written.clone());
        self.written.insert(id.to_owned(), written.clone());
        written
    }

    /// Returns the id to write for a result, which is that of the last call with this id.
    fn for_result(&self, id: &str) -> String {
        self.written.get(id).cloned().unwrap_or_else(|| valid_id(id))
    }
}

/// Replaces the characters that the API forbids in ids.
fn valid_id(id: &str) -> String {
    let valid = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    if id.is_empty() { "call".to_owned() } else { id.chars().map(valid).collect() }
}

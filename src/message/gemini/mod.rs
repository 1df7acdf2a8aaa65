//! Conversion between messages and the conversations of Gemini's `generateContent`, lossless in both directions.
//!
//! Content that a [`Message`] has no place for, such as the signature of a thought, is kept in `metadata["gemini"]`.

mod call_ids;
mod decode;
mod encode;

use std::collections::HashMap;

use serde_json::{Map, Value};

#[cfg(doc)]
use super::role::Role;
use super::{
    chat_message::Message,
    content::ContentPart,
    fields::{self, Object},
    turns::{self, Author, Draft, TurnFormat},
};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;

/// Converts messages to the fields `contents` and `systemInstruction` of a request to Gemini's `generateContent`.
///
/// A conversation that was read by [`from_gemini`] becomes the original one again, as far as its messages are
/// unchanged, without empty texts and contents, which the API refuses. Other messages are written so:
///
/// - [`Role::System`] becomes the field `systemInstruction`, wherever the messages are in the list.
/// - [`Role::Tool`] becomes `functionResponse` parts of the user, with the name of the call of this id. A result that
///   is no JSON object becomes `{"output": result}`.
/// - Messages of one side that follow each other become one content.
/// - Arguments of a call that are not an object become the field `input` of one.
/// - Media that the format cannot refer to (a file of this machine) become text such as `[file: URI]`.
/// - Empty texts and the names of authors are left out: the format has no place for them.
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

/// Converts each message to contents of its own, with an additional field `mnemon`, from which [`from_gemini`] restores
/// the same messages. System messages stay in the list.
///
/// The form is meant for files and for programs that pass messages on. Gemini's API rejects it.
pub fn to_gemini_lossless(messages: &[Message]) -> Value {
    turns::to_lossless_value::<Gemini>(messages)
}

/// Reads messages from Gemini's format: the body of a request, of which the fields `contents` and `systemInstruction`
/// are read; an array of contents; one content; or a response, of which the content of the first candidate is read. The
/// names of fields may be in snake case, too.
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
/// - Thoughts, code that the server runs, and unknown parts are not content of the message.
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

/// The format, and the name of the last call with an id.
#[derive(Default)]
struct Gemini {
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

    fn decode_turn(turn: &Object) -> fields::Result<Vec<Draft>> {
        decode::turn(turn)
    }

    fn decode_system(system: &Value) -> fields::Result<Vec<ContentPart>> {
        decode::system(system)
    }

    fn is_empty(part: &Value) -> bool {
        // An empty text may carry the signature of a thought.
        part.as_object().is_some_and(|part| part.iter().all(|(name, value)| name == "text" && value == ""))
    }

    fn system_parts(system: &Value) -> Vec<Value> {
        match system {
            Value::String(text) => vec![serde_json::json!({ "text": text })],
            content => content["parts"].as_array().cloned().unwrap_or_default(),
        }
    }

    fn encode_part(&mut self, author: Author, part: &ContentPart, turn: &[Value]) -> Option<Value> {
        encode::part(&mut self.names, author, part, turn)
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
        serde_json::json!({ "parts": parts })
    }
}

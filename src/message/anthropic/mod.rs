//! Conversion between messages and the conversations of Anthropic's Messages API, lossless in both directions.
//!
//! Content that a [`Message`] has no place for, such as the model's thinking and its signature, is kept in
//! `metadata["anthropic"]`.

mod call_ids;
mod decode;
mod encode;

use serde_json::Value;

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
use call_ids::CallIds;

/// Converts messages to the fields `messages` and `system` of a request to Anthropic's Messages API.
///
/// A conversation that was read by [`from_anthropic`] becomes the original one again, as far as its messages are
/// unchanged, without blank texts, which the API refuses. Other messages are written so:
///
/// - [`Role::System`] becomes the field `system`, wherever the messages are in the list.
/// - [`Role::Tool`] becomes `tool_result` blocks of the user.
/// - Messages of one side that follow each other become one message, with the results of tools first, as the API
///   demands.
/// - Ids of calls that the API refuses, because they contain other characters than `a-z A-Z 0-9 _ -` or were used
///   before, are replaced, also in their results.
/// - Arguments of a call that are not an object become the field `input` of one.
/// - Media that the format cannot refer to (audio, a video, a file that is neither on the web nor a PDF) become text
///   such as `[video: URI]`.
/// - Blank texts and the names of authors are left out: the format has no place for them.
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

/// Converts each message to objects of its own, with an additional field `mnemon`, from which [`from_anthropic`]
/// restores the same messages. System messages stay in the list.
///
/// The form is meant for files and for programs that pass messages on. Anthropic's API rejects it.
pub fn to_anthropic_lossless(messages: &[Message]) -> Value {
    turns::to_lossless_value::<Anthropic>(messages)
}

/// Reads messages from Anthropic's format: the body of a request, of which the fields `system` and `messages` are read;
/// an array of messages; one message; or a response, of which role and content are read.
///
/// Each object becomes a new message with a new id, the session `default` and no time:
///
/// - The system prompt becomes a message of [`Role::System`].
/// - Each `tool_result` block becomes a message of [`Role::Tool`], and other blocks beside it one of [`Role::User`].
/// - The text of a document becomes text, and other documents and images become references.
/// - Thinking, tools that the server runs, and unknown blocks are not content of the message.
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

/// The format, and the ids of calls that were written.
#[derive(Default)]
struct Anthropic {
    ids: CallIds,
}

impl TurnFormat for Anthropic {
    const SOURCE: &'static str = "anthropic";
    const TURNS: &'static str = "messages";
    const SYSTEM: &'static [&'static str] = &["system"];
    const PARTS: &'static str = "content";

    fn turn_of_response(object: &Object) -> fields::Result<Option<Object>> {
        let is_message_field = |(name, _): &(&String, &Value)| ["role", "content"].contains(&name.as_str());
        let is_response = object.get("type").is_some_and(|kind| kind == "message");
        let copy = |(name, value): (&String, &Value)| (name.clone(), value.clone());
        Ok(is_response.then(|| object.iter().filter(is_message_field).map(copy).collect()))
    }

    fn decode_turn(turn: &Object) -> fields::Result<Vec<Draft>> {
        decode::turn(turn)
    }

    fn decode_system(system: &Value) -> fields::Result<Vec<ContentPart>> {
        Ok(decode::blocks(system)?.concat())
    }

    fn is_empty(block: &Value) -> bool {
        block["type"] == "text" && block["text"].as_str().is_some_and(|text| text.trim().is_empty())
    }

    fn system_parts(system: &Value) -> Vec<Value> {
        match system {
            Value::Array(blocks) => blocks.clone(),
            text => vec![serde_json::json!({"type": "text", "text": text})],
        }
    }

    fn encode_part(&mut self, author: Author, part: &ContentPart, _: &[Value]) -> Option<Value> {
        encode::block(&mut self.ids, author, part)
    }

    fn note(&mut self, part: &ContentPart) {
        if let ContentPart::ToolCall { id, .. } = part {
            self.ids.note(id);
        }
    }

    fn encode_turn(author: Author, blocks: Vec<Value>) -> Object {
        encode::turn(author, blocks)
    }

    fn encode_system(blocks: Vec<Value>) -> Value {
        encode::content(blocks)
    }
}

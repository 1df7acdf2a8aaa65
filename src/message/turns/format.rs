//! The trait of formats with turns, and the words that they share.

use serde_json::{Value, json};

use crate::message::{
    chat_message::Message,
    content::ContentPart,
    fields::{Object, Result},
    role::Role,
};

/// The author of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::message) enum Author {
    System,
    User,
    Model,
}

impl Author {
    pub(super) fn of(role: Role) -> Self {
        match role {
            Role::System => Author::System,
            Role::User | Role::Tool => Author::User,
            Role::Assistant => Author::Model,
        }
    }
}

/// The role and the content of a message that is read from a turn.
#[derive(Debug, PartialEq)]
pub(in crate::message) struct Draft {
    pub(in crate::message) role: Role,
    pub(in crate::message) content: Vec<ContentPart>,
}

impl Draft {
    /// Makes the messages of a turn of its parts, in order. The result of a tool, with the parts that it contains, is a
    /// message of its own, as in OpenAI's format, so that the user's own words are the user's. At least one.
    pub(in crate::message) fn split(author: Author, blocks: impl IntoIterator<Item = Vec<ContentPart>>) -> Vec<Draft> {
        let role = match author {
            Author::System => Role::System,
            Author::User => Role::User,
            Author::Model => Role::Assistant,
        };
        let mut drafts: Vec<Draft> = Vec::new();
        for block in blocks.into_iter().filter(|block| !block.is_empty()) {
            let is_result = matches!(block[0], ContentPart::ToolResult { .. });
            let role = if is_result && author == Author::User { Role::Tool } else { role };
            match drafts.last_mut().filter(|last| last.role == role && role != Role::Tool) {
                Some(last) => last.content.extend(block),
                None => drafts.push(Draft { role, content: block }),
            }
        }
        if drafts.is_empty() {
            drafts.push(Draft { role, content: Vec::new() });
        }
        drafts
    }

    pub(super) fn is_of(&self, message: &Message) -> bool {
        self.role == message.role && self.content == message.content
    }
}

/// A format with turns. A value of the type is the state of writing one conversation.
pub(in crate::message) trait TurnFormat: Default {
    /// The key in [`Message::metadata`] of the turn or system prompt that a message was read from.
    const SOURCE: &'static str;
    /// The field with the turns.
    const TURNS: &'static str;
    /// The names of the field with the system prompt. The first is written.
    const SYSTEM: &'static [&'static str];
    /// The field of a turn with its parts.
    const PARTS: &'static str;

    /// Returns the turn that a whole response of the provider contains; `None` if the object is no response.
    fn turn_of_response(object: &Object) -> Result<Option<Object>>;

    /// Reads a turn.
    fn decode_turn(turn: &Object) -> Result<Vec<Draft>>;

    /// Reads a system prompt.
    fn decode_system(system: &Value) -> Result<Vec<ContentPart>>;

    /// Returns true if the API refuses a part because it is empty.
    fn is_empty(part: &Value) -> bool;

    /// Returns the parts of a system prompt that [`decode_system`](Self::decode_system) can read, as they are.
    fn system_parts(system: &Value) -> Vec<Value>;

    /// Writes a part. `turn` has the parts before it in the same turn. `None` if the format has no place for the part.
    fn encode_part(&mut self, author: Author, part: &ContentPart, turn: &[Value]) -> Option<Value>;

    /// Takes note of a part of a turn that is written as it was read.
    fn note(&mut self, part: &ContentPart);

    /// Writes a turn of these parts.
    fn encode_turn(author: Author, parts: Vec<Value>) -> Object;

    /// Writes a system prompt of these parts.
    fn encode_system(parts: Vec<Value>) -> Value;
}

/// Returns a turn that was read without what the API refuses because it is empty. `None` if nothing is left.
pub(super) fn without_empty<F: TurnFormat>(turn: &Object) -> Option<Object> {
    let mut turn = turn.clone();
    match turn.get_mut(F::PARTS)? {
        Value::Array(parts) => {
            parts.retain(|part| !F::is_empty(part));
            (!parts.is_empty()).then_some(turn)
        }
        Value::String(text) if text.trim().is_empty() => None,
        _ => Some(turn),
    }
}

/// Writes the arguments of a call as an object, which both formats demand. A text may be the JSON of one.
pub(in crate::message) fn object_arguments(arguments: &Value) -> Value {
    let of_text = match arguments {
        Value::String(text) => serde_json::from_str(text).ok(),
        _ => None,
    };
    match of_text.as_ref().unwrap_or(arguments) {
        object @ Value::Object(_) => object.clone(),
        Value::Null => json!({}),
        _ => json!({"input": arguments}),
    }
}

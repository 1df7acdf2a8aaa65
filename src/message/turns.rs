//! Conversations of turns: reading and writing of what Anthropic's and Gemini's formats have in common.
//!
//! Both formats have two roles, the user and the model. Tool results are in the user's turns, several in one turn, and
//! the system prompt is outside the list of turns. So one turn may be read as several messages, and consecutive messages
//! of one role are written as one turn. [`TurnFormat`] describes the differences between the formats.
//!
//! Reading keeps the original turn in the metadata of its first message if the messages alone would be written
//! differently. Writing uses the original as long as the messages that were read from it are unchanged and consecutive.
//! Such a turn is not joined with the messages around it.

use serde_json::{Value, json};

use super::{
    chat_message::{ContentPart, Message, Role},
    extension::{EXTENSION, ExactReader, NextObject, imported, with_extension},
    fields::{self, Object, as_object},
};
use crate::error::{Error, Result};

/// The fields of turns, in all formats. A conversation without the field of its format may be one of another.
const TURN_FIELDS: [&str; 3] = ["messages", "contents", "choices"];

/// The author of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    System,
    User,
    Model,
}

impl Author {
    fn of(role: Role) -> Self {
        match role {
            Role::System => Author::System,
            Role::User | Role::Tool => Author::User,
            Role::Assistant => Author::Model,
        }
    }
}

/// The role and the content of a message that was read from a turn.
#[derive(Debug, PartialEq)]
pub(super) struct DecodedMessage {
    pub(super) role: Role,
    pub(super) content: Vec<ContentPart>,
}

impl DecodedMessage {
    /// Splits a turn into messages, in order; there is at least one. Each tool result becomes a separate message with the
    /// parts that it contains, as in OpenAI's format, so that messages of the user contain only what the user said.
    pub(super) fn split(author: Author, blocks: impl IntoIterator<Item = Vec<ContentPart>>) -> Vec<DecodedMessage> {
        let role = match author {
            Author::System => Role::System,
            Author::User => Role::User,
            Author::Model => Role::Assistant,
        };
        let mut decoded: Vec<DecodedMessage> = Vec::new();
        for block in blocks.into_iter().filter(|block| !block.is_empty()) {
            let is_result = matches!(block[0], ContentPart::ToolResult { .. });
            let role = if is_result && author == Author::User { Role::Tool } else { role };
            match decoded.last_mut().filter(|last| last.role == role && role != Role::Tool) {
                Some(last) => last.content.extend(block),
                None => decoded.push(DecodedMessage { role, content: block }),
            }
        }
        if decoded.is_empty() {
            decoded.push(DecodedMessage { role, content: Vec::new() });
        }
        decoded
    }

    fn matches(&self, message: &Message) -> bool {
        self.role == message.role && self.content == message.content
    }
}

/// A format with turns. A value of the type holds the state of one conversation while it is written.
pub(super) trait TurnFormat: Default {
    /// The key in [`Message::metadata`] of the turn or system prompt that a message was read from.
    const SOURCE: &'static str;
    /// The field with the turns.
    const TURNS: &'static str;
    /// The names of the field with the system prompt. The first is written.
    const SYSTEM: &'static [&'static str];
    /// The field of a turn with its parts.
    const PARTS: &'static str;
    /// Fields of an original turn that only responses have, and that requests leave out.
    const OF_RESPONSES: &'static [&'static str] = &[];

    /// Returns the turn in a response of the provider's API; `None` if the object is not a response.
    fn turn_of_response(object: &Object) -> fields::Result<Option<Object>>;

    fn decode_turn(turn: &Object) -> fields::Result<Vec<DecodedMessage>>;

    fn decode_system(system: &Value) -> fields::Result<Vec<ContentPart>>;

    /// Returns true if the API refuses the part: a blank text.
    fn is_refused(part: &Value) -> bool;

    /// Returns the unchanged parts of a system prompt that [`decode_system`](Self::decode_system) accepts.
    fn system_parts(system: &Value) -> Vec<Value>;

    /// Writes a part. `turn` has the previous parts of the same turn. Returns `None` if the format cannot express the
    /// part.
    fn encode_part(&mut self, author: Author, part: &ContentPart, turn: &[Value]) -> Option<Value>;

    /// Records a part of an original turn that is written unchanged.
    fn note(&mut self, part: &ContentPart);

    fn encode_turn(author: Author, parts: Vec<Value>) -> Object;

    fn encode_system(parts: Vec<Value>) -> Value;
}

/// Removes what the API refuses from an original turn. Returns `None` if nothing is left.
fn without_refused<F: TurnFormat>(turn: &Object) -> Option<Object> {
    let mut turn = turn.clone();
    turn.retain(|field, _| !F::OF_RESPONSES.contains(&field.as_str()));
    match turn.get_mut(F::PARTS)? {
        Value::Array(parts) => {
            parts.retain(|part| !F::is_refused(part));
            (!parts.is_empty()).then_some(turn)
        }
        Value::String(text) if text.trim().is_empty() => None,
        _ => Some(turn),
    }
}

/// Writes the arguments of a call as an object, which both formats demand. A text that is the JSON of an object becomes
/// that object.
pub(super) fn object_arguments(arguments: &Value) -> Value {
    let parsed = match arguments {
        Value::String(text) => serde_json::from_str(text).ok(),
        _ => None,
    };
    match parsed.as_ref().unwrap_or(arguments) {
        object @ Value::Object(_) => object.clone(),
        Value::Null => json!({}),
        _ => json!({"input": arguments}),
    }
}

/// Reads the messages of a conversation: an object with turns and perhaps a system prompt, an array of turns, one turn,
/// or a response.
pub(super) fn read<F: TurnFormat>(conversation: &Value) -> Result<Vec<Message>> {
    let UnreadConversation { system, turns } = parse::<F>(conversation)?;
    let mut messages = Vec::new();
    if let Some((field, system)) = system {
        let content = F::decode_system(system).map_err(|reason| Error::message(format!("{field}: {reason}")))?;
        let mut message = imported(Role::System, None, content);
        if write::<F>(std::slice::from_ref(&message)).system.as_ref() != Some(system) {
            message.metadata.insert(F::SOURCE.to_owned(), json!({ SYSTEM: system }));
        }
        messages.push(message);
    }
    let mut reader = ExactReader::default();
    // The turns that were not encoded from messages, each with the index of its first message.
    let mut foreign: Vec<(usize, Object)> = Vec::new();
    // The index of the first message of the previous turn, or of the next message if that turn was restored.
    let mut before = messages.len();
    for (index, value) in turns.iter().enumerate() {
        let invalid = |reason| Error::message(format!("{}[{index}]: {reason}", F::TURNS));
        let object = as_object(value).map_err(invalid)?;
        match reader.next(object, import_single::<F>).map_err(invalid)? {
            NextObject::Restored(restored) => {
                messages.extend(restored);
                before = messages.len();
            }
            NextObject::Continued => {}
            NextObject::Foreign(object) => {
                let turn = F::turn_of_response(&object).map_err(invalid)?.unwrap_or(object);
                let begin = messages.len();
                messages.extend(import::<F>(&turn).map_err(invalid)?);
                // The previous turn is written too, because the writer may join the two.
                let written = write::<F>(&messages[before..]).turns;
                if written.last() != Some(&turn) || written.len() != 1 + usize::from(before < begin) {
                    keep_source::<F>(&mut messages[begin], &turn);
                }
                foreign.push((begin, turn));
                before = begin;
            }
        }
    }
    // If ids of calls are used twice, a turn also depends on turns further back.
    if foreign.len() == turns.len() {
        let expected: Vec<Object> = foreign.iter().filter_map(|(_, turn)| without_refused::<F>(turn)).collect();
        if write::<F>(&messages).turns != expected {
            foreign.iter().for_each(|(begin, turn)| keep_source::<F>(&mut messages[*begin], turn));
        }
    }
    Ok(messages)
}

struct UnreadConversation<'c> {
    /// The name of the field with the system prompt, and its value.
    system: Option<(&'static str, &'c Value)>,
    turns: &'c [Value],
}

fn parse<F: TurnFormat>(conversation: &Value) -> Result<UnreadConversation<'_>> {
    let field = F::TURNS;
    match conversation {
        Value::Array(turns) => Ok(UnreadConversation { system: None, turns }),
        Value::Object(object) => {
            let present = |name: &&'static str| Some((*name, object.get(*name).filter(|value| !value.is_null())?));
            let system = F::SYSTEM.iter().find_map(present);
            match object.get(field) {
                Some(Value::Array(turns)) => Ok(UnreadConversation { system, turns }),
                Some(_) => Err(Error::message(format!("{field} is not an array"))),
                None if system.is_some() => match TURN_FIELDS.into_iter().find(|other| object.contains_key(*other)) {
                    Some(other) => Err(Error::message(format!(
                        "{field} is missing, and {other} is of another format; read it with the function for that"
                    ))),
                    None => Ok(UnreadConversation { system, turns: &[] }),
                },
                None => Ok(UnreadConversation { system, turns: std::slice::from_ref(conversation) }),
            }
        }
        _ => Err(Error::message(format!("expected an object with {field}, an array of them, or one of them"))),
    }
}

/// Reads a turn as new messages, without keeping the turn in their metadata.
fn import<F: TurnFormat>(turn: &Object) -> fields::Result<Vec<Message>> {
    Ok(F::decode_turn(turn)?.into_iter().map(|decoded| imported(decoded.role, None, decoded.content)).collect())
}

/// Reads a turn as new messages, independently of the turns around it.
fn import_single<F: TurnFormat>(turn: &Object) -> fields::Result<Vec<Message>> {
    let mut messages = import::<F>(turn)?;
    let [first, ..] = messages.as_mut_slice() else { return Ok(messages) };
    if write_single::<F>(first) != [turn.clone()] {
        keep_source::<F>(first, turn);
    }
    Ok(messages)
}

fn keep_source<F: TurnFormat>(first: &mut Message, turn: &Object) {
    first.metadata.insert(F::SOURCE.to_owned(), turn.clone().into());
}

/// Writes messages as an object with turns and, if there are system messages, a system prompt.
pub(super) fn to_value<F: TurnFormat>(messages: &[Message]) -> Value {
    let Written { system, turns } = write::<F>(messages);
    let mut conversation = json!({ F::TURNS: turns });
    if let Some(system) = system {
        conversation[F::SYSTEM[0]] = system;
    }
    conversation
}

/// Writes each message as separate turns, with the field `mnemon`.
pub(super) fn to_lossless_value<F: TurnFormat>(messages: &[Message]) -> Value {
    let turns = |message| with_extension(message, F::SOURCE, write_single::<F>(message), import_single::<F>);
    json!({ F::TURNS: messages.iter().flat_map(turns).collect::<Vec<Object>>() })
}

/// The key of the original system prompt in the object in its message's metadata.
const SYSTEM: &str = "system";

struct Written {
    system: Option<Value>,
    turns: Vec<Object>,
}

fn write<F: TurnFormat>(messages: &[Message]) -> Written {
    let mut writer = Writer::<F>::default();
    let mut system_messages = 0;
    let mut only_system = None;
    let mut rest = messages;
    while let Some(message) = rest.first() {
        let mut count = 1;
        if let Some(source) = source_turn::<F>(rest) {
            count = source.messages;
            writer.push_source(source.turn, &rest[..count]);
        } else if message.role == Role::System {
            let source = source_system::<F>(message);
            (system_messages, only_system) = (system_messages + 1, source);
            match source {
                Some(source) => {
                    writer.system.extend(F::system_parts(source).into_iter().filter(|part| !F::is_refused(part)));
                }
                None => writer.push(message),
            }
        } else {
            writer.push(message);
        }
        rest = &rest[count..];
    }
    writer.close();
    let system = match only_system {
        Some(source) if system_messages == 1 && F::system_parts(source) == writer.system => Some(source.clone()),
        _ => (!writer.system.is_empty()).then(|| F::encode_system(writer.system)),
    };
    Written { system, turns: writer.turns }
}

/// Writes one message, which may be a system message, as one or more turns.
fn write_single<F: TurnFormat>(message: &Message) -> Vec<Object> {
    let mut writer = Writer::<F>::default();
    match source_turn::<F>(std::slice::from_ref(message)) {
        Some(source) => return vec![source.turn.clone()],
        None => writer.push(message),
    }
    writer.close();
    if !writer.system.is_empty() || writer.turns.is_empty() {
        let author = Author::of(message.role);
        writer.turns.insert(0, F::encode_turn(author, writer.system));
    }
    writer.turns
}

/// The original turn that the first messages of a list were read from.
struct SourceTurn<'m> {
    turn: &'m Object,
    messages: usize,
}

/// Returns the turn that the first of `messages` was read from, if `messages` begin with all messages of that turn,
/// unchanged.
fn source_turn<F: TurnFormat>(messages: &[Message]) -> Option<SourceTurn<'_>> {
    let source = messages.first()?.metadata.get(F::SOURCE)?.as_object()?;
    if source.contains_key(EXTENSION) {
        return None;
    }
    let decoded = F::decode_turn(source).ok()?;
    let unchanged = messages.len() >= decoded.len()
        && decoded.iter().zip(messages).all(|(decoded, message)| decoded.matches(message));
    unchanged.then_some(SourceTurn { turn: source, messages: decoded.len() })
}

/// Returns the system prompt that the message was read from, if the message is unchanged.
fn source_system<F: TurnFormat>(message: &Message) -> Option<&Value> {
    let system = message.metadata.get(F::SOURCE)?.get(SYSTEM)?;
    let is_unchanged = |content| DecodedMessage { role: Role::System, content }.matches(message);
    F::decode_system(system).is_ok_and(is_unchanged).then_some(system)
}

#[derive(Default)]
struct Writer<F> {
    format: F,
    /// The parts of the system prompt.
    system: Vec<Value>,
    turns: Vec<Object>,
    /// The author and the parts of the last turn, to which further parts may be added.
    open: Option<(Author, Vec<Value>)>,
}

impl<F: TurnFormat> Writer<F> {
    fn push(&mut self, message: &Message) {
        for part in &message.content {
            let author = match part {
                ContentPart::ToolCall { .. } => Author::Model,
                ContentPart::ToolResult { .. } => Author::User,
                _ => Author::of(message.role),
            };
            let before: &[Value] = match &self.open {
                Some((open, parts)) if *open == author => parts,
                _ => &[],
            };
            let Some(encoded) = self.format.encode_part(author, part, before) else { continue };
            if author == Author::System {
                self.system.push(encoded);
                continue;
            }
            if self.open.as_ref().is_none_or(|(open, _)| *open != author) {
                self.close();
            }
            self.open.get_or_insert((author, Vec::new())).1.push(encoded);
        }
    }

    /// Writes an original turn, which is not joined with the turns around it.
    fn push_source(&mut self, turn: &Object, messages: &[Message]) {
        self.close();
        self.turns.extend(without_refused::<F>(turn));
        messages.iter().flat_map(|message| &message.content).for_each(|part| self.format.note(part));
    }

    fn close(&mut self) {
        self.turns.extend(self.open.take().map(|(author, parts)| F::encode_turn(author, parts)));
    }
}

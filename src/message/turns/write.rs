//! Writing of messages as turns.

use serde_json::Value;

use super::format::{Author, Draft, TurnFormat, without_empty};
use crate::message::{chat_message::Message, content::ContentPart, exact::EXTENSION, fields::Object, role::Role};

/// The key of a system prompt in the object that is kept in the metadata of its message.
pub(super) const SYSTEM: &str = "system";

/// Writes messages. Returns the system prompt, if there is one, and the turns.
pub(super) fn write<F: TurnFormat>(messages: &[Message]) -> (Option<Value>, Vec<Object>) {
    let mut writer = Writer::<F>::default();
    let mut system_messages = 0;
    let mut only_system = None;
    let mut rest = messages;
    while let Some(message) = rest.first() {
        let mut count = 1;
        if let Some((turn, read)) = source_turn::<F>(rest) {
            count = read;
            writer.push_source(turn, &rest[..count]);
        } else if message.role == Role::System {
            let source = source_system::<F>(message);
            (system_messages, only_system) = (system_messages + 1, source);
            match source {
                Some(source) => {
                    writer.system.extend(F::system_parts(source).into_iter().filter(|part| !F::is_empty(part)));
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
    (system, writer.turns)
}

/// Writes one message as turns, also a system message. At least one.
pub(super) fn write_alone<F: TurnFormat>(message: &Message) -> Vec<Object> {
    let mut writer = Writer::<F>::default();
    match source_turn::<F>(std::slice::from_ref(message)) {
        Some((turn, _)) => return vec![turn.clone()],
        None => writer.push(message),
    }
    writer.close();
    if !writer.system.is_empty() || writer.turns.is_empty() {
        let author = Author::of(message.role);
        writer.turns.insert(0, F::encode_turn(author, writer.system));
    }
    writer.turns
}

/// Returns the turn that the first of these messages was read from and the number of messages that were read from it,
/// if these messages begin with all of them, unchanged.
fn source_turn<F: TurnFormat>(messages: &[Message]) -> Option<(&Object, usize)> {
    let source = messages.first()?.metadata.get(F::SOURCE)?.as_object()?;
    if source.contains_key(EXTENSION) {
        return None;
    }
    let drafts = F::decode_turn(source).ok()?;
    let unchanged = messages.len() >= drafts.len() && drafts.iter().zip(messages).all(|(draft, m)| draft.is_of(m));
    unchanged.then_some((source, drafts.len()))
}

/// Returns the system prompt that this message was read from, if the message is unchanged.
fn source_system<F: TurnFormat>(message: &Message) -> Option<&Value> {
    let system = message.metadata.get(F::SOURCE)?.get(SYSTEM)?;
    let is_of = |content| Draft { role: Role::System, content }.is_of(message);
    F::decode_system(system).is_ok_and(is_of).then_some(system)
}

/// The turns that were written so far.
#[derive(Default)]
struct Writer<F> {
    format: F,
    /// The parts of the system prompt.
    system: Vec<Value>,
    turns: Vec<Object>,
    /// The author and the parts of the turn that is being written.
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

    /// Writes a turn as it was read, beside the turns around it.
    fn push_source(&mut self, turn: &Object, messages: &[Message]) {
        self.close();
        self.turns.extend(without_empty::<F>(turn));
        messages.iter().flat_map(|message| &message.content).for_each(|part| self.format.note(part));
    }

    fn close(&mut self) {
        self.turns.extend(self.open.take().map(|(author, parts)| F::encode_turn(author, parts)));
    }
}

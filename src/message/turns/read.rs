//! Reading of a conversation.

use serde_json::{Value, json};

use super::{
    format::{TurnFormat, without_empty},
    write::{SYSTEM, write, write_alone},
};
use crate::{
    error::{Error, Result},
    message::{
        chat_message::Message,
        exact::{ExactReader, NextObject, imported},
        fields::{self, Object, as_object},
        role::Role,
    },
};

/// Reads the messages of a conversation: an object with turns and perhaps a system prompt, an array of turns, one turn,
/// or a response.
pub(in crate::message) fn read<F: TurnFormat>(conversation: &Value) -> Result<Vec<Message>> {
    let Conversation { system, turns } = parse::<F>(conversation)?;
    let mut messages = Vec::new();
    if let Some((field, system)) = system {
        let content = F::decode_system(system).map_err(|reason| Error::message(format!("{field}: {reason}")))?;
        let mut message = imported(Role::System, None, content);
        if write::<F>(std::slice::from_ref(&message)).0.as_ref() != Some(system) {
            message.metadata.insert(F::SOURCE.to_owned(), json!({ SYSTEM: system }));
        }
        messages.push(message);
    }
    let mut reader = ExactReader::default();
    // The turns that were not made of messages, each with the index of its first message.
    let mut foreign: Vec<(usize, Object)> = Vec::new();
    // The first message of the turn before.
    let mut before = messages.len();
    for (index, value) in turns.iter().enumerate() {
        let invalid = |reason| Error::message(format!("{}[{index}]: {reason}", F::TURNS));
        let object = as_object(value).map_err(invalid)?;
        match reader.next(object, import_alone::<F>).map_err(invalid)? {
            NextObject::Restored(restored) => {
                messages.extend(restored);
                before = messages.len();
            }
            NextObject::Continued => {}
            NextObject::Foreign(object) => {
                let turn = F::turn_of_response(&object).map_err(invalid)?.unwrap_or(object);
                let begin = messages.len();
                messages.extend(import::<F>(&turn).map_err(invalid)?);
                // Written after the turn before, which may join it.
                let written = write::<F>(&messages[before..]).1;
                if written.last() != Some(&turn) || written.len() != 1 + usize::from(before < begin) {
                    keep_source::<F>(&mut messages[begin], &turn);
                }
                foreign.push((begin, turn));
                before = begin;
            }
        }
    }
    // A turn may also depend on turns further back, if ids of calls are used twice.
    let written = |(_, turn): &(usize, Object)| without_empty::<F>(turn);
    if foreign.len() == turns.len() && write::<F>(&messages).1 != foreign.iter().filter_map(written).collect::<Vec<_>>()
    {
        foreign.iter().for_each(|(begin, turn)| keep_source::<F>(&mut messages[*begin], turn));
    }
    Ok(messages)
}

/// A conversation whose turns are not read yet.
struct Conversation<'c> {
    /// The system prompt, and the name of its field.
    system: Option<(&'static str, &'c Value)>,
    turns: &'c [Value],
}

fn parse<F: TurnFormat>(conversation: &Value) -> Result<Conversation<'_>> {
    let field = F::TURNS;
    match conversation {
        Value::Array(turns) => Ok(Conversation { system: None, turns }),
        Value::Object(object) => {
            let present = |name: &&'static str| Some((*name, object.get(*name).filter(|value| !value.is_null())?));
            let system = F::SYSTEM.iter().find_map(present);
            match object.get(field) {
                Some(Value::Array(turns)) => Ok(Conversation { system, turns }),
                Some(_) => Err(Error::message(format!("{field} is not an array"))),
                None if system.is_some() => Ok(Conversation { system, turns: &[] }),
                None => Ok(Conversation { system, turns: std::slice::from_ref(conversation) }),
            }
        }
        _ => Err(Error::message(format!("expected an object with {field}, an array of them, or one of them"))),
    }
}

/// Makes new messages of a turn, without its source.
fn import<F: TurnFormat>(turn: &Object) -> fields::Result<Vec<Message>> {
    Ok(F::decode_turn(turn)?.into_iter().map(|draft| imported(draft.role, None, draft.content)).collect())
}

/// Makes new messages of a turn without turns around it.
pub(super) fn import_alone<F: TurnFormat>(turn: &Object) -> fields::Result<Vec<Message>> {
    let mut messages = import::<F>(turn)?;
    let [first, ..] = messages.as_mut_slice() else { return Ok(messages) };
    if write_alone::<F>(first) != [turn.clone()] {
        keep_source::<F>(first, turn);
    }
    Ok(messages)
}

fn keep_source<F: TurnFormat>(first: &mut Message, turn: &Object) {
    first.metadata.insert(F::SOURCE.to_owned(), turn.clone().into());
}

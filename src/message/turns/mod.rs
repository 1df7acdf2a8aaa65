//! Reading and writing of a conversation of turns: the part that Anthropic's and Gemini's formats have in common.
//!
//! In both formats the roles are the user and the model, results of tools are in the user's turns, several results in
//! one, and the system prompt is beside the list of turns. So one turn may be read as several messages, and messages of
//! one role that follow each other are written as one turn.
//!
//! A turn is kept in the metadata of its first message if the messages alone would be written differently. It is
//! written again as long as the messages that were read from it follow each other unchanged; a turn that is written so
//! is not joined with the messages around it.

mod format;
mod read;
mod write;

use serde_json::{Value, json};

use super::{chat_message::Message, exact::with_extension, fields::Object};
pub(super) use format::{Author, Draft, TurnFormat, object_arguments};
use read::import_alone;
pub(super) use read::read;
use write::{write, write_alone};

/// Writes messages as an object with turns and, if there are system messages, a system prompt.
pub(super) fn to_value<F: TurnFormat>(messages: &[Message]) -> Value {
    let (system, turns) = write::<F>(messages);
    let mut conversation = json!({ F::TURNS: turns });
    if let Some(system) = system {
        conversation[F::SYSTEM[0]] = system;
    }
    conversation
}

/// Writes each message as turns of its own, with the field `mnemon`.
pub(super) fn to_lossless_value<F: TurnFormat>(messages: &[Message]) -> Value {
    let turns = |message| with_extension(message, F::SOURCE, write_alone::<F>(message), import_alone::<F>);
    json!({ F::TURNS: messages.iter().flat_map(turns).collect::<Vec<Object>>() })
}

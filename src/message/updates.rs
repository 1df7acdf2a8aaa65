//! Updates of a list of messages by id, with the semantics of LangGraph's `add_messages`.

use std::collections::{HashMap, HashSet};

use super::chat_message::Message;
use crate::error::{Error, Result};

/// One change to a list of messages.
#[derive(Clone, Debug, PartialEq)]
pub enum MessageUpdate {
    /// Replaces the message with the same id, which keeps its position, or appends the message.
    Put(Message),
    /// Removes the message with this id.
    Remove(String),
    /// Removes all messages, including those of earlier updates in the same call.
    RemoveAll,
}

/// Applies updates to messages, in order.
///
/// A message that is removed and put again in the same call keeps its position. If there are several
/// [`MessageUpdate::RemoveAll`], only the updates after the last one count.
///
/// # Errors
/// [`Error::InvalidMessage`] for a removal of an id that is neither in `messages` nor put by an earlier update.
///
/// ```
/// use mnemon::{Message, MessageUpdate, add_messages};
/// let first = Message::user("hello").with_id("1");
/// let updates = vec![
///     MessageUpdate::Put(Message::user("hello again").with_id("1")),
///     MessageUpdate::Put(Message::user("bye").with_id("2")),
/// ];
/// let messages = add_messages(vec![first], updates)?;
/// assert_eq!(messages.iter().map(Message::text).collect::<Vec<_>>(), ["hello again", "bye"]);
/// # Ok::<(), mnemon::Error>(())
/// ```
pub fn add_messages(messages: Vec<Message>, updates: Vec<MessageUpdate>) -> Result<Vec<Message>> {
    let cleared = updates.iter().rposition(|update| *update == MessageUpdate::RemoveAll);
    let mut merged = if cleared.is_some() { Vec::new() } else { messages };
    let updates = updates.into_iter().skip(cleared.map_or(0, |index| index + 1));
    let mut positions: HashMap<String, usize> =
        merged.iter().enumerate().map(|(position, message)| (message.id.clone(), position)).collect();
    let mut removed = HashSet::new();
    for update in updates {
        match update {
            MessageUpdate::Put(message) => {
                removed.remove(&message.id);
                match positions.get(&message.id) {
                    Some(&position) => merged[position] = message,
                    None => {
                        positions.insert(message.id.clone(), merged.len());
                        merged.push(message);
                    }
                }
            }
            MessageUpdate::Remove(id) if positions.contains_key(&id) => {
                removed.insert(id);
            }
            MessageUpdate::Remove(id) => return Err(Error::message(format!("there is no message {id:?} to remove"))),
            MessageUpdate::RemoveAll => unreachable!("updates up to the last RemoveAll are skipped"),
        }
    }
    merged.retain(|message| !removed.contains(&message.id));
    Ok(merged)
}

//! Changing a list of messages by ids, as LangGraph's `add_messages` does.

use std::collections::{HashMap, HashSet};

use super::Message;
use crate::error::{Error, Result};

/// One change to a list of messages.
#[derive(Clone, Debug, PartialEq)]
pub enum MessageUpdate {
    /// Replaces the message of this id in its place, or appends.
    Put(Message),
    /// Removes the message of this id.
    Remove(String),
    /// Removes everything, the updates before it included.
    RemoveAll,
}

/// Applies updates to messages, in order. A message put again after its removal in the same call keeps its place, and is
/// not removed. After the last [`MessageUpdate::RemoveAll`] only what follows it counts.
///
/// # Errors
/// [`Error::InvalidMessage`]: a removal of an id that is neither in `messages` nor put before it.
///
/// ```
/// use mnemon::{Message, MessageUpdate, add_messages};
/// let first = Message::user("hello").with_id("1");
/// let updates = vec![MessageUpdate::Put(Message::user("hello again").with_id("1")), MessageUpdate::Put(Message::user("bye").with_id("2"))];
/// let messages = add_messages(vec![first], updates)?;
/// assert_eq!(messages.iter().map(Message::text).collect::<Vec<_>>(), ["hello again", "bye"]);
/// # Ok::<(), mnemon::Error>(())
/// ```
pub fn add_messages(messages: Vec<Message>, updates: Vec<MessageUpdate>) -> Result<Vec<Message>> {
    let cleared = updates.iter().rposition(|update| *update == MessageUpdate::RemoveAll);
    let mut merged = if cleared.is_some() { Vec::new() } else { messages };
    let updates = updates.into_iter().skip(cleared.map_or(0, |at| at + 1));
    let mut places: HashMap<String, usize> =
        merged.iter().enumerate().map(|(place, message)| (message.id.clone(), place)).collect();
    let mut removed = HashSet::new();
    for update in updates {
        match update {
            MessageUpdate::Put(message) => {
                removed.remove(&message.id);
                match places.get(&message.id) {
                    Some(&place) => merged[place] = message,
                    None => {
                        places.insert(message.id.clone(), merged.len());
                        merged.push(message);
                    }
                }
            }
            MessageUpdate::Remove(id) if places.contains_key(&id) => {
                removed.insert(id);
            }
            MessageUpdate::Remove(id) => return Err(Error::message(format!("no message {id:?} to remove"))),
            MessageUpdate::RemoveAll => unreachable!("skipped to after the last"),
        }
    }
    merged.retain(|message| !removed.contains(&message.id));
    Ok(merged)
}

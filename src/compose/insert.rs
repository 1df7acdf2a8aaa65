//! Where memory goes in a list of messages.

use super::InsertMethod;
use crate::message::{Message, Part, Role};

/// The message that memory is in.
pub(super) enum At {
    /// Made for it.
    New(usize),
    /// There before, and as it was.
    Old(usize, Message),
}

/// Puts `memory` and the media that it names into `messages`.
pub(super) fn insert(messages: &mut Vec<Message>, method: InsertMethod, memory: String, media: Vec<Part>) -> At {
    let (role, at) = match method {
        InsertMethod::System => (Role::System, messages.iter().position(|message| message.role == Role::System)),
        InsertMethod::User => (Role::User, messages.iter().rposition(|message| message.role == Role::User)),
    };
    let parts = std::iter::once(Part::Text { text: memory }).chain(media);
    match at {
        Some(at) => {
            let was = messages[at].clone();
            messages[at].content.splice(0..0, parts);
            At::Old(at, was)
        }
        None => {
            let at = if method == InsertMethod::System { 0 } else { messages.len() };
            messages.insert(at, Message { content: parts.collect(), ..Message::new(role, "") });
            At::New(at)
        }
    }
}

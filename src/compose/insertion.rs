//! Insertion of rendered memory into a list of messages.

use crate::message::{ContentPart, Message, Role};

/// The position of memory in a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InsertMethod {
    /// Before the content of the first system message, or in a new system message at the front.
    #[default]
    System,
    /// Before the content of the last user message, or in a new user message at the end. This leaves the system message
    /// unchanged, and with it a provider's prompt cache. A prompt of a [`Memory`](crate::Memory) without a message of the
    /// user has memory in a system message: no provider accepts a conversation that begins with the assistant's words.
    User,
}

/// The message that memory was inserted into.
pub(super) struct Insertion {
    pub(super) index: usize,
    /// The message before the insertion. `None` if the message is new.
    pub(super) before: Option<Message>,
}

/// Inserts the text `memory` and the media that it mentions into `messages`.
pub(super) fn insert_memory(
    messages: &mut Vec<Message>,
    method: InsertMethod,
    memory: String,
    media: Vec<ContentPart>,
) -> Insertion {
    let (role, index) = match method {
        InsertMethod::System => (Role::System, messages.iter().position(|message| message.role == Role::System)),
        InsertMethod::User => (Role::User, messages.iter().rposition(|message| message.role == Role::User)),
    };
    let parts = std::iter::once(ContentPart::Text { text: memory }).chain(media);
    match index {
        Some(index) => {
            let before = messages[index].clone();
            messages[index].content.splice(0..0, parts);
            Insertion { index, before: Some(before) }
        }
        None => {
            let index = if method == InsertMethod::System { 0 } else { messages.len() };
            messages.insert(index, Message::from_parts(role, parts.collect()));
            Insertion { index, before: None }
        }
    }
}

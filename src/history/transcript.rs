//! The messages of one session in memory.

use std::collections::HashMap;

use crate::message::Message;

/// Messages in order, no two with the same id.
#[derive(Default)]
pub(super) struct Transcript {
    messages: Vec<Message>,
    /// The index of each message by its id.
    positions: HashMap<String, usize>,
}

impl Transcript {
    /// Replaces the message with the same id, which keeps its position, or appends the message.
    pub(super) fn put(&mut self, message: Message) {
        match self.positions.get(&message.id) {
            Some(&position) => self.messages[position] = message,
            None => {
                self.positions.insert(message.id.clone(), self.messages.len());
                self.messages.push(message);
            }
        }
    }

    pub(super) fn messages(&self) -> &[Message] {
        &self.messages
    }

    pub(super) fn into_messages(self) -> Vec<Message> {
        self.messages
    }
}

impl Extend<Message> for Transcript {
    fn extend<I: IntoIterator<Item = Message>>(&mut self, messages: I) {
        messages.into_iter().for_each(|message| self.put(message));
    }
}

impl FromIterator<Message> for Transcript {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        let mut transcript = Transcript::default();
        transcript.extend(messages);
        transcript
    }
}

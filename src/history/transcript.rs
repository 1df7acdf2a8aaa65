//! The messages of one session in memory.

use std::collections::HashMap;

use crate::message::Message;

/// Messages in order, no two with one id.
#[derive(Default)]
pub(super) struct Transcript {
    messages: Vec<Message>,
    /// Id → place.
    places: HashMap<String, usize>,
}

impl Transcript {
    /// Replaces the message of this id in its place, or appends.
    pub(super) fn put(&mut self, message: Message) {
        match self.places.get(&message.id) {
            Some(&place) => self.messages[place] = message,
            None => {
                self.places.insert(message.id.clone(), self.messages.len());
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

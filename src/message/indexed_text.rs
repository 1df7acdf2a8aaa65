//! The text of a message as it is embedded and indexed, with what is in front of the message's own text.

use std::ops::Deref;

use super::Message;

/// The [searchable](Message::searchable) text of a message, which begins with the name of its author if there is one.
#[derive(Clone, Debug)]
pub(crate) struct IndexedText {
    text: String,
    /// The bytes of the name.
    name: usize,
}

impl IndexedText {
    pub(crate) fn of(message: &Message) -> Self {
        let text = message.searchable();
        let name = message.author_of(&text).map_or(0, str::len);
        IndexedText { text, name }
    }

    /// Returns the name of the author.
    pub(crate) fn name(&self) -> Option<&str> {
        Some(&self.text[..self.name]).filter(|name| !name.is_empty())
    }
}

impl Deref for IndexedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

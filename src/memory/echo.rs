//! Knowing what a prompt was given when it comes back.
//!
//! Agents hand whole prompts back to be stored. What memory told them must not become memory again. Three things are known:
//! memory as it was rendered, by its checksum, wherever it stands in a text; a message of another session, by its id
//! (`Transaction::update`); and a prompt that comes back as a whole without its ids, as chat formats have none, by what its
//! messages say in their order.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use super::Inner;
use crate::{
    engine::Given,
    error::Result,
    message::{Message, Part, xml},
};

impl Inner {
    /// The messages without what prompts were given, and how many were left out or shortened.
    pub(super) fn without_echoes(&self, messages: Vec<Message>) -> Result<(Vec<Message>, u64)> {
        let mut echoes = 0;
        let mut kept = Vec::with_capacity(messages.len());
        let (told, given) = self.known(&messages);
        for (at, mut message) in messages.into_iter().enumerate() {
            if let Some(id) = given.get(at) {
                message.id.clone_from(id);
            }
            // Of a prompt that came back without ids, what is stored has its time and metadata there.
            if told.contains(&message.id) || (at < given.len() && self.knows(&message.id)?) {
                echoes += 1;
                continue;
            }
            let stripped = self.strip(&mut message);
            echoes += u64::from(stripped);
            if !(stripped && message.content.is_empty()) {
                kept.push(message);
            }
        }
        Ok((kept, echoes))
    }

    /// Notes the messages of a prompt; `own` are those of the buffer and the turn.
    pub(super) fn give(&self, messages: &[Message], own: &[Arc<Message>]) {
        let own: HashSet<&str> = own.iter().map(|message| message.id.as_str()).collect();
        let given = |message: &Message| Given {
            id: message.id.clone(),
            says: says(message),
            told: !own.contains(message.id.as_str()),
        };
        self.live.turn.lock().given = messages.iter().map(given).collect();
    }

    /// The ids of the messages that memory made or told in the last prompt; and the ids of all its messages, if `messages`
    /// begins with all of them, under other ids.
    fn known(&self, messages: &[Message]) -> (HashSet<String>, Vec<String>) {
        let turn = self.live.turn.lock();
        let given = &turn.given;
        let told = given.iter().filter(|given| given.told).map(|given| given.id.clone()).collect();
        // One message alone may well be said again.
        let comes_back = given.len() >= 2
            && messages.len() >= given.len()
            && given.iter().zip(messages).all(|(given, message)| given.id != message.id && says(message) == given.says);
        let ids = given.iter().filter(|_| comes_back).map(|given| given.id.clone()).collect();
        (told, ids)
    }

    /// Takes memory out of a message. Returns whether there was any; what is left may be empty.
    fn strip(&self, message: &mut Message) -> bool {
        let renderer = &self.composer.renderer;
        let mut stripped = false;
        let mut media = 0;
        let content = std::mem::take(&mut message.content);
        for part in content {
            match part {
                Part::Text { text } => {
                    let left = renderer.strip(&text);
                    if let Some(left) = &left {
                        stripped = true;
                        // Those that the memory named follow it.
                        media = text.matches(" uri='").count().saturating_sub(left.matches(" uri='").count());
                    }
                    let text = left.as_ref().unwrap_or(&text);
                    if !(stripped && text.is_empty()) {
                        message.content.push(Part::Text { text: text.clone() });
                    }
                }
                part if media > 0 && xml::media(&part).is_some() => media -= 1,
                part => message.content.push(part),
            }
        }
        stripped
    }
}

/// What a message says, as far as chat formats keep it: its role, and its texts with a line feed between them, or else its
/// parts.
fn says(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.role.hash(&mut hasher);
    let mut first = true;
    for part in &message.content {
        match part {
            Part::Text { text } | Part::ToolResult { content: text, .. } => {
                if !std::mem::take(&mut first) {
                    hasher.write(b"\n");
                }
                hasher.write(text.as_bytes());
            }
            _ => {}
        }
    }
    for part in &message.content {
        if let Part::ToolCall { id, name, arguments } = part {
            (id, name, arguments.to_string()).hash(&mut hasher);
        }
    }
    hasher.finish()
}

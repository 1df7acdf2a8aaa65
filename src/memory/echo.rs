//! Knowing what a prompt was given when it comes back.
//!
//! Agents hand whole prompts back to be stored. What memory told them must not become memory again. Three things are known:
//! memory as it was rendered, by its checksum, wherever it stands in a text; a message that a block told in the last prompt, by
//! its id; and the last prompt when it comes back without its ids, as chat formats have none, by what its messages say in
//! their order.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use super::Inner;
use crate::{
    engine::{Given, Origin},
    error::Result,
    message::{Message, Part, xml},
};

impl Inner {
    /// The messages without what prompts were given, and the ids of those that were left out or shortened. `whole`: they may
    /// begin with a prompt that comes back without its ids.
    pub(super) fn without_echoes(&self, messages: Vec<Message>, whole: bool) -> Result<(Vec<Message>, Vec<String>)> {
        let mut echoes = Vec::new();
        let mut kept = Vec::with_capacity(messages.len());
        let turn = self.live.turn.lock();
        let begins = if whole { beginning(&turn.given, &messages) } else { &[] };
        for (at, mut message) in messages.into_iter().enumerate() {
            let id = message.id.clone();
            let given = match begins.get(at) {
                Some(given) => {
                    message.id.clone_from(&given.id);
                    Some(given)
                }
                None => {
                    let hash = says(&message);
                    turn.given.iter().flatten().find(|given| given.id == message.id && given.says == hash)
                }
            };
            let stripped = self.strip(&mut message, &turn.media);
            let echo = match given.map(|given| given.of) {
                _ if stripped && is_blank(&message) => true,
                None => false,
                Some(Origin::Memory) => true,
                // Edited or deleted since: the prompt knows less than the session. Else, with its ids, an ordinary put.
                Some(Origin::Buffer) => at < begins.len() || !self.says_now(&message)?,
                Some(Origin::Turn) => at < begins.len() && self.knows(&message.id)?,
            };
            if stripped || echo {
                echoes.push(id);
            }
            if !echo {
                kept.push(message);
            }
        }
        Ok((kept, echoes))
    }

    /// Notes the messages of a prompt: of the buffer, of the turn, and what memory made or told.
    pub(super) fn give(&self, messages: &[Message], buffer: &[Arc<Message>], turn: &[Arc<Message>]) {
        let by_id = |messages: &[Arc<Message>]| -> HashMap<String, Arc<Message>> {
            messages.iter().map(|message| (message.id.clone(), Arc::clone(message))).collect()
        };
        let (buffer, own) = (by_id(buffer), by_id(turn));
        let mut media = Vec::new();
        let mut given = Vec::with_capacity(messages.len());
        for message in messages {
            let (was, of) = match (buffer.get(&message.id), own.get(&message.id)) {
                (Some(was), _) => (was.content.len(), Origin::Buffer),
                (_, Some(was)) => (was.content.len(), Origin::Turn),
                _ => (0, Origin::Memory),
            };
            // What was inserted stands before what was there.
            let inserted = message.content.len().saturating_sub(was);
            media.extend(message.content[..inserted].iter().filter(|part| xml::media(part).is_some()).cloned());
            given.push(Given { id: message.id.clone(), says: says(message), of, has_memory: inserted > 0 });
        }
        let mut turn = self.live.turn.lock();
        turn.media.extend(media);
        turn.given.push_back(given);
        if turn.given.len() > PROMPTS {
            turn.given.pop_front();
        }
        let excess = turn.media.len().saturating_sub(MEDIA);
        turn.media.drain(..excess);
    }

    /// Whether the session has this message, saying this.
    fn says_now(&self, message: &Message) -> Result<bool> {
        let snapshot = self.core().store().read()?;
        let Some(namespace) = snapshot.namespace(&self.settings.namespace)? else { return Ok(false) };
        let now = snapshot.message_by_id(namespace, &message.id)?;
        Ok(now.is_some_and(|now| now.session == self.settings.session && says(&now) == says(message)))
    }

    /// Takes memory out of a message, with the media that came with it. Returns whether there was any.
    fn strip(&self, message: &mut Message, media: &[Part]) -> bool {
        let renderer = &self.settings.composer.renderer;
        let mut stripped = false;
        for part in &mut message.content {
            if let Part::Text { text } = part
                && let Some(left) = renderer.strip(text)
            {
                stripped = true;
                *text = left;
            }
        }
        if stripped {
            let blank = |part: &Part| matches!(part, Part::Text { text } if text.is_empty());
            message.content.retain(|part| !blank(part) && !media.contains(part));
        }
        stripped
    }
}

/// Prompts of a session that are known again; media that memory put into them.
const PROMPTS: usize = 4;
const MEDIA: usize = 64;

/// The messages of a prompt that `messages` begin with, under other ids; the longest.
///
/// What was merely said may be said again: only a beginning that has what memory put into it is known to be a prompt.
fn beginning<'g>(prompts: &'g VecDeque<Vec<Given>>, messages: &[Message]) -> &'g [Given] {
    let same = |prompt: &'g Vec<Given>| {
        let both = prompt.iter().zip(messages);
        let count = both.take_while(|(given, message)| given.id != message.id && says(message) == given.says).count();
        &prompt[..count]
    };
    let begins = prompts.iter().map(same).filter(|begins| begins.iter().any(|given| given.has_memory));
    begins.max_by_key(|begins| begins.len()).unwrap_or(&[])
}

fn is_blank(message: &Message) -> bool {
    message.content.iter().all(|part| matches!(part, Part::Text { text } if text.trim().is_empty()))
}

/// What a message says, as far as chat formats keep it: its role, its texts with a line feed between them, its calls and media.
fn says(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.role.hash(&mut hasher);
    let mut first = true;
    for part in &message.content {
        if let Part::Text { text } | Part::ToolResult { content: text, .. } = part {
            if !std::mem::take(&mut first) {
                hasher.write(b"\n");
            }
            hasher.write(text.as_bytes());
        }
    }
    for part in &message.content {
        match part {
            Part::ToolCall { id, name, arguments } => (id, name, arguments.to_string()).hash(&mut hasher),
            Part::Image(media) | Part::Audio(media) | Part::Video(media) | Part::File(media) => {
                media.uri.hash(&mut hasher)
            }
            _ => {}
        }
    }
    hasher.finish()
}

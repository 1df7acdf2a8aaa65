//! Recognizes the content of earlier prompts in messages that are put.
//!
//! Agents put whole prompts back to be stored. Content that memory inserted must not become memory again. Three things are
//! recognized: rendered memory, by its checksum, anywhere in a text; a message that a block placed in one of the last prompts, by
//! its id and content; and one of the last prompts that comes back with other ids, as chat formats have none, by the content of
//! its messages in order.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use super::{
    inner::Inner,
    turn::{GivenMessage, Origin},
};
use crate::{
    error::Result,
    message::{ContentPart, Message},
};

impl Inner {
    /// Removes the content of earlier prompts from messages. Returns the messages that are left, and the ids of those that were
    /// dropped or shortened. With `whole`, the messages may begin with a prompt that comes back under other ids.
    pub(super) fn without_echoes(&self, messages: Vec<Message>, whole: bool) -> Result<(Vec<Message>, Vec<String>)> {
        let mut echoes = Vec::new();
        let mut kept = Vec::with_capacity(messages.len());
        // Copied out of the lock: what follows reads the store and runs code of the program.
        let (prompts, media) = {
            let turn = self.live.turn.lock();
            (turn.given.clone(), Arc::clone(&turn.media))
        };
        let begins = if whole { beginning(&prompts, &messages) } else { &[] };
        for (at, mut message) in messages.into_iter().enumerate() {
            let id = message.id.clone();
            let given = match begins.get(at) {
                Some(given) => {
                    message.id.clone_from(&given.id);
                    Some(given)
                }
                None => {
                    let hash = content_hash(&message);
                    prompts.iter().flat_map(|given| &**given).find(|given| given.id == message.id && given.hash == hash)
                }
            };
            let stripped = self.strip(&mut message, &media);
            let echo = match given.map(|given| given.origin) {
                _ if stripped && is_blank(&message) => true,
                None => false,
                Some(Origin::Memory) => true,
                // A message edited or deleted since is not put back to its old content. Any other is an ordinary put.
                Some(Origin::Buffer) => at < begins.len() || !self.is_stored_as_is(&message)?,
                Some(Origin::Turn) => at < begins.len() && self.stored.has_message(&message.id)?,
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

    /// Remembers the messages of a prompt that is given out: those of the buffer, of the turn, and those of memory.
    pub(super) fn remember_prompt(&self, messages: &[Message], buffer: &[Arc<Message>], turn: &[Arc<Message>]) {
        let by_id = |messages: &[Arc<Message>]| -> HashMap<String, Arc<Message>> {
            messages.iter().map(|message| (message.id.clone(), Arc::clone(message))).collect()
        };
        let (buffer, own) = (by_id(buffer), by_id(turn));
        let mut media = Vec::new();
        let mut given = Vec::with_capacity(messages.len());
        for message in messages {
            let (was, origin) = match (buffer.get(&message.id), own.get(&message.id)) {
                (Some(was), _) => (was.content.len(), Origin::Buffer),
                (_, Some(was)) => (was.content.len(), Origin::Turn),
                _ => (0, Origin::Memory),
            };
            // Inserted parts come before the message's own.
            let inserted = message.content.len().saturating_sub(was);
            media.extend(message.content[..inserted].iter().filter(|part| part.media().is_some()).cloned());
            let (id, hash, has_memory) = (message.id.clone(), content_hash(message), inserted > 0);
            given.push(GivenMessage { id, hash, origin, has_memory });
        }
        let mut turn = self.live.turn.lock();
        turn.given.push_back(given.into());
        if turn.given.len() > PROMPTS {
            turn.given.pop_front();
        }
        if !media.is_empty() {
            let all = Arc::make_mut(&mut turn.media);
            all.extend(media);
            all.drain(..all.len().saturating_sub(MEDIA));
        }
    }

    /// Returns true if the session has this message with the same content.
    fn is_stored_as_is(&self, message: &Message) -> Result<bool> {
        let now = self.stored.message(&message.id)?;
        Ok(now.is_some_and(|now| content_hash(&now) == content_hash(message)))
    }

    /// Removes rendered memory from a message, with the media that were inserted with it. Returns true if there was any.
    fn strip(&self, message: &mut Message, media: &[ContentPart]) -> bool {
        let renderer = &self.settings.composer.renderer;
        let mut stripped = false;
        for part in &mut message.content {
            if let ContentPart::Text { text } = part
                && let Some(left) = renderer.strip(text)
            {
                stripped = true;
                *text = left;
            }
        }
        if stripped {
            let blank = |part: &ContentPart| matches!(part, ContentPart::Text { text } if text.is_empty());
            message.content.retain(|part| !blank(part) && !media.contains(part));
        }
        stripped
    }
}

/// Number of prompts of a session that are remembered.
const PROMPTS: usize = 4;
/// Number of inserted media that are remembered.
const MEDIA: usize = 64;

/// Returns the longest beginning of a remembered prompt that `messages` begin with, under other ids.
///
/// Users repeat themselves: only a beginning that contains memory is taken for a prompt.
fn beginning<'g>(prompts: &'g VecDeque<Arc<[GivenMessage]>>, messages: &[Message]) -> &'g [GivenMessage] {
    let same = |prompt: &'g Arc<[GivenMessage]>| {
        let both = prompt.iter().zip(messages);
        let count =
            both.take_while(|(given, message)| given.id != message.id && content_hash(message) == given.hash).count();
        &prompt[..count]
    };
    let begins = prompts.iter().map(same).filter(|begins| begins.iter().any(|given| given.has_memory));
    begins.max_by_key(|begins| begins.len()).unwrap_or(&[])
}

fn is_blank(message: &Message) -> bool {
    message.content.iter().all(|part| matches!(part, ContentPart::Text { text } if text.trim().is_empty()))
}

/// Hashes the content of a message as far as chat formats keep it: its role, its texts joined by line feeds, its calls and media.
fn content_hash(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.role.hash(&mut hasher);
    let mut first = true;
    for part in &message.content {
        if let ContentPart::Text { text } | ContentPart::ToolResult { content: text, .. } = part {
            if !std::mem::take(&mut first) {
                hasher.write(b"\n");
            }
            hasher.write(text.as_bytes());
        }
    }
    for part in &message.content {
        match part {
            ContentPart::ToolCall { id, name, arguments } => (id, name, arguments.to_string()).hash(&mut hasher),
            ContentPart::Image(media)
            | ContentPart::Audio(media)
            | ContentPart::Video(media)
            | ContentPart::File(media) => media.uri.hash(&mut hasher),
            _ => {}
        }
    }
    hasher.finish()
}

//! Recognizes messages that come back: agents put whole prompts and whole chats back to be stored. What memory inserted
//! into a prompt must not become memory again, and what the session has must not be stored twice.
//!
//! Four things are recognized:
//!
//! - rendered memory, by its seal, anywhere in a text, also after a restart;
//! - a message that a block placed in one of the last prompts, by its id and content;
//! - one of the last prompts that comes back with other ids, as chat formats have none, by the content of its messages
//!   in order;
//! - the session's last messages at the beginning of a put without ids, by their content in order.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use super::open_memory::OpenMemory;
use crate::{
    compose::Composer,
    engine::{GivenMessage, Origin},
    error::Result,
    message::{
        ContentPart, Message, Role,
        format::{from_openai, to_openai},
        xml::media_element,
    },
};

/// A message that came back to the session.
struct Returned {
    /// The message without the memory in it. If it is a message of a prompt, it has that message's id.
    message: Message,
    /// The id under which it was put.
    id: String,
    /// The source of the message, if it is one of a prompt.
    origin: Option<Origin>,
    /// True if it was put under another id than in the prompt.
    is_renamed: bool,
    /// True if memory was removed from it.
    is_stripped: bool,
}

impl Returned {
    /// Returns true if memory made the whole message.
    fn is_memory(&self) -> bool {
        self.origin == Some(Origin::Memory) || self.is_stripped && self.message.is_blank()
    }
}

/// Messages without the content of earlier prompts.
#[derive(Default)]
pub(super) struct WithoutEchoes {
    pub(super) kept: Vec<Message>,
    /// Ids of the messages that were dropped or shortened.
    pub(super) echoes: Vec<String>,
    /// Number of messages that were dropped because they repeat the session's last messages.
    pub(super) known: u64,
}

impl OpenMemory {
    /// Removes the content of earlier prompts from messages. With `whole`, the messages may begin with a prompt or with
    /// the session's last messages that come back under other ids.
    pub(super) fn without_echoes(&self, messages: Vec<Message>, whole: bool) -> Result<WithoutEchoes> {
        let mut without = WithoutEchoes::default();
        let returned = self.returned(messages, whole);
        let is_prompt = returned.iter().any(|returned| returned.is_renamed);
        for returned in returned {
            let Returned { message, is_renamed, .. } = &returned;
            let is_echo = match returned.origin {
                _ if returned.is_memory() => true,
                // A message that was edited or deleted since keeps its newer state. Any other is put as usual.
                Some(Origin::Buffer) => *is_renamed || !self.is_stored_as_is(message)?,
                Some(Origin::Turn) => *is_renamed && self.stored.has_message(&message.id)?,
                _ => false,
            };
            if returned.is_stripped || is_echo {
                without.echoes.push(returned.id);
            }
            if !is_echo {
                without.kept.push(returned.message);
            }
        }
        if whole && !is_prompt {
            let before = without.kept.len();
            without.kept = self.without_known(without.kept)?;
            without.known = (before - without.kept.len()) as u64;
        }
        Ok(without)
    }

    /// Removes the content of earlier prompts from a chat that comes back. Returns its other messages, each with true
    /// if it is as a prompt had it, and the ids of those that were dropped or shortened.
    pub(super) fn returned_chat(&self, chat: Vec<Message>) -> (Vec<(Message, bool)>, Vec<String>) {
        let mut echoes = Vec::new();
        let mut kept = Vec::with_capacity(chat.len());
        for returned in self.returned(chat, true) {
            if returned.is_stripped || returned.is_memory() {
                echoes.push(returned.id.clone());
            }
            if !returned.is_memory() {
                kept.push((returned.message, returned.origin.is_some()));
            }
        }
        (kept, echoes)
    }

    /// Recognizes the messages of earlier prompts and removes memory from them. With `whole`, the messages may begin
    /// with a prompt under other ids.
    fn returned(&self, messages: Vec<Message>, whole: bool) -> Vec<Returned> {
        // Copied out of the lock, because a renderer is code of the program.
        let (prompts, media) = {
            let turn = self.live.turn.lock();
            (turn.given.clone(), Arc::clone(&turn.media))
        };
        let begins = if whole { beginning(&prompts, &messages) } else { &[] };
        let returned = |(at, mut message): (usize, Message)| {
            let id = message.id.clone();
            let given = match begins.get(at) {
                Some(given) => {
                    message.id.clone_from(&given.id);
                    Some(given)
                }
                None => {
                    let hash = content_hash(&message);
                    let mut given = prompts.iter().flat_map(|prompt| &**prompt);
                    given.find(|given| given.id == message.id && given.hash == hash)
                }
            };
            let is_stripped = self.strip(&mut message, &media);
            let origin = given.map(|given| given.origin);
            Returned { message, id, origin, is_renamed: at < begins.len(), is_stripped }
        };
        messages.into_iter().enumerate().map(returned).collect()
    }

    /// Records the messages of a prompt with their sources, and the ids of recent messages that the prompt does not
    /// contain, to recognize them when they come back.
    pub(super) fn remember_prompt(
        &self,
        messages: &[Message],
        left_out: &[String],
        buffer: &[Arc<Message>],
        turn: &[Arc<Message>],
    ) {
        fn by_id(messages: &[Arc<Message>]) -> HashMap<&str, &Message> {
            messages.iter().map(|message| (message.id.as_str(), &**message)).collect()
        }
        let (buffer, own) = (by_id(buffer), by_id(turn));
        let mut media = Vec::new();
        let mut given = Vec::with_capacity(messages.len());
        for message in messages {
            let (was, origin) = match (buffer.get(&*message.id), own.get(&*message.id)) {
                (Some(was), _) => (was.content.len(), Origin::Buffer),
                (_, Some(was)) => (was.content.len(), Origin::Turn),
                _ => (0, Origin::Memory),
            };
            // Inserted parts come after the content of a system message, and before that of another.
            let inserted = match message.role {
                Role::System => &message.content[was.min(message.content.len())..],
                _ => &message.content[..message.content.len().saturating_sub(was)],
            };
            media.extend(inserted.iter().filter(|part| part.media().is_some()).cloned());
            let (id, hash, has_memory) = (message.id.clone(), content_hash(message), !inserted.is_empty());
            given.push(GivenMessage { id, hash, origin, has_memory });
        }
        let mut turn = self.live.turn.lock();
        turn.given.push_back(given.into());
        turn.left_out.push_back(left_out.to_vec());
        if turn.given.len() > PROMPTS {
            turn.given.pop_front();
            turn.left_out.pop_front();
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

    /// Removes rendered memory from a message, with the media that were inserted with it. Returns true if there was
    /// any.
    fn strip(&self, message: &mut Message, media: &[ContentPart]) -> bool {
        let Composer { renderer, seal_key, .. } = &self.settings.composer;
        let mut is_stripped = false;
        // The text that media may follow which belong to the memory in it.
        let mut memory = String::new();
        message.content.retain_mut(|part| match part {
            ContentPart::Text { text } => match renderer.strip(text, seal_key) {
                Some(left) => {
                    is_stripped = true;
                    memory = std::mem::replace(text, left);
                    !text.is_empty()
                }
                None => {
                    memory.clear();
                    true
                }
            },
            part => !(is_stripped && media.contains(part) || is_line_of(&memory, part)),
        });
        is_stripped
    }
}

/// Returns true if rendered memory mentions these media on a line of their own.
fn is_line_of(memory: &str, part: &ContentPart) -> bool {
    let Some(element) = media_element(part) else { return false };
    memory.lines().any(|line| line.strip_prefix("> ").unwrap_or(line) == element)
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

/// Hashes the content of a message as far as chat formats keep it: its role, its texts joined by line feeds, its calls,
/// the ids of the calls that it answers, and media.
pub(super) fn content_hash(message: &Message) -> u64 {
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
            ContentPart::ToolResult { id, .. } => id.hash(&mut hasher),
            ContentPart::Image(media)
            | ContentPart::Audio(media)
            | ContentPart::Video(media)
            | ContentPart::File(media) => media.uri.hash(&mut hasher),
            _ => {}
        }
    }
    hasher.finish()
}

/// The fewest messages at the beginning of a put that count as a repetition of the session's last messages, unless the
/// session has fewer: users and assistants repeat short sentences.
const MIN_KNOWN: usize = 2;

impl OpenMemory {
    /// Drops the messages at the beginning of a put that repeat the session's last messages.
    ///
    /// Only messages without ids are looked at: those whose id was made by the library and is new to the session. The
    /// beginning must be the end of the session, apart from system messages; it must have [`MIN_KNOWN`] messages or be
    /// the whole session; and a message must follow it. A put of one message is always stored. With a known beginning,
    /// system messages that the session has are dropped too.
    fn without_known(&self, messages: Vec<Message>) -> Result<Vec<Message>> {
        let is_spoken = |message: &&Message| message.role != Role::System;
        let spoken: Vec<u64> = messages.iter().filter(is_spoken).map(content_hash).collect();
        let Some(earlier) = spoken.len().checked_sub(1).filter(|earlier| *earlier > 0) else { return Ok(messages) };
        if !messages.iter().all(has_made_id) {
            return Ok(messages);
        }
        // Nearly every put ends here, without reading the store.
        let buffer = self.buffer()?;
        let last = buffer.iter().map(|(_, message)| message).rfind(|message| message.role != Role::System);
        if last.is_some_and(|last| !spoken[..earlier].iter().any(|hash| content_hashes(last).contains(hash))) {
            return Ok(messages);
        }
        let history = self.stored.history()?;
        let stored: Vec<[u64; 2]> = history.iter().filter(is_spoken).map(content_hashes).collect();
        let is_end = |count: &usize| {
            let end = &stored[stored.len() - count..];
            end.iter().zip(&spoken).all(|(stored, hash)| stored.contains(hash))
        };
        let known = (1..=earlier.min(stored.len())).rev().find(is_end).unwrap_or(0);
        let ids: HashSet<&str> = history.iter().map(|message| message.id.as_str()).collect();
        if known == 0
            || known < MIN_KNOWN.min(stored.len())
            || messages.iter().any(|message| ids.contains(&*message.id))
        {
            return Ok(messages);
        }
        let system = history.iter().filter(|message| message.role == Role::System);
        let system: HashSet<u64> = system.flat_map(content_hashes).collect();
        let mut spoken = 0;
        let mut is_new = |message: &Message| match message.role {
            Role::System => !system.contains(&content_hash(message)),
            _ => {
                spoken += 1;
                spoken > known
            }
        };
        Ok(messages.into_iter().filter(|message| is_new(message)).collect())
    }
}

/// Returns true if the library may have made the message's id: a UUID of version 7.
pub(super) fn has_made_id(message: &Message) -> bool {
    uuid::Uuid::try_parse(&message.id).is_ok_and(|id| id.get_version_num() == 7)
}

/// Returns the hashes that a message may come back with: that of its content, and that of what OpenAI's format leaves
/// of it.
pub(super) fn content_hashes(message: &Message) -> [u64; 2] {
    let own = content_hash(message);
    if message.content.iter().all(|part| part.media().is_none()) {
        return [own; 2];
    }
    let formatted = from_openai(&to_openai(std::slice::from_ref(message))).unwrap_or_default();
    match formatted.as_slice() {
        [formatted] => [own, content_hash(formatted)],
        _ => [own; 2],
    }
}

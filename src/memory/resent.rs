//! Recognizes a chat that is put back whole, without ids.

use std::{collections::HashSet, sync::Arc};

use super::{echo::content_hash, inner::Inner};
use crate::{
    error::Result,
    message::{Message, Role, from_openai, to_openai},
};

/// The fewest messages at the beginning of a put that are taken for the session's last ones, unless they are all that
/// the session has: users and assistants repeat short sentences.
const MIN_KNOWN: usize = 2;

impl Inner {
    /// Drops the messages at the beginning of a put that are the session's last ones.
    ///
    /// Only messages without ids are looked at: those whose id was made by the library and is new to the session. The
    /// beginning must be the end of the session, apart from system messages; it must have [`MIN_KNOWN`] messages or be
    /// the whole session; and a message must follow it. A put of one message is always stored. With a known beginning,
    /// system messages that the session has are dropped too.
    pub(super) fn without_known(&self, messages: Vec<Message>) -> Result<Vec<Message>> {
        let is_spoken = |message: &&Message| message.role != Role::System;
        let spoken: Vec<u64> = messages.iter().filter(is_spoken).map(content_hash).collect();
        let Some(earlier) = spoken.len().checked_sub(1).filter(|earlier| *earlier > 0) else { return Ok(messages) };
        if !messages.iter().all(has_made_id) {
            return Ok(messages);
        }
        // Nearly every put ends here, without reading the store.
        let last = self.live.buffer(&self.stored, |buffer| {
            buffer.values().rfind(|message| message.role != Role::System).map(Arc::clone)
        })?;
        if last.is_some_and(|last| !spoken[..earlier].iter().any(|hash| content_hashes(&last).contains(hash))) {
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

//! Reads the window of a session.
//!
//! The messages in the buffer are kept by the live session. Those in long-term memory are read here, as many of the
//! last turns as fit into the budget beside the buffer, and read again when the session's messages there have changed.

use std::{collections::HashMap, sync::Arc};

use super::{
    inner::Inner,
    window::{Flushed, FlushedRecent, RecentMessage, joined},
};
use crate::{
    buffer::turn_starts,
    error::Result,
    message::{Message, Role},
    store::{CostedMessage, FlushedWindow},
};

impl Inner {
    /// Returns the messages of the window: leading system messages, then all others in the order in which they were
    /// put.
    pub(super) fn recent(&self) -> Result<Vec<RecentMessage>> {
        loop {
            let flushed = self.flushed_recent()?;
            let recent = self.counted(|buffer, counted| {
                let is_current = flushed.version == Some(self.live.version());
                is_current.then(|| {
                    let in_buffer = |(seq, message): (&u64, &Arc<Message>)| (*seq, Arc::clone(message), counted[seq].1);
                    joined(buffer.iter().map(in_buffer), &flushed)
                })
            })?;
            // Otherwise a message was flushed in between: it is in neither.
            if let Some(recent) = recent {
                return Ok(recent);
            }
        }
    }

    /// Returns true if the window is over its budget.
    pub(super) fn is_over_budget(&self) -> Result<bool> {
        let budget = self.settings.limits.budget();
        let flushed: usize = self.flushed_recent()?.all().map(|(.., cost)| cost).sum();
        self.counted(|buffer, counted| {
            // `counted` may still have messages that left the buffer, so its sum is an upper bound.
            let all: usize = counted.values().map(|(_, cost)| cost).sum();
            all + flushed > budget
                && (counted.len() == buffer.len()
                    || buffer.keys().map(|seq| counted[seq].1).sum::<usize>() + flushed > budget)
        })
    }

    /// Returns the messages of the window that are in long-term memory, and reads them if they have changed.
    fn flushed_recent(&self) -> Result<Arc<FlushedRecent>> {
        // Before the read: what is read may be newer, and is then read again.
        let version = self.live.version();
        let known = Arc::clone(&self.flushed_recent.lock());
        if known.version == Some(version) {
            return Ok(known);
        }
        let read = Arc::new(FlushedRecent { version: Some(version), ..self.read_flushed_recent(&known)? });
        *self.flushed_recent.lock() = Arc::clone(&read);
        Ok(read)
    }

    fn read_flushed_recent(&self, known: &FlushedRecent) -> Result<FlushedRecent> {
        let buffer = self.buffer()?;
        let budget = self.settings.limits.budget();
        let left = budget.saturating_sub(buffer.iter().map(|(.., cost)| cost).sum());
        let has_turn = buffer.iter().any(|(_, message, _)| message.role == Role::User);
        let known: HashMap<u64, &Flushed> = known.all().map(|known| (known.0, known)).collect();
        let cost = |seq: u64, message: &Message| {
            let known = known.get(&seq).map(|(_, known, cost)| (Arc::clone(known), *cost));
            // Flushed since it was counted.
            let known = known.or_else(|| self.tokens.lock().get(&seq).cloned());
            match known {
                Some((known, cost)) if *known == *message => cost,
                _ => self.settings.composer.tokens.count(message),
            }
        };
        let FlushedWindow { system, last, is_cut } = self.stored.flushed_window(left, has_turn, cost)?;
        let shared = |messages: Vec<CostedMessage>| -> Vec<Flushed> {
            messages.into_iter().map(|(seq, message, cost)| (seq, Arc::new(message), cost)).collect()
        };
        let mut read = FlushedRecent { version: None, system: shared(system), turns: shared(last) };
        if is_cut {
            // The window begins where a turn begins.
            let all = joined(buffer.into_iter(), &read);
            let messages: Vec<&Message> = all.iter().map(|recent| &*recent.message).collect();
            let first = turn_starts(&messages).first().map_or(u64::MAX, |&first| all[first].seq);
            read.turns.retain(|(seq, ..)| *seq >= first);
        }
        Ok(read)
    }
}

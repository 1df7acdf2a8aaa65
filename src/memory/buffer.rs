//! What is in the buffer, and its tokens.

use std::{collections::BTreeMap, sync::Arc};

use super::{Inner, MemoryBuilder};
use crate::{engine::Buffered, error::Result, message::Message};

/// Messages and their tokens, by sequence number.
pub(super) type Counted = BTreeMap<u64, (Arc<Message>, usize)>;

impl Inner {
    /// Looks at the buffer and the tokens of each of its messages.
    fn counted<T>(&self, look: impl FnOnce(&Buffered, &Counted) -> T) -> Result<T> {
        let MemoryBuilder { namespace, session, .. } = &self.settings;
        let store = self.core().store();
        // Both by sequence number: side by side, without a search for each.
        let unknown = |buffer: &Buffered, counted: &Counted| {
            let mut counted = counted.iter().peekable();
            let mut unknown = Vec::new();
            for (seq, message) in buffer {
                while counted.next_if(|(other, _)| *other < seq).is_some() {}
                let known = counted.next_if(|(other, _)| *other == seq);
                if known.is_none_or(|(_, (known, _))| !Arc::ptr_eq(known, message)) {
                    unknown.push((*seq, Arc::clone(message)));
                }
            }
            unknown
        };
        let mut look = Some(look);
        loop {
            let result = self.live.buffer(store, namespace, session, |buffer| {
                let mut counted = self.tokens.lock();
                let unknown = unknown(buffer, &counted);
                if !unknown.is_empty() {
                    return Err(unknown);
                }
                if counted.len() > buffer.len() * 2 + 64 {
                    counted.retain(|seq, _| buffer.contains_key(seq));
                }
                Ok(look.take().expect("looked at once")(buffer, &counted))
            })?;
            match result {
                Ok(seen) => return Ok(seen),
                // Not under a lock: it may take long.
                Err(unknown) => {
                    let count = |(seq, message): (u64, Arc<Message>)| {
                        let cost = self.settings.composer.tokens.count(&message);
                        (seq, (message, cost))
                    };
                    let counts: Vec<_> = unknown.into_iter().map(count).collect();
                    self.tokens.lock().extend(counts);
                }
            }
        }
    }

    /// What is in the buffer: sequence numbers, messages and their tokens, oldest first.
    pub(super) fn buffer(&self) -> Result<Vec<(u64, Arc<Message>, usize)>> {
        self.counted(|buffer, counted| {
            buffer.iter().map(|(seq, message)| (*seq, Arc::clone(message), counted[seq].1)).collect()
        })
    }

    /// Whether the buffer is over its budget.
    pub(super) fn is_over(&self) -> Result<bool> {
        let budget = self.settings.limits.budget();
        self.counted(|buffer, counted| {
            // What has left the buffer is still counted, at times.
            let all: usize = counted.values().map(|(_, cost)| cost).sum();
            all > budget
                && (counted.len() == buffer.len() || buffer.keys().map(|seq| counted[seq].1).sum::<usize>() > budget)
        })
    }
}

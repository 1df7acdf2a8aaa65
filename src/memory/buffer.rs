//! Token counts of the messages in the short-term buffer.

use std::sync::Arc;

use super::{
    inner::{Counted, Inner},
    live_session::Buffered,
};
use crate::{error::Result, message::Message};

impl Inner {
    /// Calls `look` with the buffer and the token counts of all its messages. Counts those that were not counted yet.
    pub(super) fn counted<T>(&self, look: impl FnOnce(&Buffered, &Counted) -> T) -> Result<T> {
        // Both are ordered by sequence number, so one pass finds the messages that are not counted.
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
            let result = self.live.buffer(&self.stored, |buffer| {
                let mut counted = self.tokens.lock();
                let unknown = unknown(buffer, &counted);
                if !unknown.is_empty() {
                    return Err(unknown);
                }
                if counted.len() > buffer.len() * 2 + 64 {
                    counted.retain(|seq, _| buffer.contains_key(seq));
                }
                Ok(look.take().expect("called once")(buffer, &counted))
            })?;
            match result {
                Ok(seen) => return Ok(seen),
                // Outside of the locks: the program's counter may take long.
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

    /// Returns the messages in the buffer with their sequence numbers and token counts, oldest first.
    pub(super) fn buffer(&self) -> Result<Vec<(u64, Arc<Message>, usize)>> {
        self.counted(|buffer, counted| {
            buffer.iter().map(|(seq, message)| (*seq, Arc::clone(message), counted[seq].1)).collect()
        })
    }

    /// Returns the messages in the buffer, oldest first.
    pub(super) fn messages(&self) -> Result<Vec<Message>> {
        Ok(self.buffer()?.into_iter().map(|(_, message, _)| (*message).clone()).collect())
    }
}

//! Sessions in use: their short-term buffers in memory, shared by all memories of a session.
//!
//! A buffer is read from the store when it is first needed. Later commits are published to it, in order. Applying a change that
//! was read already is a no-op.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
};

use parking_lot::{Mutex, RwLock};

use super::{
    flush_right::{FlushRight, Flushing},
    turn::Turn,
};
use crate::{engine::StoredSession, error::Result, ids::Namespace, message::Message, store::BufferChange};

/// Messages by sequence number.
pub(super) type Buffered = BTreeMap<u64, Arc<Message>>;

/// A session in use.
#[derive(Default)]
pub(super) struct LiveSession {
    /// `None`: not read yet.
    buffer: RwLock<Option<Buffered>>,
    flushing: Flushing,
    /// Held while the session is synchronized with a chat.
    pub(super) syncing: Mutex<()>,
    pub(super) turn: Mutex<Turn>,
}

/// The sessions in use of an engine.
#[derive(Default)]
pub(super) struct LiveSessions {
    live: RwLock<HashMap<(Namespace, String), Weak<LiveSession>>>,
}

impl LiveSessions {
    pub(super) fn get(&self, namespace: &Namespace, session: &str) -> Arc<LiveSession> {
        let key = (namespace.clone(), session.to_owned());
        if let Some(live) = self.live.read().get(&key).and_then(Weak::upgrade) {
            return live;
        }
        let mut all = self.live.write();
        if let Some(live) = all.get(&key).and_then(Weak::upgrade) {
            return live;
        }
        // The map holds at most as many dead sessions as live ones.
        if all.len() == all.capacity() {
            all.retain(|_, session| session.strong_count() > 0);
        }
        let session = Arc::new(LiveSession::default());
        all.insert(key, Arc::downgrade(&session));
        session
    }

    /// Applies the changes of a commit.
    pub(super) fn publish(&self, changes: Vec<BufferChange>) {
        for BufferChange { namespace, session, seq, message } in changes {
            let Some(live) = self.live.read().get(&(namespace, session)).and_then(Weak::upgrade) else { continue };
            if let Some(buffer) = &mut *live.buffer.write() {
                match message {
                    Some(message) => buffer.insert(seq, Arc::new(message)),
                    None => buffer.remove(&seq),
                };
            }
        }
    }
}

impl LiveSession {
    /// Same as [`Flushing::begin`].
    pub(super) fn begin_flush(&self) -> Option<FlushRight<'_>> {
        self.flushing.begin()
    }

    /// Looks at the messages in the buffer, and reads them first if that was not done yet.
    pub(super) fn buffer<T>(&self, stored: &StoredSession, look: impl FnOnce(&Buffered) -> T) -> Result<T> {
        if let Some(buffer) = &*self.buffer.read() {
            return Ok(look(buffer));
        }
        // Commits from here on wait with their changes until it is read.
        let mut buffer = self.buffer.write();
        if buffer.is_none() {
            let messages = stored.buffered()?;
            *buffer = Some(messages.into_iter().map(|(seq, message)| (seq, Arc::new(message))).collect());
        }
        Ok(look(buffer.as_ref().expect("just read")))
    }
}

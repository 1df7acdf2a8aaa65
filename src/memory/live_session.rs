//! Sessions in use: their short-term buffers in memory, shared by all memories of a session.
//!
//! A buffer is read from the store when it is first needed. Later commits are published to it, in order. Applying a
//! change that was read already is a no-op. Messages of the session that are in long-term memory are not kept here: a
//! version says when they changed.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};

use super::{
    flush_right::{FlushRight, Flushing},
    turn::Turn,
};
use crate::{
    engine::StoredSession,
    error::Result,
    ids::Namespace,
    message::Message,
    store::{BufferChange, HistoryChange},
};

/// Messages by sequence number.
pub(super) type Buffered = BTreeMap<u64, Arc<Message>>;

/// A session in use.
#[derive(Default)]
pub(super) struct LiveSession {
    /// `None`: not read yet.
    buffer: RwLock<Option<Buffered>>,
    /// Number of changes of the session's messages in long-term memory. Changes before the buffer does.
    version: AtomicU64,
    flushing: Flushing,
    /// Held while the session is synchronized with a chat.
    pub(super) syncing: Mutex<()>,
    pub(super) turn: Mutex<Turn>,
    pub(super) open: Mutex<OpenMemories>,
}

/// The open memories of a session.
#[derive(Default)]
pub(super) struct OpenMemories {
    /// Number of memories that a program holds.
    pub(super) count: usize,
    /// Whether the buffer is flushed when there is none any more.
    pub(super) flush_on_drop: bool,
    pub(super) observers: Vec<Weak<dyn FlushObserver>>,
}

/// An open memory, which is told when its session was flushed by another.
pub(super) trait FlushObserver: Send + Sync {
    /// Called after the session's buffer was flushed.
    fn flushed(&self);
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
    pub(super) fn publish(&self, buffers: Vec<BufferChange>, histories: Vec<HistoryChange>) {
        // First: a message that a reader misses in the buffer, because it was flushed, is of a newer version.
        for (namespace, session) in histories {
            if let Some(live) = self.find(namespace, session) {
                live.version.fetch_add(1, Ordering::AcqRel);
            }
        }
        for BufferChange { namespace, session, seq, message } in buffers {
            let Some(live) = self.find(namespace, session) else { continue };
            if let Some(buffer) = &mut *live.buffer.write() {
                match message {
                    Some(message) => buffer.insert(seq, Arc::new(message)),
                    None => buffer.remove(&seq),
                };
            }
        }
    }

    /// Forgets what was read from the store: the next look reads it again.
    pub(super) fn reset(&self) {
        let live: Vec<_> = self.live.read().values().filter_map(Weak::upgrade).collect();
        for live in live {
            live.version.fetch_add(1, Ordering::AcqRel);
            *live.buffer.write() = None;
        }
    }

    /// Tells the open memories of a session that it was flushed.
    pub(super) fn flushed(&self, namespace: Namespace, session: String) {
        let Some(live) = self.find(namespace, session) else { return };
        let observers: Vec<_> = live.open.lock().observers.iter().filter_map(Weak::upgrade).collect();
        observers.iter().for_each(|memory| memory.flushed());
    }

    fn find(&self, namespace: Namespace, session: String) -> Option<Arc<LiveSession>> {
        self.live.read().get(&(namespace, session)).and_then(Weak::upgrade)
    }
}

impl LiveSession {
    /// Returns the number of changes of the session's messages in long-term memory.
    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

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

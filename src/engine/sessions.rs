//! The sessions that are in use: their short-term buffers in memory, one a session, shared by all that use it.
//!
//! A buffer is read from the store when it is first asked; what is committed later is published to it, in order. A change
//! that was read already does nothing again.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc, Weak,
        atomic::{AtomicU8, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};

use crate::{
    error::Result,
    ids::Namespace,
    message::{Message, Part},
    store::{BufferChange, Place, Store},
};

/// Messages by sequence number.
pub(crate) type Buffered = BTreeMap<u64, Arc<Message>>;

/// A session in use.
#[derive(Default)]
pub(crate) struct Session {
    /// `None`: not read yet.
    buffer: RwLock<Option<Buffered>>,
    flushing: Flushing,
    /// The turn that is being worked on.
    pub(crate) turn: Mutex<Turn>,
}

/// What a session's prompts are made of besides what is stored.
#[derive(Default)]
pub(crate) struct Turn {
    /// The id of the prompt that is being answered.
    pub(crate) prompt: Option<String>,
    /// The completed steps of answering it.
    pub(crate) steps: Vec<Message>,
    /// The messages of the last prompts, to know them again.
    pub(crate) given: VecDeque<Vec<Given>>,
    /// The media that memory put into them.
    pub(crate) media: Vec<Part>,
}

/// A message of a prompt.
pub(crate) struct Given {
    pub(crate) id: String,
    /// A hash of what it says.
    pub(crate) says: u64,
    pub(crate) of: Origin,
    /// It is memory's, or memory was inserted into it.
    pub(crate) has_memory: bool,
}

/// Where a message of a prompt is from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Buffer,
    /// The prompt, or a step.
    Turn,
    /// Made or told by memory.
    Memory,
}

/// Who flushes a session: one at a time, who looks again if another came meanwhile.
#[derive(Default)]
struct Flushing(AtomicU8);

const FREE: u8 = 0;
const BUSY: u8 = 1;
const AGAIN: u8 = 2;

/// The right to flush a session.
pub(crate) struct FlushTurn<'a>(&'a Flushing);

impl FlushTurn<'_> {
    /// Gives the right back; or not yet, if another came meanwhile and left the work to this one.
    pub(crate) fn end(self) -> Option<Self> {
        let state = &self.0.0;
        if state.compare_exchange(BUSY, FREE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            // It may be another's already.
            std::mem::forget(self);
            return None;
        }
        state.store(BUSY, Ordering::Release);
        Some(self)
    }
}

impl Drop for FlushTurn<'_> {
    fn drop(&mut self) {
        self.0.0.store(FREE, Ordering::Release);
    }
}

#[derive(Default)]
pub(super) struct Sessions {
    live: RwLock<HashMap<(Namespace, String), Weak<Session>>>,
}

impl Sessions {
    pub(super) fn get(&self, namespace: &Namespace, session: &str) -> Arc<Session> {
        let key = (namespace.clone(), session.to_owned());
        if let Some(live) = self.live.read().get(&key).and_then(Weak::upgrade) {
            return live;
        }
        let mut all = self.live.write();
        if let Some(live) = all.get(&key).and_then(Weak::upgrade) {
            return live;
        }
        // As many dead as living, at most.
        if all.len() == all.capacity() {
            all.retain(|_, session| session.strong_count() > 0);
        }
        let session = Arc::new(Session::default());
        all.insert(key, Arc::downgrade(&session));
        session
    }

    /// Applies what a commit did.
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

impl Session {
    /// The right to flush, or else the one who has it looks again.
    pub(crate) fn begin_flush(&self) -> Option<FlushTurn<'_>> {
        let next = |now| Some(if now == FREE { BUSY } else { AGAIN });
        let was = self.flushing.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).expect("always another");
        (was == FREE).then(|| FlushTurn(&self.flushing))
    }

    /// The messages in the buffer, by sequence number.
    pub(crate) fn buffer<T>(
        &self,
        store: &Store,
        namespace: &Namespace,
        session: &str,
        look: impl FnOnce(&Buffered) -> T,
    ) -> Result<T> {
        if let Some(buffer) = &*self.buffer.read() {
            return Ok(look(buffer));
        }
        // What is committed from here on waits to be published until it is read.
        let mut buffer = self.buffer.write();
        if buffer.is_none() {
            let snapshot = store.read()?;
            let mut messages = Vec::new();
            if let Some(namespace) = snapshot.namespace(namespace)?
                && let Some(session) = snapshot.session(namespace, session)?
            {
                messages = snapshot.history(namespace, session, Some(Place::Buffer))?;
            }
            *buffer = Some(messages.into_iter().map(|(seq, message)| (seq, Arc::new(message))).collect());
        }
        Ok(look(buffer.as_ref().expect("just read")))
    }
}

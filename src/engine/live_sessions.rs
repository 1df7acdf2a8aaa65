//! Sessions in use: what all memories of a session have in common while a program works with it.
//!
//! Owns, for each session, its short-term buffer in memory, the turn in progress, and the right to flush; for the
//! engine, the jobs of blocks and the timer of idle sessions. It knows neither token budgets nor blocks: `memory` does.
//!
//! Invariants: a buffer is read from the store when it is first needed, and later commits are published to it, in
//! order. Applying a change that was read already is a no-op. Messages of the session that are in long-term memory are
//! not kept here: a version says when they changed.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc, Weak,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};

use super::{
    executor::{Executor, JobQueue},
    timer::Timer,
};
use crate::{
    error::Result,
    ids::Namespace,
    message::{ContentPart, Message},
    store::{BlockKey, BufferChange, HistoryChange},
};

/// The namespace and id of a session.
pub(super) type SessionKey = (Namespace, String);

/// A session in use.
#[derive(Default)]
pub(crate) struct LiveSession {
    /// Messages by sequence number. `None`: not read yet.
    buffer: RwLock<Option<BTreeMap<u64, Arc<Message>>>>,
    /// Number of changes of the session's messages in long-term memory. Changes before the buffer does.
    version: AtomicU64,
    flushing: Flushing,
    /// Held while the session is synchronized with a chat.
    pub(crate) syncing: Mutex<()>,
    pub(crate) turn: Mutex<Turn>,
    pub(crate) open: Mutex<OpenMemories>,
}

/// The open memories of a session.
#[derive(Default)]
pub(crate) struct OpenMemories {
    /// Number of memories that a program holds.
    pub(crate) count: usize,
    /// Whether the buffer is flushed when the last memory is dropped.
    pub(crate) flush_on_drop: bool,
    /// Functions of the memories, called after the session's buffer was flushed by anybody else.
    pub(crate) on_flush: Vec<Weak<dyn Fn() + Send + Sync>>,
}

/// The sessions in use of an engine, and the work of the engine on them.
pub(super) struct LiveSessions {
    live: RwLock<HashMap<SessionKey, Weak<LiveSession>>>,
    /// Flushes the sessions that are idle. Started when the first memory is opened.
    pub(super) idle: Arc<Timer<SessionKey>>,
    /// Hand flushed batches to blocks.
    pub(super) jobs: Arc<JobQueue<BlockKey>>,
}

impl LiveSessions {
    pub(super) fn new(executor: &Arc<Executor>, block_threads: usize) -> Self {
        LiveSessions {
            live: RwLock::default(),
            idle: Timer::new("flush idle sessions", executor),
            jobs: JobQueue::new(Arc::clone(executor), block_threads),
        }
    }

    pub(super) fn get(&self, namespace: &Namespace, session: &str) -> Arc<LiveSession> {
        let key = (namespace.clone(), session.to_owned());
        if let Some(live) = self.find(&key) {
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

    /// Applies the changes of a commit. Called on the writer's thread, in the order of commits.
    pub(super) fn publish(&self, buffers: Vec<BufferChange>, histories: Vec<HistoryChange>) {
        // First: a message that a reader misses in the buffer, because it was flushed, is of a newer version.
        for session in histories {
            if let Some(live) = self.find(&session) {
                live.version.fetch_add(1, Ordering::AcqRel);
            }
        }
        for BufferChange { namespace, session, seq, message } in buffers {
            let Some(live) = self.find(&(namespace, session)) else { continue };
            if let Some(buffer) = &mut *live.buffer.write() {
                match message {
                    Some(message) => buffer.insert(seq, Arc::new(message)),
                    None => buffer.remove(&seq),
                };
            }
        }
    }

    /// Forgets what was read from the store: the next look reads it again. For a commit that may be in the file without
    /// having been published.
    pub(super) fn reset(&self) {
        let live: Vec<_> = self.live.read().values().filter_map(Weak::upgrade).collect();
        for live in live {
            live.version.fetch_add(1, Ordering::AcqRel);
            *live.buffer.write() = None;
        }
    }

    /// Tells the open memories of a session that the timer or another machine flushed it.
    pub(super) fn flushed(&self, session: &SessionKey) {
        let Some(live) = self.find(session) else { return };
        let open: Vec<_> = live.open.lock().on_flush.iter().filter_map(Weak::upgrade).collect();
        open.iter().for_each(|on_flush| on_flush());
    }

    /// Ends waits and long work, and does not wait itself.
    pub(super) fn close(&self) {
        self.idle.close();
        self.jobs.close();
    }

    fn find(&self, session: &SessionKey) -> Option<Arc<LiveSession>> {
        self.live.read().get(session).and_then(Weak::upgrade)
    }
}

impl LiveSession {
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns the messages in the buffer that have not expired, with their sequence numbers, oldest first. `read` reads them from the store,
    /// if that was not done yet.
    pub(crate) fn buffer(
        &self,
        read: impl FnOnce() -> Result<Vec<(u64, Message)>>,
    ) -> Result<Vec<(u64, Arc<Message>)>> {
        let listed = |buffer: &BTreeMap<u64, Arc<Message>>| {
            let live = buffer.iter().filter(|(_, message)| !message.has_expired());
            live.map(|(seq, message)| (*seq, Arc::clone(message))).collect()
        };
        if let Some(buffer) = &*self.buffer.read() {
            return Ok(listed(buffer));
        }
        // Commits from here on wait with their changes until it is read.
        let mut buffer = self.buffer.write();
        if buffer.is_none() {
            *buffer = Some(read()?.into_iter().map(|(seq, message)| (seq, Arc::new(message))).collect());
        }
        Ok(listed(buffer.as_ref().expect("just read")))
    }

    /// Takes the right to flush the session. Returns `None` if another thread has it; that one looks again before it
    /// ends.
    pub(crate) fn begin_flush(&self) -> Option<FlushRight<'_>> {
        let next = |now| Some(if now == FREE { TAKEN } else { WANTED });
        let state = &self.flushing.0;
        let was = state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).expect("there is always a next state");
        (was == FREE).then(|| FlushRight(&self.flushing))
    }
}

const FREE: u8 = 0;
const TAKEN: u8 = 1;
/// Taken, and wanted by another thread, which left its work to the one that has it.
const WANTED: u8 = 2;

#[derive(Default)]
struct Flushing(AtomicU8);

/// The right to flush a session, until it is dropped: one thread has it at a time.
pub(crate) struct FlushRight<'a>(&'a Flushing);

impl FlushRight<'_> {
    /// Gives the right back. Returns it if another thread wanted to flush meanwhile and left the work to this one.
    pub(crate) fn end(self) -> Option<Self> {
        let state = &self.0.0;
        if state.compare_exchange(TAKEN, FREE, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            // Another thread may have it already: dropping this one must not free it.
            std::mem::forget(self);
            return None;
        }
        state.store(TAKEN, Ordering::Release);
        Some(self)
    }
}

impl Drop for FlushRight<'_> {
    fn drop(&mut self) {
        self.0.0.store(FREE, Ordering::Release);
    }
}

/// The turn that a session is working on, and the prompts that the session was given last.
#[derive(Default)]
pub(crate) struct Turn {
    /// The prompt that is being answered.
    pub(crate) prompt: Option<TurnPrompt>,
    /// The first sequence number that was put after the prompt was first assembled.
    pub(crate) begin: Option<u64>,
    /// Completed steps of the answer.
    pub(crate) steps: Vec<Message>,
    /// Messages of the last prompts, to recognize them when they come back.
    pub(crate) given: VecDeque<Arc<[GivenMessage]>>,
    /// For each of these prompts, the ids of the session's messages that did not fit or were not selected.
    pub(crate) left_out: VecDeque<Vec<String>>,
    /// Media that memory inserted into these prompts.
    pub(crate) media: Arc<Vec<ContentPart>>,
}

/// The message that a turn answers.
pub(crate) struct TurnPrompt {
    pub(crate) id: String,
    /// Hash of its content.
    pub(crate) hash: u64,
}

/// A message of a prompt that was given out.
#[derive(Clone)]
pub(crate) struct GivenMessage {
    pub(crate) id: String,
    /// Hash of its content.
    pub(crate) hash: u64,
    pub(crate) origin: Origin,
    /// True if memory made the message or was inserted into it.
    pub(crate) has_memory: bool,
}

/// Source of a message of a prompt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The short-term buffer.
    Buffer,
    /// The prompt that is being answered, or one of its steps.
    Turn,
    /// A message that memory or a block made.
    Memory,
}

impl Turn {
    /// Ends the turn. Messages of the session that earlier prompts contained may then be put as if they were new.
    pub(crate) fn end(&mut self) {
        (self.prompt, self.begin, self.steps) = Default::default();
        self.left_out.iter_mut().for_each(Vec::clear);
        for given in &mut self.given {
            *given = given.iter().filter(|given| given.origin == Origin::Memory).cloned().collect();
        }
    }
}

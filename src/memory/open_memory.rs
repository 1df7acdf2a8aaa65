//! A memory that is open, shared by its handles and its operations in flight: its settings, its blocks, its session,
//! and the recent messages of the session, which prompts show.
//!
//! Recent messages are the short-term buffer, and before it the last turns that are in long-term memory already, as
//! many as the token budget takes. The live session keeps the buffer. The other messages are read here, and read again
//! when the session's messages in long-term memory have changed. This file decides which messages leave when they are
//! over the budget, but flushes nothing.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use parking_lot::Mutex;

use crate::{
    block::{BlockScope, MemoryBlock},
    buffer::{BufferLimits, MAX_BUFFER_BYTES, turn_starts},
    compose::Composer,
    engine::{Lane, LiveSession, StoredSession},
    error::{Error, Result},
    message::{Message, Role},
    read_budget::page,
    store::{BlockKey, CostedMessage, FlushedWindow, KeptCheckpoints, SessionPosition},
};

#[derive(Clone)]
pub(super) struct Settings {
    pub(super) limits: BufferLimits,
    pub(super) composer: Composer,
    pub(super) blocks: Vec<Arc<dyn MemoryBlock>>,
    pub(super) block_deadline: Duration,
    pub(super) checkpoint_each_put: bool,
    pub(super) kept_checkpoints: KeptCheckpoints,
    pub(super) flush_on_drop: bool,
}

impl Settings {
    /// Returns which checkpoints stay when a put makes another one; `None` if puts make none.
    pub(super) fn checkpoint_of_put(&self) -> Option<KeptCheckpoints> {
        self.checkpoint_each_put.then_some(self.kept_checkpoints)
    }
}

/// Holds no handle on the engine: an operation in flight must not keep the file open after the last handle is dropped.
pub(super) struct OpenMemory {
    pub(super) settings: Settings,
    pub(super) stored: StoredSession,
    /// What all memories of the session share.
    pub(super) live: Arc<LiveSession>,
    pub(super) blocks: Vec<PromptBlock>,
    /// Calls past their deadline of the block that recalls messages for a prompt.
    pub(super) recall_late: Arc<AtomicUsize>,
    /// Token counts of buffered messages by sequence number, each with the message that was counted.
    tokens: Mutex<HashMap<u64, (Arc<Message>, usize)>>,
    /// Recent messages that are in long-term memory, as of the last read.
    flushed_recent: Mutex<Arc<FlushedRecent>>,
}

/// A block, with the number of its calls that missed their prompt's deadline and still run.
#[derive(Clone)]
pub(super) struct PromptBlock {
    pub(super) block: Arc<dyn MemoryBlock>,
    pub(super) late: Arc<AtomicUsize>,
}

/// A message that prompts show.
pub(super) struct RecentMessage {
    pub(super) seq: u64,
    pub(super) message: Arc<Message>,
    /// Its token count.
    pub(super) cost: usize,
    pub(super) is_buffered: bool,
}

/// The recent messages that are in long-term memory.
#[derive(Default)]
struct FlushedRecent {
    /// The [version](crate::engine::LiveSession::version) of the session that was read; `None` before the first read.
    version: Option<u64>,
    /// The system messages with which the session begins.
    system: Vec<CountedMessage>,
    /// The last turns.
    turns: Vec<CountedMessage>,
}

/// A message with its sequence number and its token count.
type CountedMessage = (u64, Arc<Message>, usize);

impl OpenMemory {
    pub(super) fn new(settings: Settings, stored: StoredSession) -> Self {
        let prompt_block =
            |block: &Arc<dyn MemoryBlock>| PromptBlock { block: Arc::clone(block), late: Arc::default() };
        OpenMemory {
            live: stored.live(),
            blocks: settings.blocks.iter().map(prompt_block).collect(),
            settings,
            stored,
            recall_late: Arc::default(),
            tokens: Mutex::default(),
            flushed_recent: Mutex::default(),
        }
    }

    /// Runs `work` on a lane of the engine; see [`Executor::run`](crate::engine::Executor::run).
    pub(super) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        lane: Lane,
        work: impl FnOnce(&OpenMemory) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        // Here, because `work` may hold locks that the writer needs.
        self.stored.refresh().await?;
        let memory = Arc::clone(self);
        self.stored.executor().run(lane, move || work(&memory)).await
    }

    /// Returns the messages in the buffer with their sequence numbers, oldest first.
    pub(super) fn buffer(&self) -> Result<Vec<(u64, Arc<Message>)>> {
        self.live.buffer(|| {
            self.stored.read(|snapshot, namespace, session| {
                snapshot.history().messages(namespace, session, Some(SessionPosition::Buffer))
            })
        })
    }

    /// Returns the block with this name.
    ///
    /// # Errors
    /// [`Error::InvalidConfig`].
    pub(super) fn block(&self, name: &str) -> Result<&Arc<dyn MemoryBlock>> {
        let found = self.settings.blocks.iter().find(|block| block.name() == name);
        found.ok_or_else(|| Error::InvalidConfig { reason: format!("this memory has no block {name:?}") })
    }

    pub(super) fn key(&self, block: &dyn MemoryBlock) -> BlockKey {
        BlockKey {
            namespace: self.stored.namespace.clone(),
            session: self.stored.session.clone(),
            name: block.name().to_owned(),
            shared: block.scope() == BlockScope::Namespace,
        }
    }

    /// Returns the recent messages: leading system messages, then all others in the order in which they were put.
    pub(super) fn recent(&self) -> Result<Vec<RecentMessage>> {
        loop {
            let flushed = self.flushed_recent()?;
            let buffer = self.counted_buffer()?;
            // At another version, a message that was flushed in between may be in neither list.
            if flushed.version == Some(self.live.version()) {
                return Ok(joined(buffer, &flushed));
            }
        }
    }

    pub(super) fn is_over_budget(&self) -> Result<bool> {
        let flushed: usize = self.flushed_recent()?.all().map(|(.., cost)| cost).sum();
        let buffer: usize = self.counted_buffer()?.iter().map(|(.., cost)| cost).sum();
        Ok(buffer + flushed > self.settings.limits.budget())
    }

    /// Returns the messages in the buffer with their token counts, oldest first.
    fn counted_buffer(&self) -> Result<Vec<CountedMessage>> {
        let buffer = self.buffer()?;
        let known: Vec<Option<usize>> = {
            let mut tokens = self.tokens.lock();
            if tokens.len() > buffer.len() * 2 + 64 {
                tokens.retain(|seq, _| buffer.binary_search_by_key(seq, |(seq, _)| *seq).is_ok());
            }
            let known = |(seq, message): &(u64, Arc<Message>)| {
                let (counted, cost) = tokens.get(seq)?;
                Arc::ptr_eq(counted, message).then_some(*cost)
            };
            buffer.iter().map(known).collect()
        };
        let counted = |((seq, message), known): ((u64, Arc<Message>), Option<usize>)| {
            // Outside of the lock: the program's counter may take long.
            let cost = known.unwrap_or_else(|| {
                let cost = self.settings.composer.tokens.count(&message);
                self.tokens.lock().insert(seq, (Arc::clone(&message), cost));
                cost
            });
            (seq, message, cost)
        };
        Ok(buffer.into_iter().zip(known).map(counted).collect())
    }

    fn flushed_recent(&self) -> Result<Arc<FlushedRecent>> {
        // Taken before the read, so that a read that is newer than its version is repeated.
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
        let buffer = self.counted_buffer()?;
        let budget = self.settings.limits.budget();
        let left = budget.saturating_sub(buffer.iter().map(|(.., cost)| cost).sum());
        let has_turn = buffer.iter().any(|(_, message, _)| message.role == Role::User);
        let known: HashMap<u64, &CountedMessage> = known.all().map(|known| (known.0, known)).collect();
        let cost = |seq: u64, message: &Message| {
            let known = known.get(&seq).map(|(_, known, cost)| (Arc::clone(known), *cost));
            // Flushed since it was counted.
            let known = known.or_else(|| self.tokens.lock().get(&seq).cloned());
            match known {
                Some((known, cost)) if *known == *message => cost,
                _ => self.settings.composer.tokens.count(message),
            }
        };
        let FlushedWindow { system, last, is_cut } = self.stored.read(|snapshot, namespace, session| {
            let fits = page(usize::MAX, MAX_BUFFER_BYTES, self.stored.read_budget.clone());
            snapshot.window().flushed(namespace, session, left, has_turn, fits, cost)
        })?;
        let counted = |messages: Vec<CostedMessage>| -> Vec<CountedMessage> {
            messages.into_iter().map(|(seq, message, cost)| (seq, Arc::new(message), cost)).collect()
        };
        let mut read = FlushedRecent { version: None, system: counted(system), turns: counted(last) };
        if is_cut {
            // The recent messages begin where a turn begins.
            let all = joined(buffer, &read);
            let messages: Vec<&Message> = all.iter().map(|recent| &*recent.message).collect();
            let first = turn_starts(&messages).first().map_or(u64::MAX, |&first| all[first].seq);
            read.turns.retain(|(seq, ..)| *seq >= first);
        }
        Ok(read)
    }
}

impl FlushedRecent {
    fn all(&self) -> impl Iterator<Item = &CountedMessage> {
        self.system.iter().chain(&self.turns)
    }
}

fn joined(buffer: Vec<CountedMessage>, flushed: &FlushedRecent) -> Vec<RecentMessage> {
    let recent = |is_buffered: bool| {
        move |(seq, message, cost): CountedMessage| RecentMessage { seq, message, cost, is_buffered }
    };
    let mut buffer: Vec<RecentMessage> = buffer.into_iter().map(recent(true)).collect();
    let mut all: Vec<RecentMessage> = flushed.system.iter().cloned().map(recent(false)).collect();
    let system = buffer.iter().take_while(|buffered| buffered.message.role == Role::System).count();
    all.extend(buffer.drain(..system));
    let others = all.len();
    all.extend(buffer);
    all.extend(flushed.turns.iter().cloned().map(recent(false)));
    // Stable: of a message that is in both, because its flush is not published yet, the one in the buffer comes first.
    all[others..].sort_by_key(|recent| recent.seq);
    all.dedup_by_key(|recent| recent.seq);
    // Since they were read.
    all.retain(|recent| !recent.message.has_expired());
    all
}

/// Returns the sequence number from which on prompts show messages, if messages that are in long-term memory already
/// are over the budget. Whole turns leave, at least as many tokens at a time as a flush takes, so that the beginning of
/// the prompts does not change with each turn. `None` if no turn can leave without one that is in the buffer.
pub(super) fn later_begin(recent: &[RecentMessage], limits: &BufferLimits) -> Option<u64> {
    let excess = recent.iter().map(|recent| recent.cost).sum::<usize>().saturating_sub(limits.budget());
    if excess == 0 {
        return None;
    }
    let system = recent.iter().take_while(|recent| recent.message.role == Role::System).count();
    let flushed = recent[system..].iter().take_while(|recent| !recent.is_buffered).count();
    let messages: Vec<&Message> = recent.iter().map(|recent| &*recent.message).collect();
    let mut cuts = turn_starts(&messages).into_iter().filter(|cut| (system + 1..=system + flushed).contains(cut));
    let cost = |cut: usize| recent[system..cut].iter().map(|recent| recent.cost).sum::<usize>();
    let enough = cuts.clone().find(|&cut| cost(cut) >= excess.max(limits.flush_size()));
    enough.or_else(|| cuts.next_back()).map(|cut| recent[cut].seq)
}

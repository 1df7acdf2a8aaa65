//! The window of a session, in memory: the messages that its prompts show, of the buffer and of long-term memory.

use std::sync::Arc;

use crate::{
    buffer::{BufferLimits, turn_starts},
    message::{Message, Role},
};

/// A message of a session's window.
pub(super) struct RecentMessage {
    pub(super) seq: u64,
    pub(super) message: Arc<Message>,
    /// Its token count.
    pub(super) cost: usize,
    pub(super) is_buffered: bool,
}

/// The messages of a session's window that are in long-term memory.
#[derive(Default)]
pub(super) struct FlushedRecent {
    /// The [version](super::live_session::LiveSession::version) of the session that was read; `None` before the first
    /// read.
    pub(super) version: Option<u64>,
    /// The system messages with which the session begins.
    pub(super) system: Vec<Flushed>,
    /// The last turns.
    pub(super) turns: Vec<Flushed>,
}

/// A message with its sequence number and its token count.
pub(super) type Flushed = (u64, Arc<Message>, usize);

impl FlushedRecent {
    pub(super) fn all(&self) -> impl Iterator<Item = &Flushed> {
        self.system.iter().chain(&self.turns)
    }
}

/// Returns the sequence number at which a window begins that is over its budget for messages that are in long-term
/// memory already. Whole turns leave, at least as many tokens at a time as a flush takes, so that a prompt's beginning
/// does not change with each turn. `None` if no turn can leave without one that is in the buffer.
pub(super) fn leave(recent: &[RecentMessage], limits: &BufferLimits) -> Option<u64> {
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

/// Joins the messages of the window that are in the buffer with those that are not.
pub(super) fn joined(buffer: impl Iterator<Item = Flushed>, flushed: &FlushedRecent) -> Vec<RecentMessage> {
    let recent =
        |is_buffered: bool| move |(seq, message, cost): Flushed| RecentMessage { seq, message, cost, is_buffered };
    let mut buffer: Vec<RecentMessage> = buffer.map(recent(true)).collect();
    let mut all: Vec<RecentMessage> = flushed.system.iter().cloned().map(recent(false)).collect();
    let system = buffer.iter().take_while(|buffered| buffered.message.role == Role::System).count();
    all.extend(buffer.drain(..system));
    let others = all.len();
    all.extend(buffer);
    all.extend(flushed.turns.iter().cloned().map(recent(false)));
    // Stable: of a message that is in both, because its flush is not published yet, the one in the buffer comes first.
    all[others..].sort_by_key(|recent| recent.seq);
    all.dedup_by_key(|recent| recent.seq);
    all
}
